"""Admission policies for the manager's account: they refuse known privilege escalations that RBAC allows."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from apis.example.v1.wordpress import Wordpress
from controllers.example.workloads import Workloads
from tests.conftest import StartControlPlane
from tests.support.api_access import JSON, MERGE_PATCH, ApiAccess, ApiFailure
from tests.support.api_objects import object_path
from tests.support.control_plane import ControlPlane, Feature
from tests.support.crds import wait_served
from tests.support.envtest import BARE
from tests.support.eventually import eventually
from tests.support.manifests import SYSTEM, manifests

pytestmark = pytest.mark.contract

PLACE = "tenant"
REFUSED = "ValidatingAdmissionPolicy 'operator-manager-manager-limits'"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/pets.petstore.example.com"
CONFIGURATION = (
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/"
    "operator-manager-mutating-webhook-configuration"
)
# All kinds that grant rights, and the kinds that they refer to.
KINDS = {
    *("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    *("CustomResourceDefinition", "MutatingWebhookConfiguration"),
    *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
}
LABELS = {"app.kubernetes.io/managed-by": "operator-manager"}


class Write(NamedTuple):
    """A write request that the administrator may make."""

    method: str
    path: str
    body: Any
    content_type: str = JSON

    def by(self, access: ApiAccess):
        """Send the request as a dry run with the given access."""
        access.request(
            self.method, self.path, query={"dryRun": "All"}, body=self.body, content_type=self.content_type
        )


@pytest.fixture(scope="module")
def plane(module_control_plane: StartControlPlane) -> ControlPlane:
    """Install the roles and policies that grant or limit the manager's rights."""
    plane = module_control_plane(parts=(*BARE, "controllers")).require(Feature.ADMISSION_POLICIES)
    plane.api.apply(each for each in manifests() if each["kind"] in KINDS)
    plane.api.apply(right_to_delete())
    plane.api.apply(others_of_several())
    wait_served(plane)
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": PLACE}})
    for write in THERE:
        plane.api.create(write.path, write.body)
    return plane


def right_to_delete() -> list[Any]:
    """Return the role and binding of the overlay `owner-references`, for this test's account."""
    role, binding = sorted(copy.deepcopy(manifests("owner-references")), key=lambda each: str(each["kind"]))
    for subject in binding["subjects"]:
        subject.update(name="operator-manager-controller-manager", namespace=SYSTEM)
    return [role, binding]


def others_of_several() -> list[Any]:
    """Return roles and bindings for the accounts of a foo manager and a wordpress manager."""
    found = manifests("per-operator")
    accounts = [
        each
        for each in found
        if each["kind"] in KINDS and each["metadata"]["name"].endswith(("-foo", "-wordpress"))
    ]
    (keeper,) = [
        each
        for each in found
        if each["kind"] == "RoleBinding"
        and each["metadata"]["name"].endswith("webhook-certificate-rolebinding")
    ]
    # A per-operator account, in addition to the shared account.
    keeper["metadata"]["name"] += "-foo"
    return [*accounts, keeper]


@pytest.fixture(scope="module")
def thief(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiAccess]:
    """Yield API access with a token of the manager's account, as a thief of the token has it."""
    credentials = plane.credentials_of(SYSTEM, "operator-manager-controller-manager")
    access = ApiAccess(credentials, scratch=tmp_path_factory.mktemp("thief"))

    def is_held() -> bool:
        """Return whether the API server enforces the policies already."""
        try:
            ESCALATIONS["a privileged container"].by(access)
        except ApiFailure as failure:
            return REFUSED in failure.body
        return False

    eventually(is_held)
    yield access
    access.close()


def site() -> dict[str, Any]:
    """Return the Deployment of a Wordpress as the Wordpress operator writes it."""
    wanted = Wordpress.model_validate(
        {"metadata": {"name": "blog", "namespace": PLACE}, "spec": {"sqlrootpassword": "secret"}}
    )
    made = Workloads(program="operator-manager", mysql_image="mysql", wordpress_image="wordpress").frontend(
        wanted
    )
    return json.loads(json.dumps(made.to_wire()))


def deployed(**pod: Any) -> Write:
    """Return a write request for a Deployment with these pod fields; `container` adds container fields."""
    deployment = copy.deepcopy(site())
    template = deployment["spec"]["template"]["spec"]
    container = pod.pop("container", {})
    template["containers"][0].update(container)
    template.update(pod)
    if pod.get("automountServiceAccountToken", False) is None:
        del template["automountServiceAccountToken"]
    return Write("POST", object_path("apps/v1", PLACE, "deployments"), deployment)


