"""Runs another program in its place, bound to live no longer than the process that started it.

    python launcher.py PARENT PROGRAM ARGUMENT...

A test run may be ended by anything, `kill -9` included; no control plane must stay behind. The kernel's
parent-death signal sees to it, but has to be asked for between fork and exec, where a process with threads
must not run Python: hence a program of its own. Elsewhere than on Linux it only runs the program.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask for the signal, make sure the parent was alive to hear of, and become the program."""
    parent, program = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent:
            sys.exit("the process that wanted this one is gone")
    os.execv(program[0], program)


if __name__ == "__main__":
    main()
