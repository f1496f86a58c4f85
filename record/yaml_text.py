"""YAML of the user's, read without guesses: a key that stands twice is refused, where YAML would take the last."""

from __future__ import annotations

from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    """The safe loader, for which no mapping has a key twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            line, name = key.start_mark.line + 1, (key.tag, str(key.value))
            if name in seen:
                raise yaml.YAMLError(f"the key {key.value!r} stands in line {seen[name]} and again in line {line}: "
                                     "remove one")
            if isinstance(key, yaml.ScalarNode):
                seen[name] = line
        return super().construct_mapping(node, deep)


def load_yaml(text: str) -> Any:
    """What a text holds. Raises `yaml.YAMLError`, `RecursionError`."""
    return yaml.load(text, _Loader)
