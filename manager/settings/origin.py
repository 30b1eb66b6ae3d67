"""What a setting is called in each place that can set it."""

from __future__ import annotations

from manager.program import Program

ENV_ALSO: dict[str, tuple[str, ...]] = {
    "namespaces": ("WATCH_NAMESPACE",),
    "enable_webhooks": ("ENABLE_WEBHOOKS",),
}
"""Further environment variables per field, for names the field's users already know."""


def flag_name(field: str) -> str:
    """`--leader-elect` for `leader_elect`."""
    return f"--{key_name(field)}"


def key_name(field: str) -> str:
    """The key in a settings file: the flag without its dashes."""
    return field.replace("_", "-")


def env_names(field: str, program: Program) -> tuple[str, ...]:
    """The environment variables that set `field` of `program`, the strongest first."""
    return (program.variables + field.upper(), *ENV_ALSO.get(field, ()))
