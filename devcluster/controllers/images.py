"""Simulated programs of known images, which decide whether a container runs or exits.

A `Program` gets the container's command line, environment and user, and returns `Running` or `Exited`. The
last part of an image's name selects the program: `memcached:1.6` and `docker.io/library/memcached` select the
same program. A container of an unknown image runs, and its probes succeed. `DevCluster(images=...)` adds
programs.

The messages and exit codes of memcached are those of Debian's memcached 1.6.18. The messages of MySQL and
WordPress come from the official images' entrypoints and from WordPress 6.
"""

from __future__ import annotations

import dataclasses
import functools
import getopt
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import NamedTuple

_HUB = "docker.io"
_LONGEST_NAME = 255
# A possessive pattern, because a shorter match of a part never helps.
_PART = r"[a-z0-9]++(?:(?:\.|__?|-++)[a-z0-9]++)*+"
_REMAINDER = re.compile(
    rf"({_PART}(?:/{_PART})*+)(?::(\w[\w.-]{{0,127}}))?"
    r"(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*+:[0-9a-fA-F]{32,})?",
    re.ASCII,
)
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_DOMAIN = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
_HEXADECIMAL = re.compile(r"[a-f0-9]{64}")


class InvalidImageName(Exception):
    """Error for an invalid image reference; the message is the container runtime's."""


class ImageReference(NamedTuple):
    """Parsed reference of a container image."""

    full: str
    """The image's name with registry and tag."""
    program: str
    """The last part of the image's path, which names the program."""
    tag: str

    @classmethod
    @functools.lru_cache(maxsize=1024)
    def parse(cls, text: str) -> ImageReference:
        """Parse an image reference; raise InvalidImageName if it is invalid."""
        if _HEXADECIMAL.fullmatch(text):
            raise InvalidImageName(
                f"invalid repository name ({text}), cannot specify 64-byte hexadecimal strings"
            )
        domain, slash, rest = text.partition("/")
        has_domain = slash and (set(domain) & {".", ":"} or domain == "localhost" or domain != domain.lower())
        if not has_domain:
            domain, rest = _HUB, text
        if domain == _HUB and "/" not in rest:
            rest = f"library/{rest}"
        repository = rest.partition(":")[0]
        if repository != repository.lower():
            raise InvalidImageName(
                f"invalid reference format: repository name ({repository}) must be lowercase"
            )
        match = _REMAINDER.fullmatch(rest)
        if match is None or not _DOMAIN.fullmatch(domain):
            raise InvalidImageName("invalid reference format")
        path, tag = match.groups()
        if len(domain) + 1 + len(path) > _LONGEST_NAME:
            raise InvalidImageName(f"repository name must not be more than {_LONGEST_NAME} characters")
        full = f"{domain}/{rest}"
        if tag is None and "@" not in rest:
            tag = "latest"
            full += ":latest"
        return cls(full, path.rpartition("/")[2], tag or "")


@dataclasses.dataclass(frozen=True, slots=True)
class Start:
    """Arguments with which a program starts."""

    container: str
    image: ImageReference
    command: Sequence[str] = ()
    """The command that replaces the image's entrypoint; empty for the entrypoint."""
    args: Sequence[str] = ()
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    user: int | None = None
    """The user id in the pod; None for the image's user."""


class HttpRequest(NamedTuple):
    """HTTP request to a simulated container."""

    host: str
    path: str
    headers: Mapping[str, str]
    """The headers, by lower-case name."""


class HttpResponse(NamedTuple):
    """HTTP response of a simulated container."""

    status: int
    location: str = ""
    """The target of a redirect."""
    body: str = ""


HttpHandler = Callable[[HttpRequest], HttpResponse]


@dataclasses.dataclass(frozen=True, slots=True)
class Running:
    """Result of a program that keeps running."""

    ports: Mapping[int, HttpHandler | None] | None = None
    """The open TCP ports, each with its HTTP handler or None; without ports (None), all probes succeed."""
    memory: int = 0
    """The memory usage in bytes; a container with a lower limit is killed."""
    ready: bool = True
    """Whether the program ever becomes ready; if False, its readiness probe does not matter."""


