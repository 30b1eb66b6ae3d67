from __future__ import annotations

import json
import os
from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
import structlog

from manager.kube.transport import ServerWarnings
from manager.telemetry.logs import configured

Logged = list[MutableMapping[str, Any]]


@pytest.fixture
def logged() -> Iterator[Logged]:
    with structlog.testing.capture_logs() as entries:
        yield entries


def texts(logged: Logged) -> list[str]:
    return [entry["warning"] for entry in logged]


def test_a_warning_is_told_once(logged: Logged):
    warnings = ServerWarnings()
    for _ in range(3):
        warnings.log('299 - "v1beta1 is deprecated"')
    assert texts(logged) == ["v1beta1 is deprecated"]


def test_server_warnings_logs_each_warning_of_one_answer(logged: Logged):
    ServerWarnings().log(r'299 - "unknown field \"spec.x\", really", 299 - "second"')
    assert texts(logged) == ['unknown field "spec.x", really', "second"]


def test_server_warnings_ignores_a_header_of_another_form(logged: Logged):
    ServerWarnings().log("whatever")
    assert logged == []


def test_server_warnings_remembers_at_most_256_warnings(logged: Logged):
    warnings = ServerWarnings()
    for number in range(1000):
        warnings.log(f'299 - "{number}"')
    assert len(warnings._told) <= 256
    assert len(logged) == 1000


def test_a_warning_is_a_line_of_the_managers_log():
    reading, writing = os.pipe()
    with configured(log_format="json", fd=writing):
        ServerWarnings().log('299 - "too small a request"')
    os.close(writing)
    with os.fdopen(reading) as lines:
        [line] = map(json.loads, lines)
    assert (line["level"], line["logger"], line["warning"]) == ("warn", "kube", "too small a request")
