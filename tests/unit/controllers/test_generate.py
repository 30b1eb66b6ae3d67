from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from controllers import generate
from manager import Operator
from manager.api import ApiModel, Resource, crd
from tests.support import widget


class Open(ApiModel):
    anything: object = None


@crd()
class Unbounded(Resource, group="test.example.com", version="v1", plural="unbounded"):
    spec: Open


class UnboundedOperator(Operator[Unbounded]):
    """Reconciles nothing."""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty `config/`, and one operator to generate it from."""
    folder = tmp_path / "config"
    samples = folder / "samples"
    samples.mkdir(parents=True)
    (samples / "test_v1_widget.yaml").write_text("kind: Widget\n")
    monkeypatch.setattr(generate, "_CONFIG", folder)
    monkeypatch.setattr(generate, "OPERATORS", (widget.WidgetOperator,))
    return folder


def test_the_files_of_this_repository_are_current(capsys: pytest.CaptureFixture[str]):
    assert generate.main(["--check"]) == 0, capsys.readouterr().err


def test_a_check_names_what_is_not_current_and_writes_nothing(
    config: Path, capsys: pytest.CaptureFixture[str]
):
    assert generate.main(["--check"]) == 1
    complaint = capsys.readouterr().err
    assert "not current: config/crd/bases/test.example.com_widgets.yaml\n" in complaint
    assert complaint.endswith("run `make generate`\n")
    assert not (config / "crd").exists()


def test_generating_makes_everything_current(config: Path, capsys: pytest.CaptureFixture[str]):
    assert generate.main([]) == 0
    assert "generated config/rbac/role.yaml\n" in capsys.readouterr().out
    assert generate.main(["--check"]) == 0
    role = yaml.safe_load((config / "rbac" / "role.yaml").read_text())
    assert [rule["resources"] for rule in role["rules"]] == [["events"], ["widgets"], ["widgets/status"]]
    samples = yaml.safe_load((config / "samples" / "kustomization.yaml").read_text())
    assert samples["resources"] == ["test_v1_widget.yaml"]


def test_a_model_that_cannot_be_expressed_is_named_in_one_line(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(generate, "OPERATORS", (UnboundedOperator,))
    assert generate.main([]) == 1
    assert capsys.readouterr().err.startswith("generate: Unbounded.spec.anything: ")
    assert not (config / "crd").exists()
