"""The specification of a watch, and label selectors in kubectl's syntax."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self, TypedDict, Unpack

from manager.api import GroupVersionKind, Resource
from manager.cache.record import Parts


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition on one label: its value is in `values`, or, if `values` is None, the label exists.

    `negated` inverts the condition. A missing label then meets it.
    """

    key: str
    values: frozenset[str] | None = None
    negated: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels meet the condition."""
        found = self.key in labels if self.values is None else labels.get(self.key) in self.values
        return found is not self.negated

    @property
    def equals(self) -> str | None:
        """Return the only value that the label may have; None if the condition allows other values."""
        return next(iter(self.values)) if self.values and len(self.values) == 1 and not self.negated else None

    def __str__(self) -> str:
        if self.values is None:
            return f"!{self.key}" if self.negated else self.key
        if self.equals is not None:
            return f"{self.key}={self.equals}"
        return f"{self.key} {'notin' if self.negated else 'in'} ({','.join(sorted(self.values))})"


_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_KEY = rf"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?{_NAME}"
_VALUE = rf"({_NAME})?"
_REQUIREMENT = re.compile(
    rf"""\s*(
      (?P<absent>!)\s*(?P<absent_key>{_KEY})
    | (?P<key>{_KEY})(
        \s*(?P<comparison>==|=|!=)\s*(?P<value>{_VALUE})
      | \s+(?P<word>in|notin)\s*\((?P<values>[^()]*)\)
      )?
    )\s*(?P<end>,|$)""",
    re.VERBOSE,
)
_VALUE_ONLY = re.compile(_VALUE)


@dataclass(frozen=True, slots=True)
class Selector:
    """A label selector: an object must meet all requirements; without requirements, every object matches."""

    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Parse `app=web,tier!=cache,env in (a,b),env notin (c),owner,!legacy`.

        Raises ValueError with the invalid text.
        """
        if not text.strip():
            return cls()
        requirements = []
        position, more = 0, True
        while more:
            match = _REQUIREMENT.match(text, position)
            if match is None:
                raise ValueError(f"not a label selector: {text!r}, at {text[position:]!r}")
            requirements.append(_requirement(match, text))
            position, more = match.end(), match["end"] == ","
        return cls(tuple(requirements))

    def split(self) -> tuple[dict[str, str], Selector]:
        """Split the selector: labels with a required value, for an index, and all other requirements."""
        equal: dict[str, str] = {}
        others = []
        for requirement in self.requirements:
            value = requirement.equals
            # If a label must have two values, the index gets only the first: no object has both.
            if value is None or requirement.key in equal:
                others.append(requirement)
            else:
                equal[requirement.key] = value
        return equal, Selector(tuple(others))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels meet every requirement."""
        return all(requirement.matches(labels) for requirement in self.requirements)


def _requirement(match: re.Match[str], text: str) -> Requirement:
    if match["comparison"]:
        return Requirement(match["key"], frozenset((match["value"],)), match["comparison"] == "!=")
    if not match["word"]:
        return Requirement(match["absent_key"] or match["key"], negated=bool(match["absent"]))
    values = frozenset(value.strip() for value in match["values"].split(","))
    for value in values:
        if not _VALUE_ONLY.fullmatch(value):
            raise ValueError(f"not a label selector: {text!r}: {value!r} cannot be a label's value")
    return Requirement(match["key"], values, match["word"] == "notin")


class SelectionOptions(TypedDict, total=False):
    """Options that select the cached objects of a kind, and the kept parts of each object; by default all.

    `label_selector` selects objects by labels, in kubectl's notation. An object that one of our writes
    removes from the selection leaves the cache at once.

    `field_selector` selects objects by fields, in kubectl's notation. Only the server can compare the fields.
    So an object that we create appears only with its watch event: reading our own writes is limited to
    objects that are already cached.

    `namespaces` selects objects in these namespaces, "" for all, instead of the manager's. It has no effect
    for a cluster-scoped kind.

    `keeps` lists the only parts of each object to keep, besides its metadata: paths in the notation of
    `index_by`, such as `status.phase`. Do not write such an object back as a whole (`client.update`),
    because that would remove its other fields.
    """

    label_selector: str
    field_selector: str
    namespaces: Sequence[str]
    keeps: Sequence[str]


class Selection(NamedTuple):
    """A comparable form of `SelectionOptions`; spelling and order matter only in the field selector."""

    label_selector: str = ""
    field_selector: str = ""
    namespaces: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()

    @classmethod
    def of(cls, **options: Unpack[SelectionOptions]) -> Self:
        """Normalise options; raises ValueError if invalid, and TypeError for a `str` instead of a list."""
        for name, items in (("namespaces", "names"), ("keeps", "paths")):
            if isinstance(given := options.get(name), str):
                raise TypeError(f"{name} are a sequence of {items}, not {given!r}")
        keeps = tuple(sorted(set(options.get("keeps", ()))))
        if keeps:
            Parts(keeps)
        requirements = Selector.parse(options.get("label_selector", "")).requirements
        namespaces = set(options.get("namespaces", ()))
        return cls(
            ",".join(sorted(dict.fromkeys(map(str, requirements)))),
            options.get("field_selector", ""),
            ("",) if "" in namespaces else tuple(sorted(namespaces)),
            keeps,
        )

    def __str__(self) -> str:
        """Format the selection like the keyword arguments that request it."""
        named = zip(self._fields, self, strict=True)
        return ", ".join(f"{name}={value!r}" for name, value in named if value)


WHOLE = Selection()


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSpec:
    """The specification of a watch: the kind, the objects, and the part of each object to keep.

    `namespaces` is `("",)` for a watch of all namespaces; otherwise, there is a watch for each namespace.
    """

    gvk: GroupVersionKind
    plural: str
    metadata_only: bool = False
    namespaces: tuple[str, ...] = ("",)
    label_selector: str = ""
    field_selector: str = ""
    keeps: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        kind: type[Resource],
        *,
        namespaces: Sequence[str] = (),
        metadata_only: bool = False,
        selection: Selection = WHOLE,
    ) -> WatchSpec:
        """Return the spec of a kind in the selection's namespaces, else in `namespaces` (none or "": all)."""
        namespaces = selection.namespaces or namespaces
        if not kind.namespaced or not namespaces or "" in namespaces:
            namespaces = ("",)
        selected = {**selection._asdict(), "namespaces": tuple(dict.fromkeys(namespaces))}
        return cls(gvk=kind.gvk, plural=kind.plural, metadata_only=metadata_only, **selected)

    @property
    def resource(self) -> str:
        """Return the kind's name for people, such as `pods` or `memcacheds.cache.example.com`."""
        return f"{self.plural}.{self.gvk.group}" if self.gvk.group else self.plural

    @property
    def projection(self) -> str:
        """Return the kept part of each object: `full`, `parts` or `metadata`."""
        return "metadata" if self.metadata_only else "parts" if self.keeps else "full"