def contained(**container: Any) -> Write:
    return deployed(container=container)


def secured(**context: Any) -> Write:
    return contained(securityContext=context)


def mounted(**source: Any) -> Write:
    return deployed(volumes=[{"name": "data", **source}])


def projected(*sources: Any) -> Write:
    return mounted(projected={"sources": list(sources)})


def templated(**metadata: Any) -> Write:
    """Return a write request for a Deployment with additional metadata of its pods."""
    write = deployed()
    write.body["spec"]["template"]["metadata"].update(metadata)
    return write


def certificate(name: str, **fields: Any) -> Write:
    """Return a write request for a TLS Secret in the manager's namespace; `fields` are further fields."""
    return made(
        "secrets",
        SYSTEM,
        metadata={"name": name},
        type="kubernetes.io/tls",
        data={"tls.crt": "", "tls.key": ""},
        **fields,
    )


def labelled(labels: dict[str, str], name: str = "blog") -> Write:
    """Return a write request for a Deployment with additional labels of its pods."""
    write = deployed()
    write.body["metadata"]["name"] = name
    spec = write.body["spec"]
    spec["template"]["metadata"]["labels"].update(labels)
    selector = spec["selector"]["matchLabels"]
    selector.update((label, value) for label, value in labels.items() if label in selector)
    return write


def selecting(selector: Any, **labels: str) -> Write:
    """Return a write request for a Deployment with this selector and these pod labels."""
    write = deployed()
    write.body["spec"]["selector"] = selector
    write.body["spec"]["template"]["metadata"]["labels"] = labels
    return write


def made(plural: str, namespace: str = PLACE, /, *, metadata: Any = None, **fields: Any) -> Write:
    """Return the request that creates an object of the core group with the operators' label."""
    body = {"metadata": {"name": "made", "labels": LABELS, **(metadata or {})}, **fields}
    return Write("POST", object_path("v1", namespace, plural), body)


def changed(plural: str, name: str, change: Any, *, namespace: str = PLACE) -> Write:
    api = "apps/v1" if plural == "deployments" else "v1"
    return Write("PATCH", object_path(api, namespace, plural, name), change, MERGE_PATCH)


def service(**spec: Any) -> Write:
    selector = {"app": "blog", "tier": "frontend"}
    return made("services", spec={"selector": selector, "ports": [{"port": 80}], **spec})


def claim(**spec: Any) -> Write:
    return made(
        "persistentvolumeclaims",
        spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec},
    )


def deleted(api: str, plural: str, name: str) -> Write:
    return Write("DELETE", object_path(api, PLACE, plural, name), None)


def named(name: str, write: Write) -> Write:
    write.body["metadata"]["name"] = name
    return write


def finalized(finalizer: str, write: Write) -> Write:
    write.body["metadata"]["finalizers"] = [finalizer]
    return write


def redefined(path: str, value: Any) -> Write:
    return Write(
        "PATCH",
        DEFINITION,
        [{"op": "add", "path": path, "value": value}],
        "application/json-patch+json",
    )


CERTIFICATE = "operator-manager-webhook-server-cert"
PASSWORDS = {"data": {"password": "cGFzcw==", "root-password": "cGFzcw=="}}
ELSEWHERE = {"name": "elsewhere", "namespace": PLACE, "path": "/", "port": 443}

# Objects of other programs, and objects of the operators.
THERE = (
    Write(
        "POST",
        object_path("v1", "kube-system", "services"),
        {"metadata": {"name": "kube-dns"}, "spec": {"ports": [{"port": 53}], "selector": {"app": "dns"}}},
    ),
    Write("POST", object_path("v1", PLACE, "secrets"), {"metadata": {"name": "theirs"}}),
    made("secrets", metadata={"name": "blog-mysql"}, **PASSWORDS),
    made("secrets", metadata={"name": "fixed"}, immutable=True, **PASSWORDS),
    labelled({"team": "blue"}, "wp"),
    named("watched", templated(finalizers=["example.com/keep"])),
    named("unbound", claim(storageClassName="none")),
    named("blog", service()),
    named("abroad", service(type="ExternalName", externalName="elsewhere.example")),
    named("addressed", service(type="LoadBalancer", loadBalancerIP="203.0.113.5")),
    finalized("service.kubernetes.io/load-balancer-cleanup", named("kept", service())),
    Write(
        "POST",
        object_path("v1", SYSTEM, "secrets"),
        {"metadata": {"name": "theirs"}, "stringData": {"key": "value"}},
    ),
)

