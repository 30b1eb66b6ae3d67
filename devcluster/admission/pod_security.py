"""Admission plugin PodSecurity, with the levels `baseline` and `restricted` that a namespace's labels set.

It always applies the newest version of the checks, even if the labels name another version.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from devcluster.admission.plugins import Plugin
from devcluster.api.interfaces import AdmissionInfo, add_warning
from devcluster.errors import FieldError, field_invalid, forbidden, invalid
from devcluster.quantity import quoted
from devcluster.storage import Key
from devcluster.storage.store import Store

Object = dict[str, Any]

_PREFIX = "pod-security.kubernetes.io/"
_MODES = ("enforce", "audit", "warn")
_LEVELS = ("privileged", "baseline", "restricted")
_VERSION = re.compile(r"v1\.(0|[1-9]\d*)")
_TEMPLATES = {
    ("", "pods"): ("spec",),
    ("", "podtemplates"): ("template", "spec"),
    ("", "replicationcontrollers"): ("spec", "template", "spec"),
    ("apps", "daemonsets"): ("spec", "template", "spec"),
    ("apps", "deployments"): ("spec", "template", "spec"),
    ("apps", "replicasets"): ("spec", "template", "spec"),
    ("apps", "statefulsets"): ("spec", "template", "spec"),
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template", "spec"),
    ("batch", "jobs"): ("spec", "template", "spec"),
}
"""The path of the pod's specification in each kind of workload."""
_NAMESPACES = ("", "namespaces")
_SHOWN = 10
"""The maximum number of groups of pods in a warning about a namespace."""


class Problem(NamedTuple):
    """Failed check of the plugin PodSecurity, with its reason."""

    reason: str
    detail: str


class PodSecurity(Plugin):
    """Admission plugin that refuses pods below the enforced level of their namespace, or adds warnings.

    Workloads that create pods, such as Deployments, only get warnings.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def concerns(self, info: AdmissionInfo) -> bool:
        if info.subresource or info.operation not in {"CREATE", "UPDATE"}:
            return False
        if info.resource.stored == _NAMESPACES:
            assert info.obj is not None
            return any(each.startswith(_PREFIX) for each in info.obj["metadata"].get("labels") or ())
        return info.resource.stored in _TEMPLATES and bool(self._labels(info.namespace))

    def check(self, info: AdmissionInfo) -> None:
        """Raise StatusError for a pod that the namespace's level forbids, or for invalid labels."""
        if info.obj is None:
            return
        if info.resource.stored == _NAMESPACES:
            self._check_namespace(info, info.obj)
            return
        spec: Any = info.obj
        for name in _TEMPLATES[info.resource.stored]:
            spec = spec.get(name) or {}
        if info.operation == "UPDATE" and info.resource.stored == ("", "pods") and not _images_differ(info):
            return
        labels, metadata = self._labels(info.namespace), info.obj["metadata"]
        for mode in ("enforce", "warn"):
            level, shown = _level(labels, mode)
            problems = violations(level, spec, metadata.get("annotations") or {})
            if not problems:
                continue
            listed = ", ".join(f"{each.reason} ({each.detail})" for each in problems)
            text = f"PodSecurity {quoted(shown)}: {listed}"
            if mode == "warn":
                add_warning(info.warnings, f"would violate {text}")
            elif info.resource.stored == ("", "pods"):
                raise forbidden("", "pods", info.name, f"violates {text}")

    def _check_namespace(self, info: AdmissionInfo, namespace: Object) -> None:
        labels = namespace["metadata"].get("labels") or {}
        wrong = list(_label_errors(labels))
        if wrong:
            raise invalid("", "Namespace", info.name, wrong)
        before = ((info.old or {}).get("metadata") or {}).get("labels") or {}
        level, shown = _level(labels, "enforce")
        if (
            info.operation == "UPDATE"
            and _LEVELS.index(level)
            and (level, shown) != _level(before, "enforce")
        ):
            for text in self._existing(info.name, level, shown):
                add_warning(info.warnings, text)

    def _existing(self, namespace: str, level: str, shown: str) -> Iterator[str]:
        """Yield warnings about existing pods in the namespace that violate the new level."""
        groups: dict[str, list[str]] = {}
        for stored in self._store.select("", "pods", namespace):
            pod = stored.decode()
            problems = violations(level, pod["spec"], pod["metadata"].get("annotations") or {})
            if problems:
                text = ", ".join(each.reason for each in problems)
                groups.setdefault(text, []).append(stored.key.name)
        if groups:
            level = f"PodSecurity enforce level {quoted(shown)}"
            yield f"existing pods in namespace {quoted(namespace)} violate the new {level}"
        for text, (first, *others) in sorted(groups.items(), key=lambda each: each[1][0])[:_SHOWN]:
            more = f" (and {len(others)} other pod{'s' if others[1:] else ''})" if others else ""
            yield f"{first}{more}: {text}"

    def _labels(self, namespace: str) -> Object:
        stored = self._store.get(Key(*_NAMESPACES, "", namespace))
        labels = {} if stored is None else stored.labels
        return {name: value for name, value in labels.items() if name.startswith(_PREFIX)}


