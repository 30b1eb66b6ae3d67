"""Admission policies for the manager's account: they refuse known privilege escalations that RBAC allows."""

from __future__ import annotations

import base64
import contextlib
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
    with contextlib.closing(ApiAccess(credentials, scratch=tmp_path_factory.mktemp("thief"))) as access:

        def is_held() -> None:
            """Assert that the API server enforces the policies already."""
            with pytest.raises(ApiFailure, match=REFUSED):
                ESCALATIONS["privileged container"].by(access)

        eventually(is_held)
        yield access


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
    "create a Deployment": deployed(),
    "create the password Secret of a Wordpress": made("secrets", type="Opaque", immutable=True, **PASSWORDS),
    "create a NodePort Service": service(type="NodePort"),
    "create a PersistentVolumeClaim": claim(),
    "add a label to a password Secret": changed(
        "secrets", "blog-mysql", {"metadata": {"labels": {"a": "b"}}}
    ),
    "scale a Deployment with a pod label of a user": changed("deployments", "wp", {"spec": {"replicas": 2}}),
    "create the webhook certificate Secret": certificate(CERTIFICATE),
    "add a label to an immutable password Secret": changed(
        "secrets", "fixed", {"metadata": {"labels": {"a": "b"}}}
    ),
    "scale a Deployment with a pod finalizer of a user": changed(
        "deployments", "watched", {"spec": {"replicas": 2}}
    ),
    "change a Service with a loadBalancerIP": changed(
        "services", "addressed", {"spec": {"type": "LoadBalancer"}}
    ),
    "add a label to a Service with a finalizer": changed(
        "services", "kept", {"metadata": {"labels": {"a": "b"}}}
    ),
    "create a Deployment with resource limits": contained(resources={"limits": {"cpu": 1, "memory": "1Gi"}}),
    "create a Deployment with a projected volume": projected(
        {"configMap": {"name": "settings"}},
        {"secret": {"name": "theirs"}},
        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ),
    "change an ExternalName Service to ClusterIP": changed(
        "services", "abroad", {"spec": {"type": "ClusterIP"}}
    ),
    "create a Deployment with a sidecar": deployed(
        initContainers=[{"name": "side", "image": "side", "restartPolicy": "Always"}],
        volumes=[{"name": "data", "emptyDir": {}}, {"name": "settings", "configMap": {"name": "settings"}}],
    ),
}

