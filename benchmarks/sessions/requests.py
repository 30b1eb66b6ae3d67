"""The requests of the program under measurement, as the API server counts them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.envtest import EnvtestControlPlane
    from tests.support.openmetrics import Samples

COUNTER = "apiserver_request_total"
WATCHES = "apiserver_longrunning_requests"
WRITES = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE"})
OBJECTS = frozenset({"memcacheds", "deployments", "pods"})
# What an operator may send besides; the API server's own traffic with itself is about other things.
COUNTED = OBJECTS | {"events", "namespaces", "customresourcedefinitions"}


class Requests:
    """Counts from the moment this is made, without those that the suite sends itself."""

    def __init__(self, plane: EnvtestControlPlane) -> None:
        self._plane = plane
        self._before = plane.server_metrics(COUNTER)

    def so_far(self) -> dict[str, int]:
        """By verb, resource, subresource and code, as "PATCH memcacheds status 200"."""
        after = self._plane.server_metrics(COUNTER)
        counts: dict[str, int] = {}
        for sample in after.select(COUNTER):
            labels = sample.labels
            if labels["resource"] not in COUNTED:
                continue
            grown = sample.value - self._before.value(COUNTER, **labels)
            if grown:
                parts = (labels[name] for name in ("verb", "resource", "subresource", "code"))
                name = " ".join(filter(None, parts))
                counts[name] = counts.get(name, 0) + round(grown)
        return dict(sorted(counts.items()))


def writes(counts: dict[str, int]) -> int:
    """Those that write objects; Events are not among them."""
    return sum(count for name, count in counts.items() if _is_write(name))


def all_writes(counts: dict[str, int]) -> int:
    """Everything that is not only read, Events too."""
    return sum(count for name, count in counts.items() if name.split()[0] in WRITES)


def server_errors(counts: dict[str, int]) -> int:
    """Those that the API server could not answer, or would not yet."""
    return sum(count for name, count in counts.items() if name.split()[-1].startswith(("5", "429")))


def events(counts: dict[str, int]) -> int:
    """Those that write Events."""
    return sum(count for name, count in counts.items() if "events" in name.split())


def conflicts(counts: dict[str, int]) -> int:
    """Those refused with 409."""
    return sum(count for name, count in counts.items() if name.endswith(" 409"))


def watches(samples: Samples, resource: str) -> int:
    """How many watches on a kind the API server serves now."""
    return round(samples.value(WATCHES, verb="WATCH", resource=resource))


def _is_write(name: str) -> bool:
    verb, resource, *_ = name.split()
    return verb in WRITES and resource in OBJECTS
