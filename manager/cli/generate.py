"""The command `generate`."""
# ruff: noqa: T201 - a program's output is printed

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from manager.cli.arguments import ArgumentParser
from manager.codegen import GeneratedTree, ModelError, config_files
from manager.operator import AnyOperator, rights_of
from manager.program import Program
from manager.webhook import RegistrationError
from manager.webhook.methods import registrations
from manager.webhook.registration import Webhooks

__all__ = ["command", "generated_tree"]

_CHECK = "--check"

_DESCRIPTION = """\
Write what is generated under config/ in this folder, from what the operators declare: definitions,
roles and webhooks."""


def command(argv: Sequence[str], operators: Sequence[AnyOperator], program: Program) -> int:
    """Write the files, or with `--check` only say which are not current; returns the exit code."""
    parser = ArgumentParser("generate", f"{program.name} generate [{_CHECK}]", _DESCRIPTION)
    told = "write nothing; fail when a file is not current"
    parser.add_argument(_CHECK, action="store_true", default=False, help=told)
    check = parser.read(argv).check
    config = Path("config")
    if not config.is_dir():
        print("generate: this folder has no config/ to write to", file=sys.stderr)
        return 1
    try:
        tree = generated_tree(program, operators, config)
    except (ModelError, RegistrationError) as error:
        print(f"generate: {error}", file=sys.stderr)
        return 1
    if not check:
        for path in tree.write():
            print(f"generated {path}")
        return 0
    stale = tree.stale()
    for path in stale:
        print(f"not current: {path}", file=sys.stderr)
    if stale:
        print("run `make generate`", file=sys.stderr)
    return 1 if stale else 0


def generated_tree(program: Program, operators: Iterable[AnyOperator], config: Path) -> GeneratedTree:
    """Return the files that the operators' models, rights and webhooks make, for the folder `config`.

    Raises ModelError when a model has no custom resource definition, RegistrationError when webhooks
    do not fit together.
    """
    operators = tuple(operators)
    kinds = [kind for operator in operators for kind in operator.kinds()]
    rules = {operator.name: rights_of(operator) for operator in operators}
    samples = (path.name for path in (config / "samples").glob("*.yaml") if path.name != "kustomization.yaml")
    webhooks = Webhooks(each for operator in operators for each in registrations(operator))
    return GeneratedTree(config, config_files(program, kinds, rules, samples, webhooks))
