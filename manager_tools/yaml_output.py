"""Manifests as readable YAML."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

__all__ = ["yaml_document", "yaml_stream"]

# Lines of prose are broken at this width; the server never sees where.
_WIDTH = 110

# Where libyaml is there, in a quarter of the time.
_BASE: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_BASE):  # type: ignore[misc] # whichever there is
    """YAML dumper that writes multi-line text as a block, and repeats values instead of using aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def yaml_document(manifest: dict[str, Any]) -> str:
    """Return one manifest, fields in the order they have, beginning with `---`."""
    text: str = yaml.dump(
        manifest,
        Dumper=_Dumper,
        sort_keys=False,
        width=_WIDTH,
        allow_unicode=True,
        explicit_start=True,
    )
    return text


def yaml_stream(manifests: Iterable[dict[str, Any]]) -> str:
    """Return the manifests one after the other, ready for `kubectl apply -f -`."""
    return "".join(yaml_document(manifest) for manifest in manifests)
