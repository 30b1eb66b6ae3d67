from __future__ import annotations

import pytest

from manager.codegen.manifest import leads_somewhere
from manager.codegen.structural import structural_schema
from tests.support.widget import Widget

SCHEMA = structural_schema(Widget)


@pytest.mark.parametrize(
    "path",
    [
        ".spec.mode",
        ".metadata.labels",
        ".spec.limits.low",
        ".spec.settings.what.ever",
        ".spec.selector.app",
        ".spec.ports[0].name",
        '.status.conditions[?(@.type=="Ready")].status',
        ".spec.selector['app.kubernetes.io/name']",
    ],
)
def test_a_path_to_a_field_leads_somewhere(path: str):
    assert leads_somewhere(path, SCHEMA)


@pytest.mark.parametrize("path", ["spec.mode", "", ".", ".spec.size", ".spec.mode.deeper", ".metadatas.name"])
def test_a_path_to_nothing_leads_nowhere(path: str):
    assert not leads_somewhere(path, SCHEMA)
