"""Admission reviews: the arguments of webhook functions, and the responses to the API server."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import Iterable
from functools import partial
from typing import Any

import hypothesis
import jsonpatch
import orjson
import pytest
from hypothesis import strategies as st

from manager.api import GroupVersionKind
from manager.telemetry.metrics import Metrics
from manager.webhook import (
    Admission,
    AdmissionOptions,
    AdmissionRequest,
    JsonObject,
    Refused,
    invalid,
    validate_create,
    validate_update,
)
from manager.webhook.admission import AdmissionEndpoint, json_patch
from manager.webhook.endpoint import LINES, BadReview, Unanswered
from manager.webhook.methods import registrations
from tests.unit.conftest import LogLines
from tests.unit.webhook.reviews import OldThing, Operation, Thing, admission_review, patch_of, response, thing


def endpoints_of(admission: Admission[Any], metrics: Metrics) -> list[AdmissionEndpoint]:
    return [AdmissionEndpoint(each, panics=metrics.webhook_panics) for each in admission.webhooks]


class Functions:
    """Webhook functions that record their arguments and do what the test sets."""

    def __init__(self) -> None:
        self.given: list[tuple[Any, ...]] = []
        self.does: Any = None
        self.metrics = Metrics()
        admission = Admission(Thing, timeout_seconds=5)
        for role in ("default", "validate_create", "validate_update", "validate_delete"):
            admission.functions[role] = self.function()
        self.mutating, self.validating = endpoints_of(admission, self.metrics)

    def function(self) -> Any:
        """Return a new webhook function of any role."""
        return partial(self._do)

    @property
    def panics(self) -> float:
        return self.metrics.registry.get_sample_value("controller_runtime_webhook_panics_total") or 0

    async def _do(self, *given: Any) -> Any:
        self.given.append(given)
        if isinstance(self.does, BaseException):
            raise self.does
        return await self.does(*given) if callable(self.does) else self.does


@pytest.fixture
def functions() -> Functions:
    return Functions()


async def ask(endpoint: AdmissionEndpoint, operation: Operation = "CREATE", **review: Any) -> Any:
    """Return the response to a review; by default, the object of a CREATE review is a Thing."""
    if operation == "CREATE":
        review = {"new": thing(), **review}
    return response(await endpoint.answer(admission_review(operation, **review)))


async def test_admission_function_gets_all_data_of_the_request(functions: Functions):
    old_version = {"group": "test.example.com", "version": "v1alpha1", "kind": "Thing"}
    new, old = thing(spec={"password": "hunter2"}), thing("old")
    further = {"dryRun": True, "subResource": "status", "requestKind": old_version}
    await ask(functions.mutating, "UPDATE", new=new, old=old, **further)
    [(given, request)] = functions.given
    assert given == new
    assert request.object is given
    assert "hunter2" not in repr(request)
    assert request.old_object == old
    assert (request.uid, request.operation, request.resource) == ("review-1", "UPDATE", "things")
    assert request.kind == GroupVersionKind("test.example.com", "v1", "Thing")
    assert request.requested_kind == OldThing.gvk
    assert (request.name, request.namespace, request.subresource) == ("x", "team", "status")
    assert (request.user.name, request.user.groups) == ("jane", ("people",))
    assert request.user.extra == {"scopes": ["all"]}
    assert request.dry_run is True
    assert request.options["kind"] == "CreateOptions"


async def test_admission_response_has_a_minimal_patch_that_keeps_unknown_fields(functions: Functions):
    async def change(given: JsonObject, request: AdmissionRequest) -> None:
        given["spec"]["size"] = 2
        given["metadata"]["annotations"] = {"a/b": "c"}

    functions.does = change
    said = await ask(functions.mutating, new=thing(unknown={"deep": [1, {}]}))
    assert said["allowed"] is True
    assert patch_of(said) == [
        {"op": "add", "path": "/metadata/annotations", "value": {"a/b": "c"}},
        {"op": "replace", "path": "/spec/size", "value": 2},
    ]
    functions.does = None
    said = await ask(functions.mutating)
    assert said == {"uid": "review-1", "allowed": True}


async def test_defaulting_function_gets_an_object_that_violates_the_schema(functions: Functions):
    for odd in ({}, {"spec": "text"}, {"spec": None, "metadata": []}):
        said = await ask(functions.mutating, new=odd, name="")
        assert said["allowed"] is True
    assert [given for given, _ in functions.given] == [{}, {"spec": "text"}, {"spec": None, "metadata": []}]


async def test_validate_function_gets_the_old_and_new_objects_of_its_operation(
    functions: Functions, log_lines: LogLines
):
    new, old = thing(spec={"size": 5}), thing(spec={"size": 3})
    await ask(functions.validating, new=new)
    await ask(functions.validating, "UPDATE", new=new, old=old)
    await ask(functions.validating, "DELETE", old=old)
    sizes = [[each.spec.size for each in given if isinstance(each, Thing)] for given in functions.given]
    assert sizes == [[5], [3, 5], [3]]
    assert {line["log_level"] for line in log_lines} == {"debug"}
    assert "size" not in str(log_lines)


class Validating:
    """Operator with one method for creations and updates, and one method for two kinds."""

    kind, admission, finalizer, versions = Thing, AdmissionOptions(), "", ()
    others = Admission(Thing, name="others")
    things, old_things = Admission(Thing, name="things"), Admission(OldThing, name="old")

    def __init__(self) -> None:
        self.given: list[Any] = []

    @others.validate_create
    @others.validate_update
    @validate_update
    @validate_create
    async def judge(self, old: Thing | None, new: Thing, request: AdmissionRequest) -> Iterable[str]:
        return [f"{request.operation} {old and old.spec.size} to {new.spec.size}"]

    @things.validate_create
    @old_things.validate_create
    async def note(self, new: Thing | OldThing, request: AdmissionRequest) -> None:
        self.given.append(new)

    def endpoints(self, *names: str) -> list[AdmissionEndpoint]:
        """Return the endpoints of the operator's admissions whose `name` is one of `names`."""
        found = [each for each in registrations(self) if isinstance(each, Admission) and each.name in names]
        return [endpoint for each in found for endpoint in endpoints_of(each, Metrics())]


