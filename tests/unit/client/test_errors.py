"""Suggestion of the most similar field in errors about unknown fields."""

from __future__ import annotations

import pytest
from pydantic import Field

from manager.api import ApiModel, Resource, crd
from manager.client.errors import name_nearest
from manager.kube.errors import BadRequest
from manager_kinds.apps_v1 import Deployment
from manager_kinds.core_v1 import ConfigMap, Pod


class PartSpec(ApiModel):
    host_name: str = ""


class SiteSpec(ApiModel):
    replicas: int = 1
    parts: list[PartSpec] = Field(default_factory=list)


@crd()
class Site(Resource, group="test.example.com", version="v1", plural="sites"):
    spec: SiteSpec = Field(default_factory=SiteSpec)


@pytest.mark.parametrize(
    ("kind", "message", "meant"),
    [
        (Deployment, 'strict decoding error: unknown field "spec.replica"', "spec.replicas"),
        (
            Deployment,
            'strict decoding error: unknown field "spec.template.spec.containers[0].imagee"',
            "spec.template.spec.containers[0].image",
        ),
        (
            Deployment,
            'cannot apply: .spec.template.spec.containers[name="web"].envs: field not declared in schema',
            'spec.template.spec.containers[name="web"].env',
        ),
        (
            Pod,
            'strict decoding error: unknown field "spec.nodename", unknown field "spec.volumes[0].secrets"',
            "spec.nodeName, spec.volumes[0].secret",
        ),
        (Site, 'strict decoding error: unknown field "spec.replcas"', "spec.replicas"),
        (Site, 'strict decoding error: unknown field "spec.parts[2].host_name"', "spec.parts[2].hostName"),
        (ConfigMap, 'strict decoding error: unknown field "metadata.label"', "metadata.labels"),
        (ConfigMap, 'strict decoding error: unknown field "dat"', "data"),
        (Deployment, 'strict decoding error: unknown field "spec.wholly"', None),
        (Deployment, 'strict decoding error: unknown field "spec.nothing.at.all"', None),
        (Deployment, 'strict decoding error: unknown field ""', None),
        (Deployment, "the body is no JSON", None),
        (Pod, 'strict decoding error: unknown field "spec.nodeSelector.nod"', None),
    ],
)
def test_client_error_suggests_the_most_similar_field_if_there_is_one(
    kind: type[Resource], message: str, meant: str | None
):
    error = BadRequest(400, "BadRequest", message)
    name_nearest(error, kind)
    suggestion = "" if meant is None else f"; did you mean {meant}?"
    assert str(error) == error.message == f"{message}{suggestion}"
