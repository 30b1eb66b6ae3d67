"""The ServiceAccount of pods, and its token where their containers find it."""

from __future__ import annotations

import asyncio
import copy
import random
from typing import TYPE_CHECKING, Any

from devcluster.errors import forbidden, not_found
from devcluster.storage.records import Key

if TYPE_CHECKING:
    from devcluster.api.interfaces import AdmissionInfo
    from devcluster.storage.store import Store

__all__ = ["ServiceAccounts"]

Object = dict[str, Any]

_MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
_TOKEN_LIFE = 3607
_ATTEMPTS = 10
_PAUSE = 0.1
"""Seconds between checks for a new namespace's default account."""


class ServiceAccounts:
    """A plugin that gives every pod a ServiceAccount and its token."""

    def __init__(self, store: Store, rng: random.Random) -> None:
        self._store = store
        self._rng = rng

    async def admit(self, info: AdmissionInfo) -> None:
        """Complete the pod that is created.

        Raises:
            StatusError: Its account does not exist.
        """
        assert info.obj is not None
        spec = info.obj.setdefault("spec", {})
        name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = await self._find(info.namespace, name)
        if account is None:
            missing = not_found("", "serviceaccount", name).message
            text = f"error looking up service account {info.namespace}/{name}: {missing}"
            raise forbidden("", "pods", info.name, text)
        if _mounts_token(spec, account):
            self._mount(spec)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = copy.deepcopy(account["imagePullSecrets"])

    async def _find(self, namespace: str, name: str) -> Object | None:
        for attempt in range(_ATTEMPTS if name == "default" else 1):
            if attempt:
                await asyncio.sleep(_PAUSE)
            stored = self._store.get(Key("", "serviceaccounts", namespace, name))
            if stored is not None:
                return stored.decode()
        return None

    def _mount(self, spec: Object) -> None:
        """Mount the token, the CA and the namespace in containers without a mount at that path."""
        volumes = spec.setdefault("volumes", [])
        ours = [each["name"] for each in volumes if each.get("name", "").startswith("kube-api-access-")]
        name = ours[0] if ours else "kube-api-access-" + "".join(self._rng.choices(_SUFFIX, k=5))
        needed = False
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
            mounts = container.get("volumeMounts") or []
            if any(mount.get("mountPath") == _MOUNT for mount in mounts):
                continue
            container["volumeMounts"] = [*mounts, {"name": name, "readOnly": True, "mountPath": _MOUNT}]
            needed = True
        if needed and not ours:
            volumes.append(_token_volume(name))
        elif not volumes:
            del spec["volumes"]


def _mounts_token(spec: Object, account: Object) -> bool:
    for holder in (spec, account):
        wanted = holder.get("automountServiceAccountToken")
        if wanted is not None:
            return bool(wanted)
    return True


def _token_volume(name: str) -> Object:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "name": name,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": _TOKEN_LIFE, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [namespace]}},
            ],
            "defaultMode": 420,
        },
    }
