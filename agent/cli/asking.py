"""Asking a model from the command line outside of any run: a door without a log behind it, and what it took."""

from __future__ import annotations

import time
from dataclasses import dataclass

from models.client import ModelClient, Models
from models.failover import open_backend
from models.settings import ModelSettings
from record.log import MemoryLog
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
    log: MemoryLog

    def client(self, number: int) -> ModelClient:
        """A caller; each number once."""
        return self.models.at(number, 0)

    @property
    def took(self) -> Took:
        """All answers so far."""
        used = self.log.state.total
        return Took(calls=used.calls, input_tokens=used.input_tokens, output_tokens=used.output_tokens,
                    usd=round(used.usd, 6), unpriced=used.unpriced)


def open_model(settings: ModelSettings) -> Asking:
    """The model of some settings. Raises `ModelConfigError`."""
    log = MemoryLog()
    return Asking(Models(open_backend(settings), log, settings, time.monotonic), log)
