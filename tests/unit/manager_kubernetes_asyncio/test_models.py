"""Conversion of kubernetes-asyncio models to objects of the library."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import Field

from manager.api import Resource, Unstructured
from manager.client.write import resource_of
from manager_kinds.apps_v1 import Deployment
from manager_kinds.core_v1 import ConfigMap, Secret

pytestmark = pytest.mark.filterwarnings("default::DeprecationWarning")


class OwnDeployment(Resource, group="apps", version="v1", kind="Deployment", plural="deployments"):
    """Model that an operator's author has written for Deployments."""

    spec: dict[str, Any] = Field(default_factory=dict)


def deployment(models: Any, **fields: Any) -> Any:
    ports = [models.V1ContainerPort(container_port=80, host_ip="1.2.3.4")]
    container = models.V1Container(name="main", image="any", ports=ports)
    template = models.V1PodTemplateSpec(spec=models.V1PodSpec(containers=[container]))
    selector = models.V1LabelSelector(match_labels={"app": "web"})
    spec = models.V1DeploymentSpec(replicas=0, selector=selector, template=template)
    return models.V1Deployment(metadata=models.V1ObjectMeta(name="web", namespace="n"), spec=spec, **fields)


def test_kubernetes_asyncio_model_is_serialised_without_its_unset_fields(models: Any):
    found = resource_of(deployment(models))
    assert isinstance(found, Deployment)
    assert found.key == ("n", "web")
    container = {"name": "main", "image": "any", "ports": [{"containerPort": 80, "hostIP": "1.2.3.4"}]}
    assert found.spec == {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"spec": {"containers": [container]}},
    }


def test_kubernetes_asyncio_model_is_converted_to_the_declared_class_of_its_kind(models: Any):
    assert type(resource_of(deployment(models), [ConfigMap, OwnDeployment])) is OwnDeployment


def test_kubernetes_asyncio_model_is_converted_to_unstructured_when_its_kind_has_no_class(models: Any):
    version, metadata = "apps.example.com/v1", models.V1ObjectMeta(name="db", namespace="n")
    found = resource_of(models.V1StatefulSet(api_version=version, kind="Set", metadata=metadata))
    assert type(found) is Unstructured.of(version, "Set")
    named = {"name": "db", "namespace": "n"}
    assert found.to_wire() == {"apiVersion": version, "kind": "Set", "metadata": named}


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("V1StatefulSet", "apps_v1"),
        ("V1HorizontalPodAutoscaler", "autoscaling_v1"),
        ("V2HorizontalPodAutoscaler", "autoscaling_v2"),
    ],
)
def test_missing_kind_of_a_kubernetes_asyncio_model_is_taken_from_its_class_name(
    models: Any, name: str, module: str
):
    unchecked = models.Configuration()
    unchecked.client_side_validation = False  # required fields may be missing
    found = type(resource_of(getattr(models, name)(local_vars_configuration=unchecked)))
    assert (found.__module__, found.__name__) == (f"manager_kinds.{module}", name[2:])


def test_kubernetes_asyncio_model_of_an_unknown_kind_is_refused_without_api_version_and_kind(models: Any):
    with pytest.raises(ValueError, match=r"V1Scale has to set its kind: V1Scale\(api_version="):
        resource_of(models.V1Scale())


def test_function_resource_of_returns_a_resource_unchanged_and_refuses_a_dict():
    secret = Secret()
    assert resource_of(secret) is secret
    with pytest.raises(
        TypeError, match=r"dict is neither an object of manager\.api nor a kubernetes-asyncio model"
    ):
        resource_of({"kind": "Secret"})  # type: ignore[arg-type]
