"""The effects of faults on the processes, the network and the control plane of a world."""

from __future__ import annotations

import asyncio
import base64
import copy
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from devcluster.api.local import LocalClient
from devcluster.errors import StatusError
from devcluster.storage.records import JournalFailed
from manager_tools.simulation.comparing import resource_of, resource_of_manifest
from manager_tools.simulation.plan import PLANTED, Fault
from manager_tools.simulation.replica import TIMING, Replica
from manager_tools.simulation.world import World

_BACKUP = 120.0
"""The maximum age of a backup in seconds."""
_AHEAD = 0.3
"""The share of restored backups that also set resource versions back."""
_SLOW = (1.0, 5.0, 15.0, 60.0)
"""The maximum delay of a server in seconds: some delays exceed all timeouts, others none."""
_STUCK = (0.0, 0.5, 3.0)
"""Seconds without flushes before a power failure."""
_GOES_WITHIN = 600.0
"""Seconds within which a deleted CRD's objects disappear."""
_HELD_FOR = 30.0
"""Seconds after which users remove their finalizers from a deleted CRD's objects."""
_ROLLS_EVERY = 5.0
"""Seconds between two replicas in a rolling update."""
_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


def _alive(world: World, number: int) -> list[Replica]:
    return [each for each in world.running if each.number == number and each.alive]


async def befall(world: World, fault: Fault) -> None:
    """Cause the fault, and end it after its duration."""
    here = _alive(world, fault.replica)
    await _BEFALLING.get(fault.what, _be_bad_weather)(world, fault, here)


async def _kill(_: World, __: Fault, here: Sequence[Replica]) -> None:
    for each in here:
        each.kill()


async def _stop(_: World, __: Fault, here: Sequence[Replica]) -> None:
    for each in here:
        each.terminate()


async def _scale(world: World, fault: Fault, here: Sequence[Replica]) -> None:
    others = {each.number for each in world.running} - {fault.replica}
    if fault.replica in world.away or not others - world.away:
        return  # one replica must remain
    world.away.add(fault.replica)
    await _stop(world, fault, here)
    await asyncio.sleep(fault.seconds)
    world.come_back(fault.replica)


async def _change_mode(world: World, fault: Fault, _: Sequence[Replica]) -> None:
    if world.leads:
        return  # one change at a time
    for change in (world.leads.add, world.leads.discard):
        for number in range(world.plan.replicas):
            change(number)
            await _stop(world, fault, _alive(world, number))
            await asyncio.sleep(_ROLLS_EVERY)
        await asyncio.sleep(fault.seconds)


async def _be_reborn(world: World, fault: Fault, here: Sequence[Replica]) -> None:
    undo = world.weathers[fault.replica].change(stale=fault.seconds, lag=fault.seconds)
    await _kill(world, fault, here)
    await asyncio.sleep(fault.seconds)
    undo()


async def _compact(world: World, fault: Fault, here: Sequence[Replica]) -> None:
    await _be_bad_weather(world, replace(fault, what="silent"), here)
    world.cluster.store.expire_history()
    await _cut(world, fault, world.running)


async def _freeze(_: World, fault: Fault, here: Sequence[Replica]) -> None:
    frozen = [each for each in here if each.clock.paused is None]
    for each in frozen:
        each.freeze()
    await asyncio.sleep(fault.seconds)
    for each in frozen:
        if not each.dead:
            each.clock.resume()


async def _cut(_: World, __: Fault, here: Sequence[Replica]) -> None:
    for each in here:
        for network in each.networks:
            network.abort("the connection was cut (simulated)")


async def _cut_power(world: World, fault: Fault, _: Sequence[Replica]) -> None:
    ahead = None
    if (
        fault.what == "backup"
        and world.plane.is_up
        and random.Random(f"{fault.draw}/ahead").random() < _AHEAD
    ):
        ahead = world.plane.go_ahead()
        world.note("cluster", "goes far ahead")
        await asyncio.sleep(fault.seconds)
    if not world.plane.is_up or world.plane.disk.stuck:
        return  # the cluster is down already, or about to be
    world.plane.disk.stuck = True
    await asyncio.sleep(random.Random(fault.draw).choice(_STUCK))
    await _cut(world, fault, world.running)
    lost = await world.plane.kill()
    world.note("cluster", f"killed: {lost} writes are lost")
    if fault.what == "backup":
        then = world.now - random.Random(fault.draw).uniform(0.0, _BACKUP) if ahead is None else ahead
        world.forgotten |= world.plane.disk.rewind(then, versions_too=ahead is not None)
        version = world.plane.disk.version
        world.note("cluster", f"gets a backup of {max(0.0, then):.1f} s, and goes on from version {version}")
    await asyncio.sleep(fault.seconds)
    await world.plane.start()
    world.note("cluster", "starts")
    if fault.what == "backup":
        world.no_holder_until = world.now + TIMING.renew_deadline * 2