def _images_differ(info: AdmissionInfo) -> bool:
    """Return whether an update of a pod changes its images; other updates always pass."""
    new, old = ((each or {}).get("spec") or {} for each in (info.obj, info.old))
    return any(
        [each.get("image") for each in new.get(field) or ()]
        != [each.get("image") for each in old.get(field) or ()]
        for field in ("containers", "initContainers", "ephemeralContainers")
    )


def _level(labels: Object, mode: str) -> tuple[str, str]:
    """Return the level of a mode such as `enforce` or `warn`, and the text `LEVEL:VERSION` for messages."""
    level = labels.get(_PREFIX + mode, "privileged")
    return level, f"{level}:{labels.get(f'{_PREFIX}{mode}-version', 'latest')}"


def _label_errors(labels: Object) -> Iterator[FieldError]:
    for mode in _MODES:
        name, value = _PREFIX + mode, labels.get(_PREFIX + mode)
        if value is not None and value not in _LEVELS:
            text = f"must be one of {', '.join(_LEVELS)}"
            yield field_invalid(f"metadata.labels[{name}]", value, text)
        version = labels.get(f"{name}-version")
        if version is not None and version != "latest" and not _VERSION.fullmatch(version):
            yield field_invalid(f"metadata.labels[{name}-version]", version, 'must be "latest" or "v1.x"')


def violations(level: str, spec: Object, annotations: Object) -> list[Problem]:
    """Return the failed checks of a level for a pod's spec, in the real server's order."""
    checks: list[Callable[[_Pod], Problem | None]] = []
    if level == "baseline":
        checks = [
            _apparmor,
            _capabilities,
            _host_namespaces,
            _host_paths,
            *_BASELINE,
            _seccomp,
            _sysctls,
            _windows,
        ]
    elif level == "restricted":
        checks = [_apparmor, _host_namespaces, *_BASELINE, _sysctls, _windows, *_RESTRICTED]
    pod = _Pod(spec, annotations)
    return [problem for check in checks if (problem := check(pod)) is not None]


class _Pod:
    """Spec of a pod, with its containers in the order of the checks."""

    def __init__(self, spec: Object, annotations: Object) -> None:
        self.spec = spec
        self.annotations = annotations
        self.context: Object = spec.get("securityContext") or {}
        listed = (spec.get(field) or () for field in ("initContainers", "containers", "ephemeralContainers"))
        self.containers: list[tuple[str, Object, Object]] = [
            (each["name"], each, each.get("securityContext") or {}) for part in listed for each in part
        ]

    @property
    def on_windows(self) -> bool:
        """Return whether the pod is for Windows, to which some checks do not apply."""
        return (self.spec.get("os") or {}).get("name") == "windows"

    def found(self, values: Callable[[Object, Object], Sequence[Any]]) -> tuple[list[str], list[Any]]:
        """Return the names of the containers for which `values` finds forbidden values, and these values."""
        found = [(name, values(container, context)) for name, container, context in self.containers]
        return [name for name, bad in found if bad], sorted({each for _, bad in found for each in bad})

    def named(self, bad: Callable[[Object, Object], Any]) -> list[str]:
        """Return the names of the containers for which `bad(container, context)` is true."""
        return [name for name, container, context in self.containers if bad(container, context)]


def _quoted(names: Sequence[Any]) -> str:
    return ", ".join(quoted(str(each)) for each in names)


def _some(one: str, names: Sequence[Any], many: str = "") -> str:
    return f"{(many or f'{one}s') if len(names) > 1 else one} {_quoted(names)}"


def _all(values: Sequence[Any]) -> list[Any]:
    return sorted(set(values))


def _setters(pod_is_bad: Any, containers: Sequence[str]) -> str:
    return " and ".join(
        [*(["pod"] if pod_is_bad else []), *([_some("container", containers)] if containers else [])]
    )


# The baseline level


