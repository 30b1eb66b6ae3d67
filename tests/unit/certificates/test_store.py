"""Stores of certificates: reads, concurrent writes, damaged contents, and hidden private keys."""

from __future__ import annotations

import asyncio
import base64
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from structlog.testing import capture_logs

from controllers.main import PROGRAM
from manager.certificates.rotation import Rotation
from manager.certificates.store import Changed, FolderStore, Material, SecretStore, Snapshot, StoreUnusable
from manager.kube.transport import Transport
from manager.tls.certificate import Authority, new_authority
from manager.tls.key_pair import CertificateUnusable
from tests.support.scripted_wire import Reply, ScriptedWire

NOW = datetime(2026, 11, 21, tzinfo=UTC)
PATH = "/api/v1/namespaces/system/secrets/webhook-server-cert"
COLLECTION = PATH.rpartition("/")[0]


def material() -> Material:
    authority = new_authority("test", NOW, timedelta(days=9))
    pair = authority.issue(["a.b.svc"], NOW, timedelta(days=3))
    return Material(pair.certificates, pair.key, authority.certificate, authority.key)


def stored(kept: Material, **metadata: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "webhook-server-cert", "namespace": "system", **metadata},
        "type": "kubernetes.io/tls",
        "data": kept.encode(),
    }


@pytest.fixture
def secret_store(transport: Transport) -> SecretStore:
    return SecretStore(transport, PROGRAM, namespace="system", name="webhook-server-cert")


def test_repr_of_certificate_material_omits_private_key():
    kept = material()
    for shown in (kept, Snapshot(kept, stored(kept)), kept.pair, Rotation(kept, NOW).serving):
        assert "PRIVATE" not in repr(shown)
        assert base64.b64encode(kept.key).decode() not in repr(shown)
    authority = Authority(kept.bundle, kept.authority_keys)
    assert "PRIVATE" not in repr(authority)


async def test_secret_store_creates_a_tls_secret_and_keeps_other_keys_of_an_existing_secret(
    wire: ScriptedWire, secret_store: SecretStore
):
    wire.on("POST", COLLECTION, Reply.json({}, status=201))
    kept, found = material(), await secret_store.read()
    assert found.material == Material()
    await secret_store.write(kept, found)
    [sent] = wire.sent("POST", COLLECTION)
    body = sent.json()
    assert body["type"] == "kubernetes.io/tls"
    assert body["data"] == stored(kept)["data"]
    assert sent.query["fieldManager"] == "operator-manager-webhook"
    known = stored(Material(b"damaged"), resourceVersion="7")
    known["data"]["theirs"] = base64.b64encode(b"x").decode()
    wire.on("GET", PATH, Reply.json(known))
    wire.on("PUT", PATH, Reply.json({}))
    await secret_store.write(kept, await secret_store.read())
    [sent] = wire.sent("PUT", PATH)
    assert sent.json()["metadata"]["resourceVersion"] == "7"
    assert sent.json()["data"] == {**stored(kept)["data"], "theirs": known["data"]["theirs"]}


@pytest.mark.parametrize(
    ("method", "path", "code", "reason"),
    [
        ("PUT", PATH, 409, "Conflict"),
        ("PUT", PATH, 404, "NotFound"),
        ("POST", COLLECTION, 409, "AlreadyExists"),
    ],
)
async def test_secret_store_write_fails_when_another_client_changed_the_secret(
    wire: ScriptedWire, secret_store: SecretStore, method: str, path: str, code: int, reason: str
):
    if method == "PUT":
        wire.on("GET", PATH, Reply.json(stored(material())))
    wire.on(method, path, Reply.status(code, reason))
    with pytest.raises(Changed):
        await secret_store.write(material(), await secret_store.read())


async def test_secret_store_write_error_omits_the_secret_data_that_the_api_server_error_contains(
    wire: ScriptedWire, secret_store: SecretStore
):
    kept = material()
    wire.on("GET", PATH, Reply.json(stored(kept)))
    message = f'data: Invalid value: "{base64.b64encode(kept.key).decode()}": field is immutable'
    details = {"causes": [{"field": "data", "message": message}]}
    wire.on("PUT", PATH, Reply.status(422, "Invalid", message, details=details))
    with pytest.raises(StoreUnusable) as error:
        await secret_store.write(kept, await secret_store.read())
    said = "Secret system/webhook-server-cert cannot be written: the API server finds it invalid (data)"
    assert str(error.value) == said