async def test_validate_method_gets_none_as_old_object_on_create():
    own, others = Validating().endpoints("", "others")
    for endpoint in (own, others):
        said = await ask(endpoint, new=thing(spec={"size": 5}))
        assert said["warnings"] == ["CREATE None to 5"]
        said = await ask(endpoint, "UPDATE", new=thing(spec={"size": 5}), old=thing(spec={"size": 3}))
        assert said["warnings"] == ["UPDATE 3 to 5"]


@pytest.mark.parametrize(
    ("warnings", "told"),
    [
        (iter(["one", "two\nlines"]), ["one", "two lines"]),
        ("careful", ["careful"]),
        (["spec.name: is \x1b[31mred\x00 \x85now"], ["spec.name: is [31mred now"]),
    ],
    ids=["an iterator", "a text", "control characters"],
)
async def test_admission_warnings_are_one_printable_line_each(
    functions: Functions, warnings: Iterable[str], told: list[str]
):
    functions.does = warnings
    said = await ask(functions.validating)
    assert said == {"uid": "review-1", "allowed": True, "warnings": told}


@pytest.mark.parametrize("sort", ["mutating", "validating"])
async def test_admission_refusal_is_a_status_that_names_the_field(
    functions: Functions, sort: str, log_lines: LogLines
):
    functions.does = Refused(invalid("spec.size", 1, "too small"))
    said = await ask(getattr(functions, sort))
    assert (said["allowed"], said["status"]["code"]) == (False, 422)
    message = 'Thing.test.example.com "x" is invalid: spec.size: Invalid value: 1: too small'
    assert said["status"]["message"] == message
    assert [(line["event"], line["log_level"], line["reason"]) for line in log_lines] == [
        ("refused a request", "info", message)
    ]
    assert functions.panics == 0
    new = {**thing(), "metadata": {"generateName": "thing-"}}
    said = await ask(getattr(functions, sort), new=new, name=None)
    assert said["status"]["details"]["name"] == "thing-"


