"""Objects as YAML, for people and for `kubectl apply -f -`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

# Prose is broken at this width; the server never sees the line breaks.
_WIDTH = 110

# With libyaml if available, in a quarter of the time.
_BASE: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_BASE):  # type: ignore[misc] # the available one
    """A YAML dumper that writes a text with several lines as a block, and never writes aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def yaml_stream(manifests: Iterable[dict[str, Any]]) -> str:
    """Return manifests for `kubectl apply -f -`, each with `---` first and its fields in the given order."""
    text: str = yaml.dump_all(
        manifests, Dumper=_Dumper, sort_keys=False, width=_WIDTH, allow_unicode=True, explicit_start=True
    )
    return text


def yaml_lines(obj: dict[str, Any]) -> list[str]:
    """Return the lines of an object's YAML, with fields sorted by name; long lines are not broken."""
    text: str = yaml.dump(obj, Dumper=_Dumper, sort_keys=True, width=1 << 20, allow_unicode=True)
    return text.split("\n")[:-1]
