from __future__ import annotations

from typing import Any

from pydantic import Field

from manager.api import ApiModel


class Server(ApiModel):
    host_name: str = "here"
    ready: bool | None = None
    nodes: list[str] = Field(default_factory=list)
    count: int = 0
    options: dict[str, Any] = Field(default_factory=dict)


def test_fields_have_the_apis_names_on_the_wire_and_pythons_in_code():
    server = Server.model_validate_json('{"hostName": "there"}')
    assert server.host_name == "there"
    assert Server(host_name="there").to_wire()["hostName"] == "there"


def test_a_field_that_is_none_is_left_out():
    assert "ready" not in Server().to_wire()


def test_false_zero_and_empty_lists_are_values_and_stay():
    wire = Server(ready=False, nodes=[], count=0).to_wire()
    assert (wire["ready"], wire["nodes"], wire["count"]) == (False, [], 0)


def test_fields_of_a_newer_version_survive_a_read_a_change_and_a_write():
    server = Server.model_validate_json('{"hostName": "a", "colour": {"hue": [1, 2]}, "snake_case": 0}')
    server.host_name = "b"
    wire = server.to_wire()
    assert wire["hostName"] == "b"
    assert wire["colour"] == {"hue": [1, 2]}
    assert wire["snake_case"] == 0


def test_a_map_of_anything_stays_as_it_came():
    options = {"snake_case": 1, "camelCase": None, "list": [None, {}]}
    assert Server(options=options).to_wire()["options"] == options
