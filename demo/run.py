"""The course of the demo, from its start to its end."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import sys
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import orjson

from demo.board import DEFAULT, Board
from demo.columns import Columns
from demo.programs import ManagerProgram, PetStoreProgram, Ports, Program
from demo.screen import Screen
from demo.webhooks import WebhooksSilent, show_webhooks
from devcluster import DevCluster
from devcluster.http_call import ApiRequest
from devcluster.storage import Change
from manager.util.yaml_text import yaml_documents

__all__ = ["Demo"]

READY_WITHIN = 60.0
REFRESH = 0.2
# A closed terminal sends SIGHUP.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class DemoFailed(Exception):
    """An error that ends the demo; the text is the reason, for the user."""


def load(folder: Path) -> list[dict[str, Any]]:
    """Load the manifests of a folder of `config/`."""
    documents: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.yaml")):
        documents += yaml_documents(path.read_text(encoding="utf-8"))
    return [each for each in documents if each.get("kind") != "Kustomization"]


@contextlib.contextmanager
def sole(folder: Path) -> Iterator[None]:
    """Reserve the folder for this demo; raise DemoFailed if another demo runs in it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise DemoFailed(
                f"another demo runs in {folder}: {file.read() or 'it has just begun'}; stop it, or give this "
                f"one a folder of its own: {os.path.relpath(sys.executable)} -m demo --folder=DIR"
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()}, since {time.strftime('%H:%M:%S')}")
        file.flush()
        yield


