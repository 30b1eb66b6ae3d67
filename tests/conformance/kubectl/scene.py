"""Scenes: kubectl commands in order, as they stand in `scenes/*.yaml`, one scene to a file.

    needs: [READY_PODS]           # features of tests.support.control_plane, if any
    every_kubectl: true           # the test plays it with each kubectl there is, else with the first alone
    files:                        # in the folder that kubectl runs in
      one.yaml: |
        ...
    steps:
    - get configmaps -o wide      # a command that is recorded; or, with more to say of it:
    - run: apply -f -
      input: |                    # what kubectl reads
        ...
      editor: sed -i s/a/b/       # KUBE_EDITOR
      until: Running              # run it again until it prints this, as a result or an error
      unrecorded: true            # only to get somewhere; it must succeed
      unordered: true             # its lines come in any order
      undescribed: true           # it explains: without the prose
      stop_at: three              # it runs on: interrupt it once it prints this
      meanwhile: [label ...]      # run these once it has printed its first line
    finally:                      # commands whose output does not matter, always run
    - delete crd gizmos.{id}.example.com

The context's namespace is the scene's own; its name, `{id}`, is one that nobody else uses. Besides `files`
the folder has `somebody.kubeconfig`, of a user without rights of its own, and `stranger.kubeconfig`, which
trusts another authority than the server's.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import yaml

__all__ = ["FOLDER", "Command", "Scene", "load_all"]

FOLDER = Path(__file__).parent / "scenes"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One run of kubectl."""

    run: str
    input: str | None = None
    editor: str = ""
    until: str = ""
    unrecorded: bool = False
    unordered: bool = False
    undescribed: bool = False
    stop_at: str = ""
    meanwhile: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Commands that belong together."""

    name: str
    steps: tuple[Command, ...]
    files: dict[str, str]
    needs: tuple[str, ...] = ()
    every_kubectl: bool = False
    cleanup: tuple[str, ...] = ()


def load_all() -> list[Scene]:
    """Every scene there is."""
    return [_load(path) for path in sorted(FOLDER.glob("*.yaml"))]


def _load(path: Path) -> Scene:
    document = yaml.safe_load(path.read_text())
    return Scene(
        name=path.stem,
        steps=tuple(_command(step) for step in document["steps"]),
        files=document.get("files", {}),
        needs=tuple(document.get("needs", ())),
        every_kubectl=document.get("every_kubectl", False),
        cleanup=tuple(document.get("finally", ())),
    )


def _command(step: dict[str, Any] | str) -> Command:
    return Command(run=step) if isinstance(step, str) else Command(**step)
