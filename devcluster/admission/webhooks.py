"""Calls of the webhooks that match a write, and the application of their responses."""

from __future__ import annotations

import asyncio
import random
import uuid
from typing import Any

from devcluster.admission.client import WebhookClient, WebhookFailed
from devcluster.admission.configuration import Configuration, Hook, Invocation
from devcluster.admission.review import Verdict, denial, make_review, read_answer
from devcluster.api.interfaces import AdmissionInfo, add_warning
from devcluster.errors import StatusError, bad_request, internal_error
from devcluster.kinds.resource import Resource
from devcluster.patch.json_patch import apply_operations
from devcluster.patch.shape import is_builtin
from devcluster.quantity import quoted
from devcluster.types.codec import DecodeError
from devcluster.types.decode import convert

Object = dict[str, Any]

_KNOWN_VERSIONS = ("v1", "v1beta1")
_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


class Webhooks:
    """Caller of webhooks: mutating ones run one after the other, validating ones at the same time."""

    def __init__(self, configuration: Configuration, client: WebhookClient, rng: random.Random) -> None:
        self._configuration = configuration
        self._client = client
        self._rng = rng

    async def mutate(self, info: AdmissionInfo) -> bool:
        """Let every mutating webhook change `info.obj`; return whether one did.

        Webhooks with `reinvocationPolicy: IfNeeded` are called a second time if a later webhook changed the
        object.

        Raises:
            StatusError: a webhook denied the write, or failed with failure policy Fail.
        """
        seen: list[Hook] = []
        again: list[Hook] = []
        changed = False
        for hook in self._configuration.hooks(mutating=True):
            done = await self._mutate_by(hook, info)
            if done:
                changed = True
                again += [each for each in seen if each not in again]
            if done is not None and hook.reinvocable:
                seen.append(hook)
        for hook in self._configuration.hooks(mutating=True):
            if hook in again and await self._mutate_by(hook, info):
                # A change by a reinvoked webhook also reinvokes the reinvocable webhooks after it.
                again += [each for each in seen if each not in again]
        return changed

    async def validate(self, info: AdmissionInfo) -> None:
        """Call all matching validating webhooks concurrently; raise StatusError with the first denial."""
        invocations = []
        for hook in self._configuration.hooks(mutating=False):
            invocation = await self._invocation(hook, info, mutating=False)
            if invocation is not None:
                invocations.append(invocation)
        if not invocations:
            return
        results = await asyncio.gather(
            *(self._ask(each, info, mutating=False) for each in invocations), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _invocation(
        self, hook: Hook, info: AdmissionInfo, *, mutating: bool
    ) -> Invocation[Hook] | None:
        invocation = self._configuration.match(hook, info)
        if invocation is None:
            return None
        try:
            invocation.obj = await converted(info.obj, info.resource, invocation.resource)
            invocation.old = await converted(info.old, info.resource, invocation.resource)
        except StatusError as error:  # this error ignores the failure policy
            # For mutating webhooks the real server's message repeats "internal error".
            text = internal_error(error.message).message if mutating else error.message
            raise internal_error(text) from error
        if hook.conditions:
            review = make_review("", "v1", info, invocation)
            if not hook.conditions.hold(review["request"], info):
                return None
        return invocation

    async def _mutate_by(self, hook: Hook, info: AdmissionInfo) -> bool | None:
        """Let a webhook change `info.obj`, and return whether it did; None if the webhook does not match."""
        invocation = await self._invocation(hook, info, mutating=True)
        if invocation is None:
            return None
        verdict = await self._ask(invocation, info, mutating=True)
        if verdict is None or not verdict.patch:
            return False
        if invocation.obj is None:
            raise internal_error(
                f"admission webhook {quoted(hook.name)} attempted to modify the object, which is not "
                "supported for this operation"
            )
        patched = patched_by(invocation.obj, verdict.patch)
        if patched == invocation.obj:
            return False
        resource = invocation.resource
        if (invocation.kind[0], invocation.kind[2]) == (resource.group, resource.kind):
            patched = decode_patched(patched, resource)
            if resource.custom:
                resource.strategy.default(patched)
        info.obj = await converted(patched, resource, info.resource)
        return True

    async def _ask(
        self, invocation: Invocation[Hook], info: AdmissionInfo, *, mutating: bool
    ) -> Verdict | None:
        """Call the webhook and return its decision; None if it failed and its failure policy is Ignore."""
        hook = invocation.hook
        if info.dry_run and hook.side_effects:
            raise bad_request(f"admission webhook {quoted(hook.name)} does not support dry run")
        try:
            verdict = await self._call(invocation, info, mutating=mutating)
        except WebhookFailed as error:
            if hook.ignores_failure:
                return None
            raise internal_error(f"failed calling webhook {quoted(hook.name)}: {error}") from error
        for text in verdict.warnings:
            add_warning(info.warnings, text)
        if not verdict.allowed:
            raise denial(hook, verdict.status)
        return verdict

    async def _call(self, invocation: Invocation[Hook], info: AdmissionInfo, *, mutating: bool) -> Verdict:
        hook = invocation.hook
        version = next((each for each in hook.versions if each in _KNOWN_VERSIONS), "")
        if not version:
            raise WebhookFailed(
                "could not create admission objects: webhook does not accept known AdmissionReview versions "
                "(v1, v1beta1)"
            )
        uid = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        review = make_review(uid, version, info, invocation)
        try:
            answer = await self._client.call(hook.client_config, review, hook.timeout)
        except WebhookFailed as error:
            raise WebhookFailed(f"failed to call webhook: {error}") from error
        return read_answer(answer, uid, version, mutating=mutating)


def patched_by(obj: Object, operations: list[Object]) -> Object:
    """Apply the JSON patch; raise StatusError with the name of the operation that fails."""

    def refusal(operation: Object, before: Object, why: str) -> StatusError:
        return internal_error(why or _why_not(operation, before))

    patched: Object = apply_operations(obj, operations, refusal)
    return patched


def _why_not(operation: Object, obj: Object) -> str:
    path = str(operation.get("path", ""))
    match operation.get("op"):
        case "copy" | "move" as kind:
            return _why_not_from(kind, operation, obj)
        case "add":
            return f"add operation does not apply: doc is missing path: {quoted(path)}: missing value"
        case "remove":
            above, _, key = path.rpartition("/")
            if not _is_there(obj, above):
                return f"remove operation does not apply: doc is missing path: {quoted(path)}: missing value"
            return (
                f"error in remove for path: '{path}': Unable to remove nonexistent key: {key}: missing value"
            )
        case "replace":
            return f"replace operation does not apply: doc is missing key: {path}: missing value"
        case "test":
            return f"testing value {path} failed: test failed"
        case kind:
            return f"Unexpected kind: {kind}"


def _why_not_from(kind: str, operation: Object, obj: Object) -> str:
    path, source = str(operation.get("path", "")), operation.get("from")
    if not isinstance(source, str):
        return f"{kind} operation failed to decode from: operation, missing from field: missing value"
    above, _, key = source.rpartition("/")
    if not _is_there(obj, above):
        return f"{kind} operation does not apply: doc is missing from path: {source}: missing value"
    if kind == "move" and _is_there(obj, path.rpartition("/")[0]):
        return f"error in move for path: '{key}': Unable to remove nonexistent key: {key}: missing value"
    return f"{kind} operation does not apply: doc is missing destination path: {path}: missing value"


def _is_there(value: Any, path: str) -> bool:
    """Return whether a value exists in the document at a JSON pointer."""
    for step in path.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        elif isinstance(value, dict) and name in value:
            value = value[name]
        else:
            return False
    return True


def decode_patched(obj: Object, resource: Resource) -> Object:
    """Decode a patched object of a built-in kind as Go would; drop undecodable metadata of a custom object.

    Raises:
        StatusError: the patch changed the kind, or made the object undecodable.
    """
    given = (obj.get("apiVersion"), obj.get("kind"))
    if given != (resource.api_version, resource.kind):
        version, internal = str(given[0]).rpartition("/")[2], resource.group.partition(".")[0] or "core"
        text = f"converting ({version}.{given[1]}) to ({internal}.{resource.kind}): unknown conversion"
        raise StatusError(500, "", text)
    if not is_builtin(resource.schema):
        if not isinstance(obj.get("metadata"), dict):
            raise internal_error("system metadata was not initialized")
        return {**obj, "metadata": dict(filter(_is_metadata, obj["metadata"].items()))}
    try:
        return convert(obj, resource.schema.openapi_name)[0]
    except DecodeError as error:
        raise internal_error(str(error)) from error


def _is_metadata(field: tuple[str, Any]) -> bool:
    try:
        convert(dict([field]), _OBJECT_META)
    except DecodeError:
        return False
    return True


async def converted(obj: Object | None, have: Resource, want: Resource) -> Object | None:
    """Convert an object from version `have` of a resource to version `want`; None stays None."""
    api_version = want.api_version
    if obj is None or have is want or obj.get("apiVersion") != have.api_version:
        return obj
    if have.convert is None:
        return {**obj, "apiVersion": api_version}
    (converted,) = await have.convert([obj], api_version)
    return converted
