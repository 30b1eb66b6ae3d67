"""Numbers of requests, from the metrics of the API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.envtest import EnvtestControlPlane
    from tests.support.metrics import Samples

COUNTER = "apiserver_request_total"
WATCHES = "apiserver_longrunning_requests"
WRITES = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE"})
OBJECTS = frozenset({"memcacheds", "deployments", "pods"})
# The resources that operators use; the API server's own requests use other resources.
COUNTED = OBJECTS | {"events", "namespaces", "customresourcedefinitions"}


class Requests:
    """Counter of API requests since its construction, only for the resources that operators use."""

    def __init__(self, plane: EnvtestControlPlane) -> None:
        self._plane = plane
        self._before = plane.server_metrics(COUNTER)

    def so_far(self) -> dict[str, int]:
        """Return the number of requests by verb, resource and code, such as "PATCH memcacheds status 200"."""
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
    return sum(count for name, count in counts.items() if _is_write(name))


def all_writes(counts: dict[str, int]) -> int:
    return sum(count for name, count in counts.items() if name.split()[0] in WRITES)


def server_errors(counts: dict[str, int]) -> int:
    return sum(count for name, count in counts.items() if name.split()[-1].startswith(("5", "429")))


def events(counts: dict[str, int]) -> int:
    return sum(count for name, count in counts.items() if "events" in name.split())


def conflicts(counts: dict[str, int]) -> int:
    return sum(count for name, count in counts.items() if name.endswith(" 409"))


def watches(samples: Samples, resource: str) -> int:
    return round(samples.value(WATCHES, verb="WATCH", resource=resource))


def _is_write(name: str) -> bool:
    verb, resource, *_ = name.split()
    return verb in WRITES and resource in OBJECTS
