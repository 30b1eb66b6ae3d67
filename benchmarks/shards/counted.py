"""A proxy to an API server that counts the received bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tests.support.forwarder import Forwarder
from tests.support.kubeconfig import Credentials
from tests.support.loop_thread import LoopThread

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["CountedWay"]


class CountedWay(LoopThread):
    """A proxy within a `with` block, without TLS knowledge; `kubeconfig` leads clients to it."""

    def __init__(self, kubeconfig: Path, folder: Path, name: str) -> None:
        super().__init__(name)
        self._credentials = Credentials.read(kubeconfig)
        port = urlsplit(self._credentials.server).port
        self._forwarder = Forwarder(lambda: port)
        self.kubeconfig = folder / f"{name}.kubeconfig"

    @property
    def received(self) -> int:
        """Bytes received from the API server so far."""
        return self._forwarder.passed_back

    async def _open(self) -> None:
        await self._forwarder.__aenter__()
        credentials = self._credentials
        Credentials(
            server=f"https://127.0.0.1:{self._forwarder.port}",
            authority=credentials.authority,
            token=credentials.token,
        ).write(self.kubeconfig)

    async def _close(self) -> None:
        await self._forwarder.__aexit__()
