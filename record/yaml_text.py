"""YAML read without guesses: the user's with each key once, strangers' within bounds.

A small text of a stranger can stand for more values than fit into a machine, by aliases of aliases.
"""

from __future__ import annotations

from typing import Any, cast

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode

MAX_VALUES = 50_000
"""Keys and values of a stranger's text, those that aliases repeat counted each time."""
_MAX_NUMBER_LENGTH = 100
"""Characters of a number in it: 1:1:1:... is read to the base of 60, which takes the square of its length."""


class _UniqueKeyLoader(yaml.SafeLoader):
    """The safe loader, for which no mapping has a key twice."""

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            line, name = key.start_mark.line + 1, (key.tag, str(key.value))
            if name in seen:
                raise yaml.YAMLError(
                    f"the key {key.value!r} stands in line {seen[name]} and again in line {line}: remove one"
                )
            if isinstance(key, ScalarNode):
                seen[name] = line
        return super().construct_mapping(node, deep)


class _BoundedLoader(yaml.SafeLoader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._count = 0
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        alias: bool = cast("Any", self).check_event(yaml.AliasEvent)
        before = self._count
        node = super().compose_node(parent, index)
        if alias and id(node) not in self._sizes:
            raise yaml.YAMLError("it holds itself")
        self._count += self._sizes[id(node)] if alias else 1
        if self._count > MAX_VALUES:
            raise yaml.YAMLError(f"it comes to more than {MAX_VALUES} values")
        if not alias:
            self._sizes[id(node)] = self._count - before
        return node

    def construct_scalar(self, node: ScalarNode | MappingNode) -> Any:
        if node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float") and len(node.value) > _MAX_NUMBER_LENGTH:
            raise yaml.YAMLError(f"a number has more than {_MAX_NUMBER_LENGTH} characters")
        return super().construct_scalar(node)


def load_yaml(text: str) -> Any:
    """What a text of the user holds; a key given twice is refused. Raises `yaml.YAMLError`, `RecursionError`."""
    return yaml.load(text, _UniqueKeyLoader)


def load_untrusted_yaml(text: str) -> Any:
    """What a stranger's text holds. Raises `yaml.YAMLError`, `ValueError`, `RecursionError`, also beyond the bounds."""
    return yaml.load(text, _BoundedLoader)
