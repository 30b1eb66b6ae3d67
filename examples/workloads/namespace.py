"""The creation, recognition and removal of the program's own namespace."""

from __future__ import annotations

import asyncio
import uuid

from examples.workloads.errors import Failure
from examples.workloads.screen import say
from manager.api import ObjectKey, ObjectMeta
from manager.client import Client
from manager.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    ServerError,
    TooManyRequests,
    TransportError,
)
from manager_kinds.core_v1 import Namespace

__all__ = ["clear_leftovers", "create_namespace", "remove_namespace"]

# A namespace with this label belongs to this program, even if another run created it.
OURS = ("app.kubernetes.io/managed-by", "operator-manager-workloads-example")
# The run that created the namespace: it identifies a successful create whose response was lost.
RUN = "examples.operator-manager/run"

LOOK_EVERY = 0.5
"""Seconds between two checks of the namespace."""


async def clear_leftovers(client: Client, name: str, *, timeout: float) -> None:
    """Delete the namespace of an earlier run. Raises Failure if it belongs to another program."""
    found = await client.uncached.find(Namespace, ObjectKey("", name))
    if found is None:
        return
    label, value = OURS
    if found.metadata.labels.get(label) != value:
        raise Failure(
            f"namespace {name} was not created by this program, because it lacks the label {label}={value}; "
            "choose another name with --namespace"
        )
    if found.metadata.deletion_timestamp is None:
        say(f"namespace {name} is left over from an earlier run: deleting it first")
    else:
        say(f"namespace {name} of an earlier run is still being deleted: waiting for it to go")
    await remove_namespace(client, found, timeout=timeout)


async def create_namespace(client: Client, name: str) -> Namespace:
    """Create the namespace.

    Raises AlreadyExists if another client has created it, and Failure if its creator is unknown.
    """
    label, value = OURS
    run = str(uuid.uuid4())
    wanted = Namespace(metadata=ObjectMeta(name=name, labels={label: value}, annotations={RUN: run}))
    try:
        return await client.create(wanted)
    except (AlreadyExists, ServerError, TransportError) as error:
        # After a broken connection or an internal error, the server may have created the namespace.
        try:
            found = await client.uncached.find(Namespace, wanted.key)
        except ApiError as unread:
            raise Failure(f"it is unknown whether namespace {name} was created: {error}; {unread}") from error
        if found is not None and found.metadata.annotations.get(RUN) == run:
            return found
        raise


async def remove_namespace(client: Client, namespace: Namespace, *, timeout: float) -> None:
    """Delete exactly this namespace and wait until it is gone; retry failed requests.

    Raises Failure after `timeout` seconds, and ApiError if the deletion is not allowed.
    """
    problem = ""
    try:
        async with asyncio.timeout(timeout):
            while True:
                try:
                    found = await client.uncached.find(Namespace, namespace.key)
                    if found is None or found.metadata.uid != namespace.metadata.uid:
                        return
                    if found.metadata.deletion_timestamp is None:
                        await client.delete(found)
                    problem = _what_holds(found)
                except (TransportError, ServerError, TooManyRequests, Conflict) as error:
                    if str(error) != problem:
                        problem = str(error)
                        say(f"deleting namespace {namespace.metadata.name}: {problem}; trying again")
                await asyncio.sleep(LOOK_EVERY)
    except TimeoutError:
        reason = f": {problem}" if problem else ""
        name = namespace.metadata.name
        raise Failure(f"namespace {name} has not gone within {timeout:g}s of being deleted{reason}") from None


def _what_holds(namespace: Namespace) -> str:
    """Return the reasons in the status for which the namespace still exists; "" for none."""
    conditions = namespace.status.get("conditions", ())
    return "; ".join(
        each["message"] for each in conditions if each["status"] == "True" and each.get("message")
    )
