"""What the comparisons of the study on class imbalance let one say: the words of its factor, and its own sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from models.offline.claims import listed
from models.offline.common.findings import Findings as Common
from models.offline.common.findings import Groups, Outcome
from models.offline.common.names import Cell, Words, capital

NO_AUGMENTATION, NO_BALANCING, NO_FOCUS, NO_SKEW = (
    "without-augmentation", "without-balancing", "without-focus", "without-skew")
NOTHING, RATIO, RATIOS = "without imbalance", "at a ratio of ", "at ratios of "

WORDS = Words(method="the remedy", on_all="on both sets", at_all="with and without imbalance", ablated={
    NO_BALANCING: "drawing images as often as they come",
    NO_AUGMENTATION: "leaving the augmentation out",
    NO_FOCUS: "transforming all classes alike",
    NO_SKEW: "spreading the same number of images evenly over the classes",
    "without-small-angles": "turning images much farther",
    "without-shifts": "leaving the shifts out",
    "without-noise": "leaving the pixel noise out",
    "without-long-training": "stopping the training early",
    "without-wide-layer": "narrowing the network",
})


class Findings(Common):
    """Sentences with marks of `models.offline.claims`; an empty string where there is nothing to say."""

    # --- levels -----------------------------------------------------------------------------------------------------

    @property
    def raised(self) -> tuple[str, ...]:
        """The levels with an imbalance, the highest one last."""
        return tuple(level.name for level in self.plan.levels if (level.value or 0.0) > 1.0)

    @property
    def under_imbalance(self) -> list[Cell]:
        return [(dataset, level) for level in self.raised for dataset in self.datasets]

    def at(self, level: str) -> str:
        if level not in self.raised:
            return NOTHING
        if self.claims.has("s", f"level.{level}"):
            return f"{RATIO}<s:level.{level}>"
        return "at the highest ratio" if level == self.raised[-1] else "at a lower ratio"

    def _at(self, levels: Sequence[str]) -> str:
        """`without imbalance and at ratios of a and b`."""
        if len(levels) == len(self.levels) > 1:
            return self.words.at_all
        phrases = [self.at(level) for level in levels]
        others = [phrase for phrase in phrases if not phrase.startswith(RATIO)]
        values = [phrase.removeprefix(RATIO) for phrase in phrases if phrase.startswith(RATIO)]
        return listed([*others, *([f"{RATIOS if len(values) > 1 else RATIO}{listed(values)}"] if values else [])])

    def groups(self, arm: str, other: str, metric: str = "", *, within: Iterable[Cell] = ()) -> Groups:
        """Cells by outcome. Without imbalance, some ablations are the whole method: nothing is compared there."""
        same = not within and any(part in arm for part in ("focus", "skew"))
        return super().groups(arm, other, metric, within=self.under_imbalance if same else within)

    def sizes(self) -> str:
        """Pixels, classes and images of every dataset in one sentence."""
        sized = [f"{self.words.on([one]).removeprefix('on ')} has <s:data.{one}.features> pixels, "
                 f"<s:data.{one}.classes> classes and <s:data.{one}.train>, <s:data.{one}.dev>, "
                 f"<s:data.{one}.validation> and <s:data.{one}.test> images" for one in self.datasets]
        known = [sentence for sentence in sized if self.claims.say(sentence)]
        return f"In the order of training, development, validation and test, {listed(known)}." if known else ""

    # --- results ----------------------------------------------------------------------------------------------------

    def harm(self) -> str:
        """The baseline without imbalance and at the highest ratio, as numbers; a fact of means, not a tested claim."""
        if not self.raised or self.raised[-1] == self.levels[0]:
            return ""
        first, top = self.levels[0], self.raised[-1]
        means = [(one, *(self.result((one, level), self.baseline, form="mean") for level in (first, top)))
                 for one in self.datasets]
        shown = [f"{low} and {high} {self.words.on([one])}" for one, low, high in means]
        return f"The baseline's {self.metric()} {self.at(first)} and {self.at(top)} is {listed(shown)}."

    def apart(self, metric: str) -> str:
        """That a metric and the primary one disagree, where their verdicts do."""
        ours, other = self.compared(), self.compared(metric)
        cells = [cell for cell in ours.get("better", []) if cell in other.get("worse", [])]
        cells += [cell for cell in ours.get("worse", []) if cell in other.get("better", [])]
        return (f"The two scores point in opposite directions {self.where(cells)}: what is won in images recognised is "
                "paid in sure mistakes, or the other way round.") if cells else ""

    # --- ablations --------------------------------------------------------------------------------------------------

    def ablation(self, arm: str) -> list[str]:
        """What an ablation does to the primary metric, and its means at the highest ratio; beside the first of them
        stand those of the whole method and of the baseline."""
        said = super().ablation(arm)[:1]
        return [*said, self._beside(arm, brief=arm != self.ablated[0])] if said else []

    def _beside(self, arm: str, *, brief: bool) -> str:
        top = self.raised[-1] if self.raised else self.levels[-1]

        def shown(which: str) -> str:
            return listed([self.result((one, top), which) for one in self.datasets])

        rest = "" if brief else (f", beside {shown(self.method)} for the whole method and {shown(self.baseline)} for "
                                 "the baseline")
        return f"{capital(self.at(top))} the {self.metric()} {self.words.on(self.datasets)} is {shown(arm)}{rest}."

    def parts_in_brief(self) -> str:
        """What removing each of the two parts does, in one sentence for the abstract."""
        said: list[str] = []
        for arm, subject in ((NO_AUGMENTATION, "without augmentation"), (NO_BALANCING, "without balanced sampling")):
            texts: dict[Outcome, str] = {
                "better": f"the {self.metric()} is better", "worse": f"the {self.metric()} is worse",
                "none": "no difference is measurable", "unknown": "the replicates do not allow a statement"}
            clauses = [f"{texts[name]} {where}" for name, where in self.spread(self.groups(arm, self.method))]
            said += [f"{subject}, {', and '.join(clauses)}"] if clauses else []
        return f"Taken apart: {'; '.join(said)}." if said else ""

    # --- conclusion -------------------------------------------------------------------------------------------------

    def conclusion(self) -> list[str]:
        """What is answered, by the verdicts over all datasets under imbalance."""
        groups = self.groups(self.method, self.baseline, within=self.under_imbalance)
        if set(groups) <= {"unknown"}:
            answer = ("The replicates do not allow a statement on whether balanced sampling with augmentation serves "
                      "all classes under imbalance; the means are reported for whoever adds more.")
        elif set(groups) == {"better"}:
            answer = ("In every comparison under imbalance, balanced sampling with augmentation improved the "
                      f"{self.metric()}.")
        elif "better" not in groups:
            answer = ("In no comparison under imbalance could we measure that balanced sampling with augmentation "
                      "helps" + (", and in some it is worse." if "worse" in groups else "."))
        else:
            rest: dict[Outcome, str] = {"worse": "it is worse in others", "unknown": "others remain open",
                                        "none": "no difference is measurable in others"}
            others = "; ".join(text for name, text in rest.items() if name in groups)
            answer = (f"Balanced sampling with augmentation improved the {self.metric()} in some comparisons under "
                      f"imbalance; {others}.")
        return [answer, self._on_parts(), self._on_focus()]

    def _found(self, arm: str) -> set[Outcome]:
        """What is called of an ablation under imbalance, over all datasets."""
        return set(self.groups(arm, self.method, within=self.under_imbalance))

    def _on_parts(self) -> str:
        """Which of the two parts could be measured to be needed."""
        words = {NO_BALANCING: "balanced sampling", NO_AUGMENTATION: "the augmentation"}
        found = {arm: self._found(arm) for arm in words}
        always = [words[arm] for arm in words if found[arm] == {"worse"}]
        some = [words[arm] for arm in words if "worse" in found[arm] and found[arm] != {"worse"}]
        never = [words[arm] for arm in words if found[arm] and found[arm] <= {"none", "better"}]
        said = [f"it needs {listed(always)} in every comparison"] if always else []
        said += [f"{listed(some)} could be measured to matter in some comparisons and not in others"] if some else []
        said += [f"we could not measure that {listed(never)} adds anything"] if never else []
        return f"Taken apart, {'; '.join(said)}." if said else ""

    def _on_focus(self) -> str:
        """Whether spending the transformations on rare classes in particular pays."""
        found = self._found(NO_FOCUS)
        if found == {"none"}:
            return ("That rare classes are transformed more often than others made no measurable difference: the "
                    "simpler rule, all classes alike, serves as well as far as we could measure.")
        if "better" in found and "worse" not in found:
            return ("Transforming rare classes more often than others did harm somewhere and measurably helped "
                    "nowhere: the simpler rule, all classes alike, is to be preferred.")
        return ""
