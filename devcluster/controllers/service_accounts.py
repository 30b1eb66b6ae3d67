"""Default objects of every namespace: the default ServiceAccount, and the ConfigMap with the cluster's CA."""

from __future__ import annotations

from devcluster.controllers.client import NAMESPACES, Object
from devcluster.controllers.controller import Controller, Environment, Name, Routes
from devcluster.errors import StatusError
from devcluster.storage import Change

ACCOUNTS = ("", "serviceaccounts")
CONFIG_MAPS = ("", "configmaps")
ACCOUNT, CONFIG_MAP = "default", "kube-root-ca.crt"
DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such "
    "as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across "
    "distributions of Kubernetes clusters."
)


class ServiceAccountController(Controller):
    """The controller that keeps the default ServiceAccount and the CA's ConfigMap in every namespace."""

    name = "serviceaccount-controller"

    def __init__(self, environment: Environment, *, ca_pem: str) -> None:
        super().__init__(environment)
        self._ca_pem = ca_pem

    def routes(self) -> Routes:
        return {
            NAMESPACES: self._on_namespace,
            ACCOUNTS: self._on_account,
            CONFIG_MAPS: self._on_config_map,
        }

    async def sync(self, key: Name) -> None:
        name = key[1]
        if self.living(NAMESPACES, ("", name)) is None:
            return
        if self.view.stored(ACCOUNTS, name, ACCOUNT) is None:
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}}
            await self._create("serviceaccounts", name, account)
        present = self.view.get(CONFIG_MAPS, name, CONFIG_MAP)
        if present is None:
            config_map = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": CONFIG_MAP,
                    "annotations": {"kubernetes.io/description": DESCRIPTION},
                },
                "data": {"ca.crt": self._ca_pem},
            }
            await self._create("configmaps", name, config_map)
        elif present.get("data") != {"ca.crt": self._ca_pem}:
            await self.client.update("configmaps", name, {**present, "data": {"ca.crt": self._ca_pem}})

    async def _create(self, resource: str, namespace: str, obj: Object) -> None:
        obj["metadata"]["namespace"] = namespace
        try:
            await self.client.create(resource, namespace, obj)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise

    def _on_namespace(self, change: Change) -> None:
        if change.new is not None and change.old is None:
            self.queue.add(("", change.key.name))

    def _on_account(self, change: Change) -> None:
        if change.key.name == ACCOUNT and change.new is None:
            self.queue.add(("", change.key.namespace))

    def _on_config_map(self, change: Change) -> None:
        if change.key.name == CONFIG_MAP:
            self.queue.add(("", change.key.namespace))
