"""Greeting API in another version, as `create webhook --conversion` makes it of a project's own model."""

from __future__ import annotations

from manager.api import crd
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting as Stored

__all__ = ["Greeting"]


@crd(storage=False)
class Greeting(Stored, group="hello.example.com", version="v1beta1", plural="greetings"):
    """Greeting in the version that is not stored."""
