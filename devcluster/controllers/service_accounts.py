"""Controller of the objects that every namespace has: a ServiceAccount, and a ConfigMap with the CA."""

from __future__ import annotations

from devcluster.controllers.client import NAMESPACES, ignoring
from devcluster.controllers.controller import Controller, Environment, Name, Routes
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
    """Controller that keeps the ServiceAccount `default` and the CA's ConfigMap in every namespace."""

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
            account = {"metadata": {"name": ACCOUNT, "namespace": name}}
            with ignoring("AlreadyExists"):
                await self.create(ACCOUNTS, account)
        present = self.view.get(CONFIG_MAPS, name, CONFIG_MAP)
        data = {"ca.crt": self._ca_pem}
        if present is None:
            annotations = {"kubernetes.io/description": DESCRIPTION}
            metadata = {"name": CONFIG_MAP, "namespace": name, "annotations": annotations}
            with ignoring("AlreadyExists"):
                await self.create(CONFIG_MAPS, {"metadata": metadata, "data": data})
        elif present.get("data") != data:
            await self.update(CONFIG_MAPS, {**present, "data": data})

    def _on_namespace(self, change: Change) -> None:
        if change.new is not None and change.old is None:
            self.queue.add(("", change.key.name))

    def _on_account(self, change: Change) -> None:
        if change.key.name == ACCOUNT and change.new is None:
            self.queue.add(("", change.key.namespace))

    def _on_config_map(self, change: Change) -> None:
        if change.key.name == CONFIG_MAP:
            self.queue.add(("", change.key.namespace))
