"""Answers of an API server to CRDs and objects, of the synthetic corpus or of a folder (`make corpus`).

Each CRD is created. Each object is created as a dry run, and then applied. The result has answers, warnings,
stored objects, table columns and rows, and the schemas that `kubectl explain` shows.
"""

from __future__ import annotations

import http
import json
import re
import time
from collections.abc import Mapping
from typing import Any

from tests.conformance.mask import Mask
from tests.recordings import load_cases
from tests.recordings.asking import CRDS, NAMESPACE, Answer, Server
from tests.recordings.change import change

Json = dict[str, Any]

CONSTRUCTS = "corpus/constructs"
DEFINITION = "CustomResourceDefinition"
STRICT = {"fieldValidation": "Strict"}
DRY = {"dryRun": "All", **STRICT}
APPLY = {"fieldManager": "corpus", "force": "true", **STRICT}
APPLY_TYPE = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
# Objects that change the server's answers about other objects.
TRIED_ONLY = frozenset(
    {
        "APIService", "LimitRange", "MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration",
        "Namespace", "ResourceQuota", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration",
    }
)  # fmt: skip
UNTYPED = re.compile(r"failed to create typed patch object \([^)]*\): (errors:\n)?")
UNDECLARED = "field not declared in schema"
# API groups in which a CRD needs an annotation with an approval.
PROTECTED = (".k8s.io", ".kubernetes.io")
PATIENCE = 60.0


def construct_cases() -> dict[str, Json]:
    """Return the CRDs and objects of the synthetic corpus by name."""
    return {f"{each['kind']} {each['metadata']['name']}": each for each in load_cases(CONSTRUCTS)}


def record_constructs(server: Server) -> Json:
    """Run the synthetic corpus; return each answer as a difference from the manifest or the former answer."""
    cases = construct_cases()
    found = examine(server, cases)
    for each in cases.values():
        if is_definition(each):
            server.ask("DELETE", f"{CRDS}/{each['metadata']['name']}")
    return {name: _shortened(cases[name], each) for name, each in found.items()}


def _shortened(manifest: Json, found: Json) -> Json:
    short = {**found}
    for step, before in (("applied", "created"), ("forced", "applied")):
        if step in found and found[step] == found[before]:
            short[step] = f"as {before}"
    for step in ("created", "applied"):
        if isinstance(short.get(step), dict) and short[step]["code"] < http.HTTPStatus.BAD_REQUEST:
            short[step] = {**short[step], "body": change(manifest, short[step]["body"])}
    if "stored" in found:
        short["stored"] = change(found["created"]["body"], found["stored"])
    if "explained" in found:
        schemas = {each["name"]: each["schema"]["openAPIV3Schema"] for each in manifest["spec"]["versions"]}
        short["explained"] = {name: change(schemas[name], each) for name, each in found["explained"].items()}
    return short


def examine(server: Server, manifests: Mapping[str, Json]) -> Json:
    """Return the server's answers to the manifests by manifest name."""
    found: Json = {}
    made: dict[str, str] = {}
    for name, each in manifests.items():
        if is_definition(each) and each["metadata"]["name"] not in made:
            made[each["metadata"]["name"]] = name
            found[name] = _create_definition(server, each)
    for name in made.values():
        if found[name].get("kept") == http.HTTPStatus.CREATED:
            found[name]["stored"] = _established(server, manifests[name])
    resources = _Resources(server)
    for name, each in manifests.items():
        if not is_definition(each):
            found[name] = _examine_object(server, resources, each)
    for name in made.values():
        if "stored" in found[name]:
            found[name]["explained"] = _explained(server, manifests[name])
    return {name: found[name] for name in manifests if name in found}


def is_definition(manifest: Json) -> bool:
    """Return whether the manifest is a CRD."""
    return manifest["kind"] == DEFINITION and manifest["apiVersion"] == "apiextensions.k8s.io/v1"


def _create_definition(server: Server, definition: Json) -> Json:
    """Dry-run the CRD, then create it without its conversion webhook, because no server listens there."""
    tried = _shown(server.ask("POST", CRDS, definition, query=DRY))
    if tried["code"] >= http.HTTPStatus.BAD_REQUEST:
        return {"created": tried}
    spec = {key: each for key, each in definition["spec"].items() if key != "conversion"}
    kept = server.ask("POST", CRDS, {**definition, "spec": spec})
    return {"created": tried, "kept": kept.status}  # a large CRD may not fit into the store


def _established(server: Server, definition: Json) -> Any:
    """Wait until the CRD is established, served and in discovery; return the CRD."""
    spec, one = definition["spec"], f"{CRDS}/{definition['metadata']['name']}"
    wanted = {"Established", "NamesAccepted"}
    if spec["group"].endswith(PROTECTED):
        wanted.add("KubernetesAPIApprovalPolicyConformant")
    server.until(one, lambda answer: wanted <= _conditions(answer).keys() and _is_settled(answer))
    found = server.ask("GET", one)
    if _conditions(found)["Established"] == "True":
        plural = spec["names"]["plural"]
        for version in (each["name"] for each in spec["versions"] if each.get("served")):
            path = f"/apis/{spec['group']}/{version}"
            server.until(path, lambda answer: plural in _resource_names(answer))
            server.until(f"{path}/{plural}", lambda answer: answer.status == http.HTTPStatus.OK)
    return _shown(found)["body"]