@pytest.mark.virtual_time
async def test_secret_store_returns_the_last_read_certificate_while_the_secret_is_unreadable(
    wire: ScriptedWire, secret_store: SecretStore
):
    message = 'secrets "webhook-server-cert" is forbidden: User "x" cannot get'
    refusal = [Reply.status(403, "Forbidden", message)] * 3
    kept, later = material(), material()
    wire.on("GET", PATH, *refusal, Reply.json(stored(Material())), Reply.json(stored(kept)))
    with pytest.raises(CertificateUnusable, match="has not been read yet"):
        secret_store.pair(NOW)
    with capture_logs() as lines:
        following = asyncio.create_task(secret_store.follow())
        await asyncio.sleep(2.5)
        with pytest.raises(CertificateUnusable, match=r"cannot be read: secrets .* is forbidden"):
            secret_store.pair(NOW)
        await asyncio.sleep(1)
        with pytest.raises(CertificateUnusable, match="has no certificate yet: the leader creates it"):
            secret_store.pair(NOW)
        await asyncio.sleep(1)
        assert secret_store.pair(NOW) == kept.pair
    assert [line["log_level"] for line in lines] == ["warning"]
    wire.on("GET", PATH, *[Reply.status(500, "InternalError")] * 4, Reply.json(stored(later)))
    await asyncio.sleep(6)
    assert secret_store.pair(NOW) == kept.pair
    await asyncio.sleep(20)
    assert secret_store.pair(NOW) == later.pair
    following.cancel()


async def test_folder_store_returns_the_written_certificates_and_its_folder_is_private(tmp_path: Path):
    folder = tmp_path / "local" / "webhook"
    store, kept = FolderStore(folder), material()
    with pytest.raises(CertificateUnusable, match="has no certificate yet"):
        await asyncio.to_thread(store.pair, NOW)
    await store.write(kept, await store.read())
    assert (await FolderStore(folder).read()).material == kept
    assert await asyncio.to_thread(store.pair, NOW) == kept.pair
    assert (folder / "ca.crt").read_bytes() == kept.bundle
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()} == {0o600}
    assert {each.name for each in folder.iterdir()} == {".lock", "ca.crt", "certificates.json"}


async def test_folder_store_accepts_only_one_of_several_concurrent_writes(tmp_path: Path):
    stores = [FolderStore(tmp_path / "shared") for _ in range(8)]
    kept = [material() for _ in stores]
    found = [await store.read() for store in stores]
    writes = (store.write(*each) for store, *each in zip(stores, kept, found, strict=True))
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    assert [type(each) for each in outcomes if each is not None] == [Changed] * 7
    assert (await stores[0].read()).material == kept[outcomes.index(None)]


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"tls.crt": 7}', b'{"tls.crt": "?"}', b"\xff"])
async def test_folder_store_replaces_a_damaged_file(tmp_path: Path, content: bytes):
    (tmp_path / "certificates.json").write_bytes(content)
    store, kept = FolderStore(tmp_path), material()
    found = await store.read()
    assert found.material == Material()
    await store.write(kept, found)
    assert (await store.read()).material == kept
    assert orjson.loads((tmp_path / "certificates.json").read_bytes()).keys() == kept.encode().keys()


def test_folder_store_refuses_a_folder_that_another_user_owns_or_can_write_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store = FolderStore(tmp_path)
    found = store.look()
    for mode in (0o720, 0o702):
        tmp_path.chmod(mode)
        for attempt in (store.read(), store.write(material(), found)):
            with pytest.raises(StoreUnusable, match=f"others may write to {tmp_path}: chmod go-w {tmp_path}"):
                asyncio.run(attempt)
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnusable, match=r"certificates.json cannot be .*: Not a directory"):
        FolderStore(tmp_path / "file" / "folder").look()
    # A folder of root would be accepted.
    os.chown(tmp_path, tmp_path.stat().st_uid or 1, -1)
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(StoreUnusable, match=f"{tmp_path} belongs to another user"):
        store.look()
