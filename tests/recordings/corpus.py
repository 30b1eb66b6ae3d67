"""`make corpus DIR=...`: what devcluster and a real API server make of the definitions and objects of a folder.

Each definition is created, each object is created as a trial and then applied. Compared are answers, warnings,
stored bodies, columns and rows, and the schemas that `kubectl explain` shows. `KNOWN` lists differences with reasons.
"""

from __future__ import annotations

import argparse
import fnmatch
import http
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from manager.util.yaml_text import NotYaml, load_all
from tests.conformance.differences import Known, differences
from tests.conformance.mask import Mask
from tests.recordings import load_cases
from tests.recordings.asking import CRDS, NAMESPACE, Answer, Server
from tests.recordings.change import change
from tests.support.control_plane import ControlPlane
from tests.support.devcluster_plane import DevclusterControlPlane
from tests.support.envtest import BARE, EnvtestControlPlane, why_not

__all__ = ["CONSTRUCTS", "construct_cases", "examine", "read_folder", "record_constructs", "unknown"]

Json = dict[str, Any]

CONSTRUCTS = "corpus/constructs"
KNOWN = Path(__file__).with_name("corpus_known.yaml")
DEFINITION = "CustomResourceDefinition"
STRICT = {"fieldValidation": "Strict"}
DRY = {"dryRun": "All", **STRICT}
APPLY = {"fieldManager": "corpus", "force": "true", **STRICT}
APPLY_TYPE = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
# Objects that change what the server makes of the others.
TRIED_ONLY = frozenset(
    {
        "APIService", "LimitRange", "MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration", "Namespace",
        "ResourceQuota", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration",
    }
)  # fmt: skip
SUFFIXES = (".yaml", ".yml", ".json")
UNTYPED = re.compile(r"failed to create typed patch object \([^)]*\): (errors:\n)?")
UNDECLARED = "field not declared in schema"
PATIENCE = 60.0
SHOWN = 3
NUMBER = re.compile(r"\.\d+(?=\.|$)")


def read_folder(folder: Path) -> tuple[dict[str, Json], int]:
    """Return the manifests below a folder by file and number, and how many files are none (templates)."""
    found: dict[str, Json] = {}
    unread = 0
    for path in sorted(each for each in folder.rglob("*") if each.suffix in SUFFIXES and each.is_file()):
        try:
            documents = load_all(path.read_text())
        except (NotYaml, UnicodeDecodeError):
            unread += 1
            continue
        for number, document in enumerate(_flat(documents), 1):
            found[f"{path.relative_to(folder)}#{number}"] = document
    return found, unread


def _flat(documents: Iterable[Any]) -> Iterator[Json]:
    for each in documents:
        if not isinstance(each, dict) or not isinstance(each.get("kind"), str) or "apiVersion" not in each:
            continue
        if each["kind"].endswith("List") and isinstance(each.get("items"), list):
            yield from _flat(each["items"])
        elif isinstance(each.get("metadata"), dict) and isinstance(each["metadata"].get("name"), str):
            yield each


def construct_cases() -> dict[str, Json]:
    """Return the definitions and objects of the synthetic corpus by name."""
    return {f"{each['kind']} {each['metadata']['name']}": each for each in load_cases(CONSTRUCTS)}


def record_constructs(server: Server) -> Json:
    """Examine the synthetic corpus; return of each answer what differs from the manifest or from the step before."""
    cases = construct_cases()
    return {name: _shortened(cases[name], each) for name, each in examine(server, cases).items()}


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
    """Return what an API server makes of the manifests, by their names."""
    found: Json = {}
    made: dict[str, str] = {}
    for name, each in manifests.items():
        if _is_definition(each) and each["metadata"]["name"] not in made:
            made[each["metadata"]["name"]] = name
            found[name] = {"created": _create_definition(server, each)}
    for plural, name in made.items():
        if found[name]["created"]["code"] == http.HTTPStatus.CREATED:
            found[name]["stored"] = _established(server, plural)
    resources = _Resources(server)
    for name, each in manifests.items():
        if not _is_definition(each):
            found[name] = _examine_object(server, resources, each)
    for plural, name in made.items():
        if "stored" in found[name]:
            found[name]["explained"] = _explained(server, manifests[name])
            server.ask("DELETE", f"{CRDS}/{plural}")
    return {name: found[name] for name in manifests if name in found}


def _is_definition(manifest: Json) -> bool:
    return manifest["kind"] == DEFINITION and manifest["apiVersion"] == "apiextensions.k8s.io/v1"


def _create_definition(server: Server, definition: Json) -> Json:
    """Try it as it is, and create it without the webhook that converts: nothing listens there."""
    tried = _shown(server.ask("POST", CRDS, definition, query=DRY))
    spec = {key: each for key, each in definition["spec"].items() if key != "conversion"}
    server.ask("POST", CRDS, {**definition, "spec": spec})
    return tried


def _established(server: Server, name: str) -> Any:
    server.until(f"{CRDS}/{name}", _is_settled)
    return _shown(server.ask("GET", f"{CRDS}/{name}"))["body"]


