from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
import yaml
from pydantic import Field

from controllers.main import OPERATORS
from controllers.petstore.pet import PetOperator
from manager import Context, Operator
from manager.api import ApiModel, Resource, crd
from tests.support import kinds
from tests.unit.cli.conftest import Command


class Open(ApiModel):
    anything: object = None


class LookingAhead(ApiModel):
    name: Annotated[str, Field(pattern="^(?!x)[a-z]+$")] = "a"


@crd()
class Ahead(Resource, group="test.example.com", version="v1", plural="aheads"):
    spec: LookingAhead


class AheadOperator(Operator[Ahead]):
    async def reconcile(self, obj: Ahead, ctx: Context) -> None: ...


@crd()
class Unbounded(Resource, group="test.example.com", version="v1", plural="unbounded"):
    spec: Open


class UnboundedOperator(Operator[Unbounded]):
    async def reconcile(self, obj: Unbounded, ctx: Context) -> None: ...


REMOTE = (
    "https://example.com/more, github.com/org/repo//config?ref=v1, github.com/org/repo, "
    "git@github.com:org/repo, git::example.com/repo, git.example.com/repo.git/config, example.com/repo?ref=v1"
)
"""Resources of kustomize that are not on this machine."""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create config/ with one sample in a new current folder; return the path of config/."""
    samples = tmp_path / "config/samples"
    samples.mkdir(parents=True)
    (samples / "test_v1_widget.yaml").write_text("kind: Widget\n")
    monkeypatch.chdir(tmp_path)
    return samples.parent


def test_generated_files_of_this_repository_are_up_to_date(command: Command):
    outcome = command("generate", "--check", operators=OPERATORS)
    assert outcome.code == 0, outcome.err


def test_generate_removes_unused_webhook_files_and_reports_references_to_them(command: Command, config: Path):
    assert command("generate", operators=[PetOperator]).code == 0
    overlay = config / "default" / "kustomization.yaml"
    overlay.parent.mkdir(exist_ok=True)
    overlay.write_text(f"resources: [../crd, ../webhook, {REMOTE}]\n")
    assert command("generate", operators=[PetOperator]).code == 0
    told = "names ../webhook, which does not exist: remove the entry and its patches"
    for flags in ((), ("--check",)):
        outcome = command("generate", *flags, operators=[kinds.WidgetOperator])
        assert not list(config.rglob("webhook*"))
        said = f"generate: config/default/kustomization.yaml {told}\n"
        assert (outcome.code, outcome.err) == (1, said)


def test_generate_writes_every_file_that_generate_check_reports_as_stale(command: Command, config: Path):
    outcome = command("generate", "--check", operators=[kinds.WidgetOperator])
    assert outcome.code == 1
    assert "not current: config/crd/bases/test.example.com_widgets.yaml\n" in outcome.err
    assert outcome.err.endswith("run `make generate`\n")
    assert not (config / "crd").exists()
    outcome = command("generate", operators=[kinds.WidgetOperator])
    assert (outcome.code, "generated config/rbac/role.yaml\n" in outcome.out) == (0, True)
    assert command("generate", "--check", operators=[kinds.WidgetOperator]).code == 0
    role = yaml.safe_load((config / "rbac" / "role.yaml").read_text())
    resources = [name for rule in role["rules"] for name in rule["resources"]]
    assert resources == ["events", "customresourcedefinitions", "widgets", "widgets/status"]
    samples = yaml.safe_load((config / "samples" / "kustomization.yaml").read_text())
    assert samples["resources"] == ["test_v1_widget.yaml"]


def test_generate_error_is_one_line_when_the_current_folder_has_no_config_folder(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    said = command("generate", operators=[kinds.WidgetOperator]).refusal(1)
    assert said == "generate: this folder has no config/ to write to"
