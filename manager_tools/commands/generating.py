"""The commands `crds` and `generate`: what is made from what the operators declare."""
# ruff: noqa: T201 - a program's output is printed

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from manager.cli.arguments import ArgumentParser, CannotRun, whole
from manager.operator import AnyOperator, rights_of
from manager.program import Program
from manager.webhook import RegistrationError
from manager.webhook.configurations import SERVICE, ClientConfig, by_service
from manager.webhook.methods import webhooks_of
from manager.yaml_text import yaml_documents, yaml_stream
from manager_tools.codegen import GeneratedTree, ModelError, config_files, custom_resource_definitions
from manager_tools.codegen.tree import HEADER

_DESCRIPTION = "--max-description"
_SHORTER = "the longest description of a field in definitions, 0 for none (default: as long as they are)"

_CRDS = """\
Print the custom resource definitions of all operators as one YAML stream, for
kubectl apply --server-side --force-conflicts -f -
Without --server-side, kubectl takes at most 262,144 bytes of each.

A kind with several versions is converted by the manager's webhook. The definitions ask for that at the
Service that `make deploy` makes; a manager outside of the cluster points them at itself while it runs. While
none runs, objects can be used in the version that they are stored in, and requests in another version fail;
they are never converted wrongly."""


def crds(argv: Sequence[str], operators: Sequence[AnyOperator], program: Program) -> int:
    """Print the definitions of every kind of `operators`. Raises `CannotRun` for a wrong model."""
    parser = ArgumentParser("crds", f"{program.name} crds [{_DESCRIPTION}=CHARACTERS]", _CRDS)
    parser.value(_DESCRIPTION, metavar="CHARACTERS", parse=whole(0), text=_SHORTER)
    limit: int | None = vars(parser.read(argv)).get("max_description")
    # What the kustomization in config/default makes of the names that the generator gives.
    at_service = by_service(f"{program.prefix}system", f"{program.prefix}{SERVICE}")

    def service(path: str) -> dict[str, Any]:
        # A manager outside of the cluster has put its URL there, which server-side apply would keep.
        return {**at_service(path), "url": None}

    definitions = declared_definitions("crds", operators, service, max_description=limit)
    print(yaml_stream(definitions), end="")
    return 0


def declared_definitions(
    command: str,
    operators: Sequence[AnyOperator],
    client_config: ClientConfig,
    *,
    max_description: int | None = None,
) -> list[dict[str, Any]]:
    """Return the definitions of every kind of `operators`. Raises `CannotRun` for a wrong model."""
    kinds = [kind for operator in operators for kind in operator.kinds()]
    try:
        conversions = webhooks_of(operators).conversions
        return custom_resource_definitions(kinds, conversions, client_config, max_description=max_description)
    except (ModelError, RegistrationError) as error:
        raise CannotRun(f"{command}: {error}") from error


_CHECK = "--check"

_GENERATE = """\
Write what is generated under config/ in this folder, from what the operators declare: definitions,
roles and webhooks."""


def generate(argv: Sequence[str], operators: Sequence[AnyOperator], program: Program) -> int:
    """Write the files, or with `--check` only say which are not current; returns the exit code.

    Raises `CannotRun` for a wrong model.
    """
    usage = f"{program.name} generate [{_CHECK}] [{_DESCRIPTION}=CHARACTERS]"
    parser = ArgumentParser("generate", usage, _GENERATE)
    told = "write nothing; fail when a file is not current"
    parser.add_argument(_CHECK, action="store_true", default=False, help=told)
    parser.value(_DESCRIPTION, metavar="CHARACTERS", parse=whole(0), text=_SHORTER)
    given = parser.read(argv)
    limit: int | None = vars(given).get("max_description")
    config = Path("config")
    if not config.is_dir():
        print("generate: this folder has no config/ to write to", file=sys.stderr)
        return 1
    try:
        tree = generated_tree(program, operators, config, max_description=limit)
    except (ModelError, RegistrationError) as error:
        raise CannotRun(f"generate: {error}") from error
    if not given.check:
        for path in tree.write():
            print(f"generated {path}")
        return _tell_dangling(config)
    stale = tree.stale()
    for path in stale:
        print(f"not current: {path}", file=sys.stderr)
    if stale:
        print("run `make generate`", file=sys.stderr)
    return 1 if stale else _tell_dangling(config)


def _tell_dangling(config: Path) -> int:
    """Tell of what kustomizations name that is not there any more: webhooks of operators that have none."""
    code = 0
    for path in sorted(config.rglob("kustomization.yaml")):
        text = path.read_text(encoding="utf-8")
        said = (yaml_documents(text) or [{}])[0]
        for name in () if text.startswith(HEADER) else (said.get("resources") or ()):
            if "://" not in name and not (path.parent / name).exists():
                told = f"{path} names {name}, which is not there: take it out, and what patches it"
                print(f"generate: {told}", file=sys.stderr)
                code = 1
    return code


def generated_tree(
    program: Program,
    operators: Iterable[AnyOperator],
    config: Path,
    *,
    max_description: int | None = None,
) -> GeneratedTree:
    """Return the files that the operators' models, rights and webhooks make, for the folder `config`.

    Raises ModelError when a model has no custom resource definition, RegistrationError when webhooks
    do not fit together.
    """
    operators = tuple(operators)
    kinds = [kind for operator in operators for kind in operator.kinds()]
    rules = {operator.name: rights_of(operator) for operator in operators}
    samples = (path.name for path in (config / "samples").glob("*.yaml") if path.name != "kustomization.yaml")
    webhooks = webhooks_of(operators)
    files = config_files(program, kinds, rules, samples, webhooks, max_description=max_description)
    return GeneratedTree(config, files)
