"""The files of devcluster that depend on the version of Kubernetes; `make record` renews them.

devcluster/types/builtin.json       types, enums, defaults and protobuf numbers of built-in kinds
devcluster/builtin/bootstrap.json   objects that a new API server creates: roles, bindings, priority classes
devcluster/version.py               the version

OpenAPI v3 documents of an API server have the types, formats, enums, list types, patch keys and defaults.
Go modules of the same version, which `go mod download` gets, have the rest: the tags of Go structs have
the JSON names, the omission of empty fields and the protobuf field numbers. generated.proto shows which
named lists are messages. Only these facts are used, not the descriptions.

builtin.json has one type in each line, so that a diff shows what a new version changed. `schema` is the
type's OpenAPI component without descriptions, and `go` is its Go type:

    a list       a struct: [JSON name, Go type, `omitempty` or `omitzero`, protobuf number] for each field; an
                 embedded struct has no JSON name, and the number 0 when it is not in protobuf
    a string     another type by its Go name, with the prefix `items:` if protobuf has the list in a message
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.support.control_plane import ControlPlane

NAME = "devcluster"
"""Name of these files for --only."""
ROOT = Path(__file__).resolve().parents[2] / "devcluster"
TABLE, INITIAL, VERSION = ROOT / "types/builtin.json", ROOT / "builtin/bootstrap.json", ROOT / "version.py"
VERSION_TEXT = """\
\"\"\"Kubernetes version whose behaviour devcluster copies; `make record` writes this file.\"\"\"

from __future__ import annotations

KUBERNETES = "{version}"
"""
AGGREGATION = 30.0
"""Maximum seconds until controllers have filled the aggregated roles."""

MODULES = ("api", "apimachinery", "apiextensions-apiserver", "kube-aggregator")
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
EXTRA_ROOTS = tuple(
    META + name
    for name in (
        "CreateOptions",
        "UpdateOptions",
        "PatchOptions",
        "DeleteOptions",
        "PartialObjectMetadata",
        "PartialObjectMetadataList",
        "Status",
        "TypeMeta",
    )
)
# Types with their own encoding, which the decoder knows.
CUSTOM = {
    "Time",
    "MicroTime",
    "Duration",
    "FieldsV1",
    "Quantity",
    "IntOrString",
    "RawExtension",
    "JSON",
    "JSONSchemaPropsOrBool",
    "JSONSchemaPropsOrArray",
    "JSONSchemaPropsOrStringArray",
}
# Other published types belong to custom kinds, or are not needed.
WANTED = re.compile(
    r"io\.k8s\.(api|apimachinery\.pkg\.(api|apis|runtime|util)|apiextensions-apiserver|kube-aggregator)\."
)
FIELD = re.compile(r"^\t(?:(\w+)\s+)?([^\s`]+)\s+`([^`]*)`")
TAG = re.compile(r'(\w+):"([^"]*)"')
BASIC = {"string", "bool", "int32", "int64", "int", "float64", "byte", "uint8", "uint32", "uint64"}


def renewed(plane: ControlPlane, version: str) -> dict[Path, str]:
    """Return the new content of each file; `plane` must run controllers, and `version` is like `v1.36.3`.

    Raises:
        AssertionError: the Go sources cannot be downloaded, or are not those of the server.
    """
    documents = [plane.api.get("/openapi/v3")]
    paths = [each["serverRelativeURL"] for each in documents[0]["paths"].values()]
    types = builtin_types(map(plane.api.get, paths), Sources(go_modules(version)))
    objects = initial_objects(plane.api.get, json.loads(INITIAL.read_text()))
    text = VERSION_TEXT.format(version=version)
    lines = (f"{json.dumps(name)}:{json.dumps(types[name], separators=(',', ':'))}" for name in sorted(types))
    return {
        TABLE: "{\n" + ",\n".join(lines) + "\n}\n",
        INITIAL: "[\n" + ",\n".join(json.dumps(each, separators=(",", ":")) for each in objects) + "\n]\n",
        VERSION: text,
    }


def go_modules(version: str) -> dict[str, Path]:
    """Return the folders of the Go modules by import path; download missing modules."""
    assert shutil.which("go"), "go is not on the PATH; it downloads the sources of built-in types"
    wanted = [f"k8s.io/{module}@{version.replace('v1.', 'v0.', 1)}" for module in MODULES]
    done = subprocess.run(
        ["go", "mod", "download", "-json", *wanted], cwd="/", capture_output=True, text=True, check=False
    )
    found: dict[str, Path] = {}
    decoder, rest = json.JSONDecoder(), done.stdout.strip()
    while rest:
        module, end = decoder.raw_decode(rest)
        rest = rest[end:].strip()
        assert "Dir" in module, f"go mod download {module['Path']}: {module.get('Error')}"
        found[module["Path"]] = Path(module["Dir"])
    assert len(found) == len(wanted), f"go mod download: {done.stderr.strip()}"
    return found


RBAC = "/apis/rbac.authorization.k8s.io/v1"
INITIAL_KINDS = (
    ("ClusterRole", f"{RBAC}/clusterroles"),
    ("ClusterRoleBinding", f"{RBAC}/clusterrolebindings"),
    ("Role", f"{RBAC}/roles"),
    ("RoleBinding", f"{RBAC}/rolebindings"),
    ("PriorityClass", "/apis/scheduling.k8s.io/v1/priorityclasses"),
)
OF_ONE_SERVER = ("creationTimestamp", "managedFields", "resourceVersion", "uid")


def initial_objects(get: Callable[[str], Any], before: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a new server's objects without UIDs, versions and times, but with descriptions from `before`."""
    deadline = time.monotonic() + AGGREGATION
    while not all(get(f"{RBAC}/clusterroles/{name}").get("rules") for name in ("admin", "edit", "view")):
        assert time.monotonic() < deadline, "the controllers do not fill the aggregated roles"
        time.sleep(0.1)
    texts = {each["metadata"]["name"]: each["description"] for each in before if "description" in each}
    found = []
    for kind, path in INITIAL_KINDS:
        listed = get(path)
        for each in listed["items"]:
            metadata = {key: value for key, value in each["metadata"].items() if key not in OF_ONE_SERVER}
            own = {"apiVersion": listed["apiVersion"], "kind": kind, **each, "metadata": metadata}
            if "description" in own:
                own["description"] = texts.get(metadata["name"], "")
            found.append(own)
    return found


