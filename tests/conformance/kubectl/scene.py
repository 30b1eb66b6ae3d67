"""Scenes: kubectl commands in order, from `tests/recordings/cases/kubectl/`, one scene to a file.

    needs: [READY_PODS]           # features of tests.support.control_plane, if any
    every_kubectl: true           # the test plays it with each kubectl there is, else with the first alone
    contract: true                # the test plays it with the real server too
    files:                        # in the folder that kubectl runs in
      one.yaml: |
        ...
    steps:
    - get configmaps -o wide      # a recorded command; or, with options:
    - run: apply -f -
      input: |                    # kubectl's stdin
        ...
      editor: sed -i s/a/b/       # KUBE_EDITOR
      until: Running              # run it again until it prints this, as a result or an error
      unrecorded: true            # a preparation; it must succeed
      unordered: true             # its lines come in any order
      undescribed: true           # `explain`, recorded without the descriptions
      stop_at: three              # it runs on: interrupt it once it prints this
      meanwhile: [label ...]      # run these once it has printed its first line
    finally:                      # commands whose output does not matter, always run
    - delete crd gizmos.{id}.example.com

The context's namespace belongs to the scene alone; its name, `{id}`, is unique. Besides `files` the folder
has two other kubeconfigs: for a user without rights, and `stranger.kubeconfig`, with a wrong authority.
"""

from __future__ import annotations

import msgspec

from tests.recordings import files, load_cases


class Command(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run of kubectl."""

    run: str
    input: str | None = None
    editor: str = ""
    until: str = ""
    unrecorded: bool = False
    unordered: bool = False
    undescribed: bool = False
    stop_at: str = ""
    meanwhile: tuple[str, ...] = ()


class Scene(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"cleanup": "finally"}
):
    """A sequence of kubectl commands in one namespace."""

    part: str
    name: str
    steps: tuple[Command, ...]
    files: dict[str, str] = {}
    needs: tuple[str, ...] = ()
    every_kubectl: bool = False
    contract: bool = False
    cleanup: tuple[str, ...] = ()

    @property
    def labels(self) -> list[str]:
        """Return the labels of the recorded commands."""
        return [f"{number}: {each.run}" for number, each in enumerate(self.steps, 1) if not each.unrecorded]


def load_all() -> list[Scene]:
    return [load(part) for part in files("kubectl")]


def load(part: str) -> Scene:
    """Load the scene of a file, where a text stands for a command without options."""
    (document,) = load_cases(part)
    document |= {"part": part, "name": part.rpartition("/")[2]}
    document["steps"] = [{"run": step} if isinstance(step, str) else step for step in document["steps"]]
    return msgspec.convert(document, Scene)
