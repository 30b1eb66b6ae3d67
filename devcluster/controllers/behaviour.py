"""Simulated behaviour of a pod, selected by its annotations or by a word in an image's name or tag.

| annotation of the pod                       | or word in the image   | the pod                       |
|---------------------------------------------|------------------------|-------------------------------|
| `devcluster.local/never-ready: "true"`      | `never-ready`          | runs, is never ready          |
| `devcluster.local/crash: "true"`            | `crash-loop`           | exits with 1, again and again |
| `devcluster.local/image-pull-error: "true"` | `no-such-image`        | cannot pull its image         |
| `devcluster.local/evict: memory`            |                        | is evicted by its node        |
| `devcluster.local/ready-delay: "2.5"`       |                        | starts after 2.5 seconds      |
| `devcluster.local/run-time: "10"`           |                        | runs 10 seconds, of a Job     |
| `devcluster.local/stop-time: "5"`           |                        | stops in 5 seconds            |

A change of an annotation has effect at once: a stuck pod without the annotation becomes ready.
"""

from __future__ import annotations

import math

from devcluster.controllers.client import Object

__all__ = [
    "CRASH",
    "NEVER_READY",
    "NO_IMAGE",
    "PREFIX",
    "failure_of",
    "ready_delay_of",
    "run_time_of",
    "starved_of",
    "stop_time_of",
]

PREFIX = "devcluster.local/"
NEVER_READY, CRASH, NO_IMAGE = "never-ready", "crash", "image-pull-error"
IMAGE_WORDS = {"never-ready": NEVER_READY, "crash-loop": CRASH, "no-such-image": NO_IMAGE}


def failure_of(pod: Object, container: Object) -> str:
    """Return one of the constants, or an empty text when nothing is asked."""
    if annotations := pod["metadata"].get("annotations"):
        for failure in (NO_IMAGE, CRASH, NEVER_READY):
            if annotations.get(PREFIX + failure, "").lower() == "true":
                return failure
    image = container.get("image", "")
    return next((failure for word, failure in IMAGE_WORDS.items() if word in image), "")


def starved_of(pod: Object) -> str:
    """Return the resource that the pod's node lacks, so that the pod is evicted; empty for none."""
    return str((pod["metadata"].get("annotations") or {}).get(PREFIX + "evict", ""))


def ready_delay_of(pod: Object, default: float) -> float:
    """Return the seconds from being scheduled to being started."""
    return _seconds(pod, "ready-delay", default)


def run_time_of(pod: Object) -> float:
    """Return the seconds that the containers of a Job run."""
    return _seconds(pod, "run-time", 0.0)


def stop_time_of(pod: Object, default: float) -> float:
    """Return the seconds that the containers take to stop when the pod is deleted."""
    return _seconds(pod, "stop-time", default)


def _seconds(pod: Object, name: str, default: float) -> float:
    text = (pod["metadata"].get("annotations") or {}).get(PREFIX + name)
    if text is None:
        return default
    try:
        value = float(text.strip().removesuffix("s"))
    except ValueError:
        return default
    return value if math.isfinite(value) and value >= 0 else default
