"""The chart's markers: placeholders in the manifests for the Helm expressions of values.

A marker is inserted while the manifest is data, and replaced by its expression in the written YAML, so no
code parses YAML as text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

__all__ = ["CERTIFICATES", "PLACE", "POD_FIELDS", "RELEASE", "Companion", "Marker", "markers"]

CERTIFICATES = "and .Values.webhook.enable .Values.certManager.enable"
"""The condition that cert-manager creates the webhooks' certificate."""


@dataclass(frozen=True, slots=True)
class Marker:
    """A text that stands for a Helm expression until the YAML is written."""

    text: str
    expression: str


RELEASE = Marker("@release@", "{{ .Release.Name }}")
PLACE = Marker("@namespace@", "{{ .Release.Namespace }}")
_REPLICAS = Marker("'@replicas@'", "{{ .Values.manager.replicas }}")
_SHARDS = Marker(
    "        - '@shards@'\n",
    "        {{- with .Values.manager.shards }}\n        - --shards={{ . }}\n        {{- end }}\n",
)
_EXTRA_ARGS = Marker(
    "        - '@extraArgs@'\n",
    "        {{- with .Values.manager.extraArgs }}\n"
    "        {{- toYaml . | nindent 8 }}\n"
    "        {{- end }}\n",
)
# The first is for a container without other variables.
_EXTRA_ENV = (
    Marker(
        "        env:\n        - '@extraEnv@'\n",
        "        {{- with .Values.manager.extraEnv }}\n        env:\n"
        "        {{- toYaml . | nindent 8 }}\n        {{- end }}\n",
    ),
    Marker(
        "        - '@extraEnv@'\n",
        "        {{- with .Values.manager.extraEnv }}\n"
        "        {{- toYaml . | nindent 8 }}\n        {{- end }}\n",
    ),
)
_KEEP = Marker(
    "  annotations:\n    '@keep@': ''\n",
    "  {{- if .Values.crd.keep }}\n  annotations:\n    helm.sh/resource-policy: keep\n  {{- end }}\n",
)

_INJECT = "cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ .Release.Name }}-serving-cert"
_KEEP_CONVERTED = Marker(
    "  annotations:\n    '@keep-converted@': ''\n",
    f"  {{{{- $inject := {CERTIFICATES} }}}}\n"
    "  {{- if or .Values.crd.keep $inject }}\n  annotations:\n"
    "    {{- if $inject }}\n"
    f"    {_INJECT}\n"
    "    {{- end }}\n"
    "    {{- if .Values.crd.keep }}\n    helm.sh/resource-policy: keep\n    {{- end }}\n"
    "  {{- end }}\n",
)
_TRUST = Marker(
    "  annotations:\n    '@trust@': ''\n",
    f"  {{{{- if .Values.certManager.enable }}}}\n  annotations:\n    {_INJECT}\n  {{{{- end }}}}\n",
)
_WEBHOOK_ADDRESS = Marker(
    "'@webhookAddress@'",
    "--webhook-bind-address={{ if .Values.webhook.enable }}:{{ .Values.webhook.port }}{{ else }}0{{ end }}",
)
_READINESS = Marker("'@readiness@'", "/readyz{{ if .Values.webhook.enable }}/webhook{{ end }}")
_WEBHOOK_PORT = Marker("'@webhookPort@'", "{{ .Values.webhook.port }}")
_WEBHOOK_PORTS = Marker(
    "        - name: '@webhookPorts@'\n",
    "        {{- if .Values.webhook.enable }}\n"
    "        - name: webhook-server\n"
    "          containerPort: {{ .Values.webhook.port }}\n"
    "          protocol: TCP\n"
    "        {{- end }}\n",
)
# As in config/cert-manager/manager_certificate_patch.yaml.
_CERTIFICATE_PATH = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108 - of a pod, read-only
_CERTIFICATE_ARGS = Marker(
    "        - '@certificateArgs@'\n",
    f"        {{{{- if {CERTIFICATES} }}}}\n"
    f"        - --webhook-cert-path={_CERTIFICATE_PATH}\n"
    "        {{- end }}\n",
)
_CERTIFICATE_MOUNTS = Marker(
    "        - name: '@certificateMounts@'\n",
    f"        {{{{- if {CERTIFICATES} }}}}\n"
    "        - name: webhook-certs\n"
    f"          mountPath: {_CERTIFICATE_PATH}\n"
    "          readOnly: true\n"
    "        {{- end }}\n",
)
_CERTIFICATE_VOLUMES = Marker(
    "      - name: '@certificateVolumes@'\n",
    f"      {{{{- if {CERTIFICATES} }}}}\n"
    "      - name: webhook-certs\n"
    "        secret:\n"
    "          secretName: {{ .Release.Name }}-webhook-server-cert\n"
    "      {{- end }}\n",
)
_API_SERVERS = Marker(
    "  - from: '@apiServers@'\n",
    "  - from:\n"
    "    {{- range .Values.networkPolicy.apiServers }}\n"
    "    - ipBlock:\n"
    "        cidr: {{ . | quote }}\n"
    "    {{- end }}\n",
)


