"""Measure operators from outside, side by side, on a real API server and etcd without other controllers.

    python -m benchmarks [--only PART,...] [--rounds N] [--peers NAME,...] [--program NAME=COMMAND]...

A whole run writes docs/benchmarks/. A run with some parts, some peers or other programs is printed, unless
--write is given. All raw figures are kept in .local/benchmarks/. KUBEBUILDER_ASSETS names the folder with the
programs of the control plane. Only figures of the same run are comparable.
"""

from __future__ import annotations

import sys

from benchmarks.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], __doc__ or ""))