HONEST = {
    "a Deployment": deployed(),
    "the passwords of a site": made("secrets", type="Opaque", immutable=True, **PASSWORDS),
    "a Service": service(type="NodePort"),
    "a claim": claim(),
    "an owner for the passwords": changed("secrets", "blog-mysql", {"metadata": {"labels": {"a": "b"}}}),
    "a change of what somebody else has put a label on": changed(
        "deployments", "wp", {"spec": {"replicas": 2}}
    ),
    "the certificate of the webhooks": certificate(CERTIFICATE),
    "an owner for passwords that somebody has fixed": changed(
        "secrets", "fixed", {"metadata": {"labels": {"a": "b"}}}
    ),
    "a change of pods that somebody has put a finalizer on": changed(
        "deployments", "watched", {"spec": {"replicas": 2}}
    ),
    "a change of a Service that has got an address": changed(
        "services", "addressed", {"spec": {"type": "LoadBalancer"}}
    ),
    "a change of what somebody else has put a finalizer on": changed(
        "services", "kept", {"metadata": {"labels": {"a": "b"}}}
    ),
    "limits that somebody has set": contained(resources={"limits": {"cpu": 1, "memory": "1Gi"}}),
    "a volume of what is let pass by itself": projected(
        {"configMap": {"name": "settings"}},
        {"secret": {"name": "theirs"}},
        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ),
    "a Service that led elsewhere": changed("services", "abroad", {"spec": {"type": "ClusterIP"}}),
    "a sidecar that somebody has added": deployed(
        initContainers=[{"name": "side", "image": "side", "restartPolicy": "Always"}],
        volumes=[{"name": "data", "emptyDir": {}}, {"name": "settings", "configMap": {"name": "settings"}}],
    ),
}

