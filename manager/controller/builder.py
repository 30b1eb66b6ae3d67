"""Wiring a controller up."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple, Protocol, Self, Unpack

from manager.api import Resource
from manager.cache import Cache, SelectionOptions
from manager.controller.controller import Controller
from manager.controller.handler import Handler, MapTo, enqueue_mapped, enqueue_object, enqueue_owner
from manager.controller.options import ControllerOptions
from manager.controller.predicate import Predicate, desired_state_changed
from manager.controller.reconciler import Reconciler
from manager.controller.source import KindSource, Source, TickerSource
from manager.metrics import Metrics

__all__ = ["ControllerBuilder", "ControllerHost"]


class ControllerHost(Protocol):
    """What a controller is built from, and who runs it: the manager."""

    cache: Cache
    metrics: Metrics
    rng: random.Random

    def add_controller(self, controller: Controller) -> None:
        """Take a controller over, to run it when it is time."""


class _Kind(NamedTuple):
    kind: type[Resource]
    metadata_only: bool
    selection: SelectionOptions
    handler: Handler | None
    predicates: Sequence[Predicate]


class ControllerBuilder:
    """Says what a controller is for and what it looks at, and makes it.

        (ControllerBuilder(manager, Foo)
            .owns(Deployment)
            .watches(Pod, map_to=foos_of_pod, predicates=[created_or_deleted], metadata_only=True)
            .reads(ConfigMap)
            .options(options)
            .complete(FooReconciler(manager.client)))

    Kinds named here are cached, in watches shared by all controllers, and the reconciler is not called before
    all of them are in sync. With `metadata_only` only metadata is fetched and kept, at a fraction of the
    cost, and read through `client.metadata`. With a selection (`SelectionOptions`: `label_selector`,
    `field_selector`, `namespaces`) only these objects are, and read through `client.selecting`; one that
    leaves the selection is gone.
    """

    def __init__(
        self, manager: ControllerHost, primary: type[Resource], **selection: Unpack[SelectionOptions]
    ) -> None:
        """`primary` is the kind whose objects are reconciled, all or those selected.

        Changes of its status alone are ignored.
        """
        self._manager = manager
        self._primary = primary
        self._name = primary.gvk.kind.lower()
        self._options = ControllerOptions()
        self._primary_predicates: tuple[Predicate, ...] = (desired_state_changed,)
        self._primary_selection = selection
        self._kinds: list[_Kind] = []
        self._sources: list[Source] = []
        self._skips_own_writes = False

    def named(self, name: str) -> Self:
        """Name the controller, for flags, metrics and logs. Default: the primary kind in lower case."""
        self._name = name
        return self

    def predicates(self, *predicates: Predicate) -> Self:
        """Reconcile an object of the primary kind when all of these let its event pass.

        Default: `desired_state_changed`; none at all lets everything pass.
        """
        self._primary_predicates = predicates
        return self

    def owns(
        self,
        kind: type[Resource],
        *,
        predicates: Sequence[Predicate] = (),
        metadata_only: bool = False,
        **selection: Unpack[SelectionOptions],
    ) -> Self:
        """Reconcile the primary object that is the controller (by owner reference) of a changed `kind`."""
        self._kinds.append(_Kind(kind, metadata_only, selection, enqueue_owner(self._primary), predicates))
        return self

    def watches(
        self,
        kind: type[Resource],
        *,
        map_to: MapTo | None = None,
        handler: Handler | None = None,
        predicates: Sequence[Predicate] = (),
        metadata_only: bool = False,
        **selection: Unpack[SelectionOptions],
    ) -> Self:
        """Reconcile what `map_to` makes of the metadata of a changed `kind`, as it was and as it is.

        A `handler` instead sees the event itself. Both run once per event in the event loop: what they cost
        should not grow with the number of objects, so look things up by an index. Raises `ValueError` unless
        exactly one of them is given.
        """
        if (map_to is None) == (handler is None):
            raise ValueError(f"watches({kind.__name__}) needs either map_to or handler")
        if map_to is not None:
            handler = enqueue_mapped(map_to)
        self._kinds.append(_Kind(kind, metadata_only, selection, handler, predicates))
        return self

    def reads(
        self, kind: type[Resource], *, metadata_only: bool = False, **selection: Unpack[SelectionOptions]
    ) -> Self:
        """Cache `kind` for the reconciler to read; its changes ask for nothing."""
        self._kinds.append(_Kind(kind, metadata_only, selection, None, ()))
        return self

    def source(self, source: Source) -> Self:
        """Reconcile what some other source asks for."""
        self._sources.append(source)
        return self

    def skips_own_writes(self) -> Self:
        """Not reconcile an object again only because its reconcile has written something.

        For a reconciler that goes on with what its writes return, or reads it again, before it returns. One
        that creates something and returns, to be called again when that is there, would not be called.

        Left out are the changes that this very reconcile has made by a create, or by a write that demanded
        the version it replaced (`update`, and `patch` of finalizers or owners): nobody else's change can
        be hidden in these. All others call it, before and after: those of other objects' reconciles and of
        other controllers too. A reconcile that fails is tried again in any case.
        """
        self._skips_own_writes = True
        return self

    def options(self, options: ControllerOptions) -> Self:
        """Set how it works through its queue."""
        self._options = options
        return self

    def complete(self, reconciler: Reconciler) -> Controller:
        """Make the controller, and hand it to the manager."""
        cache = self._manager.cache
        primary = cache.informer(self._primary, **self._primary_selection)
        sources: list[Source] = [
            KindSource(primary, enqueue_object, predicates=self._primary_predicates),
            *(
                KindSource(
                    cache.informer(each.kind, metadata_only=each.metadata_only, **each.selection),
                    each.handler,
                    predicates=each.predicates,
                )
                for each in self._kinds
            ),
            *self._sources,
        ]
        period = self._options.resync_period
        if period is not None:
            sources.append(
                TickerSource(period, lambda: [record.key for record in primary.list()], rng=self._manager.rng)
            )
        controller = Controller(
            self._name,
            reconciler,
            sources,
            options=self._options,
            metrics=self._manager.metrics,
            rng=self._manager.rng,
            primary=self._primary.gvk,
            skips_own_writes=self._skips_own_writes,
        )
        self._manager.add_controller(controller)
        return controller
