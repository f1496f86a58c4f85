"""Asking a model from the command line outside of any run: a door without a log behind it, and what it took."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from models.client import ModelClient, Models
from models.failover import open_backend
from models.ledger import MemoryLedger
from models.settings import ModelSettings
from record.nouns.frozen import Frozen


class Took(Frozen):
    """What answers took. `usd` leaves out `unpriced` answers, whose price is unknown."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0

    def __add__(self, other: Took) -> Took:
        return Took(calls=self.calls + other.calls, input_tokens=self.input_tokens + other.input_tokens,
                    output_tokens=self.output_tokens + other.output_tokens, usd=round(self.usd + other.usd, 6),
                    unpriced=self.unpriced + other.unpriced)


@dataclass
class Asking:
    """One model, asked without a record: what it answers is lost with the process unless somebody writes it down."""

    models: Models
    ledger: MemoryLedger = field(default_factory=MemoryLedger)

    def client(self, number: int) -> ModelClient:
        """A caller; each number once."""
        return self.models.at(number, 0)

    @property
    def took(self) -> Took:
        """All answers so far."""
        used = [one.usage for one in self.ledger.events]
        return Took(calls=len(used), input_tokens=sum(one.input_tokens for one in used),
                    output_tokens=sum(one.output_tokens for one in used),
                    usd=round(sum(one.usd or 0.0 for one in used), 6), unpriced=sum(one.usd is None for one in used))


def open_model(settings: ModelSettings) -> Asking:
    """The model of some settings. Raises `ModelConfigError`."""
    ledger = MemoryLedger()
    return Asking(Models(open_backend(settings), ledger, settings, time.monotonic), ledger)
