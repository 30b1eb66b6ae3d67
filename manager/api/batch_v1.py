"""Types of batch/v1, for kinds of your own: JobTemplateSpec and its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from manager.api.builtin import importer, names_of

__all__: list[str] = []

if TYPE_CHECKING:
    from manager.api.builtin.batch_v1_job import *
else:
    __getattr__ = importer("batch_v1", globals())
    __all__ += names_of("batch_v1")  # noqa: PLE0605 - a list, too