def _resource_names(answer: Answer) -> list[str]:
    resources = answer.value["resources"] if answer.status == http.HTTPStatus.OK else ()
    return [each["name"] for each in resources]


def _conditions(answer: Answer) -> dict[str, str]:
    conditions = (answer.value.get("status") or {}).get("conditions") or ()
    return {each["type"]: each["status"] for each in conditions}


def _is_settled(answer: Answer) -> bool:
    conditions = _conditions(answer)
    return conditions["Established"] == "True" or conditions["NamesAccepted"] == "False"


def _explained(server: Server, definition: Json) -> Json:
    """Return the schema of each version, as the server publishes it."""
    group, kind = definition["spec"]["group"], definition["spec"]["names"]["kind"]
    found = {}
    for version in (each["name"] for each in definition["spec"]["versions"] if each.get("served")):
        deadline = time.monotonic() + PATIENCE
        while not (schema := _published(server, group, version, kind)) and time.monotonic() < deadline:
            time.sleep(0.05)
        found[version] = schema
    return found


def _published(server: Server, group: str, version: str, kind: str) -> Any:
    answer = server.ask("GET", f"/openapi/v3/apis/{group}/{version}")
    schemas = (
        answer.value.get("components", {}).get("schemas", {}) if answer.status == http.HTTPStatus.OK else {}
    )
    asked = {"group": group, "version": version, "kind": kind}
    named = (each for each in schemas.values() if asked in each.get("x-kubernetes-group-version-kind", ()))
    return _without_own_texts(next(named, None))


def _without_own_texts(schema: Any) -> Any:
    """Remove the descriptions of fields that every kind has, because devcluster has its own texts."""
    if isinstance(schema, list):
        return [_without_own_texts(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _without_own_texts(each) for key, each in schema.items()}
    for name in ("apiVersion", "kind", "metadata"):
        if isinstance(field := found.get("properties", {}).get(name), dict):
            field.pop("description", None)
    return found


class _Resources:
    """API paths of kinds, from the server's discovery."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._found: dict[str, list[Json]] = {}
        self._namespaces = {NAMESPACE}

    def collection(self, manifest: Json) -> str | None:
        """Return the path of the object's collection, or None if the server does not have its kind."""
        version = str(manifest["apiVersion"])
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if version not in self._found:
            answer = self._server.ask("GET", base)
            self._found[version] = (
                answer.value.get("resources", []) if answer.status == http.HTTPStatus.OK else []
            )
        for each in self._found[version]:
            if each["kind"] == manifest["kind"] and "/" not in each["name"]:
                if not each["namespaced"]:
                    return f"{base}/{each['name']}"
                return f"{base}/namespaces/{self._namespace(manifest)}/{each['name']}"
        return None

    def _namespace(self, manifest: Json) -> str:
        name = str(manifest["metadata"].get("namespace") or NAMESPACE)
        if name not in self._namespaces:
            self._namespaces.add(name)
            self._server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
            accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
            self._server.ask("POST", accounts, {"metadata": {"name": "default"}})
        return name


def _examine_object(server: Server, resources: _Resources, manifest: Json) -> Json:
    collection = resources.collection(manifest)
    if collection is None:
        return {"created": "no such kind"}
    one = f"{collection}/{manifest['metadata']['name']}"
    found: Json = {"created": _shown(server.ask("POST", collection, manifest, query=DRY))}
    if manifest["kind"] in TRIED_ONLY:
        return found
    text = json.dumps(manifest, ensure_ascii=False)
    found["applied"] = _shown(server.ask("PATCH", one, text, media=APPLY_TYPE, query=APPLY))
    if found["applied"]["code"] >= http.HTTPStatus.BAD_REQUEST:
        lax = {**APPLY, "fieldValidation": "Ignore"}
        found["forced"] = _shown(server.ask("PATCH", one, text, media=APPLY_TYPE, query=lax))
    found["shown"] = _shown(server.ask("GET", one, accept=TABLE, query={"includeObject": "None"}))
    return found


def _shown(answer: Answer) -> Json:
    """Return an answer without values that differ between servers, such as UIDs and times."""
    body = Mask({}, unversioned=True).value(answer.value)
    metadata = body.get("metadata") if isinstance(body, dict) else None
    if isinstance(metadata, dict):
        for key in ("creationTimestamp", "resourceVersion", "uid"):
            metadata.pop(key, None)
    status = body.get("status") if isinstance(body, dict) else None
    if isinstance(status, dict) and status.get("conditions") and "storedVersions" in status:
        status["conditions"].sort(key=lambda each: each["type"])
    if isinstance(status, str) and (causes := (body.get("details") or {}).get("causes")):
        body["details"]["causes"] = {
            field: [each["message"] for each in causes if each.get("field", "") == field]
            for field in sorted({each.get("field", "") for each in causes})
        }
    if isinstance(status, str) and (untyped := UNTYPED.match(body["message"])):
        # The server reports only the first undeclared field, in random order.
        lines = sorted(body["message"][untyped.end() :].split("\n"))
        body["message"] = untyped[0] + ("..." if UNDECLARED in body["message"] else "\n".join(lines))
    found: Json = {"code": answer.status, "body": body}
    if answer.warnings:
        found["warnings"] = sorted(answer.warnings)
    return found