def _is_settled(answer: Answer) -> bool:
    conditions = (answer.value.get("status") or {}).get("conditions") or ()
    return any(
        each["type"] == "Established"
        and each["status"] == "True"
        or each["type"] == "NamesAccepted"
        and each["status"] == "False"
        for each in conditions
    )


def _explained(server: Server, definition: Json) -> Json:
    """Return each version's schema, as the server publishes it."""
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
    """Leave out the texts of fields that every kind has: devcluster's are its own."""
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
    """The paths of kinds, as the server tells them."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._found: dict[str, list[Json]] = {}
        self._namespaces = {NAMESPACE}

    def collection(self, manifest: Json) -> str | None:
        """Return the path of the object's collection, in an existing namespace; None without such a kind."""
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
    text = json.dumps(manifest)
    found["applied"] = _shown(server.ask("PATCH", one, text, media=APPLY_TYPE, query=APPLY))
    if found["applied"]["code"] >= http.HTTPStatus.BAD_REQUEST:
        lax = {**APPLY, "fieldValidation": "Ignore"}
        found["forced"] = _shown(server.ask("PATCH", one, text, media=APPLY_TYPE, query=lax))
    found["shown"] = _shown(server.ask("GET", one, accept=TABLE, query={"includeObject": "None"}))
    return found


def _shown(answer: Answer) -> Json:
    """Return an answer without what differs between two servers; a success as its body, a failure as its Status."""
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
        # The server walks over a map, and ends at the first field that is not declared.
        lines = sorted(body["message"][untyped.end() :].split("\n"))
        body["message"] = untyped[0] + ("..." if UNDECLARED in body["message"] else "\n".join(lines))
    found: Json = {"code": answer.status, "body": body}
    if answer.warnings:
        found["warnings"] = sorted(answer.warnings)
    return found


def unknown(
    found: Iterable[tuple[str, str]], manifests: Mapping[str, Json], known: Iterable[Known]
) -> tuple[dict[str, list[str]], int]:
    """Return the differences without a reason by kind of difference, and the number of those with one.

    `found` has paths that begin with a manifest's name; `where` of a known difference is a pattern for `Kind/group`.
    """
    groups: dict[str, list[str]] = {}
    excused = 0
    for path, text in found:
        name = max((each for each in manifests if path.startswith(each)), key=len)
        manifest, field = manifests[name], path[len(name) + 1 :]
        where = f"{manifest['kind']}/{str(manifest['apiVersion']).rpartition('/')[0]}"
        if any(
            fnmatch.fnmatchcase(where, each.where) and fnmatch.fnmatchcase(field, each.path) for each in known
        ):
            excused += 1
            continue
        groups.setdefault(f"{where}: {NUMBER.sub('.N', field)}", []).append(text)
    return groups, excused


def main() -> int:
    """Examine the files of a folder on both; return the exit code."""
    parser = argparse.ArgumentParser(prog="make corpus", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="a folder with YAML files: definitions and objects")
    parser.add_argument("--shown", type=int, default=SHOWN, help="differences to print of each kind")
    options = parser.parse_args()
    if problem := why_not():
        print(f"make corpus: {problem}", file=sys.stderr)
        return 2
    if not options.folder.is_dir():
        print(f"make corpus: DIR={options.folder}: there is no such folder", file=sys.stderr)
        return 2
    manifests, unread = read_folder(options.folder)
    kinds = Counter(DEFINITION if _is_definition(each) else "object" for each in manifests.values())
    print(
        f"make corpus: {kinds[DEFINITION]} definitions, {kinds['object']} objects; {unread} files are no YAML",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as scratch:
        real, own = _on_both(Path(scratch), manifests)
    known = [Known(**each) for each in yaml.safe_load(KNOWN.read_text())]
    found = (each for name in real for each in differences(real[name], own[name], name))
    groups, excused = unknown(found, manifests, known)
    for group, texts in sorted(groups.items(), key=lambda each: -len(each[1])):
        print(f"{group}: {len(texts)}")
        print("\n".join(f"    {text}" for text in texts[: options.shown]))
    total = sum(map(len, groups.values()))
    print(
        f"make corpus: {total} differences of {len(groups)} kinds; {excused} others have a reason in {KNOWN.name}"
    )
    return 1 if groups else 0


def _on_both(scratch: Path, manifests: Mapping[str, Json]) -> tuple[Json, Json]:
    planes: list[ControlPlane] = [
        EnvtestControlPlane(scratch / "real", parts=BARE),
        DevclusterControlPlane(scratch / "devcluster", parts=BARE, persistent=False),
    ]

    def run(plane: ControlPlane) -> Json:
        with plane, Server(plane, scratch / f"server-{id(plane)}") as server:
            return examine(server, manifests)

    with ThreadPoolExecutor(len(planes)) as pool:
        real, own = pool.map(run, planes)
    return real, own


if __name__ == "__main__":
    sys.exit(main())
