from __future__ import annotations

from typing import Any

import yaml

from manager.codegen import custom_resource_definitions, yaml_stream
from manager.codegen.documents import yaml_document
from tests.support.widget import Widget


def test_a_stream_reads_back_as_what_was_written():
    manifests = [*custom_resource_definitions([Widget]), {"kind": "Other", "value": "yes"}]
    assert list(yaml.safe_load_all(yaml_stream(manifests))) == manifests


def test_fields_keep_their_order_and_repeated_values_are_spelled_out():
    shared = {"b": 1, "a": [2]}
    manifest: dict[str, Any] = {"second": shared, "first": shared}
    assert yaml_document(manifest) == "---\nsecond:\n  b: 1\n  a:\n  - 2\nfirst:\n  b: 1\n  a:\n  - 2\n"


def test_text_of_several_lines_is_a_block():
    assert yaml_document({"text": "one\n\ntwo"}) == "---\ntext: |-\n  one\n\n  two\n"
