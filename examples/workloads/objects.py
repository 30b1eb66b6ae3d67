"""The objects that the program creates."""

from __future__ import annotations

from manager.api import ObjectMeta
from manager.api.apps_v1 import Deployment
from manager.api.core_v1 import Service
from manager.api.networking_v1 import Ingress

__all__ = ["LABELS", "NAME", "PATH", "REPLICAS", "SELECTOR", "deployment", "ingress", "service"]

NAME = "hello-world"
REPLICAS = 2
PATH = "/hello"
PORT = 80

LABELS = {"app": NAME}
SELECTOR = f"app={NAME}"


def deployment(namespace: str, image: str) -> Deployment:
    """Build a Deployment with two replicas of the image."""
    return Deployment(
        metadata=_metadata(namespace),
        spec={
            "replicas": REPLICAS,
            "selector": {"matchLabels": LABELS},
            "template": {
                "metadata": {"labels": LABELS},
                "spec": {
                    "containers": [
                        {"name": NAME, "image": image, "ports": [{"name": "http", "containerPort": PORT}]}
                    ]
                },
            },
        },
    )


def service(namespace: str) -> Service:
    """Build the Service, the replicas' address within the cluster."""
    return Service(
        metadata=_metadata(namespace),
        spec={"selector": LABELS, "ports": [{"name": "http", "port": PORT, "targetPort": "http"}]},
    )


def ingress(namespace: str) -> Ingress:
    """Build an Ingress to the Service, for clusters with an ingress controller."""
    backend = {"service": {"name": NAME, "port": {"name": "http"}}}
    return Ingress(
        metadata=_metadata(namespace),
        spec={"rules": [{"http": {"paths": [{"path": PATH, "pathType": "Prefix", "backend": backend}]}}]},
    )


def _metadata(namespace: str) -> ObjectMeta:
    return ObjectMeta(name=NAME, namespace=namespace, labels=LABELS)