class Demo:
    """The demo, which runs until q or Ctrl-C or, with `once`, until all samples are ready."""

    def __init__(self, *, root: Path, folder: Path, once: bool, screen: Screen) -> None:
        self._crds, self._samples = load(root / "config" / "crd" / "bases"), load(root / "config" / "samples")
        self._folder = folder
        self._once = once
        self._screen = screen
        ours = {each["spec"]["names"]["kind"] for each in self._crds}
        self._board = Board(
            (
                (each["kind"], each["metadata"].get("namespace", DEFAULT), each["metadata"]["name"])
                for each in self._samples
                if each["kind"] in ours
            ),
            Columns(self._crds),
        )
        self._hints = ""
        self._programs: list[Program] = []

    async def run(self) -> int:
        """Run the demo; return the exit code: 0 after a clean end, 1 after a failure."""
        try:
            with sole(self._folder):
                return await self._run_alone()
        except DemoFailed as failure:
            self._screen.say(f"\nmake demo: failed: {failure}")
            return 1

    async def _run_alone(self) -> int:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._end, stop)
        async with DevCluster(kubeconfig=self._folder / "kubeconfig", pod_ready_delay=1.0) as cluster:
            await self._run_on(cluster, stop)
        self._screen.say("\nmake demo: everything became ready." if self._once else "\nmake demo: stopped.")
        return 0

    def _end(self, stop: asyncio.Event) -> None:
        """Handle a signal: the first one stops the programs in order, the second one kills them."""
        if stop.is_set():
            for program in self._programs:
                program.kill()
        stop.set()

    async def _run_on(self, cluster: DevCluster, stop: asyncio.Event) -> None:
        self._screen.say(f"devcluster: a Kubernetes API at {cluster.server_url}")
        assert cluster.kubeconfig_path is not None
        async with contextlib.AsyncExitStack() as stack:
            ports = stack.enter_context(Ports())
            petstore = PetStoreProgram(self._folder, ports)
            manager = ManagerProgram(cluster.kubeconfig_path, self._folder, ports, petstore=petstore.address)
            self._programs = [manager, petstore]
            stack.callback(cluster.store.subscribe(self._see))
            await self._apply(cluster, self._crds)
            stack.push_async_callback(petstore.stop)
            await petstore.start()
            self._screen.say(f"petstore: started at {petstore.address}, its log is {petstore.log}")
            stack.push_async_callback(manager.stop)
            await manager.start()
            self._screen.say(f"operator-manager: started, its log is {manager.log}")
            await self._unless_ended(self._ask_webhooks(cluster), stop)
            await self._apply(cluster, self._samples)
            applied = ", ".join(
                f"{each['kind'].lower()}/{each['metadata']['name']}" for each in self._samples
            )
            self._screen.say(f"applied from config/samples/: {applied}\n")
            if not self._once:
                self._hints = look_further(cluster, manager, petstore)
            with self._screen:
                await self._show(self._programs, stop)
            if not self._once:
                self._screen.say("\nstopping the manager, then the other programs ...")

    async def _ask_webhooks(self, cluster: DevCluster) -> None:
        try:
            self._board.answers = await show_webhooks(cluster)
        except WebhooksSilent as silent:
            raise DemoFailed(str(silent)) from silent
        for answer in self._board.answers:
            self._screen.show_news(answer)

    async def _unless_ended(self, work: Coroutine[Any, Any, None], stop: asyncio.Event) -> None:
        working = asyncio.create_task(work, name="webhooks")
        stopped = asyncio.create_task(stop.wait(), name="stop")
        ended = [asyncio.create_task(each.ended(), name=f"watch {each.name}") for each in self._programs]
        waited = [working, stopped, *ended]
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            for each in ended:
                if each.done():
                    raise DemoFailed(each.result())
            if working.done():
                working.result()
        finally:
            for task in waited:
                task.cancel()
            await asyncio.wait(waited)

    async def _show(self, programs: list[Program], stop: asyncio.Event) -> None:
        deadline = asyncio.get_running_loop().time() + READY_WITHIN
        ended = [asyncio.create_task(each.ended(), name=f"watch {each.name}") for each in programs]
        told = False
        try:
            while not stop.is_set() and not self._screen.is_over:
                self._screen.refresh(self._board, self._hints)
                for each in ended:
                    if each.done():
                        raise DemoFailed(each.result())
                if self._board.ready and not told:
                    told = True
                    self._screen.settle(self._hints)
                    if self._once:
                        return
                if self._once and asyncio.get_running_loop().time() > deadline:
                    waiting = "\n".join(self._board.waiting_for())
                    raise DemoFailed(f"not everything was ready within {READY_WITHIN:g} s:\n{waiting}")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), REFRESH)
        finally:
            for each in ended:
                each.cancel()
            await asyncio.wait(ended)
        if self._once:
            raise DemoFailed("it was interrupted before everything was ready")

    async def _apply(self, cluster: DevCluster, objects: list[dict[str, Any]]) -> None:
        for obj in objects:
            group, _, version = obj["apiVersion"].rpartition("/")
            resource = cluster.registry.of_kind(group, version, obj["kind"])
            if resource is None:
                raise DemoFailed(f"{obj['apiVersion']} has no kind {obj['kind']}")
            namespace = obj["metadata"].get("namespace", DEFAULT)
            path = resource.paths[-1].format(namespace=namespace)
            answer = await cluster.handle(
                ApiRequest(
                    method="PATCH",
                    path=f"{path}/{obj['metadata']['name']}",
                    query={"fieldManager": ["demo"], "force": ["true"]},
                    headers={
                        "authorization": f"Bearer {cluster.token}",
                        "content-type": "application/apply-patch+yaml",
                    },
                    body=orjson.dumps(obj),
                )
            )
            if answer.status not in {200, 201}:
                message = orjson.loads(answer.body).get("message", answer.status)
                raise DemoFailed(f"cannot apply {obj['kind']} {obj['metadata']['name']}: {message}")

    def _see(self, change: Change) -> None:
        shown = change.new or change.final
        assert shown is not None
        news = self._board.see(change.key.plural, shown.decode(), gone=change.new is None)
        if news is not None:
            self._screen.show_news(news)


def look_further(cluster: DevCluster, manager: ManagerProgram, petstore: PetStoreProgram) -> str:
    """Return a text with commands that a user can try next."""
    return f"""\
export KUBECONFIG={cluster.kubeconfig_path}
kubectl get memcacheds,foos,pets,wordpresses,mysrvs
kubectl scale memcached/memcached-sample --replicas=5
kubectl run jack --image=nginx                              # makes foo-01 happy
kubectl patch pet pet-sample1 --type=merge -p 'spec: {{name: Thorbert}}'
# refused: born in the future
kubectl patch pet pet-sample1 --type=merge -p 'spec: {{birthday: "2999-01-01"}}'
kubectl get pets.v1alpha1.petstore.example.com -o yaml      # in the old version
{petstore.command} search --address={petstore.address}

console  http://{manager.console}
metrics  http://{manager.metrics}/metrics
health   http://{manager.health}/readyz?verbose
logs     {os.path.relpath(manager.log)} {os.path.relpath(petstore.log)}"""
