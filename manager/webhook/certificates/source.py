"""What every replica serves: the certificate that is stored, whoever has made it."""

from __future__ import annotations

import asyncio
from datetime import datetime

from manager.kube.errors import KubeError
from manager.logs import get_logger
from manager.tls import CertificateUnusable, KeyPair
from manager.webhook.certificates.folder import FolderStore
from manager.webhook.certificates.secret import SecretStore
from manager.webhook.certificates.store import StoreUnusable

__all__ = ["LocalCertificate", "SecretCertificate"]

_log = get_logger("webhook.certificates")

_FIRST = 1.0
_LATER = 5.0


class SecretCertificate:
    """Implements `CertificateSource` with what `follow` has read last.

    A read every five seconds rather than a watch: it is one object by its name, of which the API server has
    little to do; there is no connection to lose, to resume and to tell from one that went silent; and nothing
    waits for it, as what it brings is renewed a month before it is needed. Until there is a certificate, when
    somebody does wait, it is read every second.
    """

    def __init__(self, store: SecretStore) -> None:
        self._store = store
        self._pair: KeyPair | None = None
        self._problem = f"{store} has not been read yet"

    def __str__(self) -> str:
        return str(self._store)

    def pair(self, now: datetime) -> KeyPair:
        """See `CertificateSource`; answers at once."""
        del now
        if self._pair is None:
            raise CertificateUnusable(self._problem)
        return self._pair

    async def follow(self) -> None:
        """Read the Secret again and again, until cancelled. What went wrong is said when it changes."""
        told = ""
        while True:
            try:
                self._pair = (await self._store.read()).material.pair
                problem = "" if self._pair else f"{self._store} has no certificate yet: the leader makes it"
                self._problem = problem
            except (StoreUnusable, KubeError) as error:
                # What was read once is served on: a server that does not answer has not changed it.
                self._problem = problem = str(error)
                if problem != told:
                    _log.warning("cannot read the certificate of the webhooks", error=problem)
            told = problem
            await asyncio.sleep(_FIRST if self._pair is None else _LATER)


class LocalCertificate:
    """Implements `CertificateSource` with the file of a `FolderStore`."""

    def __init__(self, store: FolderStore) -> None:
        self._store = store

    def __str__(self) -> str:
        return str(self._store)

    def pair(self, now: datetime) -> KeyPair:
        """See `CertificateSource`."""
        del now
        try:
            found = self._store.look().material.pair
        except StoreUnusable as error:
            raise CertificateUnusable(str(error)) from error
        if found is None:
            raise CertificateUnusable(f"{self._store} has no certificate yet: the leader makes it")
        return found
