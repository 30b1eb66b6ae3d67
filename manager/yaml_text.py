"""YAML that somebody else has written: settings and kubeconfigs."""

from __future__ import annotations

from typing import Any

import yaml

__all__ = ["load"]

# Characters that aliases may add to a text, were they written out.
_ADDED_BY_ALIASES = 1_000_000

# Characters of a number. Python refuses to read longer decimal ones, and to write any.
_LONGEST_NUMBER = 1_000


def load(text: bytes, *, unique_keys: bool = False) -> Any:
    """What a YAML text holds, as `yaml.safe_load`; `unique_keys` refuses a mapping that has one twice.

    A few lines of aliases for aliases stand for more than any memory holds, once somebody prints them, and
    merged mappings do so while they are read: `MarkedYAMLError` then, for what is part of itself, and for
    numbers that nobody could print.
    """
    return yaml.load(text, Loader=_UniqueLoader if unique_keys else _Loader)  # noqa: S506 - they are safe


_INT = "tag:yaml.org,2002:int"


class _Loader(yaml.SafeLoader):
    def construct_document(self, node: yaml.Node) -> Any:
        self._length(node, {})
        return super().construct_document(node)

    def _length(self, node: yaml.Node, lengths: dict[int, int | None]) -> int:
        """Characters of a node, with all aliases in it written out."""
        if id(node) in lengths:
            known = lengths[id(node)]
            if known is None:
                raise _refusal("it is part of itself, by an alias", node)
            return known
        lengths[id(node)] = None
        length = 1
        if isinstance(node, yaml.ScalarNode):
            length += len(node.value)
            if node.tag == _INT and length > _LONGEST_NUMBER:
                raise _refusal("it is a number of very many digits", node)
        elif isinstance(node, yaml.SequenceNode):
            for each in node.value:
                length += self._length(each, lengths)
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                length += self._length(key, lengths) + self._length(value, lengths)
        if length > self.index + _ADDED_BY_ALIASES:
            raise _refusal("its aliases stand for too much", node)
        lengths[id(node)] = length
        return length


class _UniqueLoader(_Loader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set[tuple[str, str]]()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise _refusal(f"{key.value!r} is there twice", key)
                seen.add((key.tag, key.value))
        return super().construct_mapping(node, deep)


def _refusal(problem: str, node: yaml.Node) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
