# ruff: noqa: PLW0108, DTZ011 - the guards replace functions after the import of this module
"""Guards against nondeterminism: each call that could make two runs differ raises an error."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import inspect
import logging
import random
import socket
import subprocess
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from datetime import datetime as instant
from pathlib import Path
from random import choice
from time import monotonic
from typing import Any
from uuid import uuid4

import aiohttp
import pytest
from pydantic import Field

from manager import Context, Operator
from manager.api import ApiModel
from manager.util import clock
from manager_tools.simulation.guards import NotRepeatable
from manager_tools.simulation.plan import Plan, Step
from manager_tools.simulation.seeds import run
from tests.unit.manager_tools.simulation.test_seeds import Greeting, GreetingOperator


class Numbered(ApiModel):
    name: uuid.UUID = Field(default_factory=uuid4)


async def connects() -> None:
    await asyncio.open_connection("127.0.0.1", 1)


async def calls_an_unknown_service() -> None:
    async with aiohttp.ClientSession() as session, session.get("http://nobody.example.com:8787/"):
        pass


async def calls_one_in_a_task() -> None:
    with contextlib.suppress(Exception):
        await asyncio.create_task(calls_an_unknown_service())


async def calls_one_in_a_thread() -> None:
    await asyncio.to_thread(urllib.request.urlopen, "http://nobody.example.com:8787/")


def connects_a_socket() -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.connect("/tmp/nobody")


def reads_the_clock() -> float:
    return time.time()


async def hands_the_clock_to_a_thread() -> None:
    await asyncio.to_thread(reads_the_clock)


def swallows_what_it_is_told() -> None:
    with contextlib.suppress(Exception):
        time.time_ns()


MADE_BEFORE = random.Random(1)

DONE: dict[str, Callable[[], Any]] = {
    "time.monotonic()": lambda: monotonic(),
    "time.sleep()": lambda: time.sleep(0),
    "datetime.datetime.now()": lambda: instant.now(datetime.UTC),
    "datetime.date.today()": lambda: date.today(),
    "random.random()": lambda: random.random(),
    "random.choice()": lambda: choice("abc"),
    "random.Random() without a seed": lambda: random.Random(),
    "random.SystemRandom()": lambda: random.SystemRandom().random(),
    "uuid.uuid4()": lambda: uuid4(),
    "os.urandom()": lambda: Numbered(),
    "threading.Thread.start()": lambda: ThreadPoolExecutor().submit(print),
    "socket.socket.connect('/tmp/nobody')": connects_a_socket,
    "127.0.0.1:1 is connected to": connects,
    "nobody.example.com is looked up": calls_an_unknown_service,
    "nobody.example.com is looked up,": calls_one_in_a_task,
    "socket.getaddrinfo('nobody.example.com', 8787)": calls_one_in_a_thread,
    "subprocess.Popen()": lambda: subprocess.run("true", check=True),
    "MADE_BEFORE.random()": lambda: MADE_BEFORE.uniform(0, 1),
    "time.time()": hands_the_clock_to_a_thread,
    "time.time_ns()": swallows_what_it_is_told,
}


SHORT = Plan(seed=0, replicas=1, steps=(Step(at=0.0, act="create", kind=0, draw=1),), faults=())


def operator_that(does: Callable[[], Any]) -> type[Operator[Any]]:
    class Doing(GreetingOperator):
        async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
            done = does()
            if inspect.isawaitable(done):
                await done
            await super().reconcile(greeting, ctx)

    return Doing


@pytest.mark.parametrize("shown", DONE)
def test_error_of_a_nondeterministic_call_names_its_file_and_line(shown: str):
    does = DONE[shown]
    with pytest.raises(NotRepeatable) as raised:
        run(SHORT, [operator_that(does)])
    where, what = str(raised.value).split(": ", 1)
    file, line = where.rsplit(":", 1)
    assert what.startswith(shown)
    assert Path(file).samefile(__file__)
    assert abs(int(line) - does.__code__.co_firstlineno) <= 5
    assert "\n" not in what


def test_simulation_permits_the_manager_shards_package_to_read_the_clock():
    assert not run(replace(SHORT, shards=4), [GreetingOperator], compare=False).violations


class CarefulOperator(GreetingOperator):
    """Operator that uses only the simulated clock, random numbers and threads."""

    async def reconcile(self, greeting: Greeting, ctx: Context) -> None:
        assert isinstance(clock.now(), instant)
        assert instant.fromtimestamp(clock.now().timestamp(), datetime.UTC) == clock.now()
        chosen = random.Random(self.manager.rng.random()).choice(ctx.token(4))
        logging.getLogger("test").debug(
            "chose %s at %s s", chosen, await asyncio.to_thread(str, clock.monotonic())
        )
        await super().reconcile(greeting, ctx)


def test_simulation_restores_the_functions_that_it_replaces_when_it_ends():
    before = time.time, random.choice, instant, uuid.uuid4, socket.socket.connect, threading.Thread.start
    assert not run(SHORT, [CarefulOperator]).violations
    after = time.time, random.choice, instant, uuid.uuid4, socket.socket.connect, threading.Thread.start
    assert before == after
    assert instant is datetime.datetime
