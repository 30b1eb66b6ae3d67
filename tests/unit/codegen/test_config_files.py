from __future__ import annotations

import yaml

from apis.cache.v1.memcached import Memcached
from manager.codegen import config_files
from manager.rbac import RbacRule
from tests.support.widget import Widget

FILES = config_files([Memcached, Widget], [RbacRule(("",), ("pods",), ("get",))], ["b.yaml", "a.yaml"])


def test_files_have_the_names_that_kubebuilder_gives_them():
    assert set(FILES) == {
        "crd/bases/cache.example.com_memcacheds.yaml",
        "crd/bases/test.example.com_widgets.yaml",
        "crd/kustomization.yaml",
        "rbac/kustomization.yaml",
        "rbac/leader_election_role.yaml",
        "rbac/leader_election_role_binding.yaml",
        "rbac/memcached_admin_role.yaml",
        "rbac/memcached_editor_role.yaml",
        "rbac/memcached_viewer_role.yaml",
        "rbac/metrics_auth_role.yaml",
        "rbac/metrics_auth_role_binding.yaml",
        "rbac/metrics_reader_role.yaml",
        "rbac/role.yaml",
        "rbac/role_binding.yaml",
        "rbac/service_account.yaml",
        "rbac/widget_admin_role.yaml",
        "rbac/widget_editor_role.yaml",
        "rbac/widget_viewer_role.yaml",
        "samples/kustomization.yaml",
    }


def test_each_kustomization_lists_all_files_beside_it():
    for folder in ("crd", "rbac"):
        listed = yaml.safe_load(FILES[f"{folder}/kustomization.yaml"])["resources"]
        beside = {
            path.removeprefix(f"{folder}/")
            for path in FILES
            if path.startswith(f"{folder}/") and not path.endswith("kustomization.yaml")
        }
        assert set(listed) == beside
    assert yaml.safe_load(FILES["samples/kustomization.yaml"])["resources"] == ["a.yaml", "b.yaml"]


def test_the_same_input_gives_the_same_text():
    again = config_files([Memcached, Widget], [RbacRule(("",), ("pods",), ("get",))], ["a.yaml", "b.yaml"])
    assert again == FILES
