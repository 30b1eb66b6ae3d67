"""Admission as the API server calls it: the plugins first, then the webhooks."""

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
    ServiceAccounts,
    check_growth,
    default_storage_class,
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
        """Set up the plugins; `service_accounts` says whether every pod must have a ServiceAccount.

        Without controllers there are no ServiceAccounts. `plugins` are added to the usual ones. A plugin that
        needs an `authorizer` does nothing without one.

        Raises:
            UnknownPlugin: one of `plugins` does not exist.
        """
        check_plugins(plugins)
        self._store = store
        self._namespaces = NamespaceLifecycle(store)
        self._accounts = ServiceAccounts(store, rng) if service_accounts else None
        self._owners = (
            OwnerReferences(authorizer, registry)
            if authorizer is not None and OWNER_REFERENCES in plugins
            else None
        )
        self._escalation = Escalation(authorizer) if authorizer is not None else None
        self._limits = LimitRanger(store)
        self._security = PodSecurity(store)
        self.ledger = QuotaLedger(store)
        """The sums of quotas, which the quotas' controller shows."""
        self._quotas = ResourceQuotas(self.ledger)
        self._configuration = Configuration(store, registry)
        self._policies = AdmissionPolicies(store, registry, self._configuration, authorizer)
        self._webhooks = Webhooks(self._configuration, client, rng)

    def handles(self, info: AdmissionInfo) -> bool:
        """Return whether admission applies to the write; a quick check, False for most writes."""
        return (
            self._namespaces.objects_to(info)
            or _is_creation_of(info, "pods")
            or _is_creation_of(info, "persistentvolumeclaims")
            or _is_update_of(info, "persistentvolumeclaims")
            or any(each.concerns(info) for each in (self._limits, self._security, self._quotas))
            or (self._owners is not None and self._owners.concerns(info))
            or (self._escalation is not None and self._escalation.concerns(info))
            or self._policies.concerns(info)
            or self._configuration.concerns(info)
        )

    async def mutate(self, info: AdmissionInfo) -> Object | None:
        """Return the object as admission changed it.

        Raises:
            StatusError: admission denies the write.
        """
        self._namespaces.check(info)
        await self._complete(info)
        changed = self._policies.concerns(info) and await self._policies.mutate(info)
        if self._configuration.concerns(info):
            changed |= await self._webhooks.mutate(info)
        if changed:
            await self._complete(info)
        return info.obj

    async def validate(self, info: AdmissionInfo) -> None:
        """Validate the write. Raises StatusError to deny it."""
        if self._escalation is not None:
            self._escalation.check(info)
        if self._owners is not None:
            self._owners.check(info)
        if _is_update_of(info, "persistentvolumeclaims"):
            check_growth(self._store, info)
        self._limits.check(info)
        self._security.check(info)
        if self._policies.concerns(info):
            await self._policies.validate(info)
        if self._configuration.concerns(info):
            await self._webhooks.validate(info)
        # No other task runs between this and the write, so two creations cannot both take what is left.
        self._quotas.check(info)

    async def _complete(self, info: AdmissionInfo) -> None:
        """Apply the plugins' defaults; a second call changes nothing."""
        self._limits.default(info)
        if _is_creation_of(info, "pods") and self._accounts is not None:
            await self._accounts.admit(info)
        elif _is_creation_of(info, "persistentvolumeclaims"):
            assert info.obj is not None
            default_storage_class(self._store, info.obj)


def _is_creation_of(info: AdmissionInfo, resource: str) -> bool:
    return info.operation == "CREATE" and not info.subresource and info.resource.name == resource


def _is_update_of(info: AdmissionInfo, resource: str) -> bool:
    return info.operation == "UPDATE" and not info.subresource and info.resource.name == resource