@pytest.mark.parametrize("does", [Refused(invalid("spec.size", 1, "too small")), LookupError()])
async def test_admission_log_is_limited_when_many_reviews_are_refused_or_fail(
    functions: Functions, does: Exception, log_lines: LogLines
):
    functions.does = does
    for _ in range(2 * LINES):
        with contextlib.suppress(Unanswered):
            await ask(functions.validating)
    assert LINES <= len(log_lines) < 2 * LINES


@pytest.mark.parametrize("sort", ["mutating", "validating"])
async def test_admission_response_to_an_unexpected_error_has_only_the_error_type(
    functions: Functions, sort: str, log_lines: LogLines
):
    functions.does = LookupError("what nobody may know")
    with pytest.raises(Unanswered) as error:
        await ask(getattr(functions, sort))
    message = str(error.value)
    assert "Thing failed unexpectedly (LookupError)" in message
    assert "review-1" in message
    assert "nobody" not in message
    [line] = log_lines
    assert (line["log_level"], line["exc_info"]) == ("error", functions.does)
    assert (line["uid"], line["user"], line["namespace"], line["name"]) == ("review-1", "jane", "team", "x")
    assert (line["operation"], line["kind"]) == ("CREATE", "Thing.v1.test.example.com")
    assert functions.panics == 1


async def test_admission_logs_a_validation_error_without_field_values(
    functions: Functions, log_lines: LogLines
):
    async def decode(given: JsonObject, request: AdmissionRequest) -> None:
        Thing.model_validate({**given, "spec": {"size": "hunter2"}})

    functions.does = decode
    with pytest.raises(Unanswered):
        await ask(functions.mutating)
    [line] = log_lines
    assert "spec.size" in str(line["exc_info"])
    assert "hunter2" not in str(line["exc_info"])


@pytest.mark.virtual_time
async def test_admission_cancels_a_function_before_the_timeout_of_the_api_server(functions: Functions):
    stopped: list[float] = []
    loop = asyncio.get_running_loop()

    async def dawdle(*_: object) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            stopped.append(loop.time())

    functions.does = dawdle
    for waits in (None, 2.0):
        with pytest.raises(Unanswered, match="Thing took longer than"):
            await functions.mutating.answer(admission_review("CREATE", new=thing()), waits=waits)
    assert stopped == pytest.approx([4.5, 4.5 + 1.8])
    assert functions.panics == 0


async def test_admission_refusal_of_an_invalid_object_names_the_invalid_fields(functions: Functions):
    new = thing(spec={"size": "secret", "parts": ["a", 1]})
    said = await ask(functions.validating, new=new)
    assert said["status"]["code"] == 422
    assert [cause["field"] for cause in said["status"]["details"]["causes"]] == ["spec.size", "spec.parts[1]"]
    assert "secret" not in str(said)
    missing = {name: value for name, value in thing().items() if name != "spec"}
    said = await ask(functions.validating, new=missing)
    assert said["status"]["message"] == 'Thing.test.example.com "x" is invalid: spec: Required value'
    assert functions.given == []


async def test_admission_allows_changes_and_deletion_of_a_malformed_stored_object(functions: Functions):
    broken = thing(spec={"size": "big"})
    for review in (
        admission_review("UPDATE", new=thing(), old=broken),
        admission_review("UPDATE", new=broken, old=broken),
        admission_review("DELETE", old=broken),
    ):
        said = response(await functions.validating.answer(review))
        assert said["allowed"] is True
        [warning] = said["warnings"]
        assert warning.startswith(
            "not checked, as the stored object is no Thing of test.example.com/v1: spec.size"
        )
    assert functions.given == []
    said = await ask(functions.validating, "UPDATE", new=broken, old=thing())
    assert said["allowed"] is False


