"""Files of a cluster besides its objects: keys, certificates, tokens and kubeconfigs."""

from __future__ import annotations

import base64
import contextlib
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import Any

import orjson

from devcluster.access.certificates import Authority, Identity
from devcluster.private_files import write_private

_MARK = b"# Written by devcluster, which may overwrite it.\n"
_SERVER_NAMES = (
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "10.96.0.1",
)


class ForeignFile(Exception):
    """Error for a kubeconfig path at which another program's file exists."""


class LocalFiles:
    """Directory for files that only their owner may read.

    With a data file, the directory is `<data>.files` and is kept, so that kubeconfigs and tokens remain valid
    after a restart. Without a data file, it is temporary, and `close` deletes it.
    """

    def __init__(self, data: Path | None) -> None:
        """Create the directory and the CA, or load them; raise OSError if that fails. Blocks briefly."""
        self._temporary = data is None
        if data is None:
            self.directory = Path(tempfile.mkdtemp(prefix="devcluster-"))
        else:
            self.directory = _folder_of(data)
            self.directory.mkdir(mode=0o700, exist_ok=True)
            self.directory.chmod(0o700)
        self.authority = self._authority()

    def close(self) -> None:
        """Delete the directory if it is temporary."""
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def server_identity(self, address: str) -> tuple[Path, Path]:
        """Issue a server certificate for `address`; return the paths of the certificate and of its key."""
        wildcard = address in {"0.0.0.0", "::"}  # noqa: S104 -- only compared with
        hosts = _SERVER_NAMES if wildcard else (*_SERVER_NAMES, address)
        return self._write_identity("server", self.authority.issue("kube-apiserver", hosts=hosts))

    def token(self, name: str) -> str:
        """Return the token stored under `name`; the first call generates it."""
        path = self.directory / f"{name}.token"
        if path.exists() and (kept := path.read_text(encoding="ascii", errors="replace").strip()):
            return kept
        token = secrets.token_urlsafe(24)
        write_private(path, token.encode())
        return token

    @property
    def ca_file(self) -> Path:
        """Path of the file with the CA's certificate."""
        return self.directory / "ca.crt"

    def _authority(self) -> Authority:
        certificate, key = self.directory / "ca.crt", self.directory / "ca.key"
        if certificate.exists() and key.exists():
            with contextlib.suppress(ValueError):
                return Authority.load((certificate.read_bytes(), key.read_bytes()))
        authority = Authority.create()
        self._write_identity("ca", authority.identity)
        return authority

    def _write_identity(self, name: str, identity: Identity) -> tuple[Path, Path]:
        certificate, key = self.directory / f"{name}.crt", self.directory / f"{name}.key"
        write_private(certificate, identity[0])
        write_private(key, identity[1])
        return certificate, key


def signing_key_file(data: Path) -> Path:
    """Return the path of the key that signs ServiceAccount tokens; the file may not exist yet."""
    return _folder_of(data) / "service-accounts.key"


def kubeconfig_of(
    server: str, ca_pem: bytes, *, user: str, token: str = "", identity: Identity | None = None
) -> dict[str, Any]:
    """Build a kubeconfig for one user, with a token or a certificate, and without references to files."""
    credentials: dict[str, str] = {"token": token} if token else {}
    if identity is not None:
        credentials["client-certificate-data"] = base64.b64encode(identity[0]).decode()
        credentials["client-key-data"] = base64.b64encode(identity[1]).decode()
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(ca_pem).decode()}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "devcluster", "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "devcluster", "context": {"cluster": "devcluster", "user": user}}],
        "current-context": "devcluster",
        "preferences": {},
    }


def write_kubeconfig(path: Path, content: dict[str, Any]) -> None:
    """Write a kubeconfig that only its owner can read: a comment, then JSON, which YAML readers accept.

    Raises:
        ForeignFile: another program's file is at the path; it stays unchanged.
        OSError: the file cannot be written.
    """
    if path.exists() and path.stat().st_size and not path.read_bytes().startswith(_MARK):
        raise ForeignFile(f"{path} was not written by devcluster, and is left alone")
    write_private(path, _MARK + orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")


def _folder_of(data: Path) -> Path:
    return data.with_name(data.name + ".files")
