"""The commands that a running manager has no need of; `operator-manager` finds them by an entry point."""

from __future__ import annotations

from manager.cli.commands import Command

__all__ = ["COMMANDS"]

_HERE = "manager_tools.commands"

COMMANDS = (
    Command(
        "crds",
        "print the custom resource definitions, ready for kubectl apply --server-side",
        f"{_HERE}.generating:crds",
    ),
    Command(
        "generate", "write what is generated under config/", f"{_HERE}.generating:generate", operators="own"
    ),
    Command("init", "begin a project of your own", f"{_HERE}.init:init", operators="none"),
    Command(
        "create",
        "add a kind and its operator to a project",
        f"{_HERE}.create:create",
        operators="none",
        subcommands=("api", "webhook"),
    ),
    Command(
        "model",
        "write the model of a kind that others have defined",
        f"{_HERE}.model:model",
        operators="none",
    ),
    Command(
        "simulate",
        "try the operators in a simulated cluster where things go wrong",
        f"{_HERE}.simulate:simulate",
    ),
    Command(
        "migrate-storage",
        "have every object stored in the storage version of its definition",
        f"{_HERE}.migrate_storage:migrate_storage",
    ),
)
