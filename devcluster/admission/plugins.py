"""Smaller admission plugins: StorageClasses, namespaces, ServiceAccounts, owner references, escalation."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import random
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import orjson

from devcluster.access.rbac import Attributes, RbacAuthorizer, Rule
from devcluster.api.interfaces import AdmissionInfo
from devcluster.builtin.checks import value_of
from devcluster.errors import StatusError, forbidden, not_found
from devcluster.kinds.registry import Registry
from devcluster.quantity import quoted
from devcluster.storage.records import Change, Key
from devcluster.storage.store import Store

_DEFAULT = "storageclass.kubernetes.io/is-default-class"
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"


class Plugin:
    """Admission plugin, which may complete an object or refuse a write if `concerns` returns true."""

    def concerns(self, info: AdmissionInfo) -> bool:
        """Return whether the plugin may apply to the write. The check is fast, and False for most writes."""
        raise NotImplementedError

    async def complete(self, info: AdmissionInfo) -> None:
        """Fill in defaults; calling this again changes nothing. Raises StatusError to deny the write."""

    def check(self, info: AdmissionInfo) -> None:
        """Raise StatusError to deny the write."""


class StorageClasses(Plugin):
    """Admission plugin that sets a claim's default StorageClass, and checks that it allows expansion."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def concerns(self, info: AdmissionInfo) -> bool:
        return info.creates("persistentvolumeclaims") or info.updates("persistentvolumeclaims")

    async def complete(self, info: AdmissionInfo) -> None:
        """Set the default StorageClass of a new claim, if one exists; of several defaults, use the newest."""
        if info.operation != "CREATE" or info.obj is None:
            return
        spec = info.obj.setdefault("spec", {})
        annotations = info.obj["metadata"].get("annotations") or {}
        if spec.get("storageClassName") is not None or _OLD_CLASS in annotations:
            return
        classes = []
        for stored in self._store.select("storage.k8s.io", "storageclasses"):
            metadata = stored.decode()["metadata"]
            if (metadata.get("annotations") or {}).get(_DEFAULT) == "true":
                classes.append((metadata["creationTimestamp"], metadata["name"]))
        if classes:
            newest = max(created for created, _ in classes)
            spec["storageClassName"] = min(name for created, name in classes if created == newest)

    def check(self, info: AdmissionInfo) -> None:
        """Refuse a larger storage request of a claim unless its StorageClass allows expansion."""
        before, after = _spec(info.old), _spec(info.obj)
        if info.operation != "UPDATE" or _storage(after) <= _storage(before):
            return
        name = after.get("storageClassName")
        stored = self._store.get(Key("storage.k8s.io", "storageclasses", "", name)) if name else None
        if stored is None or not stored.decode().get("allowVolumeExpansion"):
            raise info.refusal(
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc"
                " must support resize"
            )


def _spec(claim: dict[str, Any] | None) -> dict[str, Any]:
    return (claim or {}).get("spec") or {}


def _storage(spec: dict[str, Any]) -> Fraction:
    return value_of(((spec.get("resources") or {}).get("requests") or {}).get("storage", 0))


_IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
_FREE = "localsubjectaccessreviews.authorization.k8s.io"
"""The resource that is accepted even in a missing namespace, because its response reveals nothing."""


