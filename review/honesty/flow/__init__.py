"""Static data flow: the source is followed statement by statement over origins (`values.Value`) in place of values."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from review.honesty.flow import calls, expressions, modules, objects, statements
from review.honesty.flow.walk import Given, Sink, TooLongError, Walk
from review.honesty.values import Value

__all__ = ["Flow", "Sink", "TooLongError"]


class Flow(Walk):
    """A walk through a program; `run` fills `sinks`."""

    def run(self) -> None:
        """Raises: `TooLongError`, `RecursionError`."""
        self.block(self.entry.body)
        for name in self.modules:  # what nothing imports, as far as can be seen
            modules.load(self, name)

    def block(self, body: Sequence[ast.stmt]) -> None:
        for one in body:
            if self.frames[-1].stopped:
                return
            statements.statement(self, one)

    def value(self, node: ast.expr) -> Value:
        return expressions.value(self, node)

    def attribute(self, owner: Value, name: str) -> Value:
        return objects.attribute(self, owner, name)

    def apply(self, function: Value, given: Given, node: ast.AST) -> Value:
        return calls.apply(self, function, given, node)

    def follow(self, function: Value, given: Given, node: ast.AST) -> Value:
        return calls.follow(self, function, given, node)
