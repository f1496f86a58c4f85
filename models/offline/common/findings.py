"""What the comparisons of a study let one say: sentences with marks of `models.offline.claims`, chosen by verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from models.offline.claims import listed
from models.offline.common.names import Cell, Phrases
from models.offline.common.names import Words as Words  # studies take their words from here, too
from models.offline.common.names import capital as capital
from record.nouns.data import arm_of

Outcome = Literal["better", "worse", "none", "unknown"]
Groups = dict[Outcome, list[Cell]]
OUTCOMES: tuple[Outcome, ...] = ("better", "worse", "none", "unknown")


@dataclass(frozen=True)
class Findings(Phrases):
    """Sentences; an empty string or list where there is nothing to say."""

    # --- outcomes ---------------------------------------------------------------------------------------------------

    def outcome(self, cell: Cell, arm: str, other: str, metric: str = "") -> Outcome | None:
        """What is called of an arm against another in a cell; None where they were not compared."""
        a, b = (self.condition(one, cell[1]) for one in (arm, other))
        found = self.claims.comparison(cell[0], metric or self.plan.primary.name, a, b)
        if found is None:
            return None
        if found.verdict not in ("improved", "worsened"):
            return "none" if found.verdict == "no measurable difference" else "unknown"
        return "better" if arm_of(found.better) == arm else "worse"

    def groups(self, arm: str, other: str, metric: str = "", *, within: Iterable[Cell] = ()) -> Groups:
        """Cells by outcome, of all datasets and levels or of those given."""
        found: Groups = {outcome: [] for outcome in OUTCOMES}
        for cell in list(within) or self.cells:
            if (outcome := self.outcome(cell, arm, other, metric)) is not None:
                found[outcome].append(cell)
        return {outcome: chosen for outcome, chosen in found.items() if chosen}

    def compared(self, metric: str = "") -> Groups:
        """The method against the baseline."""
        return self.groups(self.method, self.baseline, metric)

    def spread(self, groups: Groups) -> list[tuple[Outcome, str]]:
        """Outcomes with their places; the last of several is `elsewhere` if every cell was compared."""
        said: list[tuple[Outcome, str]] = [(outcome, self.where(cells)) for outcome, cells in groups.items()]
        if len(said) > 1 and sum(len(cells) for cells in groups.values()) == len(self.cells):
            said[-1] = (said[-1][0], "elsewhere")
        return said

    # --- sentences --------------------------------------------------------------------------------------------------

    def level_by_level(self, metric: str = "") -> list[str]:
        """A metric (the primary one by default), one sentence a level and outcome, with the paired differences."""
        said: list[str] = []
        for level in self.levels:
            within = [(name, level) for name in self.datasets]
            groups = self.groups(self.method, self.baseline, metric, within=within)
            for k, (outcome, cells) in enumerate(groups.items()):
                start = f"{capital(self.at(level))}, " if level and not k else ""
                said.append(f"{start}{self._with_differences(outcome, cells, metric)}.")
        return [capital(one) for one in said]

    def unseen(self, metric: str = "") -> str:
        """How large a difference could have gone unseen where none is measurable, the largest of each dataset."""
        cells, name = self.compared(metric).get("none", []), metric or self.plan.primary.name
        said: list[str] = []
        for dataset in self.datasets:
            conditions = [[self.condition(arm, level) for arm in (self.method, self.baseline)]
                          for where, level in cells if where == dataset]
            key = self.claims.largest(f"diff/{dataset}/{name}/{'~'.join(pair)}.mde" for pair in conditions)
            said += [f"<r:{key}> {self.words.on([dataset])}"] if key else []
        return f"Where none is measurable, one of up to {listed(said)} could have gone unseen." if said else ""

    def _with_differences(self, outcome: Outcome, cells: Sequence[Cell], name: str) -> str:
        metric = self.metric(name)
        lead = {"better": f"{self.words.method} improved the {metric}", "worse": f"the {metric} is worse with it",
                "none": f"no difference in {metric} is measurable",
                "unknown": f"the replicates do not allow a statement on the {metric}"}[outcome]
        places: list[str] = []
        for cell in cells:
            difference = self.difference(cell, self.method, self.baseline, name)
            places.append(self.words.on([cell[0]]) + (f" ({difference})" if difference else ""))
        return f"{lead.replace('with it', f'with {self.words.method}')} {listed(places)}"

    def of_metric(self, metric: str) -> str:
        """A secondary metric in one sentence, grouped by what is called of it."""
        groups, words = self.compared(metric), self.metric(metric)
        texts: dict[Outcome, str] = {
            "better": f"{self.words.method} improved the {words}", "worse": f"the {words} is worse",
            "none": f"no difference in {words} is measurable",
            "unknown": f"the replicates do not allow a statement on the {words}"}
        clauses = [f"{texts[outcome]} {where}" for outcome, where in self.spread(groups)]
        return f"{capital('; '.join(clauses))}." if clauses else ""

    def summary(self, metric: str = "") -> str:
        """The outcomes of a metric in a clause without numbers, for an abstract or a conclusion."""
        groups = self.compared(metric)
        words, method = self.metric(metric), self.words.method
        if not groups:
            return f"the record holds no paired comparison of the arms in {words}, so no effect is claimed"
        if set(groups) == {"unknown"}:
            return f"the replicates do not allow a statement on the {words}"
        texts: dict[Outcome, str] = {
            "better": f"{method} improved the {words}",
            "worse": "it makes it worse" if "better" in groups else f"{method} makes the {words} worse",
            "none": "no difference is measurable", "unknown": "the replicates leave it open"}
        if "better" not in groups and "worse" not in groups:
            texts["none"] = f"no difference in {words} is measurable"
        return "; ".join(f"{texts[outcome]} {where}" for outcome, where in self.spread(groups))

    # --- ablations --------------------------------------------------------------------------------------------------

    @cached_property
    def ablated(self) -> list[str]:
        """Ablated arms that were compared with the method on the main dataset, those of `Words.ablated` first."""
        arms = {arm_of(side) for c in self.claims.inputs.comparisons for side in (c.better, c.worse)
                if c.metric == self.plan.primary.name and c.dataset == self.datasets[0]}
        ranks = {arm: k for k, arm in enumerate(self.words.ablated)}
        return sorted(arms - {self.method, self.baseline}, key=lambda arm: (ranks.get(arm, len(ranks)), arm))

    def ablation_words(self, arm: str) -> str:
        parts = arm.removeprefix("without-").split("-and-")
        known = self.words.ablated
        return listed([known.get(f"without-{one}", f"leaving {one.replace('-', ' ')} out") for one in parts])

    def ablation(self, arm: str) -> list[str]:
        """What an ablation does to the primary metric, and its means on the main dataset."""
        groups = self.groups(arm, self.method)
        if not groups:
            return []
        subject, words = self.ablation_words(arm), self.metric()
        first: dict[Outcome, str] = {
            "better": f"{subject} improved the {words}", "worse": f"{subject} makes the {words} worse",
            "none": f"{subject} makes no measurable difference in {words}",
            "unknown": f"{subject} leaves the {words} open, since the replicates do not allow a statement,"}
        later: dict[Outcome, str] = {
            "better": f"it improved the {words}", "worse": f"the {words} is worse",
            "none": "no difference is measurable", "unknown": "the replicates do not allow a statement"}
        clauses = [f"{(later if k else first)[outcome]} {where}"
                   for k, (outcome, where) in enumerate(self.spread(groups))]
        cell = (self.datasets[0], self.levels[-1])
        place = " ".join(part for part in (self.words.on([cell[0]]), self.at(cell[1])) if part)
        return [f"{capital('; '.join(clauses))}.",
                f"{capital(place)} the {words} is {self.result(cell, arm)}, and {self.result(cell, self.method)} for "
                "the whole method."]

    # --- what surrounds results -------------------------------------------------------------------------------------

    def sizes(self) -> str:
        """Rows and classes of every dataset in one sentence."""
        sized = [rf"\textsf{{{one.replace('_', ' ')}}} has <s:data.{one}.classes> classes and <s:data.{one}.train>, "
                 f"<s:data.{one}.dev>, <s:data.{one}.validation> and <s:data.{one}.test> rows" for one in self.datasets]
        known = [sentence for sentence in sized if self.claims.say(sentence)]
        return f"In the order of training, development, validation and test, {listed(known)}." if known else ""

    def duplicates(self) -> str:
        """Rows of held-out parts that also stand in training; that there are none where there are none."""
        facts = [one for one in self.claims.inputs.facts if one.name in self.datasets]
        named = [f"<s:data.{one.name}.duplicates> {self.words.on([one.name])}" for one in facts if one.duplicates]
        if named:
            return f"Some held-out rows also stand in training: {listed(named)}."
        return "No held-out row also stands in training; the program counted them." if facts else ""

    def disclosures(self) -> list[str]:
        """What a reader must be told, in words that hold no number; the appendix has the particulars."""
        told = " ".join(self.claims.inputs.disclosures).lower()
        said = {
            "fail": "Some executions failed; the appendix lists them.",
            "without isolation": "Experiments ran without isolation, so held-out labels were within the code's reach.",
        }
        return [sentence for word, sentence in said.items() if word in told]
