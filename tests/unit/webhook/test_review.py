"""Cost of a review for the webhook server: time in the event loop, and refusals."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Coroutine, Generator, Mapping
from typing import Any

import orjson
import pytest

from apis.petstore.v1beta1.pet import Pet
from controllers.petstore.pet import PetOperator
from controllers.petstore.record import ADDED_AS
from manager.telemetry.metrics import Metrics
from manager.util.loop import SMALL
from manager.webhook.admission import json_patch
from manager.webhook.endpoint import BadReview, TooCostly, Unanswered
from manager.webhook.endpoints import endpoints_of
from manager.webhook.registration import Webhooks
from manager.webhook.review import CHANGED_WORK, CREATED_WORK, STORED_WORK, work_of
from manager.webhook.server import Turns
from tests.support.admission import webhooks_of
from tests.support.effort import Effort, shortest_unit
from tests.support.hostile_reviews import CONVERT, MUTATE, admission, conversion, hostile_reviews

LONGEST = 30
"""Maximum cost of one step, in units of tests/support/effort.py."""

Reviews = Mapping[str, tuple[str, bytes]]


@pytest.fixture(scope="module")
def reviews() -> Reviews:
    """Return the hostile reviews; they are made only when a test needs them, because they take 250 MB."""
    return hostile_reviews()


class Timed:
    """Awaitable that runs a coroutine and measures its longest step."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work
        self.longest = 0.0
        """CPU seconds of the longest step."""

    def __await__(self) -> Generator[Any, Any, None]:
        while True:
            began = time.thread_time()
            try:
                waits_for = self._work.send(None)
            except (StopIteration, Unanswered):
                return
            finally:
                self.longest = max(self.longest, time.thread_time() - began)
            yield waits_for


@pytest.mark.parametrize("name", hostile_reviews(scale=0.0))
async def test_review_endpoint_never_blocks_the_event_loop_for_long(name: str, reviews: Reviews):
    path, body = reviews[name]
    first = Timed(_endpoint(path).answer(body))
    await first
    if first.longest < LONGEST / 3 * shortest_unit():
        return  # most reviews end here, because a measurement of the unit takes longer than a review
    longest = []
    for _ in range(3):  # a pause by another process must not count
        timed = Timed(_endpoint(path).answer(body))
        with Effort() as spent:
            await timed
        longest.append(timed.longest / spent.unit)
        if longest[-1] < LONGEST:
            return
    pytest.fail(f"{longest} units of effort")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (MUTATE, admission(b'{"a":[%b]}' % b",".join([b"[]"] * 60_000))),
        (MUTATE, admission(b'{"a":"%b"}' % (b"x" * 3 * 1024 * 1024))),
        (MUTATE, admission(b"{}", user=b'{"groups":[%b]}' % b",".join([b'"a"'] * 400_000))),
        (CONVERT, conversion(b"[%b]" % b",".join([b'{"apiVersion":""}'] * 100_001))),
        (CONVERT, conversion(b'[{"a":[%b]}]' % b",".join([b"[]"] * 60_000))),
    ],
    ids=["members", "length", "user", "objects", "members of an object"],
)
async def test_review_endpoint_refuses_a_too_costly_review_before_decoding(path: str, body: bytes):
    with pytest.raises(
        TooCostly,
        match=r"more lists, objects and members|at most 100000 objects|an object has at most 3145728",
    ):
        await _endpoint(path).answer(body)


async def test_conversion_endpoint_refuses_a_list_of_values_that_are_not_objects():
    with pytest.raises(BadReview, match="Expected `object`"):
        await _endpoint(CONVERT).answer(conversion(b"[%b]" % b",".join([b"[0]"] * 800_000)))


PET: dict[str, Any] = {
    "apiVersion": "petstore.example.com/v1beta1",
    "kind": "Pet",
    "metadata": {"name": "a", "namespace": "team", "finalizers": ["example.com/a"]},
    "spec": {"name": "Thor", "species": "dog", "birthday": "2020-01-01"},
}
BOOKED, MUCH_BOOKED = (
    [{"manager": "m", "fieldsV1": {f"f:{number:05}": {} for number in range(count)}}]
    for count in (6_000, 60_000)
)
CONDITION = dict.fromkeys(("type", "status", "reason", "message", "lastTransitionTime"), "x")


def changed(pet: dict[str, Any], **parts: Any) -> dict[str, Any]:
    """Return a copy of a Pet with additional metadata and with other fields replaced."""
    return pet | {**parts, "metadata": pet["metadata"] | parts.pop("metadata", {})}


def filled(place: str, count: int) -> dict[str, Any]:
    names = [f"{number:05x}" for number in range(count)]
    if place == "spec":
        return changed(PET, spec={**PET["spec"], **{name: [] for name in names}})
    return changed(
        PET, metadata={place: [*names, "a"] if place == "finalizers" else dict.fromkeys(names, "")}
    )


def held(pet: dict[str, Any]) -> dict[str, Any]:
    """Return the Pet with the finalizer and the annotation that the Pet operator adds."""
    metadata = pet["metadata"]
    added = {
        "finalizers": [*metadata["finalizers"], PetOperator.finalizer],
        "annotations": {**metadata.get("annotations", {}), ADDED_AS: "x" * 1000},
    }
    return changed(pet, metadata=added)


async def admits(new: dict[str, Any], old: dict[str, Any] | None = None) -> bool:
    try:
        answer = await _endpoint(MUTATE).answer(admission(orjson.dumps(new), orjson.dumps(old)))
    except TooCostly:
        return False
    return b'"allowed":true' in answer


