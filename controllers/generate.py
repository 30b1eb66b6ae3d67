"""Writes what is generated under `config/`: `python -m controllers.generate [--check]`."""
# ruff: noqa: T201 - a program's output is printed

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from controllers.main import OPERATORS, PROGRAM
from manager.codegen import GeneratedTree, ModelError, config_files
from manager.operator import AnyOperator, rights_of
from manager.webhook import RegistrationError
from manager.webhook.methods import registrations
from manager.webhook.webhooks import Webhooks

__all__ = ["generated_tree", "main"]

_CONFIG = Path(__file__).resolve().parent.parent / "config"


def generated_tree(operators: Iterable[AnyOperator], config: Path) -> GeneratedTree:
    """Return the files that the operators' models, rights and webhooks make, for the folder `config`.

    Raises ModelError when a model has no custom resource definition, RegistrationError when webhooks
    do not fit together.
    """
    operators = tuple(operators)
    kinds = [kind for operator in operators for kind in operator.kinds()]
    rules = {operator.name: rights_of(operator) for operator in operators}
    samples = (path.name for path in (config / "samples").glob("*.yaml") if path.name != "kustomization.yaml")
    webhooks = Webhooks(each for operator in operators for each in registrations(operator))
    return GeneratedTree(config, config_files(PROGRAM, kinds, rules, samples, webhooks))


def main(argv: Sequence[str] | None = None) -> int:
    """Write the files, or with `--check` only say which are not current; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m controllers.generate",
        description="Generate the custom resource definitions, the roles and the webhooks under config/.",
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is not current")
    check: bool = parser.parse_args(argv).check
    try:
        tree = generated_tree(OPERATORS, _CONFIG)
    except (ModelError, RegistrationError) as error:
        print(f"generate: {error}", file=sys.stderr)
        return 1
    if not check:
        for path in tree.write():
            print(f"generated {path.relative_to(_CONFIG.parent)}")
        return 0
    stale = tree.stale()
    for path in stale:
        print(f"not current: {path.relative_to(_CONFIG.parent)}", file=sys.stderr)
    if stale:
        print("run `make generate`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
