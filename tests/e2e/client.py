"""A client program that runs in a pod: it calls Services and prints JSON.

It needs only Python's standard library.

    client.py COMMAND ARGUMENT...
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import sys
import urllib.parse
import xmlrpc.client
from typing import Any

PATIENCE = 30.0


def request(url: str, form: str = "", *headers: str) -> dict[str, Any]:
    """GET a URL, or POST the form `form` (`a=b&c=d`), and follow no redirect; headers are NAME:VALUE."""
    parts = urllib.parse.urlsplit(url)
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = ssl.create_default_context()
        # The manager made the certificate itself, and this pod does not know its authority.
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(parts.netloc, timeout=PATIENCE, context=context)
    else:
        connection = http.client.HTTPConnection(parts.netloc, timeout=PATIENCE)
    sent = dict(each.split(":", 1) for each in headers)
    if form:
        sent["Content-Type"] = "application/x-www-form-urlencoded"
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    connection.request("POST" if form else "GET", target or "/", form or None, sent)
    answer = connection.getresponse()
    body = answer.read().decode("utf-8", "replace")
    return {"status": answer.status, "location": answer.getheader("Location") or "", "body": body}


def memcached(host: str, *pairs: str) -> dict[str, str]:
    """Store KEY=VALUE pairs; return the values read over the same connection."""
    with socket.create_connection((host, 11211), PATIENCE) as connection, connection.makefile("rb") as lines:
        stored: dict[str, str] = {}
        for key, value in (pair.split("=", 1) for pair in pairs):
            connection.sendall(f"set {key} 0 0 {len(value)}\r\n{value}\r\nget {key}\r\n".encode())
            answer = lines.readline()
            if answer != b"STORED\r\n":
                raise SystemExit(f"memcached answers {answer!r} to set")
            lines.readline()
            stored[key] = lines.readline().decode().rstrip("\r\n")
            lines.readline()
        return stored


def fill(host: str) -> int:
    """Store up to 200 values of 1 MB, until the server closes the connection; return the number stored."""
    value = b"x" * 1_000_000
    with socket.create_connection((host, 11211), PATIENCE) as connection, connection.makefile("rb") as lines:
        for number in range(200):
            try:
                connection.sendall(b"set %d 0 0 %d\r\n%s\r\n" % (number, len(value), value))
                if not lines.readline():
                    return number
            except OSError:
                return number
    return 200


def publish(url: str, user: str, password: str, title: str) -> str:
    """Publish a post on a WordPress site and return its ID."""
    site = xmlrpc.client.ServerProxy(f"{url}/xmlrpc.php")
    post = {"post_title": title, "post_content": f"{title}, at length.", "post_status": "publish"}
    return str(site.wp.newPost(0, user, password, post))


COMMANDS = {each.__name__: each for each in (request, memcached, fill, publish)}

if __name__ == "__main__":
    print(json.dumps(COMMANDS[sys.argv[1]](*sys.argv[2:])))  # type: ignore[operator]
