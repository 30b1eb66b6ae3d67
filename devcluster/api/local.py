"""In-process client of the API server: no HTTP, and no authorization."""

from __future__ import annotations

from typing import Any

import orjson

from devcluster.api.bodies import typed
from devcluster.api.interfaces import Call
from devcluster.api.options import DeleteOptions, WriteOptions
from devcluster.api.patching import MERGE, change_of
from devcluster.api.server import ApiServer
from devcluster.errors import StatusError, not_found
from devcluster.http_call import ApiRequest, User
from devcluster.kinds.resource import Resource
from devcluster.storage.records import Key

Object = dict[str, Any]

MANAGER = "kube-controller-manager"
CONTROLLER = User(f"system:{MANAGER}", ("system:masters", "system:authenticated"))


class LocalClient:
    """A client that reads from the store and writes like a request, with admission and field management.

    Resources are named `pods` or `deployments.apps`; objects have their storage version. Every method may
    raise StatusError.
    """

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._headers = {"user-agent": f"{MANAGER}/devcluster", "content-type": MERGE}

    async def get(self, resource: str, namespace: str, name: str) -> Object:
        """Return the object. Raises StatusError, 404, when it does not exist."""
        found = self.peek(resource, namespace, name)
        if found is None:
            served = self._resource(resource)
            raise not_found(served.group, served.plural, name)
        return found

    def peek(self, resource: str, namespace: str, name: str) -> Object | None:
        """Return the stored object, or None when it does not exist."""
        stored = self._server.store.get(self._call(resource, namespace, name).key)
        return None if stored is None else stored.decode()

    def list(self, resource: str, namespace: str = "") -> list[Object]:
        """Return the stored objects of one namespace; "" means all namespaces."""
        found = self._server.store.select(*self._resource(resource).stored, namespace)
        return [stored.decode() for stored in found]

    async def create(
        self, resource: str, namespace: str, obj: Object, *, name: str = "", subresource: str = ""
    ) -> Object:
        """Create an object; or, with `name` and `subresource`, post to a subresource, such as a binding."""
        if subresource:
            base = self._resource(resource).paths[-1].format(namespace=namespace)
            return await self._send("POST", f"{base}/{name}/{subresource}", obj)
        call = self._call(resource, namespace)
        created = typed(obj, call.resource)[0]
        written = await self._server.writer.create(call, created, WriteOptions(kind="CreateOptions"))
        return written.obj

    async def update(self, resource: str, namespace: str, obj: Object, *, subresource: str = "") -> Object:
        """Replace an object; if `obj` has a resourceVersion, it must be current."""
        call = self._call(resource, namespace, obj["metadata"]["name"], subresource)

        async def change(_: Object | None) -> Object:
            return typed(obj, call.resource)[0]

        options = WriteOptions(kind="UpdateOptions")
        written = await self._server.writer.update(call, change, options, anew=True)
        return written.obj

    async def patch(
        self, resource: str, namespace: str, name: str, patch: Object, *, subresource: str = ""
    ) -> Object:
        """Apply a merge patch."""
        call = self._call(resource, namespace, name, subresource, "PATCH")
        call.request.body = orjson.dumps(patch)
        options = WriteOptions(kind="PatchOptions", field_validation="Ignore")
        written = await self._server.writer.update(
            call, change_of(call, self._server.registry, options, self._server.writer.clock), options
        )
        return written.obj

    async def delete(
        self,
        resource: str,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        propagation: str = "Background",
        grace: int | None = None,
    ) -> None:
        """Delete the object; with `uid`, only an object that has this uid. `grace` is in seconds."""
        options = DeleteOptions(grace=grace, propagation=propagation, uid=uid or None)
        await self._server.deleter.delete(self._call(resource, namespace, name), options)

    def find(self, api_version: str, kind: str, namespace: str, name: str) -> Object | None:
        """Return the stored object of the kind in `api_version`, or None when it does not exist."""
        resource = self._server.registry.of_kind(*_group_version(api_version), kind)
        if resource is None:
            return None
        key = Key(*resource.stored, namespace if resource.namespaced else "", name)
        stored = self._server.store.get(key)
        return None if stored is None else stored.decode()

    async def scale(
        self, api_version: str, kind: str, namespace: str, name: str, *, replicas: int | None = None
    ) -> Object:
        """Return the Scale of an object, after setting its `replicas` if given."""
        group, version = _group_version(api_version)
        resource = self._server.registry.of_kind(group, version, kind)
        if resource is None:
            text = f'no matches for kind "{kind}" in group "{group}"'
            raise StatusError(404, "NotFound", text)
        path = f"{resource.paths[-1].format(namespace=namespace)}/{name}/scale"
        if replicas is None:
            return await self._send("GET", path)
        return await self._send("PATCH", path, {"spec": {"replicas": replicas}})

    async def _send(self, method: str, path: str, body: Object | None = None) -> Object:
        """Make a request as an external client would."""
        media = MERGE if method == "PATCH" else "application/json"
        request = ApiRequest(
            method=method,
            path=path,
            headers={**self._headers, "content-type": media},
            body=b"" if body is None else orjson.dumps(body),
            user=CONTROLLER,
        )
        answer = await self._server.handle(request)
        result: Object = orjson.loads(answer.body)
        if answer.status >= 400:  # noqa: PLR2004 -- a failure
            reason, message = result.get("reason", ""), result.get("message", "")
            raise StatusError(answer.status, reason, message, details=result.get("details"))
        return result

    def _call(
        self, resource: str, namespace: str, name: str = "", subresource: str = "", method: str = ""
    ) -> Call:
        served = self._resource(resource)
        return Call(
            request=ApiRequest(method=method, path="", headers=self._headers, user=CONTROLLER),
            resource=served,
            user=CONTROLLER,
            namespace=namespace if served.namespaced else "",
            name=name,
            subresource=subresource,
        )

    def _resource(self, name: str) -> Resource:
        plural, _, group = name.partition(".")
        versions = self._server.registry.versions(group, plural)
        for served in versions:
            if served.version == served.storage_version:
                return served
        if not versions:
            raise not_found(group, plural, "")
        return versions[0]


def _group_version(api_version: str) -> tuple[str, str]:
    group, _, version = api_version.rpartition("/")
    return group, version
