"""A description of the machine, and a measurement of its speed at present."""

from __future__ import annotations

import math
import os
import platform
import subprocess
import time
from pathlib import Path

import orjson

__all__ = ["Pace", "describe"]

PROGRAMS = ("kube-apiserver", "etcd")
# A measurement takes a quarter of a second in all and uses the fastest try: another busy core slows down this
# core for a moment, which does not make the machine slower.
MOMENTS, PIECES, PAUSE = 10, 5, 0.02

_DOCUMENT = orjson.dumps(
    {
        "metadata": {"name": "reference", "labels": {f"label-{index}": "value" for index in range(8)}},
        "spec": {
            "items": [{"name": f"item-{index}", "value": index, "text": "x" * 40} for index in range(24)]
        },
    }
)
_TURNS = 40


class Pace:
    """The machine's speed at present: the CPU milliseconds of a fixed piece of work."""

    def __init__(self) -> None:
        self._before = _piece_ms()

    def since_last(self) -> float:
        """Return the slower of the present speed and the speed at the last call.

        Either of them may apply to the figures that were measured in between.
        """
        before, self._before = self._before, _piece_ms()
        return max(before, self._before)


def _piece_ms() -> float:
    least = math.inf
    for _ in range(MOMENTS):
        least = min(least, *(_reference_ms() for _ in range(PIECES)))
        time.sleep(PAUSE)
    return least


def _reference() -> int:
    """Do a fixed piece of work of about half a millisecond: bytecode, small objects, dicts, C code on bytes.

    The mixture resembles the measured code, so that a slower processor or another busy program slows both
    equally. Never change it: stored results are compared with it.
    """
    total = 0
    for turn in range(_TURNS):
        document = orjson.loads(_DOCUMENT)
        groups: dict[str, list[int]] = {}
        for item in document["spec"]["items"]:
            groups.setdefault(item["text"] + str(item["value"] % 3), []).append(item["value"] + turn)
        total += len(orjson.dumps(groups)) + sum(len(group) for group in groups.values())
    return total


def _reference_ms() -> float:
    began = time.thread_time()
    _reference()
    return (time.thread_time() - began) * 1000


def describe(assets: Path) -> dict[str, str]:
    return {
        "processor": _first("/proc/cpuinfo", "model name") or platform.processor() or "unknown",
        "cores": str(os.cpu_count()),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.release()}",
        **{program: _version(assets / program) for program in PROGRAMS},
    }


def _memory() -> str:
    found = _first("/proc/meminfo", "MemTotal")
    return f"{int(found.split()[0]) / (1 << 20):.0f} GB" if found else "unknown"


def _first(path: str, field: str) -> str | None:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    found = (value for name, _, value in (line.partition(":") for line in lines) if name.strip() == field)
    return next((value.strip() for value in found), None)


def _version(program: Path) -> str:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=False)
    # "Kubernetes v1.34.1", "etcd Version: 3.6.4" and more lines
    return (done.stdout.strip().splitlines() or ["unknown"])[0].split()[-1].removeprefix("v")
