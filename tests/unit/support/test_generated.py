"""Generated files of devcluster: what is read of Go sources, OpenAPI documents and a new server's objects."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from devcluster.builtin import jobs, networking, pod_checks, workloads
from devcluster.types.table import choices
from devcluster.version import KUBERNETES
from tests.recordings import versions
from tests.recordings.__main__ import write_generated
from tests.recordings.generated import Sources, builtin_types, initial_objects, renewed
from tests.support.envtest import EnvtestControlPlane, why_not

TYPES = """
package v1

import (
\tmetav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type Shop struct {
\tmetav1.TypeMeta `json:",inline"`
\t// A comment `json:"none"`.
\tSpec ShopSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
\tHidden string `json:"-"`
}

type ShopSpec struct {
\tSizes map[SizeName]*int32 `json:"sizes" protobuf:"bytes,1,rep,name=sizes"`
\tDoors DoorList `json:"doors,omitzero" protobuf:"bytes,4,rep,name=doors"`
}

type (
\tSizeName string
\tDoorList []string
)

type Empty struct{}
"""
PROTO = "message DoorList {\n  // doors\n  repeated string items = 1;\n}\n"
SHOP = "io.k8s.api.shop.v1.Shop"


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    for path, text in {
        "api/shop/v1/types.go": TYPES,
        "api/shop/v1/types_test.go": "type Shop struct {}\n",
        "api/shop/v1/generated.proto": PROTO,
        "apimachinery/pkg/apis/meta/v1/types.go": 'type TypeMeta struct {\n\tKind string `json:"kind"`\n}\n',
    }.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return Sources({f"k8s.io/{module}": tmp_path / module for module in ("api", "apimachinery")})


@pytest.mark.parametrize(
    ("name", "go"),
    [
        (
            SHOP,
            [
                ["", "io.k8s.apimachinery.pkg.apis.meta.v1.TypeMeta", "", 0],
                ["spec", f"{SHOP}Spec", "omitempty", 2],
            ],
        ),
        (
            f"{SHOP}Spec",
            [
                ["sizes", "map[string]*int32", "", 1],
                ["doors", "io.k8s.api.shop.v1.DoorList", "omitzero", 4],
            ],
        ),
        ("io.k8s.api.shop.v1.DoorList", "items:[]string"),
        ("io.k8s.api.shop.v1.SizeName", "string"),
        ("io.k8s.api.shop.v1.Empty", []),
        ("io.k8s.api.shop.v1.Gone", None),
    ],
)
def test_sources_read_a_go_type(sources: Sources, name: str, go: Any):
    assert sources.go(name) == go


def document(**schemas: Any) -> dict[str, Any]:
    return {"components": {"schemas": {f"io.k8s.api.shop.v1.{name}": each for name, each in schemas.items()}}}


@pytest.mark.parametrize(
    ("documents", "told"),
    [
        ([document(Shop={"type": "object"}), document(Shop={"type": "string"})], f"{SHOP} differs"),
        ([document(Window={"type": "object"})], "no Go type for io.k8s.api.shop.v1.Window"),
    ],
)
def test_builtin_types_refuse_documents_that_do_not_fit(
    sources: Sources, documents: list[dict[str, Any]], told: str
):
    with pytest.raises(AssertionError, match=told):
        builtin_types(documents, sources)


def test_initial_objects_have_no_identity_and_keep_our_texts():
    metadata = {"name": "first", "uid": "1", "resourceVersion": "2", "labels": {"a": "b"}}
    classes = [{"metadata": metadata, "value": 1, "description": "the server's text"}]

    def get(path: str) -> Any:
        items = classes if path.endswith("priorityclasses") else []
        return {"apiVersion": "scheduling.k8s.io/v1", "items": items, "rules": [{"verbs": ["get"]}]}

    assert initial_objects(get, [{"metadata": {"name": "first"}, "description": "our text"}]) == [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "first", "labels": {"a": "b"}},
            "value": 1,
            "description": "our text",
        }
    ]


def test_write_generated_reports_how_many_lines_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "table.json").write_text("one\ntwo\n")
    write_generated({tmp_path / "table.json": "two\nthree\nfour\n"})
    assert (tmp_path / "table.json").read_text() == "two\nthree\nfour\n"
    assert capsys.readouterr().out == f"{tmp_path.name}/table.json: 2 new lines, 1 gone\n"


def test_version_of_devcluster_is_the_recorded_one():
    assert versions()["kubernetes"] == KUBERNETES


@pytest.mark.parametrize(
    ("constant", "field"),
    [
        (pod_checks.RESTART_POLICIES, "core.v1.PodSpec.restartPolicy"),
        (pod_checks.DNS_POLICIES, "core.v1.PodSpec.dnsPolicy"),
        (pod_checks.MESSAGE_POLICIES, "core.v1.Container.terminationMessagePolicy"),
        (pod_checks.EFFECTS, "core.v1.Toleration.effect"),
        (workloads.STRATEGIES, "apps.v1.DaemonSetUpdateStrategy.type"),
        (jobs.MODES, "batch.v1.JobSpec.completionMode"),
        (networking.PROTOCOLS, "networking.v1.NetworkPolicyPort.protocol"),
        (networking.DIRECTIONS, "networking.v1.NetworkPolicySpec.policyTypes"),
    ],
)
def test_constants_in_an_order_of_their_own_have_the_values_of_the_table(
    constant: tuple[str, ...], field: str
):
    assert sorted(constant) == list(choices(field))


@pytest.mark.long
@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
@pytest.mark.skipif(shutil.which("go") is None, reason="go is not on the PATH")
def test_generated_files_are_those_of_the_real_server(tmp_path: Path):
    with EnvtestControlPlane(tmp_path, parts=("etcd", "apiserver", "controllers")) as plane:
        for path, text in renewed(plane, KUBERNETES).items():
            before, after = path.read_text().splitlines(), text.splitlines()
            assert [json.dumps(line)[:200] for line in after if line not in before] == [], path
            assert len(before) == len(after), path
