"""Simulated behaviour of a pod, selected by its annotations or by a word in an image's name or tag.

docs/devcluster.md lists the annotations and words.

A change of an annotation has effect at once: a stuck pod without the annotation becomes ready.
"""

from __future__ import annotations

import math

from devcluster.controllers.client import Object

__all__ = [
    "BAD_COMMAND",
    "CRASH",
    "NEVER_READY",
    "NO_IMAGE",
    "OUT_OF_MEMORY",
    "PREFIX",
    "failure_of",
    "is_lost",
    "log_of",
    "oom_delay_of",
    "ready_delay_of",
    "run_time_of",
    "starved_of",
    "stop_time_of",
    "unmounted_of",
]

PREFIX = "devcluster.local/"
NEVER_READY, CRASH, NO_IMAGE = "never-ready", "crash", "image-pull-error"
BAD_COMMAND, OUT_OF_MEMORY = "bad-command", "out-of-memory"
IMAGE_WORDS = {
    "never-ready": NEVER_READY,
    "crash-loop": CRASH,
    "no-such-image": NO_IMAGE,
    "bad-command": BAD_COMMAND,
    "out-of-memory": OUT_OF_MEMORY,
}


def failure_of(pod: Object, container: Object) -> str:
    """Return one of the constants, or an empty text when nothing is asked."""
    if annotations := pod["metadata"].get("annotations"):
        for failure in (NO_IMAGE, BAD_COMMAND, CRASH, OUT_OF_MEMORY, NEVER_READY):
            asked = annotations.get(PREFIX + failure, "").lower()
            if asked == "true" or (failure == OUT_OF_MEMORY and _number(asked) is not None):
                return failure
    image = container.get("image", "")
    return next((failure for word, failure in IMAGE_WORDS.items() if word in image), "")


def oom_delay_of(pod: Object) -> float:
    """Return the seconds that a container runs until it is out of memory."""
    return _seconds(pod, OUT_OF_MEMORY, 0.0)


def unmounted_of(pod: Object) -> str:
    """Return the name of the volume that cannot be mounted (`true` for the first one); empty for none."""
    return _annotation(pod, "mount-error")


def log_of(pod: Object) -> str | None:
    """Return what the pod's containers print, None for a made-up text."""
    return (pod["metadata"].get("annotations") or {}).get(PREFIX + "log")


def is_lost(node: Object) -> bool:
    """Return whether the node's kubelet is to fall silent."""
    return _annotation(node, "lost").lower() == "true"


def starved_of(pod: Object) -> str:
    """Return the resource that the pod's node lacks, so that the pod is evicted; empty for none."""
    return _annotation(pod, "evict")


def ready_delay_of(pod: Object, default: float) -> float:
    """Return the seconds from being scheduled to being started."""
    return _seconds(pod, "ready-delay", default)


def run_time_of(pod: Object) -> float:
    """Return the seconds that the containers of a Job run."""
    return _seconds(pod, "run-time", 0.0)


def stop_time_of(pod: Object) -> float:
    """Return the seconds that the containers take to stop when the pod is deleted."""
    return _seconds(pod, "stop-time", 0.0)


def _annotation(obj: Object, name: str) -> str:
    return str((obj["metadata"].get("annotations") or {}).get(PREFIX + name, ""))


def _seconds(pod: Object, name: str, default: float) -> float:
    value = _number(_annotation(pod, name))
    return default if value is None else value


def _number(text: str) -> float | None:
    try:
        value = float(text.strip().removesuffix("s"))
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
