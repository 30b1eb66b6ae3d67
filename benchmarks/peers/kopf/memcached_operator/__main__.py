"""The work of this project's Memcached operator, written with kopf, for comparison."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import kopf
import memcached
import pods
import readiness
import ten
import uvloop
from access import Api

LACKS = {
    "pods-metadata": "kopf has no watch of metadata only",
}
NO_ELECTION = (
    "kopf has no leader election: its peering pauses replicas of lower priority, but none of equal priority"
)
# Objects per page of a list; by default kopf fetches a list in one piece.
PAGE = 500


def main() -> int:
    """Run until a signal arrives."""
    options = _options()
    lacks = NO_ELECTION if options.leader_elect else LACKS.get(options.workload)
    if lacks:
        print(lacks, file=sys.stderr)
        return 2
    os.environ["KUBECONFIG"] = str(options.kubeconfig)
    kopf.configure(quiet=True)

    registry, api = kopf.OperatorRegistry(), Api()
    _configure(registry, api, options.concurrency)
    readiness.register(registry, options.health_probe_bind_address)
    if options.workload == "memcached":
        memcached.register(registry, api)
    elif options.workload == "pods":
        pods.register(registry)
    else:
        ten.register(registry)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(kopf.operator(registry=registry, standalone=True, clusterwide=True))
    return 0


def _configure(registry: kopf.OperatorRegistry, api: Api, concurrency: int) -> None:
    @kopf.on.login(registry=registry)
    async def log_in(**kwargs: Any) -> kopf.AiohttpSession:
        return api.log_in(concurrency, **kwargs)

    @kopf.on.startup(registry=registry)
    def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.posting.enabled = False
        # The CRD has no field for kopf's progress, so the API server would drop it from the status.
        settings.persistence.progress_storage = kopf.AnnotationsProgressStorage()
        settings.watching.chunk_size = PAGE


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="memcached_operator", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--health-probe-bind-address", default="0", metavar="HOST:PORT")
    workloads = ["memcached", "pods-metadata", "pods", "ten"]
    parser.add_argument("--workload", choices=workloads, default="memcached")
    parser.add_argument("--leader-elect", action="store_true")
    parser.add_argument("--leader-election-id", default="memcached")
    parser.add_argument("--leader-election-namespace", default="default")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
