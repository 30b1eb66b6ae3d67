"""DevCluster, which runs the API server, its storage and the controllers in this process."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from devcluster.access.authentication import ADMIN, Authenticator
from devcluster.access.rbac import RbacAuthorizer
from devcluster.access.reviews import AccessReviews
from devcluster.access.tokens import ServiceAccountTokens
from devcluster.admission import ClusterAdmission, WebhookClient
from devcluster.api.local import LocalClient
from devcluster.api.routing import target_of
from devcluster.api.server import MINIMUM_WATCH_TIMEOUT, ApiServer
from devcluster.builtin import initial_objects, read_recorded, resources
from devcluster.builtin.metrics import MetricsApi
from devcluster.clock import Clock
from devcluster.controllers import Controllers, PodLogs
from devcluster.controllers.images import Image
from devcluster.crd.definition import OBJECT_META, definitions_resource
from devcluster.crd.establish import Establisher
from devcluster.faults import FaultControl
from devcluster.http_call import ApiRequest, ApiResponse, User
from devcluster.kinds.registry import Registry
from devcluster.local_files import LocalFiles, kubeconfig_of, signing_key_file, write_kubeconfig
from devcluster.storage import Disk, Journal, Key, Store
from devcluster.types import schema_of

_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 -- only looked up
"""The address of this machine for a server on all interfaces."""
_LAST = ("Namespace", "default")
_SEEDED = Key("", "namespaces", "", "default")
"""The initial object that is created last; it cannot be deleted."""
_API_PORT = 6443
"""The target port of the API server's own Service when the server has no port."""