async def _take_rights(world: World, fault: Fault, _: Sequence[Replica]) -> None:
    bindings = [each for each in world.manifests if each["kind"].endswith("Binding")]
    client = await world.plane.there()
    if any(client.peek(*_place_of(each)) is None for each in bindings):
        return  # another fault has taken the rights already
    world.rights_taken += 1
    for each in bindings:
        with suppress(StatusError):
            await client.delete(*_place_of(each))
    await asyncio.sleep(fault.seconds)
    for each in bindings:
        await world.plane.lasting(partial(_create, manifest=each))
    world.rights_taken -= 1


async def _take_some_rights(world: World, fault: Fault, _: Sequence[Replica]) -> None:
    """Take all rights with one verb or for one resource from the managers until the fault ends."""
    rng = random.Random(fault.draw)
    field = rng.choice(("verbs", "resources"))
    granted = [each for each in world.manifests if each["kind"].endswith("Role")]
    lost = rng.choice(sorted({each for role in granted for rule in role["rules"] for each in rule[field]}))
    client = await world.plane.there()
    world.rights_taken += 1
    for role in granted:
        kept = [{**rule, field: [each for each in rule[field] if each != lost]} for rule in role["rules"]]
        await client.patch(*_place_of(role), {"rules": [rule for rule in kept if rule[field]]})
    world.note("cluster", f"managers have no right to {lost}")
    await asyncio.sleep(fault.seconds)
    for role in granted:
        await world.plane.lasting(partial(_give_back, role=role))
    world.rights_taken -= 1


async def _create(client: LocalClient, manifest: dict[str, Any]) -> None:
    resource, namespace, _ = _place_of(manifest)
    await client.create(resource, namespace, copy.deepcopy(manifest))


async def _give_back(client: LocalClient, role: dict[str, Any]) -> None:
    await client.patch(*_place_of(role), {"rules": role["rules"]})


def _place_of(manifest: dict[str, Any]) -> tuple[str, str, str]:
    metadata = manifest["metadata"]
    return resource_of_manifest(manifest), metadata.get("namespace", ""), metadata["name"]


async def _take_definition(world: World, fault: Fault, _: Sequence[Replica]) -> None:
    name = resource_of(world.operators[fault.draw % len(world.operators)].kind)
    client = await world.plane.there()
    definition = client.peek(_DEFINITIONS, "", name)
    if definition is None or "deletionTimestamp" in definition["metadata"]:
        return  # another fault has deleted it already
    await client.delete(_DEFINITIONS, "", name)
    world.note("cluster", f"the definition of {name} is deleted")
    deadline = world.now + _GOES_WITHIN
    while (going := (await world.plane.there()).peek(_DEFINITIONS, "", name)) is not None:
        if "deletionTimestamp" not in going["metadata"]:
            world.note("cluster", f"the deletion of the definition of {name} is lost")
            return
        if world.now > deadline:
            world.give_up(f"objects of {name} do not go within {_GOES_WITHIN:g} s")
        await asyncio.sleep(1.0)
        if world.now > deadline - _GOES_WITHIN + _HELD_FOR:
            with suppress(StatusError, JournalFailed):
                await world.people.release_all(name)
    await asyncio.sleep(fault.seconds)
    anew = {"metadata": {"name": name}, "spec": definition["spec"]}
    await world.plane.lasting(lambda client: client.create(_DEFINITIONS, "", copy.deepcopy(anew)))
    world.note("cluster", f"the definition of {name} is back")


