from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from apis.cache.v1.memcached import Memcached
from controllers.main import PROGRAM
from manager.api.rights import RbacRule
from manager.webhook import Admission, AdmissionRequest
from manager.webhook.registration import Webhooks
from manager_kinds.manifests import yaml_stream
from manager_tools.codegen import config_files
from manager_tools.codegen.config_files import HEADER, GeneratedTree
from tests.support.kinds import Widget

KINDS = (Memcached, Widget)
RULES = {
    "memcached": [RbacRule(("",), ("pods",), ("get",)), RbacRule(("",), ("secrets",), ("list",))],
    "widget": [RbacRule(("",), ("pods",), ("delete",), owner_references=True)],
}


async def validate(widget: Widget, request: AdmissionRequest) -> None:
    """Refuse nothing."""


admission = Admission(Widget)
admission.functions["validate_create"] = validate
WEBHOOKS = Webhooks([admission])
FILES = config_files(PROGRAM, KINDS, RULES, ["b.yaml", "a.yaml"], WEBHOOKS)
WEBHOOK_FOLDERS = ("certmanager", "webhook")


def test_kustomization_lists_all_files_of_its_folder():
    for folder in ("crd", "rbac", *WEBHOOK_FOLDERS):
        kustomization = yaml.safe_load(FILES[f"{folder}/kustomization.yaml"])
        listed = [*kustomization["resources"], *kustomization.get("configurations", ())]
        beside = {
            path.removeprefix(f"{folder}/")
            for path in FILES
            if path.startswith(f"{folder}/") and not path.endswith("kustomization.yaml")
        }
        assert set(listed) == beside
    assert yaml.safe_load(FILES["samples/kustomization.yaml"])["resources"] == ["a.yaml", "b.yaml"]


def test_rights_that_only_an_admission_plugin_asks_for_are_apart():
    (role,) = yaml.safe_load_all(FILES["rbac/role.yaml"])
    (apart,) = yaml.safe_load_all(FILES["owner-references/role.yaml"])
    assert [rule["verbs"] for rule in role["rules"]] == [["get"], ["list"]]
    assert [rule["verbs"] for rule in apart["rules"]] == [["delete"]]


def test_per_operator_overlay_gives_each_operator_its_own_role_and_lease():
    made = list(yaml.safe_load_all(FILES["per-operator/operators/memcached/rbac.yaml"]))
    roles = {each["metadata"]["name"]: each["rules"] for each in made if "rules" in each}
    assert [rule["resources"] for rule in roles["manager-role"]] == [["pods"], ["secrets"]]
    named = [rule["resourceNames"] for rule in roles["leader-election-role"] if "resourceNames" in rule]
    assert named == [["operator-manager-memcached"]]
    other = list(yaml.safe_load_all(FILES["per-operator/operators/widget/rbac.yaml"]))
    assert [each["rules"] for each in other if each["metadata"]["name"] == "manager-role"] == [[]]


def test_config_files_have_no_webhook_folder_without_webhooks():
    files = config_files(PROGRAM, KINDS, RULES, [], Webhooks([]))
    assert not [path for path in files if path.startswith(WEBHOOK_FOLDERS)]


def test_yaml_document_keeps_order_spells_out_repeated_values_and_has_blocks():
    shared = {"b": 1, "a": [2]}
    manifest: dict[str, Any] = {"second": shared, "first": shared}
    assert yaml_stream([manifest]) == "---\nsecond:\n  b: 1\n  a:\n  - 2\nfirst:\n  b: 1\n  a:\n  - 2\n"
    assert yaml_stream([{"text": "one\n\ntwo"}]) == "---\ntext: |-\n  one\n\n  two\n"


def test_generated_tree_writes_what_is_missing_or_differs_once(tmp_path: Path):
    (tmp_path / "b.yaml").write_text("edited by hand\n")
    tree = GeneratedTree(tmp_path, {"a/new.yaml": "a\n", "b.yaml": "b\n"})
    expected = [tmp_path / "a" / "new.yaml", tmp_path / "b.yaml"]
    assert tree.stale() == tree.write() == expected
    assert tree.stale() == tree.write() == []
    assert (tmp_path / "b.yaml").read_text() == HEADER + "b\n"


def test_generated_tree_removes_its_obsolete_files_and_leaves_those_of_people(tmp_path: Path):
    GeneratedTree(tmp_path, {"crd/old.yaml": "old\n"}).write()
    old, sample = tmp_path / "crd" / "old.yaml", tmp_path / "sample.yaml"
    sample.write_text("kind: Sample\n")
    tree = GeneratedTree(tmp_path, {})
    assert tree.stale() == [old]
    tree.write()
    assert not old.exists()
    assert sample.exists()
