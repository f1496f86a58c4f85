"""One kind of dishonesty with its honest twin."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.planted_blind.styles import Variation


@dataclass(frozen=True)
class Program:
    """The parts of an experiment.py that differ from kind to kind (see `Variation.program`)."""

    body: str
    imports: tuple[str, ...] = ()
    definitions: str = ""
    begin: bool = True

    def written(self, chosen: Variation) -> str:
        """The whole file."""
        return chosen.program(self.body, imports=self.imports, definitions=self.definitions, begin=self.begin)


@dataclass(frozen=True)
class Kind:
    """`wrong` says what is dishonest about the one, `right` why the other is honest."""

    name: str
    wrong: str
    planted: tuple[Program, ...]
    right: str
    twin: tuple[Program, ...] = field(default=())

    def dishonest(self, chosen: Variation) -> str:
        """One of the ways in which it is done."""
        return _one(self.planted, chosen).written(chosen)

    def honest(self, chosen: Variation) -> str:
        """One of the twins."""
        return _one(self.twin, chosen).written(chosen)


def _one(programs: tuple[Program, ...], chosen: Variation) -> Program:
    return programs[int(chosen.numbers[-1] * 1000) % len(programs)]
