"""How the study's paper names datasets, rates, results and sizes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from models.offline.claims import Claims, listed
from record.nouns.data import Level

METHOD, BASELINE = "method", "baseline"

WORDS = {"log_loss": "log loss", "ece": "ECE", "accuracy": "accuracy"}


@dataclass(frozen=True)
class Names:
    """Phrases with marks of `models.offline.claims`; an empty string where there is nothing to say."""

    claims: Claims

    # --- names ------------------------------------------------------------------------------------------------------

    @cached_property
    def primary(self) -> str:
        return self.claims.inputs.data_plan.primary.name

    @cached_property
    def metric_words(self) -> str:
        return WORDS.get(self.primary, self.primary.replace("_", " "))

    @cached_property
    def datasets(self) -> list[str]:
        """Datasets with a result, the plan's main one first; the plan's main one if there are none."""
        planned = [use.name for use in self.claims.inputs.data_plan.datasets]
        measured = {line.key.split("/")[1] for line in self.claims.inputs.results if line.key.count("/") >= 3}
        return [name for name in planned if name in measured] or planned[:1]

    @cached_property
    def split(self) -> str:
        """What the results are on: test, or validation where no test predictions were scored."""
        return "test" if any(line.key.startswith("test/") for line in self.claims.inputs.results) else "validation"

    @property
    def datasets_named(self) -> str:
        return listed([self.name(dataset) for dataset in self.datasets])

    @property
    def levels(self) -> tuple[Level, ...]:
        return self.claims.inputs.data_plan.levels

    @property
    def noisy(self) -> tuple[Level, ...]:
        return tuple(level for level in self.levels if level.value)

    def name(self, dataset: str) -> str:
        return rf"\textsf{{{dataset.replace('_', ' ')}}}"

    def rate(self, level: Level) -> str:
        """The level as a phrase: `without noise`, `at a noise rate of ...`."""
        if not level.value:
            return "without noise"
        if self.claims.has("s", f"level.{level.name}"):
            return f"at a noise rate of <s:level.{level.name}>"
        return "at the highest noise rate" if level is self.noisy[-1] else "at a lower noise rate"

    def where(self, rates: list[str]) -> str:
        """Phrases of levels in one: `with and without noise`, `without noise and at noise rates of a and b`."""
        if len(rates) == len(self.levels) > 1:
            return "with and without noise"
        lead = "at a noise rate of "
        others = [rate for rate in rates if not rate.startswith(lead)]
        numbers = [rate.removeprefix(lead) for rate in rates if rate.startswith(lead)]
        if numbers:
            others.append(f"at {'noise rates' if len(numbers) > 1 else 'a noise rate'} of {listed(numbers)}")
        return listed(others)

    def result(self, dataset: str, condition: str, *, metric: str = "", form: str = "pm") -> str:
        return f"<r:{self.split}/{dataset}/{metric or self.primary}/{condition}.{form}>"

    def difference(self, dataset: str, one: str, other: str) -> str:
        """The paired difference with its interval in brackets, whichever way round it is recorded; else nothing."""
        for a, b in ((one, other), (other, one)):
            key = f"diff/{dataset}/{self.primary}/{a}~{b}"
            if self.claims.has("r", f"{key}.mean") and self.claims.has("r", f"{key}.ci"):
                return f"paired difference <r:{key}.mean>, interval <r:{key}.ci>"
        return ""

    # --- set-up -----------------------------------------------------------------------------------------------------

    def sizes(self) -> str:
        """Features, classes and rows of every dataset in one sentence."""
        sized = [f"{self.name(one)} has <s:data.{one}.features> features, <s:data.{one}.classes> classes and "
                 f"<s:data.{one}.train>, <s:data.{one}.dev>, <s:data.{one}.validation> and <s:data.{one}.test> rows"
                 for one in self.datasets]
        known = [sentence for sentence in sized if self.claims.say(sentence)]
        return f"In the order of training, development, validation and test, {listed(known)}." if known else ""

    def duplicates(self) -> str:
        doubled = [facts.name for facts in self.claims.inputs.facts if facts.duplicates and facts.name in self.datasets]
        named = [f"<s:data.{name}.duplicates> in {self.name(name)}" for name in doubled]
        return f"Some held-out rows also stand in training: {listed(named)}." if named else ""

    def rates_named(self) -> str:
        rates = [f"<s:level.{level.name}>" for level in self.levels]
        return self.claims.say(f"We train with noise rates $\\eta$ of {listed(rates)}.") or (
            "We train without noise and with increasing noise rates $\\eta$.")


def capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
