from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from manager.util.yaml_text import yaml_documents
from manager_tools.chart import kustomize
from manager_tools.codegen.namespaces import limited_to
from release.cli import main
from tests.support.tools import tool

Printed = Callable[..., list[dict[str, Any]]]


DIGEST = "sha256:" + "0" * 64


@pytest.fixture(scope="module", autouse=True)
def built_once() -> Iterator[None]:
    """Cache the output of kubectl, because the folders of config/ do not change and kubectl is slow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kustomize, "_run", functools.cache(kustomize._run))
        yield


@pytest.fixture
def kubectl() -> None:
    tool("kubectl")


@pytest.fixture
def printed(kubectl: None, capsys: pytest.CaptureFixture[str]) -> Printed:
    """Return a function that returns the output of `manifests` with some flags."""

    def call(*flags: str) -> list[dict[str, Any]]:
        assert main(["manifests", *flags]) == 0
        return yaml_documents(capsys.readouterr().out)

    return call


def images(made: list[dict[str, Any]]) -> dict[str, str]:
    deployments = [each for each in made if each["kind"] == "Deployment"]
    containers = [each["spec"]["template"]["spec"]["containers"][0] for each in deployments]
    return {each["name"]: each["image"] for each in containers}


def test_release_manifests_have_the_requested_images(printed: Printed):
    assert images(printed("--image=local.test:5000/om:v2", f"--petstore-image=store@{DIGEST}")) == {
        "manager": "local.test:5000/om:v2",
        "petstore": f"store@{DIGEST}",
    }


def test_release_manifests_for_deletion_are_split_and_end_with_the_namespace(printed: Printed):
    webhooks, definitions = printed("--only=webhooks"), printed("--only=definitions")
    assert {each["kind"] for each in definitions} == {"CustomResourceDefinition"}
    assert {each["apiVersion"] for each in webhooks} == {"admissionregistration.k8s.io/v1"}
    assert {each["kind"] for each in printed("--only=policies")} == {
        *("NetworkPolicy", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    }
    rest = printed("--for-deletion")
    assert rest == [each for each in reversed(printed()) if each not in [*webhooks, *definitions]]
    assert rest[-1]["kind"] == "Namespace"


@pytest.mark.usefixtures("kubectl")
def test_release_refuses_namespaces_for_an_overlay_with_its_own_namespaces(
    capsys: pytest.CaptureFixture[str],
):
    assert main(["manifests", "--namespaces=a", "namespaced"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        "release: the overlay has roles for namespaces of its own (--namespaces=team-a,team-b): "
        "edit it, or take another one\n"
    )


def test_release_manifests_limit_rights_to_the_given_namespaces(printed: Printed):
    assert printed("--namespaces=a,b") == list(limited_to(("a", "b"), printed()))
