"""The settings of the command `run`, and the parsers of their values."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from manager.client.child_label import LABEL_SLICES
from manager.controller import ControllerOptions
from manager.election.lease import LeaseTiming
from manager.settings import Setting, SettingsError, Sources, parse_bool
from manager.telemetry.logs import LogFormat, LogLevel
from manager.util.address import parse_bind_address
from manager.util.duration import parse_duration, parse_wait
from manager.util.program import Program

WebhookCertificates = Literal["auto", "files", "secret", "local"]

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LIMIT = re.compile(r"([^=\s]+)\s*=\s*0*([0-9]{1,9})")
_URL = re.compile(r"https://[^/?#@\s]+/?")
# A controller starts all its workers at once.
_MAX_WORKERS = 10_000
_MAX_ROLLOUTS = 1_000_000

SERVICE_LINK = re.compile(
    r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$"
)
"""Variables that a kubelet sets in every pod for each Service, such as one with the program's name."""


def _names(text: str) -> tuple[str, ...]:
    items = (item.strip() for item in text.split(","))
    return tuple(dict.fromkeys(item for item in items if item))


def _name(pattern: str, longest: int, expected: str, rest: str = "") -> Callable[[str], str]:

    def parse(text: str) -> str:
        if len(text) > longest or not re.fullmatch(pattern, text + rest):
            signs = '"-"' if pattern == _LABEL else '"-" and "."'
            what = f"{expected} is expected, of at most {longest} characters"
            raise ValueError(f"{what}: lower-case letters and digits, with {signs} between them")
        return text

    return parse


_namespace = _name(_LABEL, 63, "a namespace")
_object_name = _name(_SUBDOMAIN, 253, "an object's name")
_name_prefix = _name(_SUBDOMAIN, 200, "the beginning of an object's name", "x")


def _namespaces(text: str) -> tuple[str, ...]:
    found = tuple(map(_namespace, _names(text)))
    if text and not found:
        # No namespace would mean all namespaces, which no user intends by "$A,$B".
        raise ValueError("a namespace is expected between commas")
    return found


def parse_base_url(text: str) -> str:
    """Parse an https URL with a host and an optional port only; raises `ValueError` for any other."""
    try:
        url = urlsplit(text)
        whole = url.scheme == "https" and url.hostname and url.port != 0
    except ValueError:  # no valid port or address
        whole = False
    if not whole or not _URL.fullmatch(text):
        raise ValueError('"https://HOST:PORT" is expected, without a path')
    return text.rstrip("/")


def parse_shard_count(text: str) -> int:
    """Parse a number of shards; 0 disables sharding. Raises ValueError with the expected form."""
    if text not in {"0", *(str(1 << power) for power in range(1, LABEL_SLICES.bit_length()))}:
        raise ValueError(f"0, or a power of two from 2 to {LABEL_SLICES} is expected")
    return int(text)


class OneOf:
    """A parser of text that must be one of the values of a `Literal`."""

    def __init__(self, literal: Any) -> None:
        self.choices: tuple[str, ...] = get_args(literal)

    def __call__(self, text: str) -> Any:
        """Return the text. Raises `ValueError` that lists the valid texts."""
        if text not in self.choices:
            *others, last = map(repr, self.choices)
            raise ValueError(f"{', '.join(others)} or {last} is expected")
        return text


def _limits(lowest: int, most: int) -> Callable[[str], dict[str, int]]:
    """Return a parser of `NAME=N` entries: the name of a controller, and a number from `lowest` to `most`."""

    def parse(text: str) -> dict[str, int]:
        limits: dict[str, int] = {}
        for item in _names(text):
            found = _LIMIT.fullmatch(item)
            if found is None or not lowest <= int(found[2]) <= most:
                what = f"NAME=N is expected, N a whole number from {lowest} to {most}"
                raise ValueError(f'{what}, such as "memcached=4"')
            limits[found[1]] = int(found[2])
        return limits

    return parse


