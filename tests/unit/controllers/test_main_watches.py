"""Shared watches: all operators of a process share one watch for each kind, projection and selector.

For a new operator, add its watches to `WATCHES`; the other operators' entries stay unchanged.
"""

from __future__ import annotations

import random

import pytest

from controllers.main import OPERATORS, PROGRAM
from manager.kube.transport import Transport
from manager.operator import add_controller
from manager.process.manager import Manager
from manager.settings import SettingValues
from manager.telemetry.metrics import Metrics

WATCHES: dict[str, set[tuple[str, str]]] = {
    "memcached": {("memcacheds.cache.example.com", "full"), ("deployments.apps", "full"), ("pods", "parts")},
    "foo": {("foos.tutorial.my.domain", "full"), ("pods", "metadata")},
    "pet": {("pets.petstore.example.com", "full")},
    "wordpress": {
        ("wordpresses.example.com", "full"),
        ("deployments.apps", "full"),
        ("services", "full"),
        ("persistentvolumeclaims", "full"),
        ("secrets", "metadata"),
        ("pods", "parts"),
    },
    "mysrv": {("mysrvs.myapp.idcos.com", "full")},
}
"""Watches of each operator: the resource, and the cached part of each object."""


@pytest.mark.parametrize("names", [*((name,) for name in WATCHES), tuple(WATCHES)], ids="+".join)
async def test_operators_watch_exactly_the_resources_that_they_need(
    names: tuple[str, ...], transport: Transport, metrics: Metrics, rng: random.Random
):
    operators = [each for each in OPERATORS if each.name in names]
    settings = SettingValues(
        {key: key.default_value() for each in operators for key in each.declared_settings}
    )
    manager = Manager(
        transport, program=PROGRAM, metrics=metrics, rng=rng, identity="test", settings=settings
    )
    for operator in operators:
        add_controller(operator(manager))
    asked = [(each.spec.resource, each.spec.projection) for each in manager.cache.informers]
    assert sorted(set(asked)) == sorted(set().union(*(WATCHES[name] for name in names)))
    # The two watches of pod parts have different label selectors.
    assert len(asked) - len(set(asked)) == ({"memcached", "wordpress"} <= set(names))
