"""A session of one manager with all operators of this project, their samples, and a pet store."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import yaml

from benchmarks.peers.ours import ALL_FIVE
from benchmarks.program import ROOT, Setting
from benchmarks.sessions.plane import NAMESPACE, fresh_plane
from benchmarks.sessions.process import health_ports, peak_mb, resident_mb, started, wait_quiet, wait_ready
from tests.support.pets import records
from tests.support.petstore_process import PetStoreProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.program import Program
    from benchmarks.results import Recorder
    from tests.support.envtest import EnvtestControlPlane

SAMPLES = ROOT / "config" / "samples"
WITHIN = 30.0


@contextlib.contextmanager
def plane_with_samples() -> Iterator[tuple[EnvtestControlPlane, str]]:
    """Run a control plane with the samples and a pet store; yield it with the store's address."""
    with fresh_plane(all_kinds=True) as plane:
        folder = plane.folder / "petstore"
        folder.mkdir()
        with PetStoreProcess(folder) as store:
            for path in sorted(SAMPLES.glob("*.yaml")):
                if path.name != "kustomization.yaml":
                    for sample in yaml.safe_load_all(path.read_text()):
                        sample["metadata"]["namespace"] = NAMESPACE
                        plane.api.apply([sample])
            yield plane, store.address


def idle(
    plane: EnvtestControlPlane,
    store: str,
    program: Program,
    number: int,
    recorder: Recorder,
    settle: float,
) -> None:
    with health_ports() as (address,):
        flags = (f"--petstore-address={store}",)
        setting = Setting(workload=ALL_FIVE, health_address=address, flags=flags)
        with started(program, plane, setting) as process:
            wait_ready(process, address, WITHIN)
            wait_quiet(process, at_least=settle, timeout=WITHIN)
            figures = {"mb": resident_mb(process), "peak_mb": peak_mb(process)}
    if not records(store):
        raise AssertionError("no sample has reached the store")
    recorder.record("memory", number, figures, group=ALL_FIVE)
