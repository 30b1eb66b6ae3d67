"""The commands `crds` and `generate`, which write manifests from the operators' declarations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from manager.cli.commands import Invocation, pass_invocation
from manager.operator import AnyOperator, rights_of
from manager.util.program import Program
from manager.util.yaml_text import yaml_documents
from manager.webhook import RegistrationError
from manager.webhook.configurations import SERVICE, ClientConfig, by_service
from manager.webhook.methods import webhooks_of
from manager_kinds.manifests import yaml_stream
from manager_tools.codegen import GeneratedTree, ModelError, config_files, custom_resource_definitions
from manager_tools.codegen.config_files import HEADER

_REMOTE = re.compile(r"github\.com[/:]|gh:|git::|[^./].*(@|//|\.git\b|\?)", re.IGNORECASE)
"""A kustomize resource that is a URL, also without a scheme, or a repository."""

_max_description = click.option(
    "--max-description",
    type=click.IntRange(0),
    metavar="CHARACTERS",
    show_default="no limit",
    help="limit the length of field descriptions in CRDs; 0 omits the descriptions",
)


@click.command
@_max_description
@pass_invocation
def crds(invocation: Invocation, max_description: int | None) -> None:
    """Print the custom resource definitions of all operators as one YAML stream.

    Apply the stream with kubectl apply --server-side --force-conflicts -f - (without --server-side, kubectl
    accepts at most 262,144 bytes per definition).

    The manager's webhook converts kinds with several versions. The definitions name the Service that
    `make deploy` creates; a manager outside of the cluster inserts its own address while it runs. Without a
    running manager, requests in the stored version work, and requests in other versions fail.
    """
    program = invocation.program
    # The namespace that the kustomization in config/default gives to generated objects.
    at_service = by_service(f"{program.prefix}system", f"{program.prefix}{SERVICE}")

    def service(path: str) -> dict[str, Any]:
        # A manager outside of the cluster writes its URL there; without this None, apply would keep the URL.
        return {**at_service(path), "url": None}

    definitions = declared_definitions(invocation.operators(), service, max_description=max_description)
    click.echo(yaml_stream(definitions), nl=False)


def declared_definitions(
    operators: Sequence[AnyOperator], client_config: ClientConfig, *, max_description: int | None = None
) -> list[dict[str, Any]]:
    """Return the CRDs of all kinds of `operators`. Raises `ClickException` for invalid models or webhooks."""
    kinds = [kind for operator in operators for kind in operator.kinds()]
    try:
        conversions = webhooks_of(operators).conversions
        return custom_resource_definitions(kinds, conversions, client_config, max_description=max_description)
    except (ModelError, RegistrationError) as error:
        raise click.ClickException(str(error)) from error


@click.command
@click.option("--check", is_flag=True, help="write nothing; fail if a file is outdated")
@_max_description
@pass_invocation
def generate(invocation: Invocation, check: bool, max_description: int | None) -> int:
    """Write the generated files under config/ in this folder, from the operators' declarations.

    The files contain definitions, roles and webhooks.
    """
    config = Path("config")
    if not config.is_dir():
        raise click.ClickException("this folder has no config/ to write to")
    operators = invocation.own_operators()
    try:
        tree = generated_tree(invocation.program, operators, config, max_description=max_description)
    except (ModelError, RegistrationError) as error:
        raise click.ClickException(str(error)) from error
    if not check:
        for path in tree.write():
            click.echo(f"generated {path}")
        return _report_dangling(config)
    stale = tree.stale()
    for path in stale:
        click.echo(f"not current: {path}", err=True)
    if stale:
        click.echo("run `make generate`", err=True)
    return 1 if stale else _report_dangling(config)


def _report_dangling(config: Path) -> int:
    code = 0
    for path in sorted(config.rglob("kustomization.yaml")):
        text = path.read_text(encoding="utf-8")
        said = (yaml_documents(text) or [{}])[0]
        for name in () if text.startswith(HEADER) else (said.get("resources") or ()):
            if not _REMOTE.match(name) and not (path.parent / name).exists():
                told = f"{path} names {name}, which does not exist: remove the entry and its patches"
                click.echo(f"generate: {told}", err=True)
                code = 1
    return code


def generated_tree(
    program: Program, operators: Iterable[AnyOperator], config: Path, *, max_description: int | None = None
) -> GeneratedTree:
    """Generate the files of the folder `config` from the operators' models, rights and webhooks.

    Raises ModelError if a model has no valid CustomResourceDefinition, and RegistrationError for conflicting
    webhooks.
    """
    operators = tuple(operators)
    kinds = [kind for operator in operators for kind in operator.kinds()]
    rules = {operator.name: rights_of(operator) for operator in operators}
    samples = (path.name for path in (config / "samples").glob("*.yaml") if path.name != "kustomization.yaml")
    webhooks = webhooks_of(operators)
    files = config_files(program, kinds, rules, samples, webhooks, max_description=max_description)
    return GeneratedTree(config, files)