class NamespaceLifecycle:
    """Admission plugin that checks the namespace of each write."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._terminating: set[str] = set()
        for stored in store.select("", "namespaces"):
            self._follow(Change(stored.version, stored.key, None, stored))
        store.subscribe(self._follow)

    def objects_to(self, info: AdmissionInfo) -> bool:
        """Return whether `check` would refuse the write."""
        return self._problem(info) is not None

    def check(self, info: AdmissionInfo) -> None:
        """Refuse writes in a missing namespace, creates in a terminating one, and deletes of system ones."""
        problem = self._problem(info)
        if problem is not None:
            raise problem

    def _problem(self, info: AdmissionInfo) -> StatusError | None:
        resource = info.resource
        if resource.name == "namespaces":
            if info.operation == "DELETE" and not info.subresource and info.name in _IMMORTAL:
                return forbidden("", "namespaces", info.name, "this namespace may not be deleted")
            return None
        namespace = info.namespace
        if not namespace or info.operation in {"DELETE", "CONNECT"} or resource.name == _FREE:
            return None
        if self._store.get(Key("", "namespaces", "", namespace)) is None:
            return not_found("", "namespaces", namespace)
        if info.operation == "CREATE" and namespace in self._terminating:
            text = f"unable to create new content in namespace {namespace} because it is being terminated"
            refusal = info.refusal(text)
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            refusal.details["causes"] = [cause]
            return refusal
        return None

    def _follow(self, change: Change) -> None:
        if change.key[:2] != ("", "namespaces"):
            return
        stored = change.new
        if stored is not None and orjson.loads(stored.data).get("status", {}).get("phase") == "Terminating":
            self._terminating.add(change.key.name)
        else:
            self._terminating.discard(change.key.name)


Object = dict[str, Any]

_MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
_TOKEN_LIFE = 3607
_ATTEMPTS = 10
_PAUSE = 0.1
"""Seconds between checks for a new namespace's default account."""


class ServiceAccounts(Plugin):
    """Admission plugin that gives every pod a ServiceAccount and its token."""

    def __init__(self, store: Store, rng: random.Random) -> None:
        self._store = store
        self._rng = rng

    def concerns(self, info: AdmissionInfo) -> bool:
        return info.creates("pods")

    async def complete(self, info: AdmissionInfo) -> None:
        """Set the ServiceAccount and token of a new pod; raise StatusError if the account does not exist."""
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
        """Mount the token volume in each container that has no other mount at the token's path."""
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


_GROUP = "rbac.authorization.k8s.io"
_ROLES, _BINDINGS = ("roles", "clusterroles"), ("rolebindings", "clusterrolebindings")
_ALMIGHTY = "system:masters"
_FULL = (
    Rule(verbs=("*",), groups=("*",), resources=("*",)),
    Rule(verbs=("*",), paths=("*",)),
)
_NOT_GRANTED = ("ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation")
"""Metadata that may change even if the role grants more than its writer may do."""


class Escalation(Plugin):
    """Admission plugin that refuses roles and bindings with more rights than their writer has.

    A writer who may `escalate` or `bind` the role needs no further rights.
    """

    def __init__(self, authorizer: RbacAuthorizer) -> None:
        self._authorizer = authorizer

    def concerns(self, info: AdmissionInfo) -> bool:
        return (
            info.resource.group == _GROUP
            and info.obj is not None
            and info.operation in ("CREATE", "UPDATE")
            and info.resource.plural in (*_ROLES, *_BINDINGS)
            and _ALMIGHTY not in info.user.groups
        )

    def check(self, info: AdmissionInfo) -> None:
        obj, old = info.obj, info.old
        if obj is None or (old is not None and _granted(obj) == _granted(old)):
            return
        if info.resource.plural in _BINDINGS:
            role = obj["roleRef"]
            plural = "roles" if role["kind"] == "Role" else "clusterroles"
            if self._may(info, "bind", plural, role["name"]):
                return
            rules, problem = self._authorizer.rules_of_role(role, info.namespace)
            if problem:
                raise not_found(_GROUP, info.resource.plural, role["name"])
            self._confirm(info, rules)
        elif not self._may(info, "escalate", info.resource.plural, info.name if old is not None else ""):
            self._confirm(info, map(Rule.of, obj.get("rules") or ()))
            if obj.get("aggregationRule") or (old or {}).get("aggregationRule"):
                why = "must have cluster-admin privileges to use the aggregationRule"
                self._confirm(info, _FULL, otherwise=why)

    def _may(self, info: AdmissionInfo, verb: str, plural: str, name: str) -> bool:
        wanted = Attributes(
            verb=verb, group=_GROUP, version="*", resource=plural, namespace=info.namespace, name=name
        )
        return self._authorizer.authorize(info.user, wanted).allowed

    def _confirm(self, info: AdmissionInfo, rules: Iterable[Rule], otherwise: str = "") -> None:
        held, problem = self._authorizer.rules_of(info.user, info.namespace)
        missing = [
            part for rule in rules for part in rule.parts() if not any(each.covers(part) for each in held)
        ]
        if not missing:
            return
        groups = " ".join(map(quoted, info.user.groups))
        why = (
            f"user {quoted(info.user.name)} (groups=[{groups}]) is attempting to grant RBAC permissions not "
            "currently held:\n" + "\n".join(sorted({str(each) for each in _compact(missing)}))
        )
        if problem:
            why += f"; resolution errors: [{problem}]"
        raise info.refusal(otherwise or why)


