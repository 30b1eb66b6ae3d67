"""Ask a real server the questions of cases.yaml, and keep its answers in recorded.json.

Run by hand, against a throw-away control plane:

    python tests/unit/devcluster/builtin/record.py SERVER TOKEN
"""

from __future__ import annotations

import json
import pathlib
import ssl
import sys
import time
import urllib.error
import urllib.request
import uuid
from typing import Any

import yaml

HERE = pathlib.Path(__file__).parent
Json = dict[str, Any]


class Server:
    """A real one."""

    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url, token
        # A test server has a certificate of its own.
        self._tls = ssl._create_unverified_context()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self._tls) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return json.load(error)


def merged(target: Any, patch: Any) -> Any:
    """A merge patch."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def placed(value: Any, namespace: str) -> Any:
    """`@` stands for the namespace."""
    return json.loads(json.dumps(value).replace('"@"', json.dumps(namespace)))


def main(url: str, token: str) -> None:
    server = Server(url, token)
    namespace = f"recorded-{uuid.uuid4().hex[:5]}"
    server.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    while (
        not server.call("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/default")
        .get("metadata", {})
        .get("uid")
    ):
        time.sleep(0.1)
    known = {}
    groups = [("", "/api/v1")] + [
        (group["name"], f"/apis/{group['preferredVersion']['groupVersion']}")
        for group in server.call("GET", "/apis")["groups"]
    ]
    for group, path in groups:
        for resource in server.call("GET", path)["resources"]:
            name = f"{resource['name']}.{group}" if group else resource["name"]
            known[name] = (path, resource)
    recorded = []
    for case in yaml.safe_load((HERE / "cases.yaml").read_text()):
        path, resource = known[case["resource"]]
        base = f"{path}/namespaces/{namespace}" if resource["namespaced"] else path
        base = f"{base}/{resource['name']}"
        sent = {"apiVersion": path.removeprefix("/apis/").removeprefix("/api/"), "kind": resource["kind"]}
        sent |= placed(case["create"], namespace)
        entry: Json = {"name": case["name"], "resource": case["resource"]}
        if "change" not in case:
            entry |= {"sent": sent, "answer": server.call("POST", f"{base}?dryRun=All", sent)}
        else:
            server.call("POST", base, sent)
            one = f"{base}/{sent['metadata']['name']}"
            old = server.call("GET", one)
            new = merged(old, case["change"])
            new["metadata"].pop("resourceVersion", None)
            entry |= {"old": old, "sent": new, "answer": server.call("PUT", f"{one}?dryRun=All", new)}
            server.call("DELETE", f"{one}?gracePeriodSeconds=0")
            while server.call("GET", one)["kind"] != "Status":
                time.sleep(0.05)
        for each in (entry.get("old"), entry["sent"], entry["answer"]):
            if each and each.get("kind") != "Status":
                each["metadata"].pop("managedFields", None)
        recorded.append(entry)
    server.call("DELETE", f"/api/v1/namespaces/{namespace}")
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in recorded)
    (HERE / "recorded.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