def _apparmor(pod: _Pod) -> Problem | None:
    def is_bad(context: Object) -> bool:
        return bool((context.get("appArmorProfile") or {}).get("type") == "Unconfined")

    setters, values = [], []
    if is_bad(pod.context):
        setters.append("pod")
    if bad := pod.named(lambda _, context: is_bad(context)):
        setters.append(_some("container", bad))
    if setters:
        values.append("Unconfined")
    shown = [f"AppArmor profile type to {_quoted(values)}"] if values else []
    wrong = sorted(
        f'{name}="{value}"'
        for name, value in pod.annotations.items()
        if name.startswith("container.apparmor.security.beta.kubernetes.io/")
        and value not in {"", "runtime/default"}
        and not value.startswith("localhost/")
    )
    if wrong:
        setters.append(f"annotation{'s' if wrong[1:] else ''}")
        shown.append(", ".join(f'"{each}"' for each in wrong))
    if not setters:
        return None
    text = f"{' and '.join(setters)} must not set {', '.join(shown)}"
    return Problem(f"forbidden AppArmor profile{'s' if len(values) + len(wrong) > 1 else ''}", text)


_DEFAULT_CAPABILITIES = frozenset(
    [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ]
)


def _added(context: Object, allowed: frozenset[str]) -> list[str]:
    capabilities = context.get("capabilities") or {}
    return [each for each in capabilities.get("add") or () if each not in allowed]


def _capabilities(pod: _Pod) -> Problem | None:
    bad, values = pod.found(lambda _, context: _added(context, _DEFAULT_CAPABILITIES))
    if not bad:
        return None
    text = f"{_some('container', bad)} must not include {_quoted(values)} in securityContext.capabilities.add"
    return Problem("non-default capabilities", text)


def _host_namespaces(pod: _Pod) -> Problem | None:
    bad = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(name)]
    return Problem("host namespaces", ", ".join(bad)) if bad else None


def _host_paths(pod: _Pod) -> Problem | None:
    bad = [each["name"] for each in pod.spec.get("volumes") or () if each.get("hostPath") is not None]
    return Problem("hostPath volumes", _some("volume", bad)) if bad else None


def _host_ports(pod: _Pod) -> Problem | None:
    def ports(container: Object) -> list[int]:
        return [each["hostPort"] for each in container.get("ports") or () if each.get("hostPort")]

    bad, values = pod.found(lambda container, _: ports(container))
    if not bad:
        return None
    verb = "use" if bad[1:] else "uses"
    text = (
        f"{_some('container', bad)} {verb} hostPort{'s' if values[1:] else ''} {', '.join(map(str, values))}"
    )
    return Problem("hostPort", text)


def _hosts(pod: _Pod) -> Problem | None:
    def hosts(container: Object) -> list[str]:
        lifecycle = container.get("lifecycle") or {}
        actions = [container.get(f"{each}Probe") for each in ("liveness", "readiness", "startup")]
        actions += [lifecycle.get("postStart"), lifecycle.get("preStop")]
        asked = [((each or {}).get(kind) or {}) for each in actions for kind in ("httpGet", "tcpSocket")]
        return [each["host"] for each in asked if each.get("host")]

    bad, values = pod.found(lambda container, _: hosts(container))
    if not bad:
        return None
    verb = "use" if bad[1:] else "uses"
    return Problem(
        "probe or lifecycle host",
        f"{_some('container', sorted(set(bad)))} {verb} {_some('probe or lifecycle host', values)}",
    )


def _privileged(pod: _Pod) -> Problem | None:
    bad = pod.named(lambda _, context: context.get("privileged"))
    text = f"{_some('container', bad)} must not set securityContext.privileged=true" if bad else ""
    return Problem("privileged", text) if bad else None


def _proc_mount(pod: _Pod) -> Problem | None:
    if pod.spec.get("hostUsers") is False:
        return None
    bad, values = pod.found(lambda _, context: [*{context.get("procMount")} - {None, "Default"}])
    text = f"{_some('container', bad)} must not set securityContext.procMount to {_quoted(values)}"
    return Problem("procMount", text) if bad else None


_SELINUX_TYPES = frozenset({"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"})


def _selinux(pod: _Pod) -> Problem | None:
    def options(context: Object) -> Object:
        return context.get("seLinuxOptions") or {}

    def is_bad(context: Object) -> bool:
        found = options(context)
        return found.get("type", "") not in _SELINUX_TYPES or bool(found.get("user") or found.get("role"))

    setters = _setters(is_bad(pod.context), pod.named(lambda _, context: is_bad(context)))
    if not setters:
        return None
    found = [options(context) for context in (pod.context, *(each for _, _, each in pod.containers))]
    types = _all([each["type"] for each in found if each.get("type", "") not in _SELINUX_TYPES])
    shown = [_some("type", types)] if types else []
    shown += [
        f"{name} may not be set"
        for name in ("user", "role")
        if types and any(each.get(name) for each in found)
    ]
    return Problem(
        "seLinuxOptions", f"{setters} set forbidden securityContext.seLinuxOptions: {'; '.join(shown)}"
    )


