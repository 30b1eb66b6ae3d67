"""Entry point of admission for the API server: plugins, then policies, then webhooks, then quotas."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from devcluster.access.rbac import RbacAuthorizer
from devcluster.admission.client import WebhookClient
from devcluster.admission.configuration import Configuration
from devcluster.admission.limits import LimitRanger, ResourceQuotas
from devcluster.admission.plugins import (
    Escalation,
    NamespaceLifecycle,
    OwnerReferences,
    Plugin,
    ServiceAccounts,
    StorageClasses,
)
from devcluster.admission.pod_security import PodSecurity
from devcluster.admission.policies import AdmissionPolicies
from devcluster.admission.webhooks import Webhooks
from devcluster.admission_plugins import OWNER_REFERENCES, check_plugins
from devcluster.api.interfaces import AdmissionInfo
from devcluster.builtin.quotas import QuotaLedger
from devcluster.kinds.registry import Registry
from devcluster.storage.store import Store

Object = dict[str, Any]


class ClusterAdmission:
    """The cluster's admission; `devcluster.api.interfaces.Admission` documents its methods."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        client: WebhookClient,
        rng: random.Random,
        *,
        service_accounts: bool = True,
        authorizer: RbacAuthorizer | None = None,
        plugins: Sequence[str] = (),
    ) -> None:
        """Set up the plugins; `plugins` names optional plugins to add to the default plugins.

        With `service_accounts`, every pod must have a ServiceAccount. It is False for a cluster without
        controllers, because nothing creates ServiceAccounts there. A plugin that needs an `authorizer` does
        nothing without one.

        Raises:
            UnknownPlugin: one of `plugins` does not exist.
        """
        check_plugins(plugins)
        self._namespaces = NamespaceLifecycle(store)
        self._plugins: list[Plugin] = [StorageClasses(store), LimitRanger(store), PodSecurity(store)]
        if service_accounts:
            self._plugins.append(ServiceAccounts(store, rng))
        if authorizer is not None and OWNER_REFERENCES in plugins:
            self._plugins.insert(0, OwnerReferences(authorizer, registry))
        if authorizer is not None:
            self._plugins.insert(0, Escalation(authorizer))
        self.ledger = QuotaLedger(store)
        """The sums of quotas, which the quota controller shows in their status."""
        self._quotas = ResourceQuotas(self.ledger)
        self._configuration = Configuration(store, registry)
        self._policies = AdmissionPolicies(store, registry, self._configuration, authorizer)
        self._webhooks = Webhooks(self._configuration, client, rng)

    def handles(self, info: AdmissionInfo) -> bool:
        """Return whether admission applies to the write. The check is fast, and False for most writes."""
        return (
            self._namespaces.objects_to(info)
            or any(each.concerns(info) for each in self._plugins)
            or self._quotas.concerns(info)
            or self._policies.concerns(info)
            or self._configuration.concerns(info)
        )

    async def mutate(self, info: AdmissionInfo) -> Object | None:
        """Return the object after all changes by admission; raise StatusError to deny the write."""
        self._namespaces.check(info)
        await self._complete(info)
        changed = self._policies.concerns(info) and await self._policies.mutate(info)
        if self._configuration.concerns(info):
            changed |= await self._webhooks.mutate(info)
        if changed:
            await self._complete(info)
        return info.obj

    async def validate(self, info: AdmissionInfo) -> None:
        """Run the checks of plugins, policies, webhooks and quotas; raise StatusError to deny the write."""
        for each in self._plugins:
            if each.concerns(info):
                each.check(info)
        if self._policies.concerns(info):
            await self._policies.validate(info)
        if self._configuration.concerns(info):
            await self._webhooks.validate(info)
        self.check_quotas(info)

    def check_quotas(self, info: AdmissionInfo) -> None:
        if self._quotas.concerns(info):
            self._quotas.check(info)

    async def _complete(self, info: AdmissionInfo) -> None:
        """Apply the plugins' defaults to the object; calling this again changes nothing."""
        for each in self._plugins:
            if each.concerns(info):
                await each.complete(info)
