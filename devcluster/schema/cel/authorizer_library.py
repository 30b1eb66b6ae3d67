"""The functions of `authorizer`: whether the user of a request, or a service account, may do something."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import ClassVar

from devcluster.schema.cel.functions import Table, method
from devcluster.schema.cel.types import BOOL, STRING, Type

__all__ = ["AUTHORIZER", "FUNCTIONS", "Authority"]

AUTHORIZER = Type("kubernetes.authorization.Authorizer")
DECISION = Type("kubernetes.authorization.Decision")


@dataclasses.dataclass(frozen=True, slots=True)
class Authority:
    """An authorizer with what is asked so far."""

    type_name: ClassVar[str] = AUTHORIZER.name
    decide: Callable[[Mapping[str, str]], tuple[bool, str]]
    """Returns whether the action with these attributes is allowed, and the reason."""
    asked: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def asking(self, name: str, value: str) -> Authority:
        """Return the authorizer with one more attribute."""
        return Authority(self.decide, {**self.asked, name: value})


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a check."""

    type_name: ClassVar[str] = DECISION.name
    allowed: bool
    reason: str


def _asks(name: str) -> Callable[[Authority, str], Authority]:
    return lambda authority, value: authority.asking(name, value)


def _check(authority: Authority, verb: str) -> Verdict:
    return Verdict(*authority.decide({**authority.asked, "verb": verb}))


def _account(authority: Authority, namespace: str, name: str) -> Authority:
    return authority.asking("account", f"system:serviceaccount:{namespace}:{name}")


FUNCTIONS: Table = {
    **{
        name: [method((AUTHORIZER, STRING), AUTHORIZER, _asks(name))]
        for name in ("group", "resource", "subresource", "namespace", "name", "path")
    },
    "serviceAccount": [method((AUTHORIZER, STRING, STRING), AUTHORIZER, _account)],
    "check": [method((AUTHORIZER, STRING), DECISION, _check)],
    "allowed": [method((DECISION,), BOOL, lambda verdict: verdict.allowed)],
    "reason": [method((DECISION,), STRING, lambda verdict: verdict.reason)],
    "errored": [method((DECISION,), BOOL, lambda _: False)],
    "error": [method((DECISION,), STRING, lambda _: "")],
}