def _seccomp_type(context: Object) -> str | None:
    profile = context.get("seccompProfile")
    return None if profile is None else str(profile.get("type", ""))


_CONFINED = frozenset({None, "RuntimeDefault", "Localhost"})


def _seccomp(pod: _Pod) -> Problem | None:
    setters = _setters(
        _seccomp_type(pod.context) not in _CONFINED,
        pod.named(lambda _, context: _seccomp_type(context) not in _CONFINED),
    )
    if not setters:
        return None
    found = [_seccomp_type(each) for each in (pod.context, *(context for _, _, context in pod.containers))]
    values = _all([each for each in found if each not in _CONFINED])
    text = f"{setters} must not set securityContext.seccompProfile.type to {_quoted(values)}"
    return Problem("seccompProfile", text)


_SAFE_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)


def _sysctls(pod: _Pod) -> Problem | None:
    bad = [each["name"] for each in pod.context.get("sysctls") or () if each["name"] not in _SAFE_SYSCTLS]
    return Problem("forbidden sysctls", ", ".join(bad)) if bad else None


def _windows(pod: _Pod) -> Problem | None:
    def is_bad(context: Object) -> bool:
        return bool((context.get("windowsOptions") or {}).get("hostProcess"))

    setters = _setters(is_bad(pod.context), pod.named(lambda _, context: is_bad(context)))
    text = f"{setters} must not set securityContext.windowsOptions.hostProcess=true"
    return Problem("hostProcess", text) if setters else None


# The restricted level


def _escalation(pod: _Pod) -> Problem | None:
    bad = pod.named(lambda _, context: context.get("allowPrivilegeEscalation") is not False)
    if not bad or pod.on_windows:
        return None
    text = f"{_some('container', bad)} must set securityContext.allowPrivilegeEscalation=false"
    return Problem("allowPrivilegeEscalation != false", text)


def _restricted_capabilities(pod: _Pod) -> Problem | None:
    allowed = frozenset({"NET_BIND_SERVICE"})
    keeping = pod.named(
        lambda _, context: "ALL" not in ((context.get("capabilities") or {}).get("drop") or ())
    )
    adding, values = pod.found(lambda _, context: _added(context, allowed))
    shown = []
    if keeping:
        shown.append(f'{_some("container", keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        where = "in securityContext.capabilities.add"
        shown.append(f"{_some('container', adding)} must not include {_quoted(values)} {where}")
    return Problem("unrestricted capabilities", "; ".join(shown)) if shown and not pod.on_windows else None


_VOLUMES = frozenset(
    [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
        "image",
    ]
)


def _volumes(pod: _Pod) -> Problem | None:
    bad: dict[str, str] = {}
    for volume in pod.spec.get("volumes") or ():
        kinds = [name for name, value in volume.items() if name != "name" and value is not None]
        if kinds and not _VOLUMES & {*kinds}:
            bad[volume["name"]] = kinds[0]
    if not bad:
        return None
    verb = "use" if len(bad) > 1 else "uses"
    return Problem(
        "restricted volume types",
        f"{_some('volume', [*bad])} {verb} {_some('restricted volume type', _all([*bad.values()]))}",
    )


def _non_root(pod: _Pod) -> Problem | None:
    wanted = pod.context.get("runAsNonRoot")
    explicit = pod.named(lambda _, context: context.get("runAsNonRoot") is False)
    if setters := _setters(wanted is False, explicit):
        return Problem("runAsNonRoot != true", f"{setters} must not set securityContext.runAsNonRoot=false")
    implicit = pod.named(lambda _, context: context.get("runAsNonRoot") is None)
    if wanted or not implicit:
        return None
    text = f"pod or {_some('container', implicit)} must set securityContext.runAsNonRoot=true"
    return Problem("runAsNonRoot != true", text)


def _root(pod: _Pod) -> Problem | None:
    setters = _setters(
        pod.context.get("runAsUser") == 0, pod.named(lambda _, context: context.get("runAsUser") == 0)
    )
    return Problem("runAsUser=0", f"{setters} must not set runAsUser=0") if setters else None


def _restricted_seccomp(pod: _Pod) -> Problem | None:
    if pod.on_windows or (explicit := _seccomp(pod)) is not None:
        return None if pod.on_windows else explicit
    implicit = pod.named(lambda _, context: _seccomp_type(context) is None)
    if not implicit or _seccomp_type(pod.context) is not None:
        return None
    wanted = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Problem("seccompProfile", f"pod or {_some('container', implicit)} {wanted}")


_BASELINE = (_host_ports, _hosts, _privileged, _proc_mount, _selinux)
_RESTRICTED = (
    _escalation,
    _restricted_capabilities,
    _volumes,
    _non_root,
    _root,
    _restricted_seccomp,
)