def _image(program: str) -> tuple[Marker, Marker]:
    values = f".Values.{program}.image"
    return (
        Marker(
            f"'@{program}.image@'",
            f'"{{{{ {values}.repository }}}}:{{{{ {values}.tag | default .Chart.AppVersion }}}}'
            f'{{{{ with {values}.digest }}}}@{{{{ . }}}}{{{{ end }}}}"',
        ),
        Marker(f"'@{program}.pull@'", f"{{{{ {values}.pullPolicy }}}}"),
    )


# Values by the pod field that they set if not empty; {} is the program.
POD_FIELDS = {
    "imagePullSecrets": "imagePullSecrets",
    "nodeSelector": "{}.nodeSelector",
    "tolerations": "{}.tolerations",
    "affinity": "{}.affinity",
    "priorityClassName": "{}.priorityClassName",
}


def _of_program(program: str) -> tuple[Marker, ...]:
    """Return the markers that the manager and each companion have."""
    return (
        *_image(program),
        Marker(f"'@{program}.resources@'", f"{{{{- toYaml .Values.{program}.resources | nindent 12 }}}}"),
        *_metadata("annotations", f"{program}.podAnnotations", "      "),
        *_metadata("labels", f"{program}.podLabels", "      "),
        *(_pod_field(field, value.format(program)) for field, value in POD_FIELDS.items()),
    )


def _metadata(field: str, value: str, indent: str) -> tuple[Marker, Marker]:
    """Return markers for all annotations or labels, and for more of them than there are."""
    marked = f"{indent}  '@{value}@': ''\n"
    filled = f"{indent}  {{{{- toYaml . | nindent {len(indent) + 2} }}}}\n{indent}{{{{- end }}}}\n"
    begun = f"{indent}{{{{- with .Values.{value} }}}}\n"
    head = f"{indent}{field}:\n"
    return Marker(f"{head}{marked}", f"{begun}{head}{filled}"), Marker(marked, f"{begun}{filled}")


def _pod_field(field: str, value: str) -> Marker:
    return Marker(
        f"      {field}: '@{value}@'\n",
        f"      {{{{- with .Values.{value} }}}}\n      {field}:\n"
        f"        {{{{- toYaml . | nindent 8 }}}}\n      {{{{- end }}}}\n",
    )


class Companion(Protocol):
    """A program beside the manager: its name, the key of its values, and the port that the manager calls."""

    name: str
    key: str
    port: str


def markers(companions: Iterable[Companion]) -> tuple[Marker, ...]:
    """Return every marker of a chart with these programs beside the manager."""
    return (
        *(RELEASE, PLACE, _REPLICAS, _SHARDS, _EXTRA_ARGS, *_EXTRA_ENV, _KEEP, _KEEP_CONVERTED, _TRUST),
        *(_WEBHOOK_ADDRESS, _WEBHOOK_PORT, _WEBHOOK_PORTS, _READINESS, _API_SERVERS),
        *(_CERTIFICATE_ARGS, _CERTIFICATE_MOUNTS, _CERTIFICATE_VOLUMES),
        *_of_program("manager"),
        _pod_field("topologySpreadConstraints", "manager.topologySpreadConstraints"),
        *_metadata("annotations", "manager.serviceAccount.annotations", "  "),
        Marker("'@maxUnavailable@'", "{{ .Values.manager.podDisruptionBudget.maxUnavailable }}"),
        *(marker for each in companions for marker in _of_companion(each)),
    )


def _of_companion(companion: Companion) -> tuple[Marker, ...]:
    key = companion.key
    own = f'(printf "%s-{companion.name}:{companion.port}" .Release.Name)'
    return (
        *_of_program(key),
        Marker(f"'@{key}.storage@'", f"{{{{ .Values.{key}.storage }}}}"),
        Marker(f"'@{key}.address@'", f"{{{{ .Values.{key}.address | default {own} | quote }}}}"),
    )
