"""Emulation of the Prometheus operator: turns our ServiceMonitors and rules into local configuration."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from tests.support import ROOT
from tests.support.manifests import Manifest, manifests

RULES = [ROOT / "config" / "prometheus" / name for name in ("rules.yaml", "petstore_rules.yaml")]
_FIELDS = {"path", "port", "scheme", "bearerTokenFile", "tlsConfig"}
_TLS_FIELDS = {"insecureSkipVerify": "insecure_skip_verify"}


def scrape_configuration(
    monitor: Manifest, *, address: str, pod: str, token_file: Path | None = None
) -> dict[str, Any]:
    """Scrape `address` as the endpoint of the Service that `monitor` selects.

    Discovery is played: the target has the labels that Prometheus finds at the API server, and is
    relabelled as the operator has it. `token_file` is in the place of the file in Prometheus's pod.
    """
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint.keys() <= _FIELDS, "a field that is not translated here"
    service = _service_of(monitor)
    name = monitor["metadata"]["name"]
    configuration = {
        "job_name": f"serviceMonitor/{monitor['metadata']['namespace']}/{name}/0",
        "metrics_path": endpoint["path"],
        "scheme": endpoint["scheme"],
        "static_configs": [{"targets": [address], "labels": _discovered(service, endpoint["port"], pod)}],
        "relabel_configs": list(_relabelling(monitor["spec"], endpoint["port"])),
    }
    if "bearerTokenFile" in endpoint:
        assert token_file is not None
        configuration["authorization"] = {"credentials_file": str(token_file)}
    if "tlsConfig" in endpoint:
        configuration["tls_config"] = {
            _TLS_FIELDS[field]: value for field, value in endpoint["tlsConfig"].items()
        }
    return configuration


def rule_groups() -> list[dict[str, Any]]:
    """Return the groups of alerts of config/prometheus."""
    return [group for path in RULES for group in yaml.safe_load(path.read_text())["spec"]["groups"]]


def write_rules(file: Path) -> None:
    """Write the rules of config/prometheus as a file of Prometheus's own."""
    file.write_text(yaml.safe_dump({"groups": rule_groups()}))


def _service_of(monitor: Manifest) -> Manifest:
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    (service,) = [
        each
        for each in manifests()
        if each["kind"] == "Service" and wanted <= each["metadata"]["labels"].items()
    ]
    return service


def _discovered(service: Manifest, port: str, pod: str) -> dict[str, str]:
    assert port in {each["name"] for each in service["spec"]["ports"]}
    labels = service["metadata"]["labels"]
    return {
        "__meta_kubernetes_namespace": service["metadata"]["namespace"],
        "__meta_kubernetes_service_name": service["metadata"]["name"],
        "__meta_kubernetes_endpoint_port_name": port,
        "__meta_kubernetes_pod_name": pod,
        **{f"__meta_kubernetes_service_label_{_plain(name)}": value for name, value in labels.items()},
    }


def _relabelling(spec: dict[str, Any], port: str) -> list[dict[str, Any]]:
    source, target = "source_labels", "target_label"
    job = f"__meta_kubernetes_service_label_{_plain(spec['jobLabel'])}"
    return [
        *(
            {"action": "keep", source: [f"__meta_kubernetes_service_label_{_plain(name)}"], "regex": value}
            for name, value in spec["selector"]["matchLabels"].items()
        ),
        {"action": "keep", source: ["__meta_kubernetes_endpoint_port_name"], "regex": port},
        {source: ["__meta_kubernetes_namespace"], target: "namespace"},
        {source: ["__meta_kubernetes_service_name"], target: "service"},
        {source: ["__meta_kubernetes_pod_name"], target: "pod"},
        {source: ["__meta_kubernetes_service_name"], target: "job"},
        {source: [job], target: "job", "regex": "(.+)", "replacement": "${1}"},
        {source: ["__meta_kubernetes_endpoint_port_name"], target: "endpoint"},
    ]


def _plain(name: str) -> str:
    return re.sub(r"\W", "_", name, flags=re.ASCII)
