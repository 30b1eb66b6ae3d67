"""Addresses and ports of services."""

from __future__ import annotations

import copy
import ipaddress
import random
from typing import Any

import pytest

from devcluster.builtin import initial_objects
from devcluster.builtin.services import ServiceStrategy
from devcluster.clock import Clock
from devcluster.errors import StatusError
from devcluster.exchange import User
from devcluster.kinds.strategy import Context
from devcluster.storage import Key, Store

Json = dict[str, Any]
NOW = "2026-01-31T12:00:00Z"


class Cluster:
    """A store with services in it, and their strategy."""

    def __init__(self, seed: int = 1) -> None:
        self.store = Store()
        self.strategy = ServiceStrategy(Clock(), random.Random(seed))
        (service,) = (each for each in initial_objects(NOW) if each["kind"] == "Service")
        self.store.create(Key("", "services", "default", "kubernetes"), service)

    def create(self, name: str, spec: Json, *, stored: bool = True, dry_run: bool = False) -> Json:
        new: Json = {"metadata": {"name": name, "namespace": "n"}, "spec": copy.deepcopy(spec)}
        context = Context(store=self.store, now=NOW, user=User("u"), dry_run=dry_run)
        self.strategy.default(new)
        self.strategy.prepare_create(new, context)
        assert self.strategy.validate_create(new, context) == []
        self.strategy.commit(new, None, context)
        if stored and not dry_run:
            self.store.create(Key("", "services", "n", name), new)
        return new["spec"]


PORTS = [{"port": 80}]


def test_each_service_has_an_address_of_its_own() -> None:
    cluster = Cluster()
    addresses = [cluster.create(f"s{number}", {"ports": PORTS})["clusterIP"] for number in range(300)]
    assert len(set(addresses)) == 300
    network = ipaddress.ip_network("10.96.0.0/16")
    assert all(ipaddress.ip_address(each) in network for each in addresses)


def test_a_seed_gives_the_same_addresses_again() -> None:
    one, other = (Cluster(7).create("s", {"type": "NodePort", "ports": PORTS}) for _ in range(2))
    assert one == other


def test_the_address_of_the_api_server_is_taken() -> None:
    with pytest.raises(StatusError, match="provided IP is already allocated"):
        Cluster().create("s", {"clusterIP": "10.96.0.1", "ports": PORTS})


def test_what_is_not_stored_is_not_taken() -> None:
    cluster = Cluster()
    spec = {"type": "NodePort", "clusterIP": "10.96.4.4", "ports": [{"port": 80, "nodePort": 30007}]}
    cluster.create("dry", spec, dry_run=True)
    cluster.create("failed", spec, stored=False)
    assert cluster.create("s", spec)["clusterIP"] == "10.96.4.4"


def test_what_a_deleted_service_had_is_free_again() -> None:
    cluster = Cluster()
    spec = {"type": "NodePort", "clusterIP": "10.96.4.4", "ports": [{"port": 80, "nodePort": 30007}]}
    cluster.create("s", spec)
    with pytest.raises(StatusError, match="provided port is already allocated"):
        cluster.create("t", {**spec, "clusterIP": "10.96.4.5"})
    cluster.store.delete(Key("", "services", "n", "s"))
    cluster.create("t", spec)


def test_a_port_of_the_nodes_is_taken_for_one_protocol() -> None:
    cluster = Cluster()
    cluster.create("s", {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30007}]})
    cluster.create("t", {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30007, "protocol": "UDP"}]})


def test_ports_of_one_service_differ() -> None:
    ports = [{"name": f"p{number}", "port": 1000 + number} for number in range(50)]
    spec = Cluster().create("s", {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": ports})
    given = [*(each["nodePort"] for each in spec["ports"]), spec["healthCheckNodePort"]]
    assert len(set(given)) == 51


def test_another_store_has_addresses_of_its_own() -> None:
    cluster, other = Cluster(), Cluster()
    cluster.create("s", {"clusterIP": "10.96.4.4", "ports": PORTS})
    cluster.store = other.store
    cluster.create("s", {"clusterIP": "10.96.4.4", "ports": PORTS})
