"""Strict YAML reading: user files must not repeat keys, untrusted input is bounded.

With nested aliases, a small untrusted document can expand to more values than fit into memory.
"""

from __future__ import annotations

from typing import Any, cast

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode

MAX_VALUES = 50_000
"""Maximum number of keys and values in an untrusted document, counting repetitions by aliases."""
_MAX_NUMBER_LENGTH = 100
"""Maximum characters of a number in it: parsing 1:1:1:... (base 60) takes quadratic time."""


class _UniqueKeyLoader(yaml.SafeLoader):
    """A safe loader that rejects repeated keys."""

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            line, name = key.start_mark.line + 1, (key.tag, str(key.value))
            if name in seen:
                raise yaml.YAMLError(
                    f"the key {key.value!r} is in line {seen[name]} and again in line {line}: remove one"
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
            raise yaml.YAMLError("it contains itself")
        self._count += self._sizes[id(node)] if alias else 1
        if self._count > MAX_VALUES:
            raise yaml.YAMLError(f"it expands to more than {MAX_VALUES} values")
        if not alias:
            self._sizes[id(node)] = self._count - before
        return node

    def construct_scalar(self, node: ScalarNode | MappingNode) -> Any:
        if node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float") and len(node.value) > _MAX_NUMBER_LENGTH:
            raise yaml.YAMLError(f"a number has more than {_MAX_NUMBER_LENGTH} characters")
        return super().construct_scalar(node)


class _TextDumper(yaml.SafeDumper):
    """A safe dumper that writes texts of several lines as they are."""


def _represent_text(dumper: Any, text: str) -> ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_TextDumper.add_representer(str, _represent_text)


def dump_yaml(value: Any) -> str:
    """Format a value as YAML for a person to edit."""
    return yaml.dump(value, Dumper=_TextDumper, sort_keys=False, allow_unicode=True, width=110)


def load_yaml(text: str) -> Any:
    """Parse the user's YAML document; repeated keys are rejected. Raises `yaml.YAMLError`, `RecursionError`."""
    return yaml.load(text, _UniqueKeyLoader)


def describe_yaml_error(error: Exception) -> str:
    """Describe why a document cannot be parsed: what is wrong, and in which line."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return " ".join(str(error).split())[:200]


def load_untrusted_yaml(text: str) -> Any:
    """Parse an untrusted YAML document. Raises `yaml.YAMLError`, `ValueError`, `RecursionError`, including when the
    document exceeds the bounds.
    """
    return yaml.load(text, _BoundedLoader)
