"""Kubernetes Events: what a person sees at the end of `kubectl describe`."""

from __future__ import annotations

from random import Random

from manager.api import Resource
from manager.events.correlator import Correlator
from manager.events.outbox import Outbox, Outcomes
from manager.events.series import MESSAGE_BYTES, REASON_BYTES, EventType, ObjectReference, bounded
from manager.events.sink import EventSink
from manager.kube.transport import Transport
from manager.logs import get_logger
from manager.metrics import Metrics

_log = get_logger("events")


class EventRecorder:
    """Records Events, as a courtesy: `event` never waits and never fails, and other writes come first.

    Repetitions are counted in one Event object, similar events are combined, and an object that causes very
    many is cut off (`Correlator`). The rest waits to be sent by `run` (`Outbox`); when too many wait, the
    oldest are dropped. `operator_manager_events_total` counts what became of each.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        component: str,
        instance: str,
        metrics: Metrics,
        rng: Random,
        rate: float = 30.0,
        burst: int = 50,
        capacity: int = 4096,
    ) -> None:
        """Nothing is sent until `run`.

        Args:
            transport: carries the Events.
            component: who reports them, the same for all replicas.
            instance: which replica does.
            metrics: counts them.
            rng: the source of jitter, and of what makes names unique.
            rate: Events sent per second, at most and on average.
            burst: how many may be sent above that after a quiet time.
            capacity: how many may wait to be sent (about a kilobyte each).
        """
        self._outcomes = Outcomes(metrics)
        self._correlator = Correlator(rng)
        self._outbox = Outbox(
            transport,
            EventSink(
                transport,
                component=bounded(component, REASON_BYTES),
                instance=bounded(instance, REASON_BYTES),
            ),
            outcomes=self._outcomes,
            rng=rng,
            rate=rate,
            burst=burst,
            capacity=capacity,
        )

    def event(self, obj: Resource | ObjectReference, type: EventType, reason: str, message: str) -> None:  # noqa: A002 - the field's name
        """Record that something happened to an object.

        `reason` is one word in CamelCase, for programs; `message` a sentence for people, of which 1024 bytes
        are kept. It must not hold a secret: whoever may read Events reads it.
        """
        try:
            self._record(obj, type, bounded(reason, REASON_BYTES), bounded(message, MESSAGE_BYTES))
        except Exception as error:  # noqa: BLE001 - the work that reports an Event must not fail for it
            self._outcomes.count("invalid")
            _log.warning("cannot record an event", reason=reason, error=error.__class__.__name__)

    async def run(self) -> None:
        """Send Events until cancelled; what is not sent by then is lost."""
        await self._outbox.run()

    async def flush(self, timeout: float) -> bool:
        """Send what waits, now, while `run` runs; return whether that was done within `timeout` seconds."""
        return await self._outbox.flush(timeout)

    def _record(self, obj: Resource | ObjectReference, type: EventType, reason: str, message: str) -> None:  # noqa: A002 - the field's name
        reference = obj if isinstance(obj, ObjectReference) else ObjectReference.of(obj)
        series = self._correlator.observe(reference, type, reason, message)
        if series.waiting or self._correlator.within_budget(reference):
            self._outbox.put(series)
        else:
            self._outcomes.count("filtered")