TOKEN_OF_KUBE_SYSTEM = {"annotations": {"kubernetes.io/service-account.name": "namespace-controller"}}
ESCALATIONS = {
    "the token of another account": made(
        "secrets", "kube-system", metadata=TOKEN_OF_KUBE_SYSTEM, type="kubernetes.io/service-account-token"
    ),
    "a token to join the cluster with": made(
        "secrets",
        "kube-system",
        metadata={"name": "bootstrap-token-abcdef"},
        type="bootstrap.kubernetes.io/token",
        stringData={"token-id": "abcdef", "token-secret": "0123456789abcdef"},
    ),
    "settings of another program": made("secrets", stringData={"server": "elsewhere"}),
    "a certificate elsewhere": made(
        "secrets",
        metadata={"name": "webhook-server-cert"},
        type="kubernetes.io/tls",
        data={"tls.crt": "", "tls.key": ""},
    ),
    "the certificate of another program": certificate("other-webhook-server-cert"),
    "a certificate that nobody can renew": certificate(CERTIFICATE, immutable=True),
    "passwords that nobody can change any more": changed("secrets", "blog-mysql", {"immutable": True}),
    "other passwords": changed("secrets", "blog-mysql", {"data": {"password": "b3RoZXI="}}),
    "a Secret of others": changed("secrets", "theirs", {"stringData": {"password": "mine"}}),
    "no passwords": deleted("v1", "secrets", "blog-mysql"),
    "no Service": deleted("v1", "services", "blog"),
    "no claim": deleted("v1", "persistentvolumeclaims", "unbound"),
    "no Deployment": deleted("apps/v1", "deployments", "wp"),
    "the label on what is not ours": changed(
        "services", "kube-dns", {"metadata": {"labels": LABELS}}, namespace="kube-system"
    ),
    "a finalizer that nobody takes away": finalized("example.com/keep", claim()),
    "the finalizer of claims, on passwords": finalized(
        "kubernetes.io/pvc-protection", made("secrets", type="Opaque", **PASSWORDS)
    ),
    "a finalizer of pods that nobody takes away": templated(finalizers=["example.com/keep"]),
    "a finalizer of pods that nobody takes away, later": changed(
        "deployments", "wp", {"spec": {"template": {"metadata": {"finalizers": ["example.com/keep"]}}}}
    ),
    "the finalizer of a load balancer": changed("services", "kept", {"metadata": {"finalizers": None}}),
    "a finalizer of a definition": redefined("/metadata/finalizers", ["example.com/keep"]),
    "another authority of a definition, by a note": redefined(
        "/metadata/annotations", {"cert-manager.io/inject-ca-from": "theirs/ca"}
    ),
    "labels of a definition": redefined("/metadata/labels", {"a": "b"}),
    "an external address": service(externalIPs=["10.1.2.3"]),
    "an address of the load balancer": service(type="LoadBalancer", loadBalancerIP="203.0.113.5"),
    "an external name": service(type="ExternalName", externalName="elsewhere.example"),
    "pods of others, to the outside": service(type="NodePort", selector={"k8s-app": "kube-dns"}),
    "pods of others that have a tier": service(selector={"app": "shop", "tier": "backend"}),
    "a Service that others lead somewhere": service(selector=None),
    "a volume of others": claim(volumeName="theirs"),
    "a volume of others, later": changed(
        "persistentvolumeclaims", "unbound", {"spec": {"volumeName": "theirs"}}
    ),
    "a copy of a volume": claim(dataSource={"kind": "PersistentVolumeClaim", "name": "theirs"}),
    "the network of the node": deployed(hostNetwork=True, securityContext={}),
    "the processes of the node": deployed(hostPID=True),
    "the memory of the node": deployed(hostIPC=True),
    "another account": deployed(serviceAccountName="admin"),
    "another account, by its old name": deployed(serviceAccount="admin"),
    "an account of a domain": deployed(
        os={"name": "windows"},
        securityContext={"windowsOptions": {"gmsaCredentialSpecName": "admin"}},
        container={"securityContext": {}},
    ),
    "the token of the namespace": deployed(automountServiceAccountToken=True),
    "the token of the namespace, unsaid": deployed(automountServiceAccountToken=None),
    "a token as a volume": projected({"serviceAccountToken": {"path": "token"}}),
    # A server without the feature gate drops the field, and accepts an empty source.
    "a certificate as a volume": projected(
        {
            "podCertificate": {
                "signerName": "example.com/signer",
                "keyType": "ED25519",
                "credentialBundlePath": "bundle",
            }
        }
    ),
    "a path of the node": mounted(hostPath={"path": "/"}),
    "a disk of a network": mounted(nfs={"server": "a", "path": "/"}),
    "a volume of others, made for the pod": mounted(
        ephemeral={"volumeClaimTemplate": {"spec": {**claim().body["spec"], "volumeName": "theirs"}}}
    ),
    "what a driver mounts": mounted(csi={"driver": "secrets.example"}),
    "a device of a plugin": contained(
        resources={"requests": {"vendor.example/fuse": 1}, "limits": {"vendor.example/fuse": 1}}
    ),
    "a runtime that has devices": deployed(runtimeClassName="vendor"),
    "a device": deployed(resourceClaims=[{"name": "device", "resourceClaimName": "theirs"}]),
    "the place of what the cluster needs": deployed(priorityClassName="system-node-critical"),
    "a probe of the node": contained(livenessProbe={"httpGet": {"host": "127.0.0.1", "port": 10250}}),
    "a probe of the node, by TCP": contained(
        startupProbe={"tcpSocket": {"host": "127.0.0.1", "port": 10250}}
    ),
    "a call from the node": contained(
        lifecycle={"postStart": {"httpGet": {"host": "169.254.169.254", "port": 80}}}
    ),
    "a port of the node": contained(ports=[{"containerPort": 80, "hostPort": 80}]),
    "a privileged container": secured(privileged=True),
    "a privileged first container": deployed(
        initContainers=[{"name": "first", "image": "first", "securityContext": {"privileged": True}}]
    ),
    "an added capability": secured(capabilities={"add": ["NET_RAW"]}),
    "more rights than its parent": secured(allowPrivilegeEscalation=True),
    "an open /proc": deployed(hostUsers=False, container={"securityContext": {"procMount": "Unmasked"}}),
    "no seccomp": secured(seccompProfile={"type": "Unconfined"}),
    "no seccomp for all": deployed(securityContext={"seccompProfile": {"type": "Unconfined"}}),
    "no AppArmor": secured(appArmorProfile={"type": "Unconfined"}),
    "no AppArmor, by annotation": templated(
        annotations={"container.apparmor.security.beta.kubernetes.io/wordpress": "unconfined"}
    ),
    "the place of the name service": labelled({"k8s-app": "kube-dns"}),
    "the place of a webhook that is known by the usual labels": labelled(
        {"app.kubernetes.io/name": "webhook", "app.kubernetes.io/component": "webhook"}
    ),
    "the place of the manager itself": labelled({"app.kubernetes.io/name": "operator-manager"}),
    "the place of another tier": labelled({"tier": "control-plane"}),
    "the place of the name service, later": changed(
        "deployments", "wp", {"spec": {"template": {"metadata": {"labels": {"k8s-app": "kube-dns"}}}}}
    ),
    "a ReplicaSet of others, by its label": selecting({"matchLabels": {"app": "theirs"}}, app="theirs"),
    "a ReplicaSet of others, by an expression": selecting(
        {
            "matchLabels": {"app": "theirs", "tier": "frontend"},
            "matchExpressions": [{"key": "app", "operator": "Exists"}],
        },
        app="theirs",
        tier="frontend",
    ),
    "a ReplicaSet of another tier": selecting(
        {"matchLabels": {"app": "theirs"}}, app="theirs", tier="frontend"
    ),
    "another SELinux type": deployed(securityContext={"seLinuxOptions": {"type": "spc_t"}}),
    "a setting of the kernel": deployed(
        securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}
    ),
    "conversion elsewhere": redefined("/spec/conversion/webhook/clientConfig/service", ELSEWHERE),
    "an owner for a definition, with which it goes": redefined(
        "/metadata/ownerReferences",
        [{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "gone"}],
    ),
    "a schema that forgets": redefined("/spec/versions/0/served", value=False),
}


