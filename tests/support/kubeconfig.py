"""Kubeconfig files: written for the servers that tests start, and read for other servers."""

from __future__ import annotations

import base64
import dataclasses
import ssl
from pathlib import Path
from typing import Any, Self

import yaml

from manager.util.yaml_text import yaml_documents
from tests.support.certificates import trusting


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Address of one server, and credentials for it: a bearer token or a client certificate."""

    server: str
    authority: bytes | None = None
    token: str | None = None
    certificate: bytes | None = None
    key: bytes | None = None

    def write(self, path: Path, *, namespace: str = "default") -> Path:
        """Write a kubeconfig with one context, in a file that only its owner can read."""
        cluster: dict[str, Any] = {"server": self.server}
        if self.authority is None:
            cluster["insecure-skip-tls-verify"] = True
        else:
            cluster["certificate-authority-data"] = _encode(self.authority)
        user: dict[str, Any] = {}
        if self.token is not None:
            user["token"] = self.token
        if self.certificate is not None and self.key is not None:
            user["client-certificate-data"] = _encode(self.certificate)
            user["client-key-data"] = _encode(self.key)
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": user}],
            "contexts": [
                {"name": "test", "context": {"cluster": "test", "user": "test", "namespace": namespace}}
            ],
            "current-context": "test",
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config))
        return path

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the credentials of the current context of a kubeconfig, which must have them inline."""
        (config,) = yaml_documents(path.read_bytes())
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        return cls(
            server=cluster["server"],
            authority=_decode(cluster.get("certificate-authority-data")),
            token=user.get("token"),
            certificate=_decode(user.get("client-certificate-data")),
            key=_decode(user.get("client-key-data")),
        )

    def ssl_context(self, scratch: Path) -> ssl.SSLContext:
        """Return a client's TLS context; write the key to the folder `scratch`, as ssl reads only files."""
        context = trusting(self.authority)
        if self.certificate is not None and self.key is not None:
            scratch.mkdir(parents=True, exist_ok=True)
            pem = scratch / "client.pem"
            pem.touch(mode=0o600)
            pem.write_bytes(self.certificate + self.key)
            context.load_cert_chain(pem)
        return context


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decode(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
