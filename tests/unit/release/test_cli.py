from __future__ import annotations

from typing import Any

import pytest

from manager.util.yaml_text import yaml_documents
from manager_tools.codegen.namespaces import limited_to
from release.cli import main
from tests.support.manifests import container_of
from tests.support.tools import tool

DIGEST = "sha256:" + "0" * 64


def printed(capsys: pytest.CaptureFixture[str], *flags: str) -> list[dict[str, Any]]:
    """Return the objects that `manifests` prints with these flags."""
    tool("kubectl")
    assert main(["manifests", *flags]) == 0
    return yaml_documents(capsys.readouterr().out)


def test_release_manifests_have_the_requested_images_and_namespaces(capsys: pytest.CaptureFixture[str]):
    images = ("--image=local.test:5000/om:v2", f"--petstore-image=store@{DIGEST}")
    made = printed(capsys, *images)
    containers = [container_of(each) for each in made if each["kind"] == "Deployment"]
    assert {each["name"]: each["image"] for each in containers} == {
        "manager": "local.test:5000/om:v2",
        "petstore": f"store@{DIGEST}",
    }
    assert printed(capsys, *images, "--namespaces=a,b") == list(limited_to(("a", "b"), made))


def test_release_manifests_for_deletion_are_in_reverse_order_without_webhooks_and_crds(
    capsys: pytest.CaptureFixture[str],
):
    webhooks, definitions, policies, rest = (
        printed(capsys, flag)
        for flag in ("--only=webhooks", "--only=definitions", "--only=policies", "--for-deletion")
    )
    assert {each["kind"] for each in definitions} == {"CustomResourceDefinition"}
    assert {each["apiVersion"] for each in webhooks} == {"admissionregistration.k8s.io/v1"}
    assert {each["kind"] for each in policies} == {
        *("NetworkPolicy", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    }
    assert rest == [each for each in reversed(printed(capsys)) if each not in [*webhooks, *definitions]]
    assert rest[-1]["kind"] == "Namespace"


def test_release_manifests_refuse_the_namespaces_flag_when_the_overlay_sets_namespaces(
    capsys: pytest.CaptureFixture[str],
):
    tool("kubectl")
    assert main(["manifests", "--namespaces=a", "namespaced"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("release: the overlay has roles for namespaces of its own (--namespaces=team-")