TOKEN_OF_KUBE_SYSTEM = {"annotations": {"kubernetes.io/service-account.name": "namespace-controller"}}
ESCALATIONS = {
    "service account token in kube-system": made(
        "secrets", "kube-system", metadata=TOKEN_OF_KUBE_SYSTEM, type="kubernetes.io/service-account-token"
    ),
    "bootstrap token": made(
        "secrets",
        "kube-system",
        metadata={"name": "bootstrap-token-abcdef"},
        type="bootstrap.kubernetes.io/token",
        stringData={"token-id": "abcdef", "token-secret": "0123456789abcdef"},
    ),
    "Secret with other keys than passwords": made("secrets", stringData={"server": "elsewhere"}),
    "webhook certificate in another namespace": made(
        "secrets",
        metadata={"name": "webhook-server-cert"},
        type="kubernetes.io/tls",
        data={"tls.crt": "", "tls.key": ""},
    ),
    "certificate of another program": certificate("other-webhook-server-cert"),
    "immutable webhook certificate": certificate(CERTIFICATE, immutable=True),
    "password Secret made immutable": changed("secrets", "blog-mysql", {"immutable": True}),
    "changed password": changed("secrets", "blog-mysql", {"data": {"password": "b3RoZXI="}}),
    "change of a foreign Secret": changed("secrets", "theirs", {"stringData": {"password": "mine"}}),
    "deletion of a password Secret": deleted("v1", "secrets", "blog-mysql"),
    "deletion of a Service": deleted("v1", "services", "blog"),
    "deletion of a PersistentVolumeClaim": deleted("v1", "persistentvolumeclaims", "unbound"),
    "deletion of a Deployment": deleted("apps/v1", "deployments", "wp"),
    "managed-by label on a foreign Service": changed(
        "services", "kube-dns", {"metadata": {"labels": LABELS}}, namespace="kube-system"
    ),
    "finalizer on a PersistentVolumeClaim": finalized("example.com/keep", claim()),
    "pvc-protection finalizer on a Secret": finalized(
        "kubernetes.io/pvc-protection", made("secrets", type="Opaque", **PASSWORDS)
    ),
    "pod finalizer in a new Deployment": templated(finalizers=["example.com/keep"]),
    "pod finalizer added to a Deployment": changed(
        "deployments", "wp", {"spec": {"template": {"metadata": {"finalizers": ["example.com/keep"]}}}}
    ),
    "removal of a load balancer finalizer": changed("services", "kept", {"metadata": {"finalizers": None}}),
    "finalizer on a CRD": redefined("/metadata/finalizers", ["example.com/keep"]),
    "CA injection annotation on a CRD": redefined(
        "/metadata/annotations", {"cert-manager.io/inject-ca-from": "theirs/ca"}
    ),
    "changed labels of a CRD": redefined("/metadata/labels", {"a": "b"}),
    "Service with externalIPs": service(externalIPs=["10.1.2.3"]),
    "Service with a loadBalancerIP": service(type="LoadBalancer", loadBalancerIP="203.0.113.5"),
    "ExternalName Service": service(type="ExternalName", externalName="elsewhere.example"),
    "NodePort Service for foreign pods": service(type="NodePort", selector={"k8s-app": "kube-dns"}),
    "Service for foreign pods with a tier label": service(selector={"app": "shop", "tier": "backend"}),
    "Service without a selector": service(selector=None),
    "new claim of a foreign volume": claim(volumeName="theirs"),
    "foreign volume added to a claim": changed(
        "persistentvolumeclaims", "unbound", {"spec": {"volumeName": "theirs"}}
    ),
    "claim that copies a foreign volume": claim(
        dataSource={"kind": "PersistentVolumeClaim", "name": "theirs"}
    ),
    "hostNetwork": deployed(hostNetwork=True, securityContext={}),
    "hostPID": deployed(hostPID=True),
    "hostIPC": deployed(hostIPC=True),
    "serviceAccountName": deployed(serviceAccountName="admin"),
    "deprecated serviceAccount": deployed(serviceAccount="admin"),
    "Windows gMSA account": deployed(
        os={"name": "windows"},
        securityContext={"windowsOptions": {"gmsaCredentialSpecName": "admin"}},
        container={"securityContext": {}},
    ),
    "mounted service account token": deployed(automountServiceAccountToken=True),
    "service account token mounted by default": deployed(automountServiceAccountToken=None),
    "projected service account token": projected({"serviceAccountToken": {"path": "token"}}),
    # A server without the feature gate drops the field, and accepts an empty source.
    "projected pod certificate": projected(
        {
            "podCertificate": {
                "signerName": "example.com/signer",
                "keyType": "ED25519",
                "credentialBundlePath": "bundle",
            }
        }
    ),
    "hostPath volume": mounted(hostPath={"path": "/"}),
    "NFS volume": mounted(nfs={"server": "a", "path": "/"}),
    "ephemeral claim of a foreign volume": mounted(
        ephemeral={"volumeClaimTemplate": {"spec": {**claim().body["spec"], "volumeName": "theirs"}}}
    ),
    "CSI volume": mounted(csi={"driver": "secrets.example"}),
    "device plugin resource": contained(
        resources={"requests": {"vendor.example/fuse": 1}, "limits": {"vendor.example/fuse": 1}}
    ),
    "runtimeClassName": deployed(runtimeClassName="vendor"),
    "resource claim": deployed(resourceClaims=[{"name": "device", "resourceClaimName": "theirs"}]),
    "system priority class": deployed(priorityClassName="system-node-critical"),
    "HTTP probe of the node": contained(livenessProbe={"httpGet": {"host": "127.0.0.1", "port": 10250}}),
    "TCP probe of the node": contained(startupProbe={"tcpSocket": {"host": "127.0.0.1", "port": 10250}}),
    "postStart request to another host": contained(
        lifecycle={"postStart": {"httpGet": {"host": "169.254.169.254", "port": 80}}}
    ),
    "hostPort": contained(ports=[{"containerPort": 80, "hostPort": 80}]),
    "privileged container": secured(privileged=True),
    "privileged init container": deployed(
        initContainers=[{"name": "first", "image": "first", "securityContext": {"privileged": True}}]
    ),
    "added capability": secured(capabilities={"add": ["NET_RAW"]}),
    "allowPrivilegeEscalation": secured(allowPrivilegeEscalation=True),
    "unmasked procMount": deployed(hostUsers=False, container={"securityContext": {"procMount": "Unmasked"}}),
    "container without seccomp": secured(seccompProfile={"type": "Unconfined"}),
    "pod without seccomp": deployed(securityContext={"seccompProfile": {"type": "Unconfined"}}),
    "container without AppArmor": secured(appArmorProfile={"type": "Unconfined"}),
    "AppArmor annotation": templated(
        annotations={"container.apparmor.security.beta.kubernetes.io/wordpress": "unconfined"}
    ),
    "pod label of the cluster DNS": labelled({"k8s-app": "kube-dns"}),
    "pod labels of another webhook": labelled(
        {"app.kubernetes.io/name": "webhook", "app.kubernetes.io/component": "webhook"}
    ),
    "pod label of the manager": labelled({"app.kubernetes.io/name": "operator-manager"}),
    "pod label of another tier": labelled({"tier": "control-plane"}),
    "pod label of the cluster DNS added to a Deployment": changed(
        "deployments", "wp", {"spec": {"template": {"metadata": {"labels": {"k8s-app": "kube-dns"}}}}}
    ),
    "selector of a foreign ReplicaSet": selecting({"matchLabels": {"app": "theirs"}}, app="theirs"),
    "selector with an expression": selecting(
        {
            "matchLabels": {"app": "theirs", "tier": "frontend"},
            "matchExpressions": [{"key": "app", "operator": "Exists"}],
        },
        app="theirs",
        tier="frontend",
    ),
    "selector without a tier": selecting({"matchLabels": {"app": "theirs"}}, app="theirs", tier="frontend"),
    "SELinux type": deployed(securityContext={"seLinuxOptions": {"type": "spc_t"}}),
    "kernel sysctl": deployed(securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}),
    "conversion webhook of another Service": redefined(
        "/spec/conversion/webhook/clientConfig/service", ELSEWHERE
    ),
    "owner reference on a CRD": redefined(
        "/metadata/ownerReferences",
        [{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "gone"}],
    ),
    "unserved CRD version": redefined("/spec/versions/0/served", value=False),
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
        pytest.param(write, id=name, marks=[pytest.mark.oldest] * (name != "resource claim"))
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
        with contextlib.closing(ApiAccess(credentials, scratch=tmp_path)) as access:
            certificate(CERTIFICATE).by(access)

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
