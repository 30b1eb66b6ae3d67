"""Liveness and readiness of the process: named checks and their reports."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

Check = Callable[[], str | None]
"""Returns None at once if all is well, else the problem as a text for people."""


@dataclass(frozen=True, slots=True)
class Report:
    """The result of some checks."""

    healthy: bool
    text: str
    """One line per check and one for the whole, in the API server's own format."""


class Checks:
    """Named checks that should all pass. The check `ping` always exists and always passes."""

    def __init__(self, title: str) -> None:
        """Create checks; `title` is their common name in the report: `healthz` or `readyz`."""
        self.title = title
        self._checks: dict[str, Check] = {"ping": lambda: None}
        self._details: dict[str, Check] = {}

    def add(self, name: str, check: Check, *, detail: Check | None = None) -> None:
        """Add a check. `name` becomes a part of a path; a second check with the same name is an error.

        `detail` returns useful information while the check passes.
        """
        if not name or "/" in name:
            raise ValueError(f"{name!r} cannot be the name of a check: it becomes part of a path")
        if name in self._checks:
            raise ValueError(f"another check already has the name {name}")
        self._checks[name] = check
        if detail is not None:
            self._details[name] = detail

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names in the order of the report."""
        return tuple(self._checks)

    def problem(self, name: str) -> str | None:
        """Return the problem that one check finds; a check that raises has failed.

        Raises `KeyError` for an unknown name.
        """
        check = self._checks[name]
        try:
            return check()
        except Exception as error:  # noqa: BLE001 - any error means "not healthy"
            return f"the check itself failed: {error!r}"

    def report(self, *, excluded: Collection[str] = ()) -> Report:
        """Run every check except the excluded ones."""
        lines: list[str] = []
        healthy = True
        for name in self._checks:
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
            elif (problem := self.problem(name)) is None:
                detail = self._details[name]() if name in self._details else None
                lines.append(f"[+]{name} ok" + (f": {' '.join(detail.split())}" if detail else ""))
            else:
                healthy = False
                lines.append(f"[-]{name} failed: {' '.join(problem.split())}")
        if unknown := [name for name in dict.fromkeys(excluded) if name not in self._checks]:
            quoted = ", ".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
        lines.append(f"{self.title} check {'passed' if healthy else 'failed'}")
        return Report(healthy, "\n".join(lines) + "\n")


class Health:
    """The checks of one process: liveness (whether a restart would help) and readiness for work."""

    def __init__(self) -> None:
        self.liveness = Checks("healthz")
        self.readiness = Checks("readyz")
