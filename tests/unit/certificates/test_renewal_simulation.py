from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manager.certificates.store import Material
from manager.simulation.loop import simulate
from tests.unit.certificates.world import LIFETIMES, CertificateWorld

virtual_time = pytest.mark.virtual_time


@virtual_time
async def test_nothing_is_written_while_nothing_is_due():
    world = CertificateWorld()
    world.start_leader()
    await world.passing(60)
    before = list(world.writes)
    await world.passing(LIFETIMES.serving.total_seconds() * 0.6 - 60)
    assert world.writes == before
    await world.kill_leader()
    assert world.writes == ["store", "inject mutating", "inject validating", "inject pets"]


@settings(max_examples=4)
@given(seed=st.integers(min_value=0, max_value=2**32))
def test_whatever_somebody_does_to_the_secret_is_mended_without_an_outage(seed: int):
    world = CertificateWorld(seed, losses=0.1)

    def damage() -> None:
        whole = world.material
        entries = whole.entries()
        name = world.rng.choice([*entries, "all"])
        if name == "all":
            world.put(Material())
            return
        text = entries[name]
        entries[name] = world.rng.choice([b"", b"no PEM", text[: len(text) // 2], text.replace(b"A", b"B")])
        world.put(Material.of(entries))

    async def main() -> None:
        world.start_leader()
        await world.passing(60)
        for _ in range(12):
            await world.passing(world.rng.uniform(0, 200))
            damage()
            if world.rng.random() < 0.3:
                await world.kill_leader()
                await world.passing(world.rng.uniform(0, 20))
                world.start_leader()
        await world.passing(300)
        assert world.healthy()
        await world.kill_leader()

    simulate(main())


@settings(max_examples=4)
@given(seed=st.integers(min_value=0, max_value=2**32))
def test_bundles_that_are_reset_come_back_and_no_renewal_goes_by_them(seed: int):
    world = CertificateWorld(seed)
    old: list[tuple[bytes, ...]] = []

    async def main() -> None:
        world.start_leader()
        await world.passing(60)
        old.append(world.targets[0].bundles)
        for _ in range(25):
            await world.passing(world.rng.uniform(0, 120))
            target = world.rng.choice(world.targets)
            bundles = world.rng.choice([(b"", b""), (b"damaged", target.bundles[1]), old[0]])
            target.put(bundles, excused=bundles != target.bundles)
            await world.passing(25)
            assert not target.excused
        await world.kill_leader()

    simulate(main())


@virtual_time
async def test_another_service_name_makes_another_certificate():
    world = CertificateWorld()
    world.start_leader()
    await world.passing(60)
    world.targets[2].hosts = ("other.ns.svc",)
    await world.passing(30)
    assert world.served[-1].names >= {"svc.ns.svc", "other.ns.svc"}
    assert len(world.ever_served) == 2
    # What is not there says nothing about names.
    for target in world.targets:
        target.installed = False
    await world.passing(60)
    assert len(world.ever_served) == 2
    await world.kill_leader()


@virtual_time
async def test_after_a_long_rest_in_which_all_has_expired_it_begins_anew():
    world = CertificateWorld()
    world.start_leader()
    await world.passing(60)
    await world.kill_leader()
    for target in world.targets:
        target.excused = True
    world.served.clear()
    await world.passing(timedelta(days=400).total_seconds() / 1000)
    world.start_leader()
    await world.passing(10)
    assert world.healthy()
    await world.kill_leader()