_HELP = """
Settings
  config FILE: YAML file of settings; its keys are the names of these flags without the dashes
Cluster
  kubeconfig FILE: kubeconfig file
  context NAME: context of the kubeconfig
  namespaces NAME,...: namespaces to watch
Controllers
  controllers LIST: controllers to run: '*' for all, 'foo' for foo, '-foo' for all but foo ('*,-foo'); of
      several entries with one name, the first decides
  concurrency NAME=N,...: maximum number of objects that a controller reconciles at once; may be repeated
  max-concurrent-rollouts NAME=N,...: maximum number of a controller's objects that replace their pods at once
      because of another version or other settings; 0 is no limit; may be repeated
  resync-period: interval at which every object is reconciled, even if nothing has changed; 0 is never
  graceful-shutdown-timeout: time that running reconciles get to finish when the manager stops; must be
      shorter than the pod's terminationGracePeriodSeconds
  shutdown-delay: time for which a stopping manager still answers webhooks, although it is no longer ready,
      until API servers use other replicas; runs in parallel with the timeout above
Leader election
  leader-elect: reconcile only while holding the lease, so that several replicas can run; without it, run only
      one replica
  leader-election-id NAME: name of the lease; the same for all replicas of a manager, different for each
      manager
  leader-election-namespace NAME: namespace of the lease
  leader-elect-lease-duration: time after the last renewal of the lease before other replicas take over
  leader-elect-renew-deadline: time that the leader has to renew the lease before it exits; must be shorter
      than the lease duration, so that there are never two leaders
  leader-elect-retry-period: pause between attempts to take or renew the lease
  shards N: divide the objects among all replicas, into N shards with a lease each: N is a power of two, such
      as 16 for up to five replicas; 0 disables shards: with --leader-elect, one replica works
Endpoints
  metrics-bind-address: address of /metrics; 0 disables it; in a pod, the default is :8080 (all interfaces)
  metrics-secure: serve /metrics over HTTPS, only to clients that the API server allows to 'get' it; its
      address is then usually :8443
  metrics-cert-path DIR: folder with the certificate for --metrics-secure, reloaded when it changes; without
      it, the manager creates a self-signed certificate in memory
  metrics-cert-name FILE: name of the certificate's file in --metrics-cert-path
  metrics-cert-key FILE: name of the key's file in --metrics-cert-path
  health-probe-bind-address: address of /healthz and /readyz; 0 disables them; in a pod, the default is :8081
  console-bind-address: address of the console, which `explain` also uses; 0, the default in a pod, disables
      it. At a loopback address outside of pods, it uses plain HTTP and serves all users of the machine.
      Elsewhere, it uses HTTPS with the certificate of --metrics-cert-path, else of the webhooks, else a
      self-signed one. Clients then need the API server's permission to 'get' the object, to 'update' it for
      actions, and to 'get' /console for the overview
  debug-pages: serve /debug/tasks and /debug/profile at the console's address, to clients that may 'get' these
      paths
Webhooks
  enable-webhooks: serve the admission and conversion webhooks of all operators; if false, no webhook
      configuration may refer to this manager
  webhook-bind-address: HTTPS address of the webhooks; 0 disables them; in a pod, the default is :9443, which
      is also needed for an API server in a container on this machine
  webhook-certificates WAY: source of the webhooks' certificate: files (in --webhook-cert-path), secret (the
      leader creates it in a Secret), local (created in --webhook-local-path), or auto: files with
      --webhook-cert-path, local with --webhook-url, else secret in a pod, else local if a test shows that the
      API server reaches 127.0.0.1
  webhook-cert-path DIR: folder with the certificate for webhooks, reloaded when it changes
  webhook-cert-name FILE: name of the certificate's file in --webhook-cert-path
  webhook-cert-key FILE: name of the key's file in --webhook-cert-path
  webhook-client-ca-file FILE: CAs in PEM, reloaded when the file changes: a client of webhooks must present a
      certificate of one of them, except for conversion, because API servers present none for it; without this
      file, every client may call
  webhook-url URL: https://HOST:PORT at which the API server reaches this process without a Service; the
      manager itself then writes the webhook configurations and the conversion of CRDs
  webhook-local-path DIR: folder in which --webhook-certificates=local keeps its CA and its certificate
  webhook-name-prefix TEXT: prefix of the names of the webhook configurations and of the certificate's Secret
Logs
  log-level LEVEL: lowest level of written lines: debug, info, warn or error
  log-format FORMAT: json, console, or auto: console on a terminal, json otherwise
"""
"""The settings under their headings: the name, the placeholder of the value, and the description."""