class DevCluster:
    """Kubernetes control plane that runs from `start` to `stop`.

        async with DevCluster() as cluster:
            print(cluster.kubeconfig_path)

    `store`, `registry`, `server` and `client` give access to its parts from this process. `faults` injects
    faults. `sessions` simulates the processes that exec, attach and port-forward connect to.
    """

    def __init__(
        self,
        *,
        address: str = "127.0.0.1",
        port: int | None = 0,
        data: Path | str | None = None,
        journal: Disk | None = None,
        kubeconfig: Path | str | None = None,
        controllers: bool = True,
        pod_ready_delay: float = 1.0,
        pod_stop_delay: float = 0.0,
        images: Mapping[str, Image] | None = None,
        history: int | None = None,
        min_request_timeout: float = MINIMUM_WATCH_TIMEOUT,
        admission_plugins: Sequence[str] = (),
        feature_gates: Sequence[str] = (),
        clock: Clock | None = None,
        rng: random.Random | None = None,
        webhooks: WebhookClient | None = None,
    ) -> None:
        """Set up the cluster. Blocks while it reads the data file; a larger file takes longer.

        Args:
            address: Address to listen on; every client that reaches it can try tokens.
            port: Port to listen on; 0 picks a free port. None opens no port: only in-process calls with
                `handle` and `client` are possible.
            data: File that keeps the objects across restarts; keys and tokens are in `<data>.files`.
            journal: Storage for the objects, used instead of the data file.
            kubeconfig: Path for the administrator's kubeconfig; by default a file in `<data>.files` or,
                without `data`, a temporary file.
            controllers: Whether controllers run workloads.
            pod_ready_delay: Seconds from a pod's scheduling until it is ready.
            pod_stop_delay: Seconds from a pod's deletion until its containers stop, at most the grace period.
            images: Simulated programs by image name, in addition to memcached, mysql and wordpress.
            history: Maximum number of stored changes, for watches and old lists; None means HISTORY_CHANGES.
            min_request_timeout: Seconds; a watch without a timeout lasts one to two times as long.
            admission_plugins: Admission plugins to enable, by their names in the real server; the only
                optional one is OwnerReferencesPermissionEnforcement.
            feature_gates: Features to enable that are off by default, by the real server's names.
            clock: Source of the timestamps in objects.
            rng: Source of random UIDs, names, addresses and ports; tokens and keys do not use it.
            webhooks: Client that calls webhooks; by default over HTTPS.

        Raises:
            JournalFailed: The data file cannot be used.
            UnknownPlugin: devcluster does not have one of the admission plugins.
        """
        self.address = address
        self.port = port or 0
        self.token = ""
        self.ca_pem = b""
        self.kubeconfig_path: Path | None = None
        self._listens = port is not None
        self._data = Path(data) if data is not None else None
        self._kubeconfig_file = Path(kubeconfig) if kubeconfig is not None else None
        self._with_controllers = controllers
        self._workloads: dict[str, Any] = {
            "pod_ready_delay": pod_ready_delay,
            "pod_stop_delay": pod_stop_delay,
            "images": images,
        }
        self._files: LocalFiles | None = None
        self._running = contextlib.AsyncExitStack()

        self.clock = clock or Clock()
        self.rng = rng or random.Random()
        self._journal = Journal(self._data) if self._data is not None else journal
        limits = {} if history is None else {"history": history}
        self.store = Store(self._journal, **limits)
        self.registry = Registry([*resources(clock=self.clock, rng=self.rng), definitions_resource()])
        read_recorded()  # blocking is allowed here
        self.authorizer = RbacAuthorizer(self.store)
        key_file = None if self._data is None else signing_key_file(self._data)
        tokens = ServiceAccountTokens(self.store, self.clock, self.rng, key_file)
        self.authenticator = Authenticator(self.authorizer, tokens, target_of)
        self.webhooks = webhooks or WebhookClient(self.store)
        self._establisher = Establisher(
            self.store,
            self.registry,
            self.clock,
            metadata=schema_of(OBJECT_META),
            call_webhook=self.webhooks.call,
        )
        admission = ClusterAdmission(
            self.store,
            self.registry,
            self.webhooks,
            self.rng,
            service_accounts=controllers,
            authorizer=self.authorizer,
            plugins=admission_plugins,
        )
        self._quotas = admission.ledger
        self.server = ApiServer(
            self.store,
            self.registry,
            clock=self.clock,
            rng=self.rng,
            authenticator=self.authenticator,
            authorizer=self.authorizer,
            admission=admission,
            reviews=AccessReviews(self.authenticator, self.authorizer, tokens, self.clock),
            tokens=tokens,
            min_request_timeout=min_request_timeout,
            sharded_lists="ShardedListAndWatch" in feature_gates,
        )
        MetricsApi(self.store, self.registry, self.clock)
        self.client = LocalClient(self.server)
        self.sessions = self.server.subresources.pods.sessions
        self.faults = FaultControl(self.store, self.server.handle, self.authenticator.authenticate)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start the cluster; when this returns, it serves requests.

        Raises:
            OSError: the address is not available, or a file cannot be written.
            ForeignFile: another program's file is at the kubeconfig's path.
        """
        async with contextlib.AsyncExitStack() as starting:
            if self._journal is not None:
                starting.push_async_callback(self._journal.aclose)
            listener = None
            if self._listens:
                family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
                listener = socket.create_server((self.address, self.port), family=family)
                starting.callback(listener.close)
                self.port = listener.getsockname()[1]
            starting.push_async_callback(self.webhooks.close)
            self._seed()
            self._establisher.start()
            starting.callback(self._establisher.stop)
            if listener is not None:
                await self._listen(listener, starting)
            else:
                self.token = secrets.token_urlsafe(24)
            self.authenticator.add(self.token, ADMIN)
            if self._with_controllers:
                await self._start_controllers(starting)
            self._running = starting.pop_all()

    async def stop(self) -> None:
        """Stop the cluster: end the watches, finish running requests, and write pending changes."""
        await self._running.aclose()

    async def handle(self, request: ApiRequest) -> ApiResponse:
        """Answer a request as if it came over the network; injected faults apply."""
        return await self.faults.handle(request)

    @property
    def server_url(self) -> str:
        """The server's URL for clients."""
        host = _LOOPBACK.get(self.address, self.address)
        return f"https://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def kubeconfig(self) -> dict[str, Any]:
        """The administrator's kubeconfig."""
        return kubeconfig_of(self.server_url, self.ca_pem, user="admin", token=self.token)

    def add_user(self, name: str, groups: tuple[str, ...] = (), *, token: str = "") -> str:
        """Add a user, whose rights come only from RBAC; return `token`, or a new token if it is empty."""
        token = token or secrets.token_urlsafe(24)
        self.authenticator.add(token, User(name, tuple(groups)))
        return token

    def user_kubeconfig(
        self, name: str, groups: tuple[str, ...] = (), *, certificate: bool = False
    ) -> dict[str, Any]:
        """Build a kubeconfig for a new user, with a token or with a client certificate."""
        if certificate:
            assert self._files is not None, "certificates need a cluster that listens"
            identity = self._files.authority.issue(name, organizations=groups)
            return kubeconfig_of(self.server_url, self.ca_pem, user=name, identity=identity)
        return kubeconfig_of(self.server_url, self.ca_pem, user=name, token=self.add_user(name, groups))

    def _seed(self) -> None:
        """Create the objects that every new cluster contains."""
        if self.store.get(_SEEDED) is not None:
            return
        port = self.port or _API_PORT
        objects = initial_objects(self.clock.timestamp(), port=port, rng=self.rng)
        # After a kill in the middle of this, the next start creates the missing objects.
        for obj in sorted(objects, key=lambda obj: (obj["kind"], obj["metadata"]["name"]) == _LAST):
            group, _, version = obj["apiVersion"].rpartition("/")
            resource = self.registry.of_kind(group, version, obj["kind"])
            assert resource is not None
            metadata = obj["metadata"]
            key = Key(*resource.stored, metadata.get("namespace", ""), metadata["name"])
            if self.store.get(key) is None:
                self.store.create(key, obj)

    async def _listen(self, listener: socket.socket, starting: contextlib.AsyncExitStack) -> None:
        from devcluster.http_server import HttpServer, server_context  # noqa: PLC0415 - 85 ms, 11 MB: aiohttp

        files = await asyncio.to_thread(LocalFiles, self._data)
        starting.push_async_callback(asyncio.to_thread, files.close)
        context = await asyncio.to_thread(lambda: server_context(*self._prepare(files)))
        server = HttpServer(self.handle)
        await server.start(listener, context)
        starting.push_async_callback(server.stop)

    def _prepare(self, files: LocalFiles) -> tuple[tuple[Path, Path], Path]:
        """Write kubeconfig, keys and certificates.

        Returns:
            the paths of the server's certificate and key, and the path of the CA's certificate.
        """
        self._files = files
        self.ca_pem = files.authority.identity[0]
        self.token = files.token("admin")
        self.kubeconfig_path = self._kubeconfig_file or files.directory / "kubeconfig"
        write_kubeconfig(self.kubeconfig_path, self.kubeconfig)
        return files.server_identity(self.address), files.ca_file

    async def _start_controllers(self, starting: contextlib.AsyncExitStack) -> None:
        controllers = Controllers(
            self.client,
            self.store,
            self.clock,
            self.rng,
            ca_pem=self.ca_pem.decode(),
            ledger=self._quotas,
            **self._workloads,
        )
        self.sessions.logs = PodLogs(self.store, self.clock, controllers.runtime).stream
        await starting.enter_async_context(controllers)