async def test_admission_allows_an_operation_for_which_no_function_is_registered(functions: Functions):
    admission = Admission(Thing)
    admission.functions["validate_create"] = functions.function()
    [endpoint] = endpoints_of(admission, functions.metrics)
    for operation in ("UPDATE", "DELETE", "CONNECT"):
        said = await ask(endpoint, operation, new=thing(), old=thing())
        assert said == {"uid": "review-1", "allowed": True}
    said = await ask(functions.mutating, "DELETE", old=thing())
    assert said == {"uid": "review-1", "allowed": True}
    assert functions.given == []


async def test_admission_refuses_a_review_without_an_object_or_with_a_different_kind(functions: Functions):
    for review in (admission_review("CREATE"), admission_review("UPDATE"), admission_review("DELETE")):
        with pytest.raises(BadReview, match="is missing"):
            await functions.validating.answer(review)
    pod = {"group": "", "version": "v1", "kind": "Pod"}
    with pytest.raises(BadReview, match=r"-thing is for Thing\.v1.*, and this is a review of Pod\.v1"):
        await functions.mutating.answer(admission_review("CREATE", new=thing(), kind=pod))


@pytest.mark.parametrize("subresources", [("", "proxy"), ("*",)])
async def test_validate_connect_function_gets_the_options_of_the_connection(
    functions: Functions, subresources: tuple[str, ...]
):
    admission = Admission(Thing, subresources=subresources)
    admission.functions["validate_connect"] = functions.function()
    [endpoint] = endpoints_of(admission, functions.metrics)
    options = {"group": "", "version": "v1", "kind": "ThingProxyOptions"}
    asked = {"apiVersion": "v1", "kind": "ThingProxyOptions", "path": "/x"}
    await endpoint.answer(admission_review("CONNECT", new=asked, kind=options, subResource="proxy"))
    [(given, request)] = functions.given
    assert given.content == {"path": "/x"}
    assert request.subresource == "proxy"


async def test_validate_method_for_several_kinds_gets_objects_of_their_own_model():
    operator = Validating()
    for endpoint, version in zip(operator.endpoints("things", "old"), ("v1", "v1alpha1"), strict=True):
        kind = {"group": "test.example.com", "version": version, "kind": "Thing"}
        await ask(endpoint, new=thing(version=version), kind=kind)
    assert [type(each) for each in operator.given] == [Thing, OldThing]


_ENVELOPE = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":%b}'
_REQUEST = (
    b'{"uid":"u","kind":{"group":"test.example.com","version":"v1","kind":"Thing"},'
    b'"resource":{"resource":"things"},"operation":"CREATE","object":%b}'
)

_DEEP = b'{"extra":' + b"[" * 300 + b"]" * 300 + b"}"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "truncated"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"x":' + b"[" * 100_000, "nested too deeply"),
        (_ENVELOPE % b"{}", "missing required field `uid`"),
        (_ENVELOPE % (_REQUEST % b'"text"'), "`.*object` is not an object"),
        (_ENVELOPE % (_REQUEST % b'{"a":"\xff"}'), "is not JSON|nested too deeply"),
        (_ENVELOPE % (_REQUEST % (b'{"a":' + b"[" * 1100 + b"]" * 1100 + b"}")), "is not JSON|nested too"),
        *(
            (_ENVELOPE % (_REQUEST % (b'{},"%b":%b' % (field, _DEEP))), f"{field.decode()}` is nested too")
            for field in (b"userInfo", b"options")
        ),
        (_ENVELOPE % (_REQUEST % b"{}").replace(b'"u"', b'""'), "uid` is empty"),
        (_ENVELOPE % (_REQUEST % b"{}").replace(b'"u"', b"1"), r"got `int` - at `\$\.request\.uid`"),
        (_ENVELOPE % (_REQUEST % b"{}").replace(b"CREATE", b"FLY"), "Invalid enum value"),
        ((_ENVELOPE % (_REQUEST % b"{}")).replace(b"AdmissionReview", b"Pod"), "but admission.k8s.io/v1 Pod"),
        ((_ENVELOPE % (_REQUEST % b"{}")).replace(b"io/v1", b"io/v1beta1"), "but admission.k8s.io/v1beta1"),
    ],
)
async def test_admission_refuses_an_invalid_review_and_names_the_invalid_field(
    functions: Functions, body: bytes, told: str
):
    with pytest.raises(BadReview, match=told) as error:
        await functions.mutating.answer(body)
    assert "\n" not in str(error.value)
    assert error.value.__cause__ is None
    assert functions.given == []


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), SystemExit(1), BaseException("odd"), TimeoutError()], ids=repr
)
async def test_admission_converts_an_unexpected_exception_of_a_function_to_an_unanswered_error(
    functions: Functions, error: BaseException
):
    functions.does = error
    for endpoint in (functions.mutating, functions.validating):
        with pytest.raises(Unanswered, match=type(error).__name__):
            await ask(endpoint)
    assert functions.panics == 2


