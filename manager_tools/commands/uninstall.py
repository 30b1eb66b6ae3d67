"""Deletion of CustomResourceDefinitions as with `kubectl delete`, with a report of the objects that block it.

    program crds | python -m manager_tools.commands.uninstall KUBECTL

The API server removes a CustomResourceDefinition only after all its objects. It removes an object with a
finalizer only after the object's operator has cleaned up. Without a running manager, `kubectl delete` would
wait for ever without a message.
"""
# ruff: noqa: T201, S603 - this program prints its output, and starts kubectl

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import yaml

from manager.telemetry.logs import on_one_line, shortened

_PATIENCE = 7.0
"""Seconds within which a running manager usually removes its objects."""

_SHOWN = 5
_LONGEST = 1_000
_REMOVED = """'{"metadata":{"finalizers":null}}'"""


def main(kubectl: str) -> int:
    """Delete the manifests from standard input, and return kubectl's exit code."""
    manifests = sys.stdin.read()
    command = [kubectl, "delete", "--ignore-not-found", "-f", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as deleting:
        assert deleting.stdin is not None
        deleting.stdin.write(manifests)
        deleting.stdin.close()
        try:
            return deleting.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            names = [_stored(each) for each in yaml.safe_load_all(manifests) if each]
            _print_waiting([left for name in names for left in _left_of(kubectl, name)])
            return deleting.wait()


def _stored(definition: dict[str, Any]) -> str:
    spec = definition["spec"]
    [version] = (each["name"] for each in spec["versions"] if each["storage"])
    return f"{spec['names']['plural']}.{version}.{spec['group']}"


def _left_of(kubectl: str, name: str) -> list[tuple[str, str, str]]:
    """Return (namespace, RESOURCE/NAME, reason) of each object whose deletion waits for a finalizer.

    The namespace of a cluster-scoped object is "".
    """
    command = [kubectl, "get", name, "--all-namespaces", "--output=json", "--request-timeout=5s"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    items: list[dict[str, Any]] = json.loads(done.stdout)["items"] if done.returncode == 0 else []
    return [
        (metadata.get("namespace", ""), f"{name}/{metadata['name']}", _message(each))
        for each in items
        if (metadata := each["metadata"]).get("deletionTimestamp") and metadata.get("finalizers")
    ]


def _message(item: dict[str, Any]) -> str:
    """Return the Ready condition's message in one short line, because any client may have written it."""
    for condition in (item.get("status") or {}).get("conditions") or []:
        if condition.get("type") == "Ready":
            return on_one_line(shortened(str(condition.get("message", "")), _LONGEST))
    return ""


def _print_waiting(waiting: list[tuple[str, str, str]]) -> None:
    if not waiting:
        return
    lines = [f"Waiting for a manager to clean up {len(waiting)} object(s) that are being deleted:"]
    for namespace, name, message in waiting[:_SHOWN]:
        place = f"{namespace}/{name}" if namespace else name
        lines.append(f"  {place}" + (f": {message}" if message else ""))
    if len(waiting) > _SHOWN:
        lines.append(f"  ... and {len(waiting) - _SHOWN} more")
    namespace, name, _ = waiting[0]
    target = f"-n {namespace} {name}" if namespace else name
    lines += [
        "The deletion goes on once a manager runs: a deployed one (see its pods and logs), or `make run`.",
        "To keep the data outside of the cluster, remove the finalizers of each object; for the first one:",
        f"  kubectl patch {target} --type=merge -p {_REMOVED}",
    ]
    print("\n".join(lines), file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
