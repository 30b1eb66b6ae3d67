from __future__ import annotations

import orjson
import pytest

from apis.example.v1.wordpress import Wordpress
from manager.api.confidential import LAST_APPLIED
from manager_console.diagnosis.explanation import to_yaml
from manager_kinds.core_v1 import Secret


def test_explanation_to_yaml_hides_confidential_values_and_managed_fields():
    obj = {
        "metadata": {
            "name": "web",
            "annotations": {LAST_APPLIED: "HUNTER2"},
            "managedFields": [{"manager": "m"}],
        },
        "spec": {"sqlrootpassword": "HUNTER2", "tier": "a\u202eb\x1b"},
    }
    text = to_yaml(orjson.dumps(obj), Wordpress.gvk)
    assert text.startswith(f"apiVersion: {Wordpress.gvk.api_version}\nkind: Wordpress\nmetadata:\n")
    assert "sqlrootpassword: " in text
    for hidden in ("HUNTER2", "managedFields", "\u202e", "\x1b"):
        assert hidden not in text
    secret = orjson.dumps({"metadata": {}, "data": {"key": "HUNTER2"}})
    assert "HUNTER2" not in to_yaml(secret, Secret.gvk)


@pytest.mark.parametrize("depth", [300, 900, 5000])
def test_explanation_to_yaml_returns_a_notice_for_a_too_large_or_deeply_nested_object(depth: int):
    nested = b'{"metadata":{},"spec":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"
    text = to_yaml(nested, Wordpress.gvk)
    assert text == "it is nested too deeply to be shown\n" or text.count(" a:") == depth
    large = orjson.dumps({"metadata": {"name": "x" * 300_000}})
    assert to_yaml(large, Wordpress.gvk) == "it is too large to be shown\n"
