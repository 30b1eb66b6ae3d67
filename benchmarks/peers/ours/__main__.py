"""The workloads other than memcached, on this project's library, with the flags that all peers have."""

from __future__ import annotations

import argparse
import sys

from manager.cli import Operator
from manager.cli import main as run_command
from manager.version import VERSION

OPERATORS = {
    "pods-metadata": Operator("pods-metadata", "benchmarks.peers.ours.pods_metadata"),
    "pods": Operator("pods", "benchmarks.peers.ours.pods"),
    "ten": Operator("ten", "benchmarks.peers.ours.ten"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--concurrency", type=int, required=True)
    parser.add_argument("--health-probe-bind-address", required=True)
    parser.add_argument("--workload", choices=OPERATORS, required=True)
    options = parser.parse_args()
    operator = OPERATORS[options.workload]
    flags = [
        f"--kubeconfig={options.kubeconfig}",
        f"--health-probe-bind-address={options.health_probe_bind_address}",
        "--metrics-bind-address=0",
        f"--concurrency={operator.name}={options.concurrency}",
        "--log-level=warn",
    ]
    return run_command(["run", *flags], (operator,), name="operator-manager", version=VERSION)


if __name__ == "__main__":
    sys.exit(main())
