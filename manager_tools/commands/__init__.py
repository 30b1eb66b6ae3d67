"""Commands that a running manager does not need; `operator-manager` loads them by an entry point."""

from __future__ import annotations

from manager.cli.commands import LazyCommand

__all__ = ["COMMANDS"]

_HERE = "manager_tools.commands"

COMMANDS = (
    LazyCommand("explain", "explain why an object is not ready", f"{_HERE}.explain:explain"),
    LazyCommand("plan", "print the changes that the operators would make", f"{_HERE}.plan:plan"),
    LazyCommand("console", "open the console of a manager in a browser", f"{_HERE}.console:console"),
    LazyCommand(
        "crds",
        "print the custom resource definitions, ready for kubectl apply --server-side",
        f"{_HERE}.generating:crds",
    ),
    LazyCommand("generate", "write the generated files under config/", f"{_HERE}.generating:generate"),
    LazyCommand("chart", "write a Helm chart of config/", f"{_HERE}.chart:chart"),
    LazyCommand("init", "create a project", f"{_HERE}.init:init"),
    LazyCommand("create", "add a kind and its operator to a project", f"{_HERE}.create:create"),
    LazyCommand("model", "write a pydantic model of an existing kind", f"{_HERE}.model:model"),
    LazyCommand(
        "simulate",
        "test the operators in a simulated cluster with faults",
        f"{_HERE}.simulate:simulate",
    ),
    LazyCommand(
        "migrate-storage",
        "rewrite all objects in the storage version of their definition",
        f"{_HERE}.migrate_storage:migrate_storage",
    ),
)
