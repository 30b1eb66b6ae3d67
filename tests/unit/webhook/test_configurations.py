"""Webhook configurations that the manager installs on the API server."""

from __future__ import annotations

from typing import Any

from apis.cache.v1.memcached import Memcached
from manager.util.program import Program
from manager.webhook import Admission, AdmissionRequest, JsonObject
from manager.webhook.configurations import by_service, by_url, webhook_configurations
from manager.webhook.registration import Webhooks
from manager_kinds.apps_v1 import Deployment
from manager_kinds.core_v1 import Pod

PROGRAM = Program("operator-manager", "1")
ELSEWHERE = [
    {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]},
    {"key": "app.kubernetes.io/name", "operator": "NotIn", "values": ["operator-manager"]},
]


async def default(memcached: JsonObject, request: AdmissionRequest) -> None: ...
async def validate(memcached: Memcached, request: AdmissionRequest) -> None: ...


def webhooks_of(admission: Admission[Any]) -> tuple[JsonObject, JsonObject]:
    """Return the mutating and the validating webhook of an admission."""
    mutating, validating = webhook_configurations(
        Webhooks([admission]), by_service("here", "svc"), PROGRAM, prefix="my-"
    )
    assert (mutating["kind"], mutating["metadata"]) == (
        "MutatingWebhookConfiguration",
        {"name": "my-mutating-webhook-configuration"},
    )
    assert validating["metadata"]["name"] == "my-validating-webhook-configuration"
    return mutating["webhooks"][0], validating["webhooks"][0]


def test_mutating_and_validating_configurations_contain_all_registered_options():
    namespaces = {"matchLabels": {"team": "blue"}}
    objects = {"matchExpressions": [{"key": "free", "operator": "DoesNotExist"}]}
    expression = "!('system:nodes' in request.userInfo.groups)"
    admission = Admission(
        Memcached,
        failure_policy="Fail",
        timeout_seconds=3,
        match_policy="Exact",
        reinvocation_policy="IfNeeded",
        side_effects="NoneOnDryRun",
        default_on=("CREATE",),
        namespaces=namespaces,
        objects=objects,
        match_conditions={"not-of-nodes": expression},
        system_namespaces=True,
    )
    admission.functions["default"] = default
    admission.functions["validate_delete"] = validate
    mutating, validating = webhooks_of(admission)
    [rule] = mutating.pop("rules")
    assert (rule["apiGroups"], rule["apiVersions"]) == (["cache.example.com"], ["v1"])
    assert (rule["operations"], rule["resources"]) == (["CREATE"], ["memcacheds"])
    assert mutating == {
        "name": "mmemcached-v1.kb.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "service": {"namespace": "here", "name": "svc", "path": "/mutate-cache-example-com-v1-memcached"}
        },
        "failurePolicy": "Fail",
        "matchConditions": [{"name": "not-of-nodes", "expression": expression}],
        "matchPolicy": "Exact",
        "namespaceSelector": namespaces,
        "objectSelector": objects,
        "reinvocationPolicy": "IfNeeded",
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": 3,
    }
    assert validating["name"] == "vmemcached-v1.kb.io"
    assert validating["rules"][0]["operations"] == ["DELETE"]
    assert "reinvocationPolicy" not in validating


def test_webhook_of_a_builtin_kind_fails_open_and_excludes_kube_system():
    admission = Admission(
        Deployment, subresources=("", "status"), namespaces={"matchLabels": {"team": "blue"}}
    )
    admission.functions["default"] = default
    admission.functions["validate_create"] = validate
    for webhook in webhooks_of(admission):
        assert webhook["failurePolicy"] == "Ignore"
        assert webhook["namespaceSelector"] == {
            "matchLabels": {"team": "blue"},
            "matchExpressions": ELSEWHERE,
        }
        assert [(*each["apiGroups"], *each["resources"]) for each in webhook["rules"]] == [
            ("apps", "deployments", "deployments/status")
        ]
        assert "objectSelector" not in webhook
        assert "matchConditions" not in webhook


def test_webhooks_of_one_kind_have_different_paths_when_subresource_or_name_differs():
    admissions = [Admission(Pod), Admission(Pod, subresources=("exec",)), Admission(Pod, name="b")]
    for each in admissions:
        each.functions["validate_create"] = validate
    found = [each for admission in admissions for each in admission.webhooks]
    assert [(each.name, each.path) for each in found] == [
        ("vpod-v1.kb.io", "/validate--v1-pod"),
        ("vpod-exec-v1.kb.io", "/validate--v1-pod-exec"),
        ("vpod-b-v1.kb.io", "/validate--v1-pod-b"),
    ]
    assert len(Webhooks(admissions).validating) == len(found)


def test_webhook_configurations_omit_an_empty_configuration():
    only = Admission(Memcached)
    only.functions["validate_create"] = validate
    (configuration,) = webhook_configurations(Webhooks([only]), by_service("here", "svc"), PROGRAM, prefix="")
    assert configuration["kind"] == "ValidatingWebhookConfiguration"
    assert webhook_configurations(Webhooks([]), by_service("here", "svc"), PROGRAM, prefix="") == []


def test_client_config_by_url_has_the_url_and_the_ca_bundle():
    config = by_url("https://10.0.0.1:9443", "Y2E=")("/convert")
    assert config == {"url": "https://10.0.0.1:9443/convert", "caBundle": "Y2E="}
    assert by_url("https://10.0.0.1:9443")("/convert") == {"url": "https://10.0.0.1:9443/convert"}
