"""The webhooks of a conversation: an HTTPS server on loopback that answers as its steps say."""

from __future__ import annotations

import base64
import contextlib
import functools
import http.server
import ipaddress
import json
import ssl
import threading
import time
from typing import TYPE_CHECKING, Any

from cryptography import x509

from tests.support.certificates import Authority

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["WebhookServer"]

Object = dict[str, Any]


class WebhookServer:
    """Serves from construction to `close`; by default it allows everything and changes nothing."""

    def __init__(self, folder: Path) -> None:
        """`folder` takes its key."""
        authority, address = _authority(), ipaddress.ip_address("127.0.0.1")
        self.ca_bundle = base64.b64encode(authority.pem).decode()
        certificate, key = authority.server(x509.IPAddress(address))
        file = folder / "webhook.pem"
        file.write_bytes(certificate + key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        self._server = http.server.ThreadingHTTPServer((str(address), 0), _handler(self))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._server.daemon_threads = True
        self.url = f"https://{address}:{self._server.server_port}"
        self.answers: dict[str, Object] = {}
        """By path: what stands in the conversation."""
        self._reviews: dict[str, list[Object]] = {}
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def asked(self, path: str) -> list[Object]:
        """What was asked at a path since this was last called."""
        return self._reviews.pop(path, [])

    def answer(self, path: str, review: Object) -> tuple[int, str]:
        """Status and body of the answer to a review."""
        self._reviews.setdefault(path, []).append(review)
        told = self.answers.get(path, {})
        time.sleep(told.get("delay", 0))
        if "text" in told or "status_code" in told:
            return told.get("status_code", 200), told.get("text", "")
        request = review["request"]
        if "rename" in told:
            response = _converted(request, told["rename"])
        else:
            response = {"allowed": True, **told.get("response", {})}
            if "patch" in told:
                patch = json.dumps(told["patch"]).encode()
                response |= {"patchType": "JSONPatch", "patch": base64.b64encode(patch).decode()}
        response = {"uid": request["uid"], **response}
        return 200, json.dumps({**_head(review), "response": response})


def _head(review: Object) -> Object:
    return {"apiVersion": review["apiVersion"], "kind": review["kind"]}


def _converted(request: Object, names: dict[str, str]) -> Object:
    """A conversion of objects that have their only field under another name in each version."""
    wanted = request["desiredAPIVersion"]
    version = wanted.rpartition("/")[2]
    converted = []
    for each in request["objects"]:
        values = list((each.get("spec") or {}).values())
        spec = {names[version]: values[0]} if values else {}
        converted.append({**each, "apiVersion": wanted, "spec": spec})
    return {"convertedObjects": converted, "result": {"status": "Success"}}


@functools.cache
def _authority() -> Authority:
    return Authority("webhooks")


def _handler(server: WebhookServer) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            path = self.path.partition("?")[0].strip("/")
            status, text = server.answer(path, review)
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):  # nobody waits any more
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler
