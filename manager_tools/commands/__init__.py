"""Commands that a running manager does not need; `operator-manager` loads them by an entry point."""

from __future__ import annotations

from manager.cli.commands import LazyCommand

__all__ = ["COMMANDS"]

_HERE = "manager_tools.commands"

COMMANDS = (
    LazyCommand("explain", "tell why an object is not ready", f"{_HERE}.explain:explain"),
    LazyCommand("plan", "tell what the operators would do to existing objects", f"{_HERE}.plan:plan"),
    LazyCommand("console", "open the console of a manager in a browser", f"{_HERE}.console:console"),
    LazyCommand(
        "crds",
        "print the custom resource definitions, ready for kubectl apply --server-side",
        f"{_HERE}.generating:crds",
    ),
    LazyCommand("generate", "write what is generated under config/", f"{_HERE}.generating:generate"),
    LazyCommand("chart", "write a Helm chart of config/", f"{_HERE}.chart:chart"),
    LazyCommand("init", "begin a project of your own", f"{_HERE}.init:init"),
    LazyCommand("create", "add a kind and its operator to a project", f"{_HERE}.create:create"),
    LazyCommand("model", "write the model of a kind that others have defined", f"{_HERE}.model:model"),
    LazyCommand(
        "simulate",
        "try the operators in a simulated cluster where things go wrong",
        f"{_HERE}.simulate:simulate",
    ),
    LazyCommand(
        "migrate-storage",
        "have every object stored in the storage version of its definition",
        f"{_HERE}.migrate_storage:migrate_storage",
    ),
)
