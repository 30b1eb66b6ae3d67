"""Ask a real server the questions of cases.yaml and rows.yaml, and keep its answers in recorded_*.json.

Run by hand, against a throw-away control plane:

    python tests/unit/devcluster/builtin/record.py SERVER TOKEN
"""

from __future__ import annotations

import email.utils
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

    def call(self, method: str, path: str, body: Any = None, accept: str = "application/json") -> Any:
        return self.timed(method, path, body, accept)[0]

    def timed(
        self, method: str, path: str, body: Any = None, accept: str = "application/json"
    ) -> tuple[Any, str]:
        """The answer, and the server's time."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind, "Accept": accept}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self._tls) as answer:
                return json.load(answer), answer.headers["Date"]
        except urllib.error.HTTPError as error:
            return json.load(error), error.headers["Date"]


class Catalogue:
    """Where each resource is, and the namespace that everything is done in."""

    def __init__(self, server: Server, namespace: str) -> None:
        self.namespace = namespace
        self._known: dict[str, tuple[str, Json]] = {}
        groups = [("", "/api/v1")] + [
            (group["name"], f"/apis/{group['preferredVersion']['groupVersion']}")
            for group in server.call("GET", "/apis")["groups"]
        ]
        for group, path in groups:
            for resource in server.call("GET", path)["resources"]:
                name = f"{resource['name']}.{group}" if group else resource["name"]
                self._known[name] = (path, resource)

    def collection(self, name: str) -> str:
        path, resource = self._known[name]
        base = f"{path}/namespaces/{self.namespace}" if resource["namespaced"] else path
        return f"{base}/{resource['name']}"

    def typed(self, name: str, obj: Json) -> Json:
        """`@` stands for the namespace."""
        path, resource = self._known[name]
        version = path.removeprefix("/apis/").removeprefix("/api/")
        text = json.dumps(obj).replace('"@"', json.dumps(self.namespace))
        return {"apiVersion": version, "kind": resource["kind"], **json.loads(text)}


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


def strip(obj: Json | None) -> None:
    if obj and obj.get("kind") != "Status":
        obj["metadata"].pop("managedFields", None)


def answers(server: Server, catalogue: Catalogue) -> list[Json]:
    """Of cases.yaml."""
    recorded = []
    for case in yaml.safe_load((HERE / "cases.yaml").read_text()):
        base = catalogue.collection(case["resource"])
        sent = catalogue.typed(case["resource"], case["create"])
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
            strip(each)
        recorded.append(entry)
    return recorded


def rows(server: Server, catalogue: Catalogue) -> list[Json]:
    """Of rows.yaml."""
    recorded = []
    for number, case in enumerate(yaml.safe_load((HERE / "rows.yaml").read_text())):
        base = catalogue.collection(case["resource"])
        sent = catalogue.typed(case["resource"], case["object"])
        name = sent.setdefault("metadata", {})["name"] = f"recorded-{number}"
        one = f"{base}/{name}"
        made = server.call("POST", base, sent)
        if made["kind"] == "Status":
            raise SystemExit(f"{case}: {made['message']}")
        if "status" in case:
            made = server.call("PATCH", f"{one}/status", {"status": case["status"]})
            if made["kind"] == "Status":
                raise SystemExit(f"{case}: {made['message']}")
        if case.get("deleted"):
            server.call("DELETE", one)
        table, now = server.timed(
            "GET", f"{one}?includeObject=Object", accept="application/json;as=Table;v=v1;g=meta.k8s.io"
        )
        (row,) = table["rows"]
        strip(row["object"])
        columns = [
            [each["name"], each["type"], each["format"], each["priority"]]
            for each in table["columnDefinitions"]
        ]
        moment = email.utils.parsedate_to_datetime(now).strftime("%Y-%m-%dT%H:%M:%SZ")
        recorded.append({"resource": case["resource"], "now": moment, "columns": columns, **row})
        server.call("PATCH", one, {"metadata": {"finalizers": None}})
        server.call("DELETE", f"{one}?gracePeriodSeconds=0")
    return recorded


def keep(name: str, recorded: list[Json]) -> None:
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in recorded)
    (HERE / name).write_text(f"[\n{lines}\n]\n")


def main(url: str, token: str) -> None:
    server = Server(url, token)
    namespace = f"recorded-{uuid.uuid4().hex[:5]}"
    server.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    while server.call("GET", account)["kind"] == "Status":
        time.sleep(0.1)
    catalogue = Catalogue(server, namespace)
    keep("recorded_answers.json", answers(server, catalogue))
    keep("recorded_rows.json", rows(server, catalogue))
    server.call("DELETE", f"/api/v1/namespaces/{namespace}")


if __name__ == "__main__":
    main(*sys.argv[1:])
