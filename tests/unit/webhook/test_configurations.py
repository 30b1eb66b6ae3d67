"""What an API server is told, so that it asks."""

from __future__ import annotations

from apis.cache.v1.memcached import Memcached
from manager.webhook import Admission, AdmissionRequest, JsonObject
from manager.webhook.configurations import by_service, by_url, webhook_configurations
from manager.webhook.registration import Webhooks

admission = Admission(Memcached, failure_policy="Ignore", timeout_seconds=3, match_policy="Exact")


@admission.default
async def default(memcached: JsonObject, request: AdmissionRequest) -> None:
    """Change nothing."""


@admission.validate_delete
async def validate(memcached: Memcached, request: AdmissionRequest) -> None:
    """Refuse nothing."""


def test_each_sort_of_webhook_has_a_configuration_that_says_all_that_was_registered():
    mutating, validating = webhook_configurations(
        Webhooks([admission]), by_service("here", "svc"), prefix="my-"
    )
    assert (mutating["kind"], mutating["metadata"]) == (
        "MutatingWebhookConfiguration",
        {"name": "my-mutating-webhook-configuration"},
    )
    (webhook,) = mutating["webhooks"]
    assert webhook == {
        "name": "mmemcached-v1.kb.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "service": {"namespace": "here", "name": "svc", "path": "/mutate-cache-example-com-v1-memcached"}
        },
        "failurePolicy": "Ignore",
        "matchPolicy": "Exact",
        "reinvocationPolicy": "Never",
        "rules": [
            {
                "apiGroups": ["cache.example.com"],
                "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["memcacheds"],
            }
        ],
        "sideEffects": "None",
        "timeoutSeconds": 3,
    }
    assert validating["metadata"]["name"] == "my-validating-webhook-configuration"
    (webhook,) = validating["webhooks"]
    assert webhook["name"] == "vmemcached-v1.kb.io"
    assert webhook["rules"][0]["operations"] == ["DELETE"]
    assert "reinvocationPolicy" not in webhook


def test_a_configuration_without_a_webhook_is_left_out():
    only = Admission(Memcached)
    only.validate_create(validate)
    (configuration,) = webhook_configurations(Webhooks([only]), by_service("here", "svc"), prefix="")
    assert configuration["kind"] == "ValidatingWebhookConfiguration"
    assert webhook_configurations(Webhooks([]), by_service("here", "svc"), prefix="") == []


def test_a_process_that_is_reached_at_a_url_is_asked_there_and_trusted_by_its_bundle():
    config = by_url("https://10.0.0.1:9443", "Y2E=")("/convert")
    assert config == {"url": "https://10.0.0.1:9443/convert", "caBundle": "Y2E="}
    assert by_url("https://10.0.0.1:9443")("/convert") == {"url": "https://10.0.0.1:9443/convert"}
