"""The program of this peer for the workloads in `OPERATORS`, with this project's library."""

from __future__ import annotations

import argparse
import sys

from apis.cache.v1.memcached import Memcached
from manager import ObjectKey, Operator, Result
from manager.api import Resource
from manager.cli import main as run_command
from manager.operator import AnyOperator
from manager.util.version import VERSION
from manager_kinds.apps_v1 import Deployment
from manager_kinds.core_v1 import Pod

COUNT = 10


def caching(name: str, kind: type[Resource], *, metadata_only: bool = False) -> AnyOperator:
    """Return an operator that only caches all objects of a kind, in full or only their metadata."""

    class Caching(Operator[kind]):
        def setup(self) -> None:
            self.manager.cache.informer(kind, metadata_only=metadata_only)

    Caching.name = name
    return Caching


class Reading(Operator[Memcached]):
    """A controller that only reads its object; the workload `ten` runs ten such controllers of one kind."""

    async def reconcile_key(self, key: ObjectKey) -> Result | None:
        """Read the object from the cache, and ignore the result."""
        await self.client.find(Memcached, key)
        return None


OPERATORS: dict[str, tuple[AnyOperator, ...]] = {
    "pods-metadata": (caching("pods-metadata", Pod, metadata_only=True),),
    "pods": (caching("pods", Pod),),
    "deployments": (caching("deployments", Deployment),),
    "deployments-metadata": (caching("deployments-metadata", Deployment, metadata_only=True),),
    "ten": tuple(type(f"Reading{index}", (Reading,), {"name": f"c{index}"}) for index in range(COUNT)),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--concurrency", type=int, required=True)
    parser.add_argument("--health-probe-bind-address", required=True)
    parser.add_argument("--workload", choices=OPERATORS, required=True)
    options = parser.parse_args()
    operators = OPERATORS[options.workload]
    flags = [
        f"--kubeconfig={options.kubeconfig}",
        f"--health-probe-bind-address={options.health_probe_bind_address}",
        "--metrics-bind-address=0",
        "--console-bind-address=0",
        "--webhook-bind-address=0",
        *(f"--concurrency={operator.name}={options.concurrency}" for operator in operators),
        "--log-level=warn",
    ]
    return run_command(["run", *flags], operators, name="operator-manager", version=VERSION)


if __name__ == "__main__":
    sys.exit(main())
