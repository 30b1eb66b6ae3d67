# Made by scripts/generate-kinds; do not edit.
from typing import Required, TypedDict

from manager.api import Condition, IntOrString, Resource
from manager_kinds.core_v1 import TypedLocalObjectReference, TypedLocalObjectReferenceDict
from manager_kinds.factory import Part
from manager_kinds.meta_v1 import ConditionDict, LabelSelector, LabelSelectorDict

__all__ = [
    "HTTPIngressPath",
    "HTTPIngressPathDict",
    "HTTPIngressRuleValue",
    "HTTPIngressRuleValueDict",
    "IPAddress",
    "IPAddressSpec",
    "IPAddressSpecDict",
    "IPBlock",
    "IPBlockDict",
    "Ingress",
    "IngressBackend",
    "IngressBackendDict",
    "IngressClass",
    "IngressClassParametersReference",
    "IngressClassParametersReferenceDict",
    "IngressClassSpec",
    "IngressClassSpecDict",
    "IngressLoadBalancerIngress",
    "IngressLoadBalancerIngressDict",
    "IngressLoadBalancerStatus",
    "IngressLoadBalancerStatusDict",
    "IngressPortStatus",
    "IngressPortStatusDict",
    "IngressRule",
    "IngressRuleDict",
    "IngressServiceBackend",
    "IngressServiceBackendDict",
    "IngressSpec",
    "IngressSpecDict",
    "IngressStatus",
    "IngressStatusDict",
    "IngressTLS",
    "IngressTLSDict",
    "NetworkPolicy",
    "NetworkPolicyEgressRule",
    "NetworkPolicyEgressRuleDict",
    "NetworkPolicyIngressRule",
    "NetworkPolicyIngressRuleDict",
    "NetworkPolicyPeer",
    "NetworkPolicyPeerDict",
    "NetworkPolicyPort",
    "NetworkPolicyPortDict",
    "NetworkPolicySpec",
    "NetworkPolicySpecDict",
    "ParentReference",
    "ParentReferenceDict",
    "ServiceBackendPort",
    "ServiceBackendPortDict",
    "ServiceCIDR",
    "ServiceCIDRSpec",
    "ServiceCIDRSpecDict",
    "ServiceCIDRStatus",
    "ServiceCIDRStatusDict",
]

class HTTPIngressPath(Part[HTTPIngressPathDict]):
    path: str | None = None
    path_type: str
    backend: IngressBackend

class HTTPIngressPathDict(TypedDict, total=False):
    path: str
    pathType: Required[str]
    backend: Required[IngressBackendDict]

class HTTPIngressRuleValue(Part[HTTPIngressRuleValueDict]):
    paths: list[HTTPIngressPath]

class HTTPIngressRuleValueDict(TypedDict, total=False):
    paths: Required[list[HTTPIngressPathDict]]

class IPAddress(Resource, group="networking.k8s.io", version="v1", plural="ipaddresses", namespaced=False):
    """IPAddress of networking.k8s.io/v1, cluster-scoped."""

    spec: IPAddressSpecDict = {}

class IPAddressSpec(Part[IPAddressSpecDict]):
    parent_ref: ParentReference

class IPAddressSpecDict(TypedDict, total=False):
    parentRef: ParentReferenceDict

class IPBlock(Part[IPBlockDict]):
    cidr: str
    except_: list[str] | None = None

IPBlockDict = TypedDict("IPBlockDict", {"cidr": Required[str], "except": list[str]}, total=False)

class Ingress(Resource, group="networking.k8s.io", version="v1", plural="ingresses"):
    """Ingress of networking.k8s.io/v1."""

    spec: IngressSpecDict = {}
    status: IngressStatusDict = {}

class IngressBackend(Part[IngressBackendDict]):
    service: IngressServiceBackend | None = None
    resource: TypedLocalObjectReference | None = None

class IngressBackendDict(TypedDict, total=False):
    service: IngressServiceBackendDict
    resource: TypedLocalObjectReferenceDict

class IngressClass(
    Resource, group="networking.k8s.io", version="v1", plural="ingressclasses", namespaced=False
):
    """IngressClass of networking.k8s.io/v1, cluster-scoped."""

    spec: IngressClassSpecDict = {}

class IngressClassParametersReference(Part[IngressClassParametersReferenceDict]):
    api_group: str | None = None
    kind: str
    name: str
    scope: str | None = None
    namespace: str | None = None

class IngressClassParametersReferenceDict(TypedDict, total=False):
    apiGroup: str
    kind: Required[str]
    name: Required[str]
    scope: str
    namespace: str

class IngressClassSpec(Part[IngressClassSpecDict]):
    controller: str | None = None
    parameters: IngressClassParametersReference | None = None

class IngressClassSpecDict(TypedDict, total=False):
    controller: str
    parameters: IngressClassParametersReferenceDict

class IngressLoadBalancerIngress(Part[IngressLoadBalancerIngressDict]):
    ip: str | None = None
    hostname: str | None = None
    ports: list[IngressPortStatus] | None = None

class IngressLoadBalancerIngressDict(TypedDict, total=False):
    ip: str
    hostname: str
    ports: list[IngressPortStatusDict]

