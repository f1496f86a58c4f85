"""YAML that strangers wrote. A small text can stand for more values than fit into a machine, by aliases of aliases."""

from __future__ import annotations

from typing import Any, cast

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode

VALUES = 50_000
"""Keys and values that a text may come to, those that aliases repeat counted each time."""
_DIGITS = 100
"""Characters of a number: 1:1:1:... is read to the base of 60, which takes the square of its length."""


class _Bounded(yaml.SafeLoader):
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
        if self._count > VALUES:
            raise yaml.YAMLError(f"it comes to more than {VALUES} values")
        if not alias:
            self._sizes[id(node)] = self._count - before
        return node

    def construct_scalar(self, node: ScalarNode | MappingNode) -> Any:
        if node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float") and len(node.value) > _DIGITS:
            raise yaml.YAMLError(f"a number has more than {_DIGITS} characters")
        return super().construct_scalar(node)


def load_yaml(text: str) -> Any:
    """What the text says. Raises `yaml.YAMLError`, `ValueError`, `RecursionError`, also of what says too much."""
    return yaml.load(text, Loader=_Bounded)