def _without_descriptions(value: Any) -> Any:
    """Return a schema without descriptions; properties that are named `description` stay."""
    if isinstance(value, dict):
        return {
            key: _without_descriptions(item)
            for key, item in value.items()
            if not (key == "description" and isinstance(item, str))
        }
    if isinstance(value, list):
        return [_without_descriptions(item) for item in value]
    return value


def _published(documents: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the components of all OpenAPI documents; components of the same name must be equal."""
    found: dict[str, Any] = {}
    for document in documents:
        for name, schema in document.get("components", {}).get("schemas", {}).items():
            plain = _without_descriptions(schema)
            if name in {META + "DeleteOptions", META + "WatchEvent"}:
                del plain["x-kubernetes-group-version-kind"]
            assert found.setdefault(name, plain) == plain, f"{name} differs between OpenAPI documents"
    return {name: schema for name, schema in found.items() if WANTED.match(name)}


class Sources:
    """The Go types of some modules, parsed when they are needed."""

    def __init__(self, roots: Mapping[str, Path]) -> None:
        """Create the object; `roots` has the folder of each Go module by import path."""
        self._roots = roots
        self._packages: dict[str, dict[str, Any]] = {}

    def go(self, name: str) -> Any:
        """Return the `go` entry of the type with this OpenAPI name, or None."""
        prefix, _, short = name.rpartition(".")
        package = "k8s.io/" + prefix.removeprefix("io.k8s.").replace(".", "/")
        if package not in self._packages:
            self._packages[package] = self._read(package)
        return self._packages[package].get(short)

    def _read(self, package: str) -> dict[str, Any]:
        module = "/".join(package.split("/")[:2])
        folder = self._roots[module] / package.removeprefix(module).strip("/")
        wrapped = set()
        if (proto := folder / "generated.proto").exists():
            wrapped = set(
                re.findall(
                    r"^message (\w+) \{[^}]*^  repeated .* items = 1;", proto.read_text(), re.MULTILINE
                )
            )
        types: dict[str, Any] = {}
        for file in sorted(folder.glob("*.go")):
            if file.name.startswith(("zz_", "generated")) or file.name.endswith("_test.go"):
                continue
            text = re.sub(r"^type \(\n(.*?)^\)", _ungrouped, file.read_text(), flags=re.MULTILINE | re.DOTALL)
            imports = {
                alias or path.rsplit("/", 1)[-1]: path
                for alias, path in re.findall(
                    r'^\s*(?:import )?(\w+)?\s*"(k8s\.io/[^"]+)"$', text, re.MULTILINE
                )
            }
            for short, body in re.findall(r"^type (\w+) struct \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
                types[short] = "custom" if short in CUSTOM else self._struct(body, package, imports)
            types |= {short: [] for short in re.findall(r"^type (\w+) struct ?\{\}$", text, re.MULTILINE)}
            for short, target in re.findall(
                r"^type (\w+) =? ?((?!struct|interface|func)[\w\[\]*.]+)$", text, re.MULTILINE
            ):
                wrap = "items:" if short in wrapped else ""
                types[short] = wrap + self._resolve(target, package, imports)
        return types

    def _struct(self, body: str, package: str, imports: dict[str, str]) -> list[list[Any]]:
        fields = []
        for line in body.splitlines():
            if line.lstrip().startswith("//") or not (match := FIELD.match(line)):
                continue
            tags = dict(TAG.findall(match[3]))
            if "json" not in tags:
                continue
            json_name, *flags = tags["json"].split(",")
            if json_name == "-":
                continue
            number = int(tags["protobuf"].split(",")[1]) if "protobuf" in tags else 0
            omitted = ",".join(flag for flag in flags if flag in {"omitempty", "omitzero"})
            fields.append([json_name, self._resolve(match[2], package, imports), omitted, number])
        return fields

    def _resolve(self, text: str, package: str, imports: dict[str, str]) -> str:
        for prefix in ("*", "[]", "map[string]"):
            if text.startswith(prefix):
                return prefix + self._resolve(text.removeprefix(prefix), package, imports)
        if text.startswith("map["):  # keys of a named string type
            return "map[string]" + self._resolve(text.partition("]")[2], package, imports)
        if text in BASIC:
            return {"int": "int64", "uint8": "byte"}.get(text, text)
        qualifier, dot, short = text.rpartition(".")
        home = imports[qualifier] if dot else package
        return "io.k8s." + home.removeprefix("k8s.io/").replace("/", ".") + "." + short


def _ungrouped(match: re.Match[str]) -> str:
    return re.sub(r"^\t(\w+ )", r"type \1", match[1], flags=re.MULTILINE)


def _referenced(go: Any) -> list[str]:
    """Return the names of the types that a Go type refers to; `go` is its entry in the recorded table."""
    texts = [field[1] for field in go] if isinstance(go, list) else [go]
    return [name for text in texts for name in re.findall(r"io\.k8s\.[\w.-]+", text)]


def builtin_types(documents: Iterable[Mapping[str, Any]], sources: Sources) -> dict[str, dict[str, Any]]:
    """Return the table of types by OpenAPI name, from OpenAPI documents and Go sources."""
    schemas = _published(documents)
    table: dict[str, dict[str, Any]] = {}
    todo = [*EXTRA_ROOTS, *schemas]
    while todo:
        name = todo.pop()
        if name in table:
            continue
        go = sources.go(name)
        assert go is not None, f"no Go type for {name}"
        table[name] = {"schema": schemas[name]} if name in schemas else {}
        table[name]["go"] = go
        todo += _referenced(go)
    return table
