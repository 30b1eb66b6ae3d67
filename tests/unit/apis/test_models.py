"""Models and CRDs of the kinds: rules, printer columns, and a repr without passwords."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from apis.example.v1.wordpress import Wordpress
from tests.support import ROOT

crds = pytest.mark.parametrize(
    "path", sorted((ROOT / "config/crd/bases").iterdir()), ids=lambda path: path.stem
)


def quoted_rules(schema: Any, path: str = "") -> Iterator[str]:
    """Yield the path of each pattern, and of each rule without a message, in a schema."""
    if isinstance(schema, list):
        schema = dict(enumerate(schema))
    if not isinstance(schema, dict):
        return
    if isinstance(schema.get("pattern"), str) or ("rule" in schema and "message" not in schema):
        yield path
    for name, inner in schema.items():
        yield from quoted_rules(inner, f"{path}.{name}")


@crds
def test_spec_schemas_have_no_patterns_and_give_every_rule_a_message(path: Path):
    versions = yaml.safe_load(path.read_text())["spec"]["versions"]
    specs = [each["schema"]["openAPIV3Schema"]["properties"]["spec"] for each in versions]
    assert [*quoted_rules(specs)] == []


def test_wordpress_repr_shows_no_password():
    site = Wordpress.decode(b'{"metadata": {"name": "blog"}, "spec": {"sqlrootpassword": "in-the-open"}}')
    assert "in-the-open" not in f"{site!r} {site}"


@crds
def test_crds_have_a_reason_column_and_conditions_as_a_map_list(path: Path):
    for version in yaml.safe_load(path.read_text())["spec"]["versions"]:
        status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
        columns = {each["name"]: each for each in version["additionalPrinterColumns"]}
        if "conditions" in status:
            assert columns["Reason"]["priority"] == 1
            assert columns["Reason"]["jsonPath"].endswith("].reason")
            assert status["conditions"]["x-kubernetes-list-type"] == "map"
            assert status["conditions"]["x-kubernetes-list-map-keys"] == ["type"]