class Settings:
    """The settings of the command `run`; raises `SettingsError` with one line for an invalid value."""

    config = Setting("config", own=True)
    kubeconfig = Setting(
        "kubeconfig", own=True, unset="KUBECONFIG, else the pod's service account, else ~/.kube/config"
    )
    context = Setting("context", own=True, unset="its current context")
    namespaces = Setting(
        "namespaces", _namespaces, own=True, default="", many=True, also=("WATCH_NAMESPACE",), unset="all"
    )
    controllers = Setting("controllers", _names, own=True, default="*", many=True)
    concurrency = Setting(
        "concurrency",
        _limits(1, _MAX_WORKERS),
        own=True,
        default="",
        many=True,
        unset=f"{ControllerOptions().max_concurrent_reconciles} each",
    )
    max_concurrent_rollouts = Setting(
        "max-concurrent-rollouts",
        _limits(0, _MAX_ROLLOUTS),
        own=True,
        default="",
        many=True,
        unset="as the operator says, or no limit",
    )
    resync_period = Setting("resync-period", parse_wait, own=True, default="10h")
    graceful_shutdown_timeout = Setting("graceful-shutdown-timeout", parse_wait, own=True, default="30s")
    shutdown_delay = Setting("shutdown-delay", parse_wait, own=True, default="0s")
    leader_elect = Setting("leader-elect", parse_bool, own=True, default="false")
    leader_election_id = Setting("leader-election-id", _object_name, own=True, unset="the program's name")
    leader_election_namespace = Setting(
        "leader-election-namespace", _namespace, own=True, unset="the pod's namespace, else the kubeconfig's"
    )
    leader_elect_lease_duration = Setting(
        "leader-elect-lease-duration", parse_duration, own=True, default="15s"
    )
    leader_elect_renew_deadline = Setting(
        "leader-elect-renew-deadline", parse_duration, own=True, default="10s"
    )
    leader_elect_retry_period = Setting("leader-elect-retry-period", parse_duration, own=True, default="2s")
    shards = Setting("shards", parse_shard_count, own=True, default="0")
    metrics_bind_address = Setting(
        "metrics-bind-address", parse_bind_address, own=True, default="127.0.0.1:8080", in_pod=":8080"
    )
    metrics_secure = Setting("metrics-secure", parse_bool, own=True, default="false")
    metrics_cert_path = Setting("metrics-cert-path", own=True)
    metrics_cert_name = Setting("metrics-cert-name", own=True, default="tls.crt")
    metrics_cert_key = Setting("metrics-cert-key", own=True, default="tls.key")
    health_probe_bind_address = Setting(
        "health-probe-bind-address", parse_bind_address, own=True, default="127.0.0.1:8081", in_pod=":8081"
    )
    console_bind_address = Setting(
        "console-bind-address", parse_bind_address, own=True, default="127.0.0.1:8082", in_pod="0"
    )
    debug_pages = Setting("debug-pages", parse_bool, own=True, default="false")
    enable_webhooks = Setting(
        "enable-webhooks", parse_bool, own=True, default="true", also=("ENABLE_WEBHOOKS",)
    )
    webhook_bind_address = Setting(
        "webhook-bind-address", parse_bind_address, own=True, default="127.0.0.1:9443", in_pod=":9443"
    )
    webhook_certificates: Setting[WebhookCertificates] = Setting(
        "webhook-certificates", OneOf(WebhookCertificates), own=True, default="auto"
    )
    webhook_cert_path = Setting("webhook-cert-path", own=True)
    webhook_cert_name = Setting("webhook-cert-name", own=True, default="tls.crt")
    webhook_cert_key = Setting("webhook-cert-key", own=True, default="tls.key")
    webhook_client_ca_file = Setting("webhook-client-ca-file", own=True)
    webhook_url = Setting("webhook-url", parse_base_url, own=True)
    webhook_local_path = Setting("webhook-local-path", own=True, default=".local/webhook")
    webhook_name_prefix = Setting(
        "webhook-name-prefix", _name_prefix, own=True, unset="the program's name and a dash"
    )
    log_level: Setting[LogLevel] = Setting("log-level", OneOf(LogLevel), own=True, default="info")
    log_format: Setting[LogFormat] = Setting("log-format", OneOf(LogFormat), own=True, default="auto")

    def __init__(self, sources: Sources) -> None:
        self.settings = sources.load(OWN)
        self._sources = sources
        try:
            self._check()
        except ValueError as error:
            raise SettingsError(str(error)) from None

    def is_given(self, setting: Setting[Any]) -> bool:
        """Return whether a flag, a variable or the file sets the setting, even to its default value."""
        return self._sources.find(setting) is not None

    @property
    def lease_timing(self) -> LeaseTiming:
        """Return the three durations of an election. Raises ValueError for an invalid combination."""
        return LeaseTiming(
            lease_duration=self.leader_elect_lease_duration,
            renew_deadline=self.leader_elect_renew_deadline,
            retry_period=self.leader_elect_retry_period,
        )

    def _check(self) -> None:
        _ = self.lease_timing
        if self.metrics_cert_path is not None and not self.metrics_secure:
            raise ValueError(
                "--metrics-cert-path is given without --metrics-secure, and metrics would go over plain HTTP"
            )
        way = self.webhook_certificates
        if way == "files" and self.webhook_cert_path is None:
            raise ValueError("--webhook-certificates=files needs --webhook-cert-path")
        if way == "local" and self.webhook_url is None:
            raise ValueError(
                "--webhook-certificates=local needs --webhook-url: the certificate is for the host in it"
            )
        if self.webhook_cert_path is not None and way in {"secret", "local"}:
            raise ValueError(f"--webhook-cert-path is given, and not used by --webhook-certificates={way}")
        if self.webhook_cert_path is not None and self.webhook_url is not None:
            raise ValueError(
                "--webhook-url is given with --webhook-cert-path, and the manager does not know the "
                "authority of files: leave out either, and without the URL configure the API server by hand"
            )


def _described() -> Iterator[Setting[Any]]:
    heading = ""
    for line in re.sub(r"\n {6}", " ", _HELP).strip().splitlines():
        if not line.startswith(" "):
            heading = line
            continue
        title, _, text = line.strip().partition(": ")
        name, _, placeholder = title.partition(" ")
        setting: Setting[Any] = getattr(Settings, name.replace("-", "_"))
        setting.describe(heading, placeholder, text)
        yield setting


OWN = tuple(_described())
"""The settings of the manager itself, in the order of the help."""


def unknown_variables(program: Program, declared: Iterable[Setting[Any]] = ()) -> dict[str, str | None]:
    """Return environment variables with the program's prefix that are no settings, with suggestions.

    `declared` are the operators' settings: their variables lack the prefix, but can be suggested.
    """
    known = {
        name.removeprefix(program.variables): name
        for setting in (*OWN, *declared)
        for name in setting.variables(program)
    }
    unknown: dict[str, str | None] = {}
    for name in sorted(os.environ):
        if not name.startswith(program.variables) or name in known.values() or SERVICE_LINK.search(name):
            continue
        close = difflib.get_close_matches(name.removeprefix(program.variables), known, n=1)
        unknown[name] = known[close[0]] if close else None
    return unknown
