"""The values of the Helm chart, and the schema by which helm refuses wrong ones."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from manager.shards.shard_set import LABEL_SLICES
from release.image import DIGEST, NAME, TAG

__all__ = ["schema_text", "values_text"]

_VALUES = """\
# The values of the chart, with their defaults.

# Image pull secrets for both programs: [{name: NAME}].
imagePullSecrets: []

manager:
  # More than one is safe: only the replica with the lease reconciles, or each reconciles its shards.
  replicas: 1
  # Number of shards of the objects, which the replicas share: a power of two, several times the number of
  # replicas (16 is good for up to five); 0 turns sharding off. Each shard and each replica has a lease, so
  # the manager gets the right to all leases of its namespace.
  shards: 0
  image:
    repository: %(manager.repository)s
    # The default is the chart's version.
    tag: %(manager.tag)s
    # sha256:... pins an image and overrides its tag.
    digest: %(manager.digest)s
    pullPolicy: IfNotPresent
  # Further flags, such as --namespaces=a,b or --concurrency=memcached=2 (operator-manager run --help).
  extraArgs: []
  # Further environment variables, as in a container.
  extraEnv: []
  resources: %(manager.resources)s
  # Scheduling of its pods; fields as in a pod.
  nodeSelector: %(manager.nodeSelector)s
  tolerations: []
  affinity: {}
  topologySpreadConstraints: %(manager.topologySpreadConstraints)s
  priorityClassName: ""
  # Additional annotations and labels of its pods.
  podAnnotations: {}
  podLabels: {}
  serviceAccount:
    # For a cloud's workload identity, for example.
    annotations: {}
  # Pods that a drain of nodes may evict at a time: a number, or "50%%".
  podDisruptionBudget:
    enable: true
    maxUnavailable: %(budget.maxUnavailable)s

crd:
  # Whether the custom resource definitions are part of the release.
  enable: true
  # Whether an uninstallation keeps them, and with them every object of their kinds.
  keep: true

rbac:
  # Roles for people: administrators, editors and viewers of each kind, and for storage migration.
  helpers:
    enable: true
  # The right to delete what operators create. Clusters with the admission plugin
  # OwnerReferencesPermissionEnforcement, such as OpenShift, require it for owner references.
  ownerReferences:
    enable: false

admissionPolicy:
  # A ValidatingAdmissionPolicy that limits what the manager may create beyond RBAC. Without it, the
  # manager's rights amount to an administrator's.
  enable: true

webhook:
  # Whether API servers call the manager's webhooks. Without them, rules beyond the schema are not
  # checked, and objects can be used only in the version in which they are stored.
  enable: true
  # The port of its pods, behind a Service. In some clouds API servers can reach only few ports.
  port: 9443

certManager:
  # Whether cert-manager, which must be installed, makes the webhooks' certificate instead of the manager.
  enable: false

petstore:
  # If false, set `address` to another store.
  enable: true
  # HOST:PORT of a store; by default the chart's own.
  address: ""
  image:
    repository: %(petstore.repository)s
    tag: %(petstore.tag)s
    digest: %(petstore.digest)s
    pullPolicy: IfNotPresent
  storage: %(petstore.storage)s
  resources: %(petstore.resources)s
  nodeSelector: %(petstore.nodeSelector)s
  tolerations: []
  affinity: {}
  priorityClassName: ""
  podAnnotations: {}
  podLabels: {}

prometheus:
  # ServiceMonitors and alerts; needs the Prometheus operator.
  enable: false

networkPolicy:
  # Only namespaces labelled `metrics: enabled` reach the metrics, and only the manager reaches the store.
  # Only the webhook port of the manager's other ports is open.
  enable: true
  # The addresses of API servers, as CIDR blocks; all by default. Usually those that
  # `kubectl -n default get endpointslices kubernetes` shows.
  apiServers: [0.0.0.0/0, "::/0"]
"""

_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}

# By value name: the schema, where the default does not determine it.


def _parts(*names: str) -> dict[str, Any]:
    members = {name: {"type": "object"} for name in names}
    return {"type": "object", "additionalProperties": False, "properties": members}


_NARROWER: dict[str, dict[str, Any]] = {
    "replicas": {"type": "integer", "minimum": 0},
    "shards": {"enum": [0, *(1 << power for power in range(1, LABEL_SLICES.bit_length()))]},
    "pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
    # Both are concatenated between quotes.
    "repository": {"type": "string", "pattern": f"^{NAME}$"},
    "tag": {"type": "string", "pattern": f"^({TAG})?$"},
    "digest": {"type": "string", "pattern": f"^({DIGEST})?$"},
    "port": {"type": "integer", "minimum": 1, "maximum": 65535},
    "apiServers": {
        "type": "array",
        "minItems": 1,
        "items": {"type": "string", "pattern": "^[0-9a-fA-F.:]+/[0-9]{1,3}$"},
    },
    "extraArgs": {"type": "array", "items": {"type": "string", "pattern": "^--"}},
    "extraEnv": {"type": "array", "items": {"type": "object", "required": ["name"]}},
    "imagePullSecrets": {"type": "array", "items": {"type": "object", "required": ["name"]}},
    "tolerations": {"type": "array", "items": {"type": "object"}},
    # In Kubernetes' form; the API server checks the content.
    "resources": _parts("limits", "requests"),
    "affinity": _parts("nodeAffinity", "podAffinity", "podAntiAffinity"),
    "topologySpreadConstraints": {"type": "array", "items": {"type": "object"}},
    "nodeSelector": _TEXTS,
    "annotations": _TEXTS,
    "podAnnotations": _TEXTS,
    # Labels that select the pods must not be changed.
    "podLabels": {
        **_TEXTS,
        "properties": {"app.kubernetes.io/name": False, "control-plane": False},
    },
    "maxUnavailable": {"type": ["integer", "string"], "pattern": "^[0-9]+%$", "minimum": 0},
    "storage": {"type": "string", "pattern": "^[0-9.]+([EPTGMK]i?|k)?$"},
}
_TYPES = {bool: "boolean", str: "string"}


def values_text(defaults: dict[str, Any]) -> str:
    """Return the text of values.yaml, with the manifests' defaults."""
    return _VALUES % {name: _line(value) for name, value in defaults.items()}


def _line(value: object) -> str:
    if isinstance(value, str):
        return value if re.fullmatch("[a-z][a-z-]*", value) else json.dumps(value)  # 1.0 is a number
    text: str = yaml.safe_dump(value, default_flow_style=True, width=1000)
    return text.removesuffix("...\n").strip()


def schema_text(values: str) -> str:
    """Return the text of values.schema.json; a value without a line in `values` is an error."""
    schema = _schema("", yaml.safe_load(values))
    # Helm adds this value to every subchart.
    schema["properties"]["global"] = {"type": "object"}
    return json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", **schema}, indent=2) + "\n"


def _schema(name: str, value: object) -> dict[str, Any]:
    if name in _NARROWER:
        return dict(_NARROWER[name])
    if isinstance(value, dict):
        members = {key: _schema(key, each) for key, each in value.items()}
        return {"type": "object", "additionalProperties": False, "properties": members}
    return {"type": _TYPES[type(value)]}
