"""A folder with generated files only."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

__all__ = ["NotOurs", "write_tree"]


class NotOurs(Exception):
    """The folder holds something else."""


def write_tree(folder: Path, files: Mapping[str, str]) -> None:
    """Make `folder` hold these files by their paths, and nothing else.

    Raises NotOurs, and removes nothing, when it is there without the first of them: another folder then.
    """
    if folder.exists():
        if any(folder.iterdir()) and not (folder / next(iter(files))).is_file():
            raise NotOurs(f"{folder} holds something else; nothing is written")
        shutil.rmtree(folder)
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
