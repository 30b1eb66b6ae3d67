"""A demonstration of the webhooks: they refuse one Pet, and convert another Pet between versions."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

import orjson

from demo.board import DEFAULT, Answer
from devcluster import DevCluster
from devcluster.http_call import ApiRequest, ApiResponse

__all__ = ["WEBHOOKS_WITHIN", "WebhooksSilent", "show_webhooks"]

WEBHOOKS_WITHIN = 30.0
"""The seconds within which the manager must create a certificate and register its webhooks."""

EVERY = 0.1

_GROUP = "petstore.example.com"
_UNBORN = {
    "apiVersion": f"{_GROUP}/v1beta1",
    "kind": "Pet",
    "metadata": {"name": "pet-unborn"},
    "spec": {"name": "Nemo", "species": "cat", "birthday": "2999-01-01"},
}
_OLD = {
    "apiVersion": f"{_GROUP}/v1alpha1",
    "kind": "Pet",
    "metadata": {"name": "pet-old"},
    "spec": {"name": "Rex", "type": "dog", "birthday": "2015-06-30T00:00:00Z"},
}


class WebhooksSilent(Exception):
    """An error: the API server called no webhook in time, or refused a Pet; the message says which."""


async def show_webhooks(cluster: DevCluster) -> list[Answer]:
    """Create a Pet to be refused, and a Pet to be converted; return the responses. Raises WebhooksSilent."""
    try:
        async with asyncio.timeout(WEBHOOKS_WITHIN):
            # No event reports that the API server has begun to call the webhooks, so this code polls.
            while (refusal := await _refusal(cluster)) is None or not _converts(cluster):  # noqa: ASYNC110
                await asyncio.sleep(EVERY)
    except TimeoutError:
        raise WebhooksSilent(f"the API server called no webhook within {WEBHOOKS_WITHIN:g} s") from None
    created = await _send(cluster, "POST", "v1alpha1", body=_OLD)
    if created.status != HTTPStatus.CREATED:
        raise WebhooksSilent(f"a Pet of v1alpha1 is refused: {_message(created)}")
    shown = orjson.loads((await _send(cluster, "GET", "v1beta1", "pet-old")).body)
    return [
        Answer("pet/pet-unborn", "refused", refusal, refused=True),
        Answer("pet/pet-old", "converted", f"{_fields(_OLD, 'type')} -> {_fields(shown, 'species')}"),
    ]


async def _refusal(cluster: DevCluster) -> str | None:
    """Return the API server's reason for refusing a Pet born in the future; None if it accepts the Pet."""
    answer = await _send(cluster, "POST", "v1beta1", body=_UNBORN, dry_run=True)
    if answer.status != HTTPStatus.UNPROCESSABLE_ENTITY:
        return None
    details = orjson.loads(answer.body)["details"]
    causes = [f"{each['field']}: {each['message']}" for each in details["causes"]]
    return f'The {details["kind"]} "{details["name"]}" is invalid: {", ".join(causes)}'


def _converts(cluster: DevCluster) -> bool:
    for stored in cluster.store.select("apiextensions.k8s.io", "customresourcedefinitions"):
        if stored.key.name == f"pets.{_GROUP}":
            way = (stored.decode()["spec"].get("conversion") or {}).get("webhook") or {}
            return "url" in (way.get("clientConfig") or {})
    return False


async def _send(
    cluster: DevCluster,
    method: str,
    version: str,
    name: str = "",
    *,
    body: dict[str, Any] | None = None,
    dry_run: bool = False,
) -> ApiResponse:
    path = f"/apis/{_GROUP}/{version}/namespaces/{DEFAULT}/pets"
    return await cluster.handle(
        ApiRequest(
            method=method,
            path=f"{path}/{name}" if name else path,
            query={"dryRun": ["All"]} if dry_run else {},
            headers={"authorization": f"Bearer {cluster.token}", "content-type": "application/json"},
            body=b"" if body is None else orjson.dumps(body),
        )
    )


def _message(answer: ApiResponse) -> str:
    return str(orjson.loads(answer.body).get("message", answer.status))


def _fields(pet: dict[str, Any], kind_of_animal: str) -> str:
    version, spec = pet["apiVersion"].rpartition("/")[2], pet["spec"]
    return f"{version} {kind_of_animal} {spec[kind_of_animal]} {spec['birthday']}"
