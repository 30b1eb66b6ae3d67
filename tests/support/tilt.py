"""Recorder of the function calls in a Tiltfile.

Python runs the file, because Starlark's syntax is a part of Python's. Tilt itself may accept less.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.support import ROOT

FUNCTIONS = (
    *("docker_build", "kustomize", "k8s_yaml", "k8s_resource", "local_resource", "sync", "run"),
    *("fall_back_on", "port_forward", "link", "probe"),
    *("exec_action", "http_get_action", "tcp_socket_action"),
)


class TiltfileFailed(Exception):
    """Error: the Tiltfile called `fail`."""


@dataclasses.dataclass
class Tilt:
    """An evaluation of a Tiltfile for a Kubernetes context, with arguments of `tilt up --`."""

    path: Path = ROOT / "Tiltfile"
    context: str = "kind-kind"
    arguments: dict[str, bool] = dataclasses.field(default_factory=dict)
    calls: list[tuple[str, str, dict[str, Any]]] = dataclasses.field(default_factory=list)

    def evaluate(self) -> Tilt:
        """Run the Tiltfile; raise TiltfileFailed if it calls `fail`."""
        functions = {name: self._recorder(name) for name in FUNCTIONS}
        settings = SimpleNamespace(define_bool=self._recorder("define_bool"), parse=lambda: self.arguments)
        names = {"config": settings, "k8s_context": lambda: self.context, "fail": _fail}
        exec(
            compile(self.path.read_text(), self.path, "exec"),
            {**functions, **names, "TRIGGER_MODE_MANUAL": "manual"},
        )
        return self

    def called(self, name: str) -> dict[str, dict[str, Any]]:
        """Return the keyword arguments of each call of the function `name`, by the call's first argument."""
        return {first: named for function, first, named in self.calls if function == name}

    def _recorder(self, name: str) -> Any:
        def record(*given: Any, **named: Any) -> Any:
            self.calls.append((name, str(given[0]) if given else "", named))
            return {"function": name, "given": given, **named}

        return record


def _fail(message: str) -> None:
    raise TiltfileFailed(message)
