"""The parts of the recordings; each has cases, and a function that records the answers to the cases."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.conformance import conversation, player
from tests.conformance.kubectl import scene, stage
from tests.recordings import builtin, corpus, custom, files, shards, types, writes
from tests.recordings.asking import Server
from tests.support.control_plane import ControlPlane


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A file of cases and its file of answers."""

    name: str
    cases: Mapping[str, list[str] | None]
    """The cases by name; a case with several answers has the labels of its steps."""
    record: Callable[[ControlPlane, Path], dict[str, Any]]
    """Function that returns the answers of a control plane; it may use its own folder."""
    bare: bool = False
    """Whether the API server runs without controllers."""
    flags: tuple[str, ...] = ()
    """Additional flags of the API server."""
    needs: tuple[str, ...] = ()
    """Features of tests.support.control_plane that not every control plane has."""

    @property
    def answers(self) -> int:
        """Return the number of answers: one for each case, or for each label of a case with labels."""
        return sum(1 if labels is None else len(labels) for labels in self.cases.values())

    @property
    def group(self) -> str:
        """Return the folder of the case file; its parts share a control plane unless they are bare."""
        return self.name.partition("/")[0]


def _conversations(part: str) -> Part:
    found = conversation.load(part)

    def record(plane: ControlPlane, _: Path) -> dict[str, Any]:
        return {each.name: player.play(each, plane) for each in found}

    return Part(name=part, cases={each.name: each.labels for each in found}, record=record)


def _scene(part: str) -> Part:
    found = scene.load(part)

    def record(plane: ControlPlane, folder: Path) -> dict[str, Any]:
        newest, older = stage.programs()
        first = stage.play(found, plane, newest, folder / "newest")
        second = stage.play(found, plane, older, folder / "older")
        return stage.with_older(first, second, stage.version_of(older))

    return Part(name=part, cases=dict.fromkeys(found.labels), record=record)


def _bare(
    name: str,
    cases: Iterable[str],
    ask: Callable[[Server], dict[str, Any]],
    *,
    flags: tuple[str, ...] = (),
    needs: tuple[str, ...] = (),
) -> Part:
    def record(plane: ControlPlane, folder: Path) -> dict[str, Any]:
        with Server(plane, folder) as server:
            return ask(server)

    return Part(name=name, cases=dict.fromkeys(cases), record=record, bare=True, flags=flags, needs=needs)


OWNERS = "owners/references"
OWNER_FLAGS = ("--enable-admission-plugins=OwnerReferencesPermissionEnforcement",)
PARTS = [
    *map(_scene, files("kubectl")),
    *map(_conversations, files("conversations")),
    dataclasses.replace(_conversations(OWNERS), bare=True, flags=OWNER_FLAGS),
    _bare(builtin.OBJECTS, builtin.object_cases(), builtin.record_objects),
    _bare(builtin.ROWS, builtin.row_cases(), builtin.record_rows),
    _bare(corpus.CONSTRUCTS, corpus.construct_cases(), corpus.record_constructs),
    _bare(custom.COSTS, list(custom.cost_cases()), custom.record_costs),
    _bare(custom.DEFINITIONS, custom.definition_cases(), custom.record_definitions),
    _bare(custom.OBJECTS, custom.object_cases(), custom.record_objects),
    _bare(custom.RULES, custom.rule_cases(), custom.record_rules),
    _bare(types.BODIES, types.body_cases(), types.record_bodies),
    _bare(types.PROTOBUF, types.served(), types.record_protobuf, needs=("PROTOBUF",)),
    *(_bare(part, writes.step_cases(part), partial(writes.record_steps, part)) for part in writes.PARTS),
    _bare(shards.SELECTORS, shards.selector_cases(), shards.record_selectors, flags=shards.FLAGS),
]
