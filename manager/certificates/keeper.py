"""The leader's part: makes certificates, renews them, and tells the API server whom to trust."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from manager.certificates.decide import next_step
from manager.certificates.lifetimes import Lifetimes
from manager.certificates.steps import Adopt, Authorize, Inject, Issue, Rest, Retire, Sighting, Step, after
from manager.certificates.store import Changed, Snapshot, Store, Stored, StoreUnusable
from manager.certificates.targets import Absent, Found, Target
from manager.kube.errors import Conflict, Fenced, Forbidden, Invalid, KubeError, NotFound
from manager.telemetry.logs import get_logger
from manager.tls.issue import Chance
from manager.util import clock

LOOK_EVERY = 10.0
"""Seconds between two looks while nothing is to be done: a read of the store and of each target.
So long may a bundle stay wrong that `kubectl apply` or an upgrade of a chart has reset."""

_CRYPTOGRAPHY = "cryptography.x509"

_UNDERWAY = 1.0
_AFTER_TROUBLE = 2.0

_log = get_logger("webhook.certificates")


@dataclass(slots=True)
class _Watched:
    """State of a target that this process remembers between two looks."""

    target: Target
    bundles: tuple[bytes, ...] = ()
    since: float = 0.0
    """When the bundles were first seen, on the loop's clock: other machines' clocks have no part in it."""

    stuck: bool = False
    complaint: str = ""


class Keeper:
    """Control loop that reads the store and all targets, and takes the next step.

    It remembers nothing that matters: killed at any point, another one goes on. Two at work at once do no
    harm, as every write is conditional on what it was decided on; they only get in each other's way.
    """

    def __init__(
        self,
        store: Store,
        targets: Sequence[Target],
        *,
        names: Sequence[str],
        authority: str,
        lifetimes: Lifetimes | None = None,
        look_every: float = LOOK_EVERY,
        chance: Chance | None = None,
    ) -> None:
        """Create a keeper.

        Args:
            store: holds the certificates.
            targets: the objects with CA bundles.
            names: host names for the certificate while no target names a host; not empty.
            authority: the name of new authorities.
            lifetimes: of new authorities and certificates.
            look_every: seconds between two looks when no step is due.
            chance: source of keys in a simulation.
        """
        self._store = store
        self._watched = {str(each): _Watched(each) for each in targets}
        self._names = tuple(names)
        self._authority = authority
        self._lifetimes = lifetimes or Lifetimes()
        self._look_every = look_every
        self._chance = chance
        self._complaint = ""
        self._steps = 0
        """How many there were since there was nothing to do."""
        self._most_steps = 8 + 2 * len(targets)
        """No renewal takes more: somebody undoes what we do, and we do not race them."""

    async def run(self) -> None:
        """Go on until cancelled. Nothing that fails ends it: it is said once, and tried again."""
        if _CRYPTOGRAPHY not in sys.modules:
            # A tenth of a second. What is done with it later, once in a while, takes about a millisecond.
            await asyncio.to_thread(importlib.import_module, _CRYPTOGRAPHY)
        while True:
            try:
                pause = await self._turn()
                self._complaint = ""
            except Changed:
                pause = _UNDERWAY
            except (KubeError, StoreUnusable) as error:
                pause = _AFTER_TROUBLE
                if str(error) != self._complaint:
                    self._complaint = str(error)
                    _log.warning("cannot maintain the webhooks' certificate", error=str(error))
            except Exception as error:  # noqa: BLE001 - what is served now is good for weeks: no reason to end
                pause = _AFTER_TROUBLE
                if repr(error) != self._complaint:
                    self._complaint = repr(error)
                    _log.error("maintaining the webhooks' certificate failed", exc_info=error)
            await asyncio.sleep(pause)

    async def _turn(self) -> float:
        """Look once, do one step and return the seconds until the next look.

        Raises the errors of the store and of the targets.
        """
        snapshot = await self._store.read()
        found = await self._look()
        sightings = [self._sighting(name, each) for name, each in found.items()]
        hosts = dict.fromkeys(host for each in found.values() for host in each.hosts)
        step = self._decide(snapshot, sightings, tuple(hosts))
        match step:
            case Rest():
                for each in self._watched.values():
                    each.stuck = False
                self._steps = 0
                return min(_UNDERWAY, self._look_every) if step.underway else self._look_every
            case Inject():
                await self._inject(self._watched[step.target], found[step.target], step.bundle)
            case Authorize() | Adopt() | Issue() | Retire():
                await self._write(step, snapshot)
        self._steps += 1
        return 0.0 if self._steps <= self._most_steps else _AFTER_TROUBLE

    def _decide(self, snapshot: Snapshot, sightings: Sequence[Sighting], hosts: tuple[str, ...]) -> Step:
        now = clock.now()
        stored = Stored(snapshot.material, now)
        serving = stored.serving
        # Do not renew an existing certificate for names that no target uses.
        names = hosts or (tuple(sorted(serving.names)) if serving is not None else ()) or self._names
        return next_step(stored, sightings, names, now, self._lifetimes)

    async def _look(self) -> dict[str, Found]:
        """All targets that are there, by their names."""
        found: dict[str, Found] = {}
        for name, watched in self._watched.items():
            try:
                found[name] = await watched.target.look()
            except Absent as error:
                _tell(watched, str(error))
            except Forbidden as error:
                # Not knowing what is there, we go on with the others rather than stop for all of them.
                _tell(watched, f"{name} cannot be read: {error}")
            else:
                if not watched.stuck:
                    watched.complaint = ""
                continue
            watched.bundles = ()
        return found

    def _sighting(self, name: str, found: Found) -> Sighting:
        watched = self._watched[name]
        if found.bundles != watched.bundles:
            watched.bundles, watched.since = found.bundles, clock.monotonic()
        age = timedelta(seconds=clock.monotonic() - watched.since)
        return Sighting(name, found.bundles, found.intact, age, watched.stuck)

    async def _inject(self, watched: _Watched, found: Found, bundle: bytes) -> None:
        try:
            await watched.target.inject(found, bundle)
        except (Conflict, NotFound):
            raise Changed(str(watched.target)) from None
        except Fenced:
            raise
        except (Forbidden, Invalid) as error:
            # A test of the patch that fails is told as `Invalid` too. If nothing has changed, it is not that.
            if isinstance(error, Invalid) and await self._has_changed(watched.target, found):
                raise Changed(str(watched.target)) from None
            watched.stuck = True
            _tell(watched, f"{watched.target} cannot be written: {error}")
        else:
            _log.info("the API server trusts the webhooks' CAs", target=str(watched.target))

    async def _has_changed(self, target: Target, found: Found) -> bool:
        try:
            return await target.look() != found
        except Absent:
            return True

    async def _write(self, step: Authorize | Adopt | Issue | Retire, snapshot: Snapshot) -> None:
        now = clock.now()
        stored = Stored(snapshot.material, now)
        material = after(step, stored, now, self._lifetimes, authority=self._authority, chance=self._chance)
        await self._store.write(material, snapshot)
        match step:
            case Authorize():
                also = {"names": list(step.names)} if step.names else {}
                _log.info("made a CA for webhooks", why=step.why, store=str(self._store), **also)
            case Adopt():
                _log.info("the stored bundle has every CA in use again", store=str(self._store))
            case Issue():
                names = list(step.names)
                _log.info(
                    "made a certificate for webhooks", why=step.why, names=names, store=str(self._store)
                )
            case Retire():
                _log.info("removed the old CA of the webhooks", store=str(self._store))


def _tell(watched: _Watched, text: str) -> None:
    """Say what keeps a target from having our bundle, once for as long as it stays the same."""
    if text != watched.complaint:
        watched.complaint = text
        _log.warning("cannot maintain a webhook's CA bundle", reason=text)