def _granted(obj: dict[str, Any]) -> dict[str, Any]:
    compared = copy.copy(obj)
    compared["metadata"] = {
        name: value for name, value in obj["metadata"].items() if name not in _NOT_GRANTED
    }
    return compared


def _compact(parts: Iterable[Rule]) -> Iterable[Rule]:
    """Merge rules for the same resource into one rule with all their verbs."""
    verbs: dict[tuple[object, ...], tuple[Rule, list[str]]] = {}
    for part in parts:
        of = (part.groups, part.resources, part.names, part.paths, part.paths and part.verbs)
        verbs.setdefault(of, (part, []))[1].extend(part.verbs)
    for part, wanted in verbs.values():
        yield dataclasses.replace(part, verbs=tuple(wanted))


_ANYTHING = Attributes(
    verb="update", group="*", version="*", resource="*", subresource="finalizers", name="*"
)
"""Users with this permission may set finalizers on every object."""


class OwnerReferences(Plugin):
    """Admission plugin that checks the user's rights to change owner references.

    An object is deleted with its owners, so a change of owners needs the right to delete the object. A
    reference that blocks the owner's deletion acts like a finalizer of the owner, so it needs the right to
    set the owner's finalizers.
    """

    def __init__(self, authorizer: RbacAuthorizer, registry: Registry) -> None:
        self._authorizer = authorizer
        self._registry = registry

    def concerns(self, info: AdmissionInfo) -> bool:
        if info.obj is None or (info.resource.name == "pods" and info.subresource == "status"):
            return False
        return _owners(info.obj) != _owners(info.old)

    def check(self, info: AdmissionInfo) -> None:
        resource = info.resource
        if info.operation != "CREATE":
            self._require(
                info,
                Attributes(
                    verb="delete",
                    group=resource.group,
                    version=resource.version,
                    resource=resource.plural,
                    subresource=info.subresource,
                    namespace=info.namespace,
                    name=info.name,
                ),
                "cannot set an ownerRef on a resource you can't delete",
            )
        blocking = list(_newly_blocking(info))
        if not blocking or self._authorizer.authorize(info.user, _ANYTHING).allowed:
            return
        for owner in blocking:
            self._check_blocking(info, owner)

    def _check_blocking(self, info: AdmissionInfo, owner: Object) -> None:
        api_version, kind = owner.get("apiVersion", ""), owner.get("kind", "")
        group, _, version = api_version.rpartition("/")
        resource = self._registry.of_kind(group, version, kind)
        if resource is None:
            raise info.refusal(
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion "
                f"{api_version} Kind {kind}: no matches for kind {quoted(kind)} in version "
                f"{quoted(api_version)}",
            )
        self._require(
            info,
            Attributes(
                verb="update",
                group=resource.group,
                version=resource.version,
                resource=resource.plural,
                subresource="finalizers",
                namespace=info.namespace if resource.namespaced else "",
                name=owner.get("name", ""),
            ),
            "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set "
            "finalizers on",
        )

    def _require(self, info: AdmissionInfo, wanted: Attributes, otherwise: str) -> None:
        decision = self._authorizer.authorize(info.user, wanted)
        if not decision.allowed:
            raise info.refusal(f"{otherwise}: {decision.reason}, <nil>")


def _owners(obj: Object | None) -> list[Object]:
    if obj is None:
        return []
    return obj.get("metadata", {}).get("ownerReferences") or []


def _newly_blocking(info: AdmissionInfo) -> Iterable[Object]:
    """Yield the owner references whose blockOwnerDeletion becomes true by this write."""
    before = {owner.get("uid"): owner for owner in _owners(info.old)}
    for owner in _owners(info.obj):
        if owner.get("blockOwnerDeletion") and not before.get(owner.get("uid"), {}).get("blockOwnerDeletion"):
            yield owner
