from __future__ import annotations

import asyncio
import json
from typing import Any

from devcluster import DevCluster
from devcluster.http_call import ApiRequest

CONVERSION = "https://devcluster.example.com/convert"


def widgets() -> dict[str, Any]:
    """Return the CRD of a kind in two versions, which the webhook at `CONVERSION` converts."""
    schema = {"openAPIV3Schema": {"type": "object"}}
    versions = [
        {"name": name, "served": True, "storage": name == "v2", "schema": schema} for name in ("v1", "v2")
    ]
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": CONVERSION}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "conversion": {"strategy": "Webhook", "webhook": webhook},
            "versions": versions,
        },
    }


async def test_quota_is_not_exceeded_when_two_creates_wait_for_a_conversion_webhook():
    both_wait = asyncio.Barrier(2)

    async def convert(body: bytes, _timeout: float) -> tuple[int, bytes]:
        await both_wait.wait()
        review = json.loads(body)
        asked = review.pop("request")
        objects = [{**each, "apiVersion": asked["desiredAPIVersion"]} for each in asked["objects"]]
        response = {"uid": asked["uid"], "result": {"status": "Success"}, "convertedObjects": objects}
        return 200, json.dumps({**review, "response": response}).encode()

    async with DevCluster(port=None, controllers=False) as cluster, asyncio.timeout(10):
        cluster.webhooks.here[CONVERSION] = convert
        await cluster.client.create("customresourcedefinitions.apiextensions.k8s.io", "", widgets())
        quota = {"metadata": {"name": "q"}, "spec": {"hard": {"count/widgets.example.com": "1"}}}
        await cluster.client.create("resourcequotas", "default", quota)
        await cluster.client.patch(
            "resourcequotas", "default", "q", {"status": quota["spec"]}, subresource="status"
        )

        async def create(name: str) -> tuple[int, str]:
            widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}}
            path = "/apis/example.com/v1/namespaces/default/widgets"
            headers = {"authorization": f"Bearer {cluster.token}"}
            request = ApiRequest(method="POST", path=path, headers=headers, body=json.dumps(widget).encode())
            answer = await cluster.handle(request)
            return answer.status, json.loads(answer.body).get("message", "")

        answers = sorted(await asyncio.gather(create("a"), create("b")))
        stored = list(cluster.store.select("example.com", "widgets", "default"))
    assert [status for status, _ in answers] == [201, 403]
    assert len(stored) == 1
    used = ", ".join(f"{each}: count/widgets.example.com=1" for each in ("requested", "used", "limited"))
    assert answers[1][1].endswith(f"exceeded quota: q, {used}")
