"""Rotation of the webhooks' certificates by the leader, and their CA bundles for the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from manager.certificates.rotation import Inject, Lifetimes, Rest, Rotation, Save, Sighting, Stored
from manager.certificates.store import Changed, Snapshot, Store, StoreUnusable
from manager.certificates.targets import LOOK_EVERY, Absent, Found, Target
from manager.kube.errors import Conflict, Fenced, Forbidden, Invalid, KubeError, NotFound
from manager.telemetry.logs import get_logger
from manager.tls.certificate import Chance
from manager.util import clock

_UNDERWAY = 1.0
_AFTER_FAILURE = 2.0

_log = get_logger("webhook.certificates")


@dataclass(slots=True)
class _Watched:
    target: Target
    bundles: tuple[bytes, ...] = ()
    since: float = 0.0
    """When the bundles were first seen, on the loop's clock: other machines' clocks have no part in it."""

    stuck: bool = False
    complaint: str = ""

    def complain(self, text: str) -> None:
        """Log what keeps the target from having our bundle, once for as long as it stays the same."""
        if text != self.complaint:
            self.complaint = text
            _log.warning("cannot maintain a webhook's CA bundle", reason=text)


class CertificateRotator:
    """Control loop that reads the store and all targets, and takes the next step.

    Killed at any point, another one goes on. Two at once do no harm, as every write is conditional.
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
        """Create a rotator; `names` are the certificate's host names while no target names a host."""
        self._store = store
        self._watched = {str(each): _Watched(each) for each in targets}
        self._names = tuple(names)
        self._authority = authority
        self._lifetimes = lifetimes or Lifetimes()
        self._look_every = look_every
        self._chance = chance
        self._complaint = ""
        self._steps = 0  # since there was nothing to do
        self._most_steps = 8 + 2 * len(targets)
        """No renewal takes more: another program undoes what we do, and we do not race it."""

    async def run(self) -> None:
        """Go on until cancelled. A failure is logged once, and tried again."""
        while True:
            try:
                pause = await self._turn()
                self._complaint = ""
            except Changed:
                pause = _UNDERWAY
            except (KubeError, StoreUnusable) as error:
                pause = _AFTER_FAILURE
                if str(error) != self._complaint:
                    self._complaint = str(error)
                    _log.warning("cannot maintain the webhooks' certificate", error=str(error))
            except Exception as error:  # noqa: BLE001 - what is served now is good for weeks: no reason to end
                pause = _AFTER_FAILURE
                if repr(error) != self._complaint:
                    self._complaint = repr(error)
                    _log.error("maintaining the webhooks' certificate failed", exc_info=error)
            await asyncio.sleep(pause)

    async def _turn(self) -> float:
        """Look once, do one step and return the seconds until the next look."""
        snapshot = await self._store.read()
        found = await self._look()
        match self._rotation(snapshot, found).next_step():
            case Rest() as rest:
                for each in self._watched.values():
                    each.stuck = False
                self._steps = 0
                return min(_UNDERWAY, self._look_every) if rest.underway else self._look_every
            case Inject() as step:
                await self._inject(self._watched[step.target], found[step.target], step.bundle)
            case Save() as step:
                await self._store.write(step.make(), snapshot)
                _log.info(step.event, **step.details, store=str(self._store))
        self._steps += 1
        return 0.0 if self._steps <= self._most_steps else _AFTER_FAILURE

    def _rotation(self, snapshot: Snapshot, found: dict[str, Found]) -> Rotation:
        now = clock.now()
        stored = Stored(snapshot.material, now)
        hosts = tuple(dict.fromkeys(host for each in found.values() for host in each.hosts))
        # Do not renew an existing certificate for names that no target uses.
        names = hosts or (tuple(sorted(stored.serving.names)) if stored.serving else ()) or self._names
        sightings = [self._sighting(name, each) for name, each in found.items()]
        return Rotation(stored, sightings, names, now, self._lifetimes, self._authority, self._chance)

    async def _look(self) -> dict[str, Found]:
        found: dict[str, Found] = {}
        for name, watched in self._watched.items():
            try:
                found[name] = await watched.target.look()
            except Absent as error:
                watched.complain(str(error))
            except Forbidden as error:
                # The others go on, rather than stop all for one that is unknown.
                watched.complain(f"{name} cannot be read: {error}")
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
        target = watched.target
        try:
            await target.inject(found, bundle)
        except (Conflict, NotFound):
            raise Changed(str(target)) from None
        except Fenced:
            raise
        except (Forbidden, Invalid) as error:
            # A patch whose test fails is `Invalid` too. If nothing has changed, it is not that.
            if isinstance(error, Invalid) and await _has_changed(target, found):
                raise Changed(str(target)) from None
            watched.stuck = True
            watched.complain(f"{target} cannot be written: {error}")
        else:
            _log.info("the API server trusts the webhooks' CAs", target=str(target))


async def _has_changed(target: Target, found: Found) -> bool:
    try:
        return await target.look() != found
    except Absent:
        return True
