"""Manifests as YAML that people read, and read back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

__all__ = ["yaml_document", "yaml_documents", "yaml_stream"]

# In C it takes a tenth of the time; whoever built PyYAML may have had no libyaml.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# Lines of prose are broken at this width; the server never sees where.
_WIDTH = 110


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block, and repeats rather than refers."""

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


def yaml_documents(text: str) -> list[dict[str, Any]]:
    """Return the manifests of a stream; documents in which there is nothing are none."""
    return [each for each in yaml.load_all(text, _LOADER) if each]
