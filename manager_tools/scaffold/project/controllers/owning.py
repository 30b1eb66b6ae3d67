"""Greeting: keeps its children."""

from __future__ import annotations

from base64 import b64encode

from manager import Context, Operator
from manager.api import READY, ObjectMeta
from manager_kinds.apps_v1 import Deployment, StatefulSet
from manager_kinds.batch_v1 import CronJob, Job
from manager_kinds.core_v1 import (
    ConfigMap,
    Namespace,
    PersistentVolumeClaim,
    Pod,
    PodTemplateSpecDict,
    Secret,
    Service,
)
from manager_kinds.networking_v1 import Ingress
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting

__all__ = ["GreetingOperator"]


class GreetingOperator(Operator[Greeting]):
    """Keeps the children of each Greeting."""

    # Of the kinds, methods and statements below `create api --owns` takes those of the wanted children.
    owns = (
        Namespace,
        ConfigMap,
        Secret,
        PersistentVolumeClaim,
        Service,
        Deployment,
        StatefulSet,
        Pod,
        Job,
        CronJob,
        Ingress,
    )

    async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
        """Bring one Greeting up to date."""
        waits: list[str] = []
        await ctx.apply(self.namespace(greeting))
        await ctx.apply(self.config_map(greeting))
        await ctx.apply(self.secret(greeting))
        await ctx.apply(self.persistent_volume_claim(greeting))
        await ctx.apply(self.service(greeting))
        deployment = await ctx.apply(self.deployment(greeting))
        if not deployment.is_rolled_out(greeting.spec.size):
            waits.append(f"{deployment.ready_replicas} of {greeting.spec.size} pods are ready")
        stateful_set = await ctx.apply(self.stateful_set(greeting))
        if (ready := stateful_set.status.get("readyReplicas", 0)) != greeting.spec.size:
            waits.append(f"{ready} of {greeting.spec.size} pods of the StatefulSet are ready")
        pod = await ctx.apply(self.pod(greeting))
        if ("Ready", "True") not in [
            (each["type"], each["status"]) for each in pod.status.get("conditions", [])
        ]:
            waits.append("the Pod is not ready")
        job = await ctx.apply(self.job(greeting))
        if not job.status.get("succeeded"):
            waits.append("the Job has not succeeded")
        await ctx.apply(self.cron_job(greeting))
        await ctx.apply(self.ingress(greeting))
        if waits:
            ctx.condition(READY, False, "Starting", "; ".join(waits))
            return
        greeting.status.size = greeting.spec.size
        ctx.condition(READY, True, "AsWanted", "its children are as wanted", event="Normal")

    def named(self, greeting: Greeting) -> ObjectMeta:
        """Return the metadata of a child."""
        return ObjectMeta(name=greeting.metadata.name, namespace=greeting.metadata.namespace)

    def labels(self, greeting: Greeting) -> dict[str, str]:
        """Return the labels of the pods."""
        return {"app.kubernetes.io/name": "greeting", "app.kubernetes.io/instance": greeting.metadata.name}

    def template(self, labels: dict[str, str]) -> PodTemplateSpecDict:
        """Return the template of pods that run until they are stopped."""
        return {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10"}]},
        }

    def once(self) -> PodTemplateSpecDict:
        """Return the template of pods that end."""
        return {
            "spec": {
                "containers": [{"name": "main", "image": "busybox:1.37", "command": ["true"]}],
                "restartPolicy": "Never",
            }
        }

    def namespace(self, greeting: Greeting) -> Namespace:
        """Return the desired Namespace."""
        return Namespace(metadata=ObjectMeta(name=greeting.metadata.name))

    def config_map(self, greeting: Greeting) -> ConfigMap:
        """Return the desired ConfigMap."""
        return ConfigMap(metadata=self.named(greeting), data={"size": str(greeting.spec.size)})

    def secret(self, greeting: Greeting) -> Secret:
        """Return the desired Secret."""
        size = b64encode(str(greeting.spec.size).encode()).decode()
        return Secret(metadata=self.named(greeting), data={"size": size})

    def persistent_volume_claim(self, greeting: Greeting) -> PersistentVolumeClaim:
        """Return the desired PersistentVolumeClaim."""
        return PersistentVolumeClaim(
            metadata=self.named(greeting),
            spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        )

    def service(self, greeting: Greeting) -> Service:
        """Return the desired Service."""
        return Service(
            metadata=self.named(greeting),
            spec={
                "selector": self.labels(greeting),
                "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
            },
        )

    def deployment(self, greeting: Greeting) -> Deployment:
        """Return the desired Deployment."""
        labels = self.labels(greeting) | {"app.kubernetes.io/component": "deployment"}
        return Deployment(
            metadata=self.named(greeting),
            spec={
                "replicas": greeting.spec.size,
                "selector": {"matchLabels": labels},
                "template": self.template(labels),
            },
        )

    def stateful_set(self, greeting: Greeting) -> StatefulSet:
        """Return the desired StatefulSet."""
        labels = self.labels(greeting) | {"app.kubernetes.io/component": "stateful-set"}
        return StatefulSet(
            metadata=self.named(greeting),
            spec={
                "replicas": greeting.spec.size,
                "serviceName": greeting.metadata.name,
                "selector": {"matchLabels": labels},
                "template": self.template(labels),
            },
        )

    def pod(self, greeting: Greeting) -> Pod:
        """Return the desired Pod."""
        return Pod(metadata=self.named(greeting), spec=self.template({})["spec"])

    def job(self, greeting: Greeting) -> Job:
        """Return the desired Job. Kubernetes changes no template of a Job: another one needs another name."""
        return Job(metadata=self.named(greeting), spec={"template": self.once()})

    def cron_job(self, greeting: Greeting) -> CronJob:
        """Return the desired CronJob."""
        return CronJob(
            metadata=self.named(greeting),
            spec={"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": self.once()}}},
        )

    def ingress(self, greeting: Greeting) -> Ingress:
        """Return the desired Ingress."""
        service = greeting.metadata.name
        return Ingress(
            metadata=self.named(greeting),
            spec={"defaultBackend": {"service": {"name": service, "port": {"number": 80}}}},
        )
