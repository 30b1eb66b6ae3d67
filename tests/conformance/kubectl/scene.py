"""Scenes: sequences of kubectl commands, from `tests/recordings/cases/kubectl/`, one scene in each file.

    needs: [READY_PODS]           # features of tests.support.control_plane, if any
    every_kubectl: true           # the test runs it with each installed kubectl, not only the first
    contract: true                # the test runs it with the real server too
    files:                        # in the folder in which kubectl runs
      one.yaml: |
        ...
    steps:
    - get configmaps -o wide      # a recorded command; or, with options:
    - run: apply -f -
      input: |                    # kubectl's stdin
        ...
      editor: sed -i s/a/b/       # KUBE_EDITOR
      until: Running              # repeat until stdout or stderr contains this
      unrecorded: true            # a preparation; it must succeed
      unordered: true             # the order of its lines varies
      undescribed: true           # `explain`, recorded without the descriptions
      stop_at: three              # does not end by itself: interrupt it when it has printed this
      meanwhile: [label ...]      # run these commands when it has printed its first line
    finally:                      # commands at the end, whose output is ignored
    - delete crd gizmos.{id}.example.com

The context's namespace belongs only to the scene; its name, `{id}`, is unique. Besides `files` the folder has
two kubeconfigs: `somebody.kubeconfig` of a user without rights, and `stranger.kubeconfig` with another CA.
"""

from __future__ import annotations

import msgspec

from tests.recordings import files, load_cases


class Command(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kubectl command with its options."""

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
        """Return the numbered labels of the commands whose output is recorded."""
        return [f"{number}: {each.run}" for number, each in enumerate(self.steps, 1) if not each.unrecorded]


def load_all() -> list[Scene]:
    return [load(part) for part in files("kubectl")]


def load(part: str) -> Scene:
    """Load the scene of a file; a command that is only a text has no options."""
    (document,) = load_cases(part)
    document |= {"part": part, "name": part.rpartition("/")[2]}
    document["steps"] = [{"run": step} if isinstance(step, str) else step for step in document["steps"]]
    return msgspec.convert(document, Scene)
