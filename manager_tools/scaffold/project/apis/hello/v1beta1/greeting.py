"""Greeting API in a second version, which `create webhook --conversion` copies from the project's model."""

from __future__ import annotations

from manager.api import crd
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting as Stored

__all__ = ["Greeting"]


@crd(storage=False)
class Greeting(Stored, group="hello.example.com", version="v1beta1", plural="greetings"):
    """Greeting in a version that is served, but not stored."""
