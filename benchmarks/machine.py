"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

__all__ = ["describe"]

PROGRAMS = ("kube-apiserver", "etcd")


def describe(assets: Path) -> dict[str, str]:
    """Name and value of everything that a reader should know; `assets` is the folder of the control plane."""
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