class IngressLoadBalancerStatus(Part[IngressLoadBalancerStatusDict]):
    ingress: list[IngressLoadBalancerIngress] | None = None

class IngressLoadBalancerStatusDict(TypedDict, total=False):
    ingress: list[IngressLoadBalancerIngressDict]

class IngressPortStatus(Part[IngressPortStatusDict]):
    port: int
    protocol: str
    error: str | None = None

class IngressPortStatusDict(TypedDict, total=False):
    port: Required[int]
    protocol: Required[str]
    error: str

class IngressRule(Part[IngressRuleDict]):
    host: str | None = None
    http: HTTPIngressRuleValue | None = None

class IngressRuleDict(TypedDict, total=False):
    host: str
    http: HTTPIngressRuleValueDict

class IngressServiceBackend(Part[IngressServiceBackendDict]):
    name: str
    port: ServiceBackendPort | None = None

class IngressServiceBackendDict(TypedDict, total=False):
    name: Required[str]
    port: ServiceBackendPortDict

class IngressSpec(Part[IngressSpecDict]):
    ingress_class_name: str | None = None
    default_backend: IngressBackend | None = None
    tls: list[IngressTLS] | None = None
    rules: list[IngressRule] | None = None

class IngressSpecDict(TypedDict, total=False):
    ingressClassName: str
    defaultBackend: IngressBackendDict
    tls: list[IngressTLSDict]
    rules: list[IngressRuleDict]

class IngressStatus(Part[IngressStatusDict]):
    load_balancer: IngressLoadBalancerStatus | None = None

class IngressStatusDict(TypedDict, total=False):
    loadBalancer: IngressLoadBalancerStatusDict

class IngressTLS(Part[IngressTLSDict]):
    hosts: list[str] | None = None
    secret_name: str | None = None

class IngressTLSDict(TypedDict, total=False):
    hosts: list[str]
    secretName: str

class NetworkPolicy(Resource, group="networking.k8s.io", version="v1", plural="networkpolicies"):
    """NetworkPolicy of networking.k8s.io/v1."""

    spec: NetworkPolicySpecDict = {}

class NetworkPolicyEgressRule(Part[NetworkPolicyEgressRuleDict]):
    ports: list[NetworkPolicyPort] | None = None
    to: list[NetworkPolicyPeer] | None = None

class NetworkPolicyEgressRuleDict(TypedDict, total=False):
    ports: list[NetworkPolicyPortDict]
    to: list[NetworkPolicyPeerDict]

class NetworkPolicyIngressRule(Part[NetworkPolicyIngressRuleDict]):
    ports: list[NetworkPolicyPort] | None = None
    from_: list[NetworkPolicyPeer] | None = None

NetworkPolicyIngressRuleDict = TypedDict(
    "NetworkPolicyIngressRuleDict",
    {"ports": list[NetworkPolicyPortDict], "from": list[NetworkPolicyPeerDict]},
    total=False,
)

class NetworkPolicyPeer(Part[NetworkPolicyPeerDict]):
    pod_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    ip_block: IPBlock | None = None

class NetworkPolicyPeerDict(TypedDict, total=False):
    podSelector: LabelSelectorDict
    namespaceSelector: LabelSelectorDict
    ipBlock: IPBlockDict

class NetworkPolicyPort(Part[NetworkPolicyPortDict]):
    protocol: str | None = None
    port: IntOrString | None = None
    end_port: int | None = None

class NetworkPolicyPortDict(TypedDict, total=False):
    protocol: str
    port: IntOrString
    endPort: int

class NetworkPolicySpec(Part[NetworkPolicySpecDict]):
    pod_selector: LabelSelector | None = None
    ingress: list[NetworkPolicyIngressRule] | None = None
    egress: list[NetworkPolicyEgressRule] | None = None
    policy_types: list[str] | None = None

class NetworkPolicySpecDict(TypedDict, total=False):
    podSelector: LabelSelectorDict
    ingress: list[NetworkPolicyIngressRuleDict]
    egress: list[NetworkPolicyEgressRuleDict]
    policyTypes: list[str]

class ParentReference(Part[ParentReferenceDict]):
    group: str | None = None
    resource: str
    namespace: str | None = None
    name: str

class ParentReferenceDict(TypedDict, total=False):
    group: str
    resource: Required[str]
    namespace: str
    name: Required[str]

class ServiceBackendPort(Part[ServiceBackendPortDict]):
    name: str | None = None
    number: int | None = None

class ServiceBackendPortDict(TypedDict, total=False):
    name: str
    number: int

class ServiceCIDR(Resource, group="networking.k8s.io", version="v1", plural="servicecidrs", namespaced=False):
    """ServiceCIDR of networking.k8s.io/v1, cluster-scoped."""

    spec: ServiceCIDRSpecDict = {}
    status: ServiceCIDRStatusDict = {}

class ServiceCIDRSpec(Part[ServiceCIDRSpecDict]):
    cidrs: list[str] | None = None

class ServiceCIDRSpecDict(TypedDict, total=False):
    cidrs: list[str]

class ServiceCIDRStatus(Part[ServiceCIDRStatusDict]):
    conditions: list[Condition] | None = None

class ServiceCIDRStatusDict(TypedDict, total=False):
    conditions: list[ConditionDict]