@pytest.mark.parametrize("place", ["labels", "finalizers", "spec"])
async def test_admitted_object_can_always_be_converted_changed_and_deleted(place: str):
    async def most(limit: int) -> int:
        few, many = [await work_of(orjson.dumps(filled(place, n)), enough=STORED_WORK) for n in (0, 40_000)]
        return (limit - few) * 40_000 // (many - few) - 3

    # managedFields do not count, and the limit leaves room for additions by operators.
    count = await most(CREATED_WORK)
    made = filled(place, count)
    assert await admits(made)
    assert await admits(made, PET)
    assert not await admits(filled(place, count + 200), made)
    assert not await admits(filled(place, count + 200), held(filled(place, count + 200)))
    assert await admits(held(made), changed(made, metadata={"managedFields": BOOKED}))

    count = await most(CHANGED_WORK) - 40
    fullest = held(filled(place, count))
    assert await admits(fullest, PET)
    deletion = {
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 0,
        "finalizers": [*fullest["metadata"]["finalizers"], "foregroundDeletion"],
        "managedFields": BOOKED,
    }
    deleted = changed(fullest, metadata=deletion, status={"id": "1", "conditions": [CONDITION] * 100})
    review = conversion(orjson.dumps([PET, deleted])).replace(b"/v1beta1", b"/v1alpha1", 1)
    answer = orjson.loads(await _endpoint(CONVERT).answer(review))["response"]
    assert answer["result"] == {"status": "Success"}
    assert answer["convertedObjects"][1]["metadata"]["managedFields"] == BOOKED

    # A client may remove a finalizer during deletion, but not add one.
    assert await admits(changed(deleted, metadata={"finalizers": deletion["finalizers"][:-1]}), deleted)
    fuller = held(filled(place, count + 200))
    assert not await admits(fuller, fullest)
    assert not await admits(fuller, changed(fullest, metadata={"managedFields": BOOKED}))


@pytest.mark.parametrize("path", [MUTATE, MUTATE.replace("mutate", "validate")])
async def test_admission_allows_a_finalizer_removal_with_deeply_nested_managed_fields(path: str):
    """Use a depth that the API server accepts; the server's limit is about 10,000 levels."""
    deep = b'{"f:a":' * 9_000 + b"1" + b"}" * 9_000
    booked = [{"manager": "m", "fieldsV1": "deep"}]
    old = changed(PET, metadata={"managedFields": booked, "deletionTimestamp": "2026-01-01T00:00:00Z"})
    new = changed(old, metadata={"finalizers": []})
    review = admission(orjson.dumps(new), orjson.dumps(old)).replace(b'"deep"', deep)
    response = orjson.loads(await _endpoint(path).answer(review))["response"]
    assert response == {"uid": response["uid"], "allowed": True}


async def test_pets_with_the_largest_possible_managed_fields_are_converted():
    pet = orjson.dumps(changed(PET, metadata={"managedFields": MUCH_BOOKED})).replace(
        b"/v1beta1", b"/v1alpha1"
    )
    pets = b"[%b]" % b",".join([pet] * (11 * 1024 * 1024 // len(pet)))
    assert b'"status":"Success"' in await _endpoint(CONVERT).answer(conversion(pets))


async def test_brackets_inside_a_string_add_no_cost_to_a_review():
    # Quotes and backslashes are at every position, so that all ways to split the text are tested.
    text = '[{,"\\' * 300_000
    new = orjson.dumps({"apiVersion": "petstore.example.com/v1beta1", "kind": "Pet", "spec": {"name": text}})
    assert b'"allowed":true' in await _endpoint(MUTATE).answer(admission(new))


def test_json_patch_replaces_the_complete_object_when_every_member_changes():
    before = {"spec": {f"n{number}": {"a": 1, "b": 1} for number in range(30_000)}, "other": 1}
    after = {"spec": {name: {"a": 2, "b": 1} for name in before["spec"]}, "other": 1}  # type: ignore[attr-defined]
    assert json_patch(before, after) == [{"op": "replace", "path": "/spec", "value": after["spec"]}]


def test_decode_error_lists_a_limited_number_of_invalid_fields():
    metadata = {"ownerReferences": [{}] * 1000, "labels": {str(number): 1 for number in range(1000)}}
    with pytest.raises(ValueError, match="validation error") as error:
        Pet.decode(b"{}", parsed={"metadata": metadata, "spec": {}})
    assert len(error.value.errors()) < 20  # type: ignore[attr-defined]


async def test_webhook_error_truncates_a_long_value_of_the_review():
    body = admission(b"{}").replace(b'"CREATE"', b'"%b"' % (b"C" * 1_000_000))
    with pytest.raises(Unanswered) as error:
        await _endpoint(MUTATE).answer(body)
    assert str(error.value).endswith("more characters)")
    assert len(str(error.value)) < 1200


async def test_review_scheduler_refuses_a_large_review_that_has_waited_too_long():
    turns = Turns(waits=0.01)
    async with turns.taken(1_000_000):
        with pytest.raises(Unanswered, match="try again"):
            async with turns.taken(1_000_000):
                pass
    async with turns.taken(1_000_000):
        pass


async def test_review_scheduler_limits_the_total_size_of_small_reviews_started_per_loop_iteration():
    turns, turn, began = Turns(), 0, list[int]()

    async def one() -> None:
        async with turns.taken(SMALL // 2):
            began.append(turn)

    waiting = [asyncio.create_task(one()) for _ in range(6)]
    while len(began) < len(waiting):
        await asyncio.sleep(0)
        turn += 1
    assert max(Counter(began).values()) == 2
    await asyncio.gather(*waiting)


def _endpoint(path: str) -> Any:
    return {each.path: each for each in endpoints_of(Webhooks(webhooks_of(PetOperator)), Metrics())}[path]