@dataclasses.dataclass(frozen=True, slots=True)
class Exited:
    """Result of a program that exits."""

    code: int
    log: Sequence[str] = ()
    """All lines that the program prints."""
    reason: str = ""
    """The termination reason; by default `Completed` for code 0, else `Error`."""
    after: float | None = None
    """The run time in seconds; None if the container is never seen running."""
    message: str = ""
    """The container runtime's message, for a container that it could not start."""


Program = Callable[[Start], Running | Exited]


@dataclasses.dataclass(frozen=True, slots=True)
class Image:
    """Image that devcluster knows, with its simulated program."""

    program: Program
    user: str = ""
    """The user in the image; empty for root."""


# memcached

_MEGABYTE = 1024 * 1024
_USAGE = 64
_SHORT = "a:AZs:p:c:MkhiVrvdl:u:P:f:n:t:D:LR:Cb:B:I:SFXWY:e:o:m:U:N:"
_LONG = {
    "auth-file=": "-Y", "conn-limit=": "-c", "daemon": "-d", "disable-cas": "-C", "disable-dumping": "-X",
    "disable-evictions": "-M", "disable-flush-all": "-F", "disable-watch": "-W", "enable-coredumps": "-r",
    "enable-largepages": "-L", "enable-sasl": "-S", "enable-shutdown": "-A", "enable-ssl": "-Z",
    "extended=": "-o", "help": "-h", "license": "-i", "listen=": "-l", "listen-backlog=": "-b",
    "lock-memory": "-k", "max-item-size=": "-I", "max-reqs-per-event=": "-R", "memory-file=": "-e",
    "memory-limit=": "-m", "napi-ids=": "-N", "pidfile=": "-P", "port=": "-p", "protocol=": "-B",
    "slab-growth-factor=": "-f", "slab-min-size=": "-n", "threads=": "-t", "udp-port=": "-U",
    "unix-mask=": "-a", "unix-socket=": "-s", "user=": "-u", "verbose": "-v", "version": "-V",
}  # fmt: skip
_POSITIVE = {
    "-c": "Maximum connections must be greater than 0",
    "-n": "Chunk size must be greater than 0",
    "-t": "Number of threads must be greater than 0",
}


def memcached(start: Start) -> Running | Exited:
    """Simulate memcached: parse the command line, then run, or exit on an invalid option."""
    line = [*start.command, *start.args] or ["memcached"]
    if not start.command and line[0].startswith("-"):
        line.insert(0, "memcached")
    if PurePosixPath(line[0]).name != "memcached":
        return Running()
    try:
        found, _ = getopt.gnu_getopt(line[1:], _SHORT, list(_LONG))
    except getopt.GetoptError as error:
        return Exited(1, (f"{line[0]}: {_option_error(error)}", 'Illegal argument "?"'))
    options: dict[str, str] = {}
    for name, value in found:
        short = _LONG.get(f"{name[2:]}=") or _LONG.get(name[2:]) or name
        if short in _POSITIVE and _atoi(value) <= 0:
            return Exited(1, (_POSITIVE[short],))
        options[short] = value
    if options.keys() & {"-h", "-i", "-V"}:
        return Exited(0, (f"memcached {start.image.tag}",))
    memory = _atoi(options.get("-m", "64")) * _MEGABYTE
    if wrong := _usage_error(memory, options, start.user):
        return Exited(_USAGE, (wrong,))
    if "-d" in options:
        return Exited(0)  # the main process of the container ends
    is_local = options.get("-l", "").startswith(("127.", "localhost"))
    ports = {} if is_local else {_atoi(options.get("-p", "11211")): None}
    return Running(ports=ports, memory=max(memory, 0))