async def _spoil_secret(world: World, fault: Fault, _: Sequence[Replica]) -> None:
    kept, rng = world.certificates, random.Random(fault.draw)
    if kept is None:
        return
    client = await world.plane.there()
    secret = client.peek("secrets", kept.namespace, kept.name)
    if secret is None:
        return
    name = rng.choice(("", *sorted(secret["data"])))
    text = base64.b64decode(secret["data"].get(name, ""))
    spoilt = rng.choice((b"", b"no PEM", text[: len(text) // 2], text.replace(b"A", b"B")))
    with suppress(StatusError, JournalFailed):
        if name and fault.what == "secret":
            data = {name: base64.b64encode(spoilt).decode()}
            await client.patch("secrets", kept.namespace, kept.name, {"data": data})
            world.note("person", f"spoils {name} of the Secret {kept.name}")
        else:
            await client.delete("secrets", kept.namespace, kept.name)
            world.note("person", f"deletes the Secret {kept.name}")


async def _spoil_bundle(world: World, fault: Fault, _: Sequence[Replica]) -> None:
    kept, rng = world.certificates, random.Random(fault.draw)
    if kept is None or not kept.targets:
        return
    key = rng.choice(kept.targets)
    resource = f"{key.plural}.{key.group}"
    bundle = base64.b64encode(rng.choice((b"", b"no PEM", *kept.spoilt_with))).decode()
    client = await world.plane.there()
    if (found := client.peek(resource, "", key.name)) is None:
        return
    if "webhooks" in found:
        for each in found["webhooks"]:
            each["clientConfig"]["caBundle"] = bundle
        patch = {"webhooks": found["webhooks"]}
    else:
        patch = {"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": bundle}}}}}
    with suppress(StatusError, JournalFailed):
        await client.patch(resource, "", key.name, patch)
        world.note("person", f"spoils the CA bundles of {resource} {key.name}")


async def _keep_twice(world: World, fault: Fault, here: Sequence[Replica]) -> None:
    if world.certificates is None:
        return
    world.certificates.keep_twice(fault.seconds)
    ends = [each.keep_certificates() for each in world.running if each.alive]
    await _spoil_secret(world, fault, here)
    await asyncio.sleep(fault.seconds)
    for end in ends:
        end()


async def _replace_token(world: World, fault: Fault, _: Sequence[Replica]) -> None:
    world.tokens += 1
    token = f"{PLANTED}-token-{world.tokens}"
    world.plane.take_only(token)
    await asyncio.sleep(fault.seconds)
    world.token = world.plane.token
    world.note("cluster", "the new token of managers can be read")


async def _jump(world: World, fault: Fault, here: Sequence[Replica]) -> None:
    clocks = [world.plane] if fault.what == "server_jump" else [each.clock for each in here]
    rng = random.Random(fault.draw)
    seconds = rng.choice((3600.0, -60.0)) * rng.uniform(1.0, 30.0)
    world.note("clock", f"jumps by {seconds:+,.0f} s")
    for each in clocks:
        each.skew += seconds
    await asyncio.sleep(fault.seconds)
    for each in clocks:
        each.skew -= seconds


async def _drift(world: World, fault: Fault, here: Sequence[Replica]) -> None:
    rng = random.Random(fault.draw)
    factors = [(each, rng.uniform(0.93, 1.07)) for each in here]
    for each, factor in factors:
        world.note(each.name, "its clocks begin to drift")
        each.clock.drift(each.clock.rate * factor)
    await asyncio.sleep(fault.seconds)
    for each, factor in factors:
        each.clock.drift(each.clock.rate / factor)


async def _be_bad_weather(world: World, fault: Fault, here: Sequence[Replica]) -> None:
    rng = random.Random(fault.draw)
    sizes: dict[str, float] = {
        **dict.fromkeys(("loss", "refusals", "torn", "twice"), fault.size),
        **dict.fromkeys(("lag", "stale"), fault.seconds),
        "behind": rng.uniform(0.0, world.now),
        "slow": rng.choice(_SLOW),
    }
    undo = world.weathers[fault.replica].change(**{fault.what: sizes.get(fault.what, True)})
    if fault.what == "behind":
        await _cut(world, fault, here)  # new connections go to either server
    await asyncio.sleep(fault.seconds)
    undo()
    if fault.what == "silent":
        await _cut(world, fault, [each for each in world.running if each.number == fault.replica])


_BEFALLING: dict[str, Callable[[World, Fault, Sequence[Replica]], Awaitable[None]]] = {
    "kill": _kill,
    "stop": _stop,
    "scale": _scale,
    "mode": _change_mode,
    "reborn": _be_reborn,
    "freeze": _freeze,
    "cut": _cut,
    "compact": _compact,
    "power": _cut_power,
    "backup": _cut_power,
    "rights": _take_rights,
    "some_rights": _take_some_rights,
    "definition": _take_definition,
    "token": _replace_token,
    "secret": _spoil_secret,
    "bundle": _spoil_bundle,
    "keepers": _keep_twice,
    "jump": _jump,
    "server_jump": _jump,
    "drift": _drift,
}
"""The faults that need more than a change of the `Weather`."""
