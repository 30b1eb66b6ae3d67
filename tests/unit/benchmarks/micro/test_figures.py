from __future__ import annotations

import pytest

from benchmarks.micro.figures import Middle, cost, micros, ratio
from benchmarks.micro.sampling import Samples


def test_a_middle_is_the_median_and_half_the_width_of_the_middle_half():
    assert Middle.of([1.0, 2.0, 10.0, 12.0, 100.0]) == Middle(10.0, 0.5)


def test_one_value_has_no_spread():
    assert Middle.of([3.0]) == Middle(3.0, 0.0)


def test_a_machine_that_becomes_slower_meanwhile_changes_no_ratio():
    slower = [1.0, 1.5, 4.0]
    samples = Samples([2e-6 * factor for factor in slower], [1e-3 * factor for factor in slower])
    other = Samples([1e-6 * factor for factor in slower], [1e-3 * factor for factor in slower])
    assert ratio(samples, other) == Middle(pytest.approx(2.0), pytest.approx(0.0))


def test_a_machine_that_becomes_slower_meanwhile_changes_no_cost():
    slower = [1.0, 1.5, 4.0]
    samples = Samples([2e-6 * factor for factor in slower], [1e-3 * factor for factor in slower])
    assert cost(samples) == Middle(pytest.approx(2000.0), pytest.approx(0.0))


def test_micros_are_those_of_the_clock():
    assert micros(Samples([2e-6, 3e-6, 5e-6], [1.0, 1.0, 1.0])).value == pytest.approx(3.0)
