"""What the comparisons of the study let one say, sentence by sentence."""

from __future__ import annotations

from functools import cached_property

from models.offline.claims import listed
from models.offline.label_noise.names import BASELINE, METHOD, WORDS, Names, capital
from record.nouns.data import Level, arm_of

ABLATED = {
    "without-clean-dev": "fitting the temperature on development labels that are as noisy as the training labels",
    "without-smoothing": "leaving label smoothing out",
    "without-temperature": "leaving the temperature out",
    "without-long-training": "stopping the training early",
    "without-mild-smoothing": "smoothing more strongly",
    "without-weight-decay": "leaving weight decay out",
    "without-wide-layer": "narrowing the hidden layer",
}
"""Arms in the order in which a paper treats them, the one that asks most of the claim first."""


class Findings(Names):
    """Sentences with marks of `models.offline.claims`; an empty string where there is nothing to say."""

    # --- results ----------------------------------------------------------------------------------------------------

    def harm(self, dataset: str) -> str:
        """The baseline without noise and at the highest rate, as numbers; a fact of means, not a tested claim."""
        if not self.noisy or self.noisy[-1] is self.levels[0]:
            return ""
        clean, noisy = (f"{BASELINE}@{level.name}" for level in (self.levels[0], self.noisy[-1]))
        return (f"On {self.name(dataset)} the baseline's {self.metric_words} is {self.result(dataset, clean)} without "
                f"noise and {self.result(dataset, noisy)} {self.rate(self.noisy[-1])}; its ECE is "
                f"{self.result(dataset, clean, metric='ece')} and {self.result(dataset, noisy, metric='ece')}.")

    def harm_scope(self) -> str:
        return ("These are means side by side with their standard deviations; no test is attached to the rates.")

    def opening(self, dataset: str) -> str:
        groups = self._grouped(dataset, self.primary)
        if not any(groups.values()):
            return (f"For {self.name(dataset)} the record holds no paired comparison of the arms, so nothing is "
                    "claimed.")
        return f"We take {self.name(dataset)} first, rate by rate."

    def by_level(self, dataset: str) -> list[str]:
        """One sentence a noise rate, by the verdict of its comparison."""
        return [self.one(dataset, level) for level in self.levels]

    def one(self, dataset: str, level: Level) -> str:
        ours, theirs = f"{METHOD}@{level.name}", f"{BASELINE}@{level.name}"
        found = self.claims.comparison(dataset, self.primary, ours, theirs)
        if found is None:
            return ""
        start = f"{capital(self.rate(level))},"
        a, b = (self.result(dataset, condition, form="mean") for condition in (ours, theirs))
        difference = self.difference(dataset, ours, theirs)
        bracket = f" ({difference})" if difference else ""
        if found.verdict == "unknown":
            return (f"{start} the replicates do not allow a statement: the means are {a} for the method and {b} "
                    "without it.")
        if found.verdict == "no measurable difference":
            return f"{start} there is no measurable difference: {a} for the method against {b}{bracket}."
        if found.better == ours:
            return f"{start} the method improved the {self.metric_words} from {b} to {a}{bracket}."
        return f"{start} the method is worse than the baseline, with {a} against {b}{bracket}."

    def in_groups(self, dataset: str) -> list[str]:
        """The rates of a further dataset, those of one verdict in one sentence."""
        groups = self._grouped(dataset, self.primary)
        start = f"On {self.name(dataset)}"
        clauses = self._clauses(groups, self.metric_words)
        said = [f"{start}, {clauses[0]}.", *(f"{capital(clause)}." for clause in clauses[1:])] if clauses else []
        return [*said, *self._against(dataset)]

    def _against(self, dataset: str) -> list[str]:
        """The paired differences where the method is worse."""
        worse = self._grouped(dataset, self.primary)["worse"]
        found = [(level, self.difference(dataset, f"{METHOD}@{level.name}", f"{BASELINE}@{level.name}"))
                 for level in self.levels if self.rate(level) in worse]
        return [f"{capital(self.rate(level))} this is a {said}." for level, said in found if said]

    def unseen(self) -> str:
        """How large a difference could have gone unseen where none is measurable, the largest of each dataset."""
        said: list[str] = []
        for dataset in self.datasets:
            none = self._grouped(dataset, self.primary)["none"]
            keys = [f"diff/{dataset}/{self.primary}/{METHOD}@{level.name}~{BASELINE}@{level.name}.mde"
                    for level in self.levels if self.rate(level) in none]
            key = self.claims.largest(keys)
            said += [f"<r:{key}> on {self.name(dataset)}"] if key else []
        return f"Where none is measurable, one of up to {listed(said)} could have gone unseen." if said else ""

    def _grouped(self, dataset: str, metric: str) -> dict[str, list[str]]:
        """Phrases of the levels by outcome: better, worse, none, unknown."""
        groups: dict[str, list[str]] = {"better": [], "worse": [], "none": [], "unknown": []}
        for level in self.levels:
            found = self.claims.comparison(dataset, metric, f"{METHOD}@{level.name}", f"{BASELINE}@{level.name}")
            if found is not None:
                groups[_outcome(found.verdict, better=arm_of(found.better) == METHOD)].append(self.rate(level))
        return groups

    def _clauses(self, groups: dict[str, list[str]], words: str) -> list[str]:
        texts = {
            "better": "the method improved the {words} {where}",
            "worse": "the method has the worse {words} {where}",
            "none": "there is no measurable difference in {words} {where}",
            "unknown": "the replicates do not allow a statement on the {words} {where}",
        }
        return [texts[name].format(words=words, where=self.where(places)) for name, places in groups.items() if places]

    def of_metric(self, metric: str) -> str:
        """A secondary metric on every dataset, grouped by what is called of it."""
        texts = {"better": "the method improved the {words} on {where}", "worse": "it has the worse {words} on {where}",
                 "none": "no difference in {words} is measurable on {where}",
                 "unknown": "the replicates do not allow a statement on the {words} on {where}"}
        clauses: list[str] = []
        for name, text in texts.items():
            where = [f"{self.name(dataset)} {self.where(rates)}" for dataset in self.datasets
                     if (rates := self._grouped(dataset, metric)[name])]
            if where:
                clauses.append(text.format(words=WORDS.get(metric, metric), where=", on ".join(where)))
        if clauses and clauses[0].startswith("it has"):
            clauses[0] = clauses[0].replace("it has", "the method has", 1)
        return f"{capital('; '.join(clauses))}." if clauses else ""

    def disagreement(self) -> str:
        """That calibration error and the primary metric disagree, where their verdicts do."""
        if self.primary == "ece":
            return ""
        for dataset in self.datasets:
            ours, ece = self._grouped(dataset, self.primary), self._grouped(dataset, "ece")
            if set(ours["better"]) & set(ece["worse"]) or set(ours["worse"]) & set(ece["better"]):
                return (f"On {self.name(dataset)} the two scores point in opposite directions somewhere, which is why "
                        "the proper score is the primary one.")
        return ""

    # --- ablations --------------------------------------------------------------------------------------------------

    @cached_property
    def ablated(self) -> list[str]:
        """Ablated arms that the main dataset has a comparison with the method for, those of the table first."""
        arms = {arm_of(side) for c in self.claims.inputs.comparisons for side in (c.better, c.worse)
                if c.metric == self.primary and c.dataset == self.datasets[0]}
        arms -= {METHOD, BASELINE}
        ranks = {arm: k for k, arm in enumerate(ABLATED)}
        return sorted(arms, key=lambda arm: (ranks.get(arm, len(ranks)), arm))

    def ablation_words(self, arm: str) -> str:
        parts = arm.removeprefix("without-").split("-and-")
        return listed([ABLATED.get(f"without-{one}", f"leaving {one.replace('-', ' ')} out") for one in parts])

    def ablation(self, arm: str, dataset: str) -> list[str]:
        """What the ablation does to the primary metric of a dataset, by verdict, with the numbers of one rate."""
        clauses = self._ablation_clauses(arm, dataset, self.ablation_words(arm))
        if not clauses:
            return []
        said = [f"On {self.name(dataset)}, {'; '.join(clauses)}."]
        level = (self.noisy or self.levels)[0] if self.levels else None
        if level is not None:
            said.append(f"{capital(self.rate(level))} the {self.metric_words} is "
                        f"{self.result(dataset, f'{arm}@{level.name}')}, and "
                        f"{self.result(dataset, f'{METHOD}@{level.name}')} for the whole method.")
        return said

    def ablation_elsewhere(self, arm: str) -> list[str]:
        """The same for the other datasets, without numbers."""
        clauses = [(other, self._ablation_clauses(arm, other, self.ablation_words(arm))) for other in self.datasets[1:]]
        return [f"On {self.name(other)}, {'; '.join(said)}." for other, said in clauses if said]

    def _ablation_clauses(self, arm: str, dataset: str, subject: str) -> list[str]:
        """One clause an outcome; the first one names the subject."""
        groups: dict[str, list[str]] = {"worse": [], "better": [], "none": [], "unknown": []}
        # Without noise, noisy development labels are the clean ones: nothing is compared.
        for level in self.noisy if "clean-dev" in arm else self.levels:
            found = self.claims.comparison(dataset, self.primary, f"{arm}@{level.name}", f"{METHOD}@{level.name}")
            if found is not None:
                groups[_outcome(found.verdict, better=arm_of(found.better) == arm)].append(self.rate(level))
        words = self.metric_words
        first = {"worse": f"{subject} makes the {words} worse", "better": f"{subject} improved the {words}",
                 "none": f"{subject} makes no measurable difference in {words}",
                 "unknown": f"{subject} leaves the {words} open, since the replicates do not allow a statement"}
        later = {"better": f"it improved the {words}", "none": "no difference is measurable",
                 "unknown": "the replicates do not allow a statement"}
        given = [(name, places) for name, places in groups.items() if places]
        return [f"{(later if k else first)[name]} {self.where(places)}" for k, (name, places) in enumerate(given)]

    # --- abstract and conclusion ------------------------------------------------------------------------------------

    def abstract_sentences(self) -> list[str]:
        """The verdicts of the primary metric in one sentence a dataset; means at the highest rate for the main one."""
        main, *others = self.datasets
        said = self._whole(main)
        if said and self.noisy:
            top = self.noisy[-1]
            said.append(f"{capital(self.rate(top))} the mean there is "
                        f"{self.result(main, f'{BASELINE}@{top.name}', form='mean')} for the baseline and "
                        f"{self.result(main, f'{METHOD}@{top.name}', form='mean')} for the method.")
        said += [one for other in others for one in self._whole(other)]
        return said or ["The record holds no paired comparison of the arms, so no effect is claimed."]

    def _whole(self, dataset: str) -> list[str]:
        clauses = self._clauses(self._grouped(dataset, self.primary), self.metric_words)
        return [f"On {self.name(dataset)}, {'; '.join(clauses)}."] if clauses else []

    def trusted_labels_in_brief(self) -> str:
        """The ablation on noisy development labels in one sentence, on the main dataset."""
        arm = "without-clean-dev"
        if arm not in self.ablated:
            return ""
        clauses = self._ablation_clauses(arm, self.datasets[0], "fitting the temperature on noisy labels instead")
        return f"On {self.name(self.datasets[0])}, {'; '.join(clauses)}." if clauses else ""

    def conclusion(self) -> list[str]:
        """What is answered, by the verdicts over all datasets under noise."""
        outcomes = self._outcomes_under_noise()
        if not outcomes or outcomes == {"unknown"}:
            answer = ("The replicates do not allow a statement on whether label smoothing with a "
                      "temperature mends calibration under label noise; the means are reported for whoever adds more.")
        elif outcomes == {"better"}:
            answer = ("In every comparison under noise, label smoothing with a temperature fitted on clean labels "
                      "improved the proper score.")
        elif "better" not in outcomes:
            answer = ("In no comparison under noise could we measure that label smoothing with a temperature mends "
                      "the proper score" + (", and in some it is worse." if "worse" in outcomes else "."))
        else:
            rest = {"worse": "it is worse in others", "none": "no difference is measurable in others",
                    "unknown": "others remain open"}
            others = "; ".join(rest[name] for name in ("worse", "none", "unknown") if name in outcomes)
            answer = ("Label smoothing with a temperature improved the proper score in some comparisons under noise; "
                      f"{others}.")
        return [answer, self._on_trusted_labels()]

    def _outcomes_under_noise(self) -> set[str]:
        clean = {self.rate(level) for level in self.levels if not level.value}
        return {name for dataset in self.datasets
                for name, where in self._grouped(dataset, self.primary).items() if set(where) - clean}

    def _on_trusted_labels(self) -> str:
        arm, main = "without-clean-dev", self.datasets[0]
        found = [self.claims.comparison(main, self.primary, f"{arm}@{level.name}", f"{METHOD}@{level.name}")
                 for level in self.noisy]
        outcomes = {_outcome(c.verdict, better=arm_of(c.better) == arm) for c in found if c is not None}
        if outcomes == {"worse"}:
            return (f"On {self.name(main)} it hangs on the labels that the temperature sees, at every noise rate: the "
                    "checked labels are a part of the method and no convenience.")
        if outcomes and "worse" not in outcomes and outcomes != {"unknown"}:
            return f"On {self.name(main)} we could not measure that it hangs on clean labels for the temperature."
        return ""

    def disclosures(self) -> list[str]:
        """What a reader must be told, in words that hold no number; the appendix has the particulars."""
        told = " ".join(self.claims.inputs.disclosures).lower()
        said = {
            "fail": "Some executions failed; the appendix lists them.",
            "without isolation": "Experiments ran without isolation, so held-out labels were within the code's reach.",
        }
        return [sentence for word, sentence in said.items() if word in told]


def _outcome(verdict: str, *, better: bool) -> str:
    """better, worse, none or unknown."""
    if verdict in ("improved", "worsened"):
        return "better" if better else "worse"
    return "none" if verdict == "no measurable difference" else "unknown"