def _usage_error(memory: int, options: Mapping[str, str], user: int | None) -> str:
    item = _item_size(options.get("-I", "1m"))
    if item < 1024:  # noqa: PLR2004 -- bytes
        return "Item max size cannot be less than 1024 bytes."
    if 0 <= memory // 2 < item:  # memcached reads a negative limit as a very large one
        return "Cannot set item size limit higher than 1/2 of memory max."
    if item > 1024 * _MEGABYTE:
        return "Cannot set item size limit higher than a gigabyte."
    return "can't run as root without the -u switch" if user == 0 and "-u" not in options else ""


def _option_error(error: getopt.GetoptError) -> str:
    dashes = "-" if len(error.opt) == 1 else "--"
    if "requires argument" in error.msg:
        return (
            f"option requires an argument -- '{error.opt}'"
            if dashes == "-"
            else f"option '--{error.opt}' requires an argument"
        )
    if dashes == "-":
        return f"invalid option -- '{error.opt}'"
    if "must not have" in error.msg:
        return f"option '--{error.opt}' doesn't allow an argument"
    return f"unrecognized option '--{error.opt}'"


def _atoi(text: str) -> int:
    """Return the number at the start of the text, or 0 if it does not begin with one, as C's atoi does."""
    match = re.match(r"\s*([+-]?[0-9]{1,18})", text)
    return int(match[1]) if match else 0


def _item_size(text: str) -> int:
    return _atoi(text) * {"k": 1024, "m": _MEGABYTE}.get(text[-1:].lower(), 1)


# MySQL

_PASSWORDS = ("MYSQL_ROOT_PASSWORD", "MYSQL_ALLOW_EMPTY_PASSWORD", "MYSQL_RANDOM_ROOT_PASSWORD")


def mysql(start: Start) -> Running | Exited:
    """Simulate mysql: check the environment as the official image's entrypoint does for an empty volume."""
    first = PurePosixPath(next(iter((*start.command, *start.args)), "mysqld")).name
    if start.command or not (first == "mysqld" or first.startswith("-")):
        return Running()
    log: tuple[str, ...] = ()
    if not any(start.env.get(name) for name in _PASSWORDS):
        log = (
            "[ERROR] [Entrypoint]: Database is uninitialized and password option is not specified",
            "    You need to specify one of the following as an environment variable:",
            *(f"    - {name}" for name in _PASSWORDS),
        )
    elif start.env.get("MYSQL_USER") == "root":
        why = "are for configuring a regular user and cannot be used for the root user"
        log = (f'[ERROR] [Entrypoint]: MYSQL_USER="root", MYSQL_USER and MYSQL_PASSWORD {why}',)
    return Exited(1, log) if log else Running(ports={3306: None})


# WordPress


def wordpress(start: Start) -> Running | Exited:
    """Simulate wordpress: serve a site that is not installed yet."""
    first = next(iter((*start.command, *start.args)), "apache2-foreground")
    if start.command or first != "apache2-foreground":
        return Running()
    return Running(ports={9000: None} if "fpm" in start.image.tag else {80: _uninstalled_site})


def _uninstalled_site(request: HttpRequest) -> HttpResponse:
    """Return 200 for files and the installer, else a redirect to it: to HTTPS if a proxy's header says so."""
    if request.path == "/wp-admin/install.php" or _is_file(request.path):
        return HttpResponse(200)
    scheme = "https" if "https" in request.headers.get("x-forwarded-proto", "") else "http"
    return HttpResponse(302, f"{scheme}://{request.host}/wp-admin/install.php")


def _is_file(path: str) -> bool:
    """Return whether Apache serves the path as a file, without running WordPress."""
    return path in {"/license.txt", "/readme.html"} or path.endswith((".css", ".js"))


IMAGES: Mapping[str, Image] = MappingProxyType(
    {
        "memcached": Image(memcached, user="memcache"),
        "mysql": Image(mysql),
        "wordpress": Image(wordpress),
    }
)
"""The known images, by the last part of their names."""
