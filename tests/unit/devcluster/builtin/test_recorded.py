"""The strategies give what the real server gave: its objects and its refusals, as they were recorded."""

from __future__ import annotations

import copy
import datetime
import random
import re
from typing import Any

import pytest

from devcluster.builtin import initial_objects, resources
from devcluster.clock import Clock
from devcluster.errors import FieldError, StatusError, field_invalid
from devcluster.exchange import User
from devcluster.kinds.resource import Resource
from devcluster.kinds.strategy import Context
from devcluster.storage import Key, Store
from tests.recordings.builtin import objects

Json = dict[str, Any]

NOW = "2026-01-31T12:00:00Z"
RECORDED = objects()
RAISED = re.compile('provided IP|no PriorityClass|^Event "a" is invalid: .eventTime')
"""What a strategy refuses by itself, not by naming the fields that are wrong."""
MASKED = frozenset({"uid", "creationTimestamp", "resourceVersion", "lastPhaseTransitionTime"})


def clock() -> Clock:
    return Clock(lambda: datetime.datetime.fromisoformat(NOW).timestamp())


@pytest.fixture
def store() -> Store:
    store = Store()
    by_kind = {(each.api_version, each.kind): each for each in resources()}
    for each in initial_objects(NOW):
        resource = by_kind[each["apiVersion"], each["kind"]]
        metadata = each["metadata"]
        store.create(Key(*resource.stored, metadata.get("namespace", ""), metadata["name"]), each)
    return store


def found(name: str) -> Resource:
    return next(each for each in resources(clock=clock(), rng=random.Random(1)) if each.name == name)


def masked(value: Any) -> Any:
    """Without what differs each time, what is empty, and what other parts of admission add."""
    if isinstance(value, dict):
        kept = {key: masked(each) for key, each in value.items() if key not in MASKED}
        return {
            key: each
            for key, each in kept.items()
            if each not in (None, []) and not (key == "metadata" and each == {})
        }
    if isinstance(value, list):
        return [masked(each) for each in value if not is_token_volume(each)]
    return value


def is_token_volume(value: Any) -> bool:
    return isinstance(value, dict) and str(value.get("name", "")).startswith("kube-api-access")


def expected_errors(answer: Json) -> list[tuple[str, str, str]]:
    return sorted((each["field"], each["reason"], each["message"]) for each in answer["details"]["causes"])


def shown(errors: list[FieldError]) -> list[tuple[str, str, str]]:
    return sorted((each.field, each.reason, each.text) for each in errors)


def without_uids(errors: list[tuple[str, str, str]]) -> list[tuple[str, ...]]:
    """The uid of a refused object is not known."""
    return [
        tuple(re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "", each) for each in error)
        for error in errors
    ]


def created(resource: Resource, sent: Json, uid: str, store: Store) -> tuple[Json, list[FieldError]]:
    """As the API part does it: default, prepare, validate, commit."""
    strategy, new = resource.strategy, copy.deepcopy(sent)
    context = Context(store=store, now=NOW, user=User("admin"), dry_run=True)
    new["metadata"]["uid"] = uid
    strategy.default(new)
    strategy.prepare_create(new, context)
    name = new["metadata"]["name"]
    errors = [
        field_invalid("metadata.name", name, text) for text in strategy.validate_name(name, prefix=False)
    ]
    errors += strategy.validate_create(new, context)
    if not errors:
        strategy.commit(new, None, context)
    return new, errors


@pytest.mark.parametrize(
    "case", [each for each in RECORDED if "old" not in each], ids=lambda each: each["name"]
)
def test_create(case: Json, store: Store) -> None:
    resource, answer = found(case["resource"]), case["answer"]
    sent = copy.deepcopy(case["sent"])
    if resource.namespaced:
        sent["metadata"]["namespace"] = answer.get("metadata", {}).get("namespace") or namespace_of(case)
    uid = answer.get("metadata", {}).get("uid", "")
    if RAISED.search(answer.get("message", "")):
        with pytest.raises(StatusError) as refused:
            created(resource, sent, uid, store)
        assert refused.value.to_status() == answer
        return
    new, errors = created(resource, sent, uid, store)
    if answer["kind"] == "Status":
        assert without_uids(shown(errors)) == without_uids(expected_errors(answer))
    else:
        assert shown(errors) == []
        if resource.kind == "Pod":
            accepted_by_admission(new, answer)
        assert masked(new) == masked(answer)


@pytest.mark.parametrize("case", [each for each in RECORDED if "old" in each], ids=lambda each: each["name"])
def test_update(case: Json, store: Store) -> None:
    resource, answer = found(case["resource"]), case["answer"]
    strategy, old, new = resource.strategy, case["old"], copy.deepcopy(case["sent"])
    before = copy.deepcopy(old)
    context = Context(store=store, now=NOW, user=User("admin"))
    strategy.default(new)
    strategy.prepare_update(new, old, context)
    errors = strategy.validate_update(new, old, context)
    if not errors:
        strategy.commit(new, old, context)
    assert old == before
    if answer["kind"] == "Status":
        assert shown(errors) == expected_errors(answer)
    else:
        assert shown(errors) == []
        for each in (new, answer):
            each.pop("status", None)  # controllers had changed it meanwhile
        assert masked(new) == masked(answer)


def namespace_of(case: Json) -> str:
    about = case["sent"].get("involvedObject") or case["sent"].get("regarding") or {}
    name = about.get("namespace", "any")
    return "any" if name == "other" else name


def accepted_by_admission(pod: Json, answer: Json) -> None:
    """The service account, which is another part's."""
    for name in ("serviceAccount", "serviceAccountName"):
        assert name not in pod["spec"]
        pod["spec"][name] = answer["spec"][name]
