from __future__ import annotations

import datetime

import pytest

from apis.petstore.v1beta1.pet import Pet, PetSpec
from controllers.petstore.record import ADDED_AS, Content, noted, wanted

THOR = Content("Thor", "dog", datetime.date(2021, 4, 1))


def pet(note: str | None = None) -> Pet:
    made = Pet(spec=PetSpec(name="Thor", species="dog", birthday="2021-04-01"))
    if note is not None:
        made.metadata.annotations[ADDED_AS] = note
    return made


def test_record_annotation_is_compact_json_that_is_read_back_unchanged():
    assert THOR.note() == '{"name":"Thor","type":"dog","birthday":"2021-04-01"}'
    assert noted(pet(THOR.note())) == THOR == wanted(pet())
    strange = Content('"\\ é\N{DOG}\n', "reptile", datetime.date(1, 1, 1))
    assert noted(pet(strange.note())) == strange


@pytest.mark.parametrize(
    "note",
    [
        *(None, "", "Thor", "[]", "null", "[" * 100_000),
        '{"name":"Thor","type":"dog"}',
        '{"name":"Thor","type":"fish","birthday":"2021-04-01"}',
        '{"name":"Thor","type":["dog"],"birthday":"2021-04-01"}',
        '{"name":"Thor","type":"dog","birthday":"2021-02-30"}',
        '{"name":"Thor","type":"dog","birthday":20210401}',
        '{"name":"\\ud800","type":"dog","birthday":"2021-04-01"}',
    ],
)
def test_record_annotation_decodes_to_none_when_it_is_missing_or_unreadable(note: str | None):
    assert noted(pet(note)) is None
