"""Which definitions a person means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from manager.api import Resource, crd_options
from manager.cli.errors import UsageError

__all__ = ["named_definitions"]


def named_definitions(asked: Sequence[str], kinds: Iterable[type[Resource]]) -> list[str]:
    """The names of the definitions that `asked` names, each once; of all `kinds` if it names none.

    A name is a kind's, its plural, a short name, or the definition's own, in whatever case. A definition's
    full name need not be one of `kinds`. Raises `UsageError` for what is none of them.
    """
    known: dict[str, dict[str, None]] = {}
    for kind in kinds:
        definition = f"{kind.plural}.{kind.gvk.group}"
        for name in (definition, kind.gvk.kind, kind.plural, *crd_options(kind).short_names):
            known.setdefault(name.lower(), {})[definition] = None
    if not asked:
        return list(dict.fromkeys(name for names in known.values() for name in names))
    return list(dict.fromkeys(_one(name, known) for name in asked))


def _one(name: str, known: dict[str, dict[str, None]]) -> str:
    found = list(known.get(name.lower(), ()))
    if len(found) > 1:
        raise UsageError(f"migrate-storage: {name!r} may be each of {', '.join(found)}; which one?")
    if found:
        return found[0]
    if "." in name:
        return name.lower()
    ours = ", ".join(dict.fromkeys(definition for each in known.values() for definition in each))
    hint = f"ours are {ours}; any other goes by the full name of its definition"
    raise UsageError(f"migrate-storage: unknown kind {name!r}; {hint}")
