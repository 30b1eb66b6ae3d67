from __future__ import annotations

import random

from petstore.proto import petstore_pb2 as pb
from petstore.sampler import Sampler


def picked(sampler: Sampler) -> int:
    return sum(sampler.picks() for _ in range(1000))


def test_sampler_selects_no_call_by_default_and_the_given_fraction_after_a_change():
    sampler = Sampler(random.Random(1))
    assert picked(sampler) == 0
    sampler.change(pb.Sampler(type=pb.STAlways))
    assert picked(sampler) == 1000
    sampler.change(pb.Sampler(type=pb.STFloat, float_value=0.25))
    assert 200 < picked(sampler) < 300
    sampler.change(pb.Sampler(type=pb.STNever))
    assert picked(sampler) == 0
