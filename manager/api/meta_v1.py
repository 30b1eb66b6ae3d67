"""Types of meta/v1, for kinds of your own: LabelSelector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from manager.api.builtin import importer, names_of

__all__: list[str] = []

if TYPE_CHECKING:
    from manager.api.builtin.meta_v1_selector import *
else:
    __getattr__ = importer("meta_v1", globals())
    __all__ += names_of("meta_v1")  # noqa: PLE0605 - a list, too