async def test_cancelled_admission_review_is_not_counted_as_a_panic(functions: Functions):
    async def wait(*_: Any) -> None:
        task.cancel()
        await asyncio.Event().wait()

    functions.does = wait
    task = asyncio.create_task(ask(functions.mutating))
    await asyncio.wait([task])
    assert task.cancelled()
    assert functions.panics == 0


ENDLESS: dict[str, Any] = {}
ENDLESS["new"] = ENDLESS


@pytest.mark.parametrize(
    ("value", "error"),
    [({1}, ""), ({1: "a"}, ""), (object(), ""), (2**70, ""), (ENDLESS, ".*RecursionError")],
    ids=["set", "number", "object", "long", "without an end"],
)
async def test_defaulting_function_fails_when_it_sets_a_value_that_is_not_json(
    functions: Functions, value: Any, error: str
):
    async def change(given: JsonObject, request: AdmissionRequest) -> None:
        given["spec"]["new"] = value

    functions.does = change
    with pytest.raises(Unanswered, match=f"sets defaults of Thing failed unexpectedly{error}"):
        await ask(functions.mutating)
    assert functions.panics == 1


SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, "", "a", "b"])
NAMES = st.sampled_from(["a", "b", "a/b", "~", "~1", "", "0"])
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(NAMES, DOCUMENTS, max_size=4)


def encoded(document: Any) -> bytes:
    """Return the value as bytes that differ for 1, 1.0 and True, which are equal in Python."""
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


@hypothesis.given(OBJECTS, OBJECTS)
def test_json_patch_converts_the_first_document_into_the_second(
    before: dict[str, Any], after: dict[str, Any]
):
    untouched = copy.deepcopy((before, after))
    patch = json_patch(before, after)
    assert encoded([before, after]) == encoded(list(untouched))
    assert encoded(jsonpatch.apply_patch(before, patch)) == encoded(after)
    assert (patch == []) == (encoded(before) == encoded(after))


LONG: dict[str, Any] = {"long name": "x" * 20}


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({}, {"a": None}, [{"op": "add", "path": "/a", "value": None}]),
        ({"a": None}, {}, [{"op": "remove", "path": "/a"}]),
        ({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}]),
        ({"a": [1]}, {"a": [1.0]}, [{"op": "replace", "path": "/a", "value": [1.0]}]),
        (
            {"spec": LONG | {"b": 1}},
            {"spec": LONG | {"b": 2}},
            [{"op": "replace", "path": "/spec/b", "value": 2}],
        ),
        ({"x": {"a/b~c": 1}}, {"x": {"a/b~c": 2}}, [{"op": "replace", "path": "/x/a~1b~0c", "value": 2}]),
        ({"a": {"b": 1}}, {"a": [1]}, [{"op": "replace", "path": "/a", "value": [1]}]),
    ],
)
def test_json_patch_is_minimal(before: Any, after: Any, patch: Any):
    assert json_patch(before, after) == patch