@pytest.mark.oldest
@pytest.mark.parametrize("write", HONEST.values(), ids=HONEST)
def test_admission_policy_admits_the_writes_that_operators_make(thief: ApiAccess, write: Write):
    write.by(thief)


def test_admission_policy_admits_a_write_of_the_conversion_ca_bundle(plane: ControlPlane, thief: ApiAccess):
    authority = plane.credentials.authority
    assert authority is not None
    bundle = base64.b64encode(authority).decode()
    redefined("/spec/conversion/webhook/clientConfig/caBundle", bundle).by(thief)


# Servers before 1.34 drop the field for devices, so they cannot refuse it.
@pytest.mark.parametrize(
    "write",
    [
        pytest.param(write, id=name, marks=[pytest.mark.oldest] * (name != "a device"))
        for name, write in ESCALATIONS.items()
    ],
)
def test_admission_policy_refuses_privilege_escalation_with_a_stolen_manager_token(
    plane: ControlPlane, thief: ApiAccess, write: Write
):
    with pytest.raises(ApiFailure, match=REFUSED) as refused:
        write.by(thief)
    assert refused.value.status == 403
    # The request itself is valid.
    write.by(plane.api)


@pytest.mark.oldest
def test_admission_policy_admits_certificate_secret_writes_only_from_the_webhook_account(
    plane: ControlPlane, thief: ApiAccess, tmp_path: Path
):
    def write_by(operator: str):
        credentials = plane.credentials_of(SYSTEM, f"operator-manager-controller-manager-{operator}")
        access = ApiAccess(credentials, scratch=tmp_path)
        try:
            certificate(CERTIFICATE).by(access)
        finally:
            access.close()

    write_by("foo")
    with pytest.raises(ApiFailure, match=REFUSED):
        write_by("wordpress")


def test_admission_policy_cannot_prevent_a_webhook_rule_change_with_a_stolen_manager_token(thief: ApiAccess):
    # If this test fails, correct the statement in docs/security.md.
    rules = [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}]
    change = [{"op": "replace", "path": "/webhooks/0/rules", "value": rules}]
    Write("PATCH", CONFIGURATION, change, "application/json-patch+json").by(thief)


@pytest.mark.oldest
def test_admission_policy_expressions_have_no_type_check_warnings(plane: ControlPlane):
    def status() -> Any:
        path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/"
        found = plane.api.get(f"{path}operator-manager-manager-limits")
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
        return found["status"]

    assert "expressionWarnings" not in eventually(status).get("typeChecking", {})
