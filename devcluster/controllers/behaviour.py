"""How a pod behaves once it runs: well, as a rule; otherwise as its annotations or its images ask.

| annotation of the pod                       | or in its image's name | what happens            |
|---------------------------------------------|------------------------|-------------------------|
| `devcluster.local/never-ready: "true"`      | `never-ready`          | runs, is never ready    |
| `devcluster.local/crash: "true"`            | `crash-loop`           | exits with 1, again     |
| `devcluster.local/image-pull-error: "true"` | `no-such-image`        | image cannot be pulled  |
| `devcluster.local/ready-delay: "2.5"`       |                        | seconds until ready     |
| `devcluster.local/run-time: "10"`           |                        | seconds that a Job runs |

An annotation counts from the moment it is changed: taken off a pod that is stuck, the pod becomes ready.
"""

from __future__ import annotations

import dataclasses
import math

from devcluster.controllers.client import Object

__all__ = ["CRASH", "NEVER_READY", "NO_IMAGE", "Behaviour", "behaviour_of"]

PREFIX = "devcluster.local/"
NEVER_READY, CRASH, NO_IMAGE = "never-ready", "crash", "image-pull-error"
IMAGE_MARKS = {"never-ready": NEVER_READY, "crash-loop": CRASH, "no-such-image": NO_IMAGE}


@dataclasses.dataclass(frozen=True, slots=True)
class Behaviour:
    """What a pod will do."""

    failure: str = ""
    """One of the constants; empty when all goes well."""
    container: str = ""
    """The container that fails; empty for all."""
    ready_delay: float = 0.0
    """Seconds from being scheduled to running and ready."""
    run_time: float = 0.0
    """Seconds that a pod which is to end runs."""


def behaviour_of(pod: Object, *, ready_delay: float) -> Behaviour:
    """Read from the pod; `ready_delay` is what holds when it says nothing of it."""
    annotations = pod["metadata"].get("annotations") or {}
    failure = container = ""
    for each in (NO_IMAGE, CRASH, NEVER_READY):
        if annotations.get(PREFIX + each, "").lower() == "true":
            failure = each
            break
    else:
        for each in pod["spec"].get("containers") or ():
            marks = [kind for mark, kind in IMAGE_MARKS.items() if mark in each.get("image", "")]
            if marks:
                failure, container = marks[0], each["name"]
                break
    return Behaviour(
        failure=failure,
        container=container,
        ready_delay=_seconds(annotations.get(PREFIX + "ready-delay"), ready_delay),
        run_time=_seconds(annotations.get(PREFIX + "run-time"), 0.0),
    )


def _seconds(text: str | None, default: float) -> float:
    if text is None:
        return default
    try:
        value = float(text.strip().removesuffix("s"))
    except ValueError:
        return default
    return value if math.isfinite(value) and value >= 0 else default
