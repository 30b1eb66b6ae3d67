"""The objects that the program creates, as kubernetes-asyncio's models."""

from __future__ import annotations

from kubernetes_asyncio.client import (
    V1Container,
    V1ContainerPort,
    V1Deployment,
    V1DeploymentSpec,
    V1HTTPIngressPath,
    V1HTTPIngressRuleValue,
    V1Ingress,
    V1IngressBackend,
    V1IngressRule,
    V1IngressServiceBackend,
    V1IngressSpec,
    V1LabelSelector,
    V1ObjectMeta,
    V1PodSpec,
    V1PodTemplateSpec,
    V1Service,
    V1ServiceBackendPort,
    V1ServicePort,
    V1ServiceSpec,
)

__all__ = ["LABELS", "NAME", "PATH", "REPLICAS", "SELECTOR", "deployment", "ingress", "service"]

NAME = "hello-world"
REPLICAS = 2
PATH = "/hello"
PORT = 80

LABELS = {"app": NAME}
SELECTOR = f"app={NAME}"


def deployment(namespace: str, image: str) -> V1Deployment:
    """Return a Deployment with two replicas of the image."""
    container = V1Container(name=NAME, image=image, ports=[V1ContainerPort(name="http", container_port=PORT)])
    template = V1PodTemplateSpec(metadata=V1ObjectMeta(labels=LABELS), spec=V1PodSpec(containers=[container]))
    selector = V1LabelSelector(match_labels=LABELS)
    spec = V1DeploymentSpec(replicas=REPLICAS, selector=selector, template=template)
    return V1Deployment(metadata=_metadata(namespace), spec=spec)


def service(namespace: str) -> V1Service:
    """Return the Service, which is the address of the replicas within the cluster."""
    ports = [V1ServicePort(name="http", port=PORT, target_port="http")]
    return V1Service(metadata=_metadata(namespace), spec=V1ServiceSpec(selector=LABELS, ports=ports))


def ingress(namespace: str) -> V1Ingress:
    """Return an Ingress for the Service; it works on clusters with an ingress controller."""
    backend = V1IngressServiceBackend(name=NAME, port=V1ServiceBackendPort(name="http"))
    path = V1HTTPIngressPath(path=PATH, path_type="Prefix", backend=V1IngressBackend(service=backend))
    rule = V1IngressRule(http=V1HTTPIngressRuleValue(paths=[path]))
    return V1Ingress(metadata=_metadata(namespace), spec=V1IngressSpec(rules=[rule]))


def _metadata(namespace: str) -> V1ObjectMeta:
    return V1ObjectMeta(name=NAME, namespace=namespace, labels=LABELS)
