"""The paper on label noise and calibration: `paper.jinja` with sentences that the verdicts of comparisons choose."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from models.offline.outline import Outline, read_outline
from models.offline.scripts import render
from models.roles.writing import WriteInputs
from record.claims.differences import Called
from record.nouns.data import arm_of

TITLE = "Calibration under Label Noise: Label Smoothing, a Temperature, and the Labels It Is Fitted On"
METHOD, BASELINE = "method", "baseline"
WORDS = {"log_loss": "log loss", "ece": "ECE"}
ABLATED = {
    "without-clean-dev": "fitting the temperature on noisy development labels",
    "without-smoothing": "leaving label smoothing out",
    "without-temperature": "leaving the temperature out",
    "without-long-training": "stopping the training early",
    "without-mild-smoothing": "smoothing more strongly",
    "without-weight-decay": "leaving weight decay out",
    "without-wide-layer": "narrowing the hidden layer",
}
"""Arms in the order in which a paper treats them, the one that asks most of the claim first."""
FLOATS = ("main", "metrics", "ablation", "primary-by-noise", "ece-by-noise", "reliability-and-memorisation",
          "reliability-and-training")
"""What the template has a place for."""
VERDICTS: dict[Called, str] = {
    "improved": "{subject} improved the {metric} {where}",
    "worsened": "{subject} makes the {metric} worse {where}",
    "no measurable difference": "{subject} makes no measurable difference in {metric} {where}",
    "unknown": "the replicates do not allow a statement on the {metric} for {subject} {where}"}


def outline(inputs: WriteInputs) -> Outline:
    """The whole paper for these inputs; holds for any outcome."""
    find = _Findings(inputs)
    main = find.datasets[0]
    told = " ".join(inputs.disclosures).lower()
    floats = [("table", "tab", name) for name in inputs.tables]
    floats += [("figure", "fig", one.name) for one in inputs.figures if one.placement == "main"]
    ablations, elsewhere = ([[sentence for dataset in datasets for sentence in find.verdicts(
        dataset, find.primary, arm, METHOD, find.subject(arm))] for arm in find.ablated]
        for datasets in ([main], find.datasets[1:]))
    ece, accuracy = ([sentence for dataset in find.datasets for sentence in find.verdicts(
        dataset, metric, METHOD, BASELINE, "the method")] for metric in ("ece", "accuracy"))
    disclosed = [sentence for word, sentence in (
        ("fail", "Some executions failed; the appendix lists them."),
        ("without isolation", "Experiments ran without isolation, so held-out labels were within the code's reach."),
    ) if word in told]
    disclosed += [one for one in inputs.disclosures if re.search("tuned|unanchored|not equal in", one)]
    lines = {name: "\n".join(sentences) for name, sentences in {
        "abstract": find.in_brief(), "ece": ece, "accuracy": accuracy, "disclosed": disclosed}.items()}
    return read_outline(TITLE, render(
        "paper.jinja", names=find.datasets, named=_named, datasets=_listed([_named(one) for one in find.datasets]),
        doubled=[one.name for one in inputs.facts if one.duplicates and one.name in find.datasets],
        rates=_listed([f"<s:level.{level.name}>" for level in inputs.data_plan.levels]), split=find.split,
        harm=find.harm(main),
        by_rate=["\n".join(find.by_rate(dataset)) for dataset in find.datasets], conclusion=find.conclusion(),
        ablations=["\n".join(one) for one in ablations], elsewhere=["\n".join(one) for one in elsewhere], **lines,
        unknown_floats=[one for one in floats if one[2] not in FLOATS]), inputs)


@dataclass(frozen=True)
class _Findings:
    """Sentences with marks of `models.offline.outline`, none where there is nothing to say."""

    inputs: WriteInputs

    @property
    def primary(self) -> str:
        return self.inputs.data_plan.primary.name

    @property
    def words(self) -> str:
        return WORDS.get(self.primary, self.primary)

    @property
    def split(self) -> str:
        """What the results are on: test, or validation where no test predictions were scored."""
        return "test" if any(line.key.startswith("test/") for line in self.inputs.results) else "validation"

    @property
    def datasets(self) -> list[str]:
        """Datasets with a result, the plan's main one first; the plan's main one if there are none."""
        planned = [use.name for use in self.inputs.data_plan.datasets]
        measured = {line.key.split("/")[1] for line in self.inputs.results if line.key.count("/") >= 3}
        return [name for name in planned if name in measured] or planned[:1]

    @property
    def ablated(self) -> list[str]:
        """Ablated arms that the main dataset has a comparison with the method for."""
        arms = {arm_of(side) for one in self.inputs.comparisons for side in (one.better, one.worse)
                if one.metric == self.primary and one.dataset == self.datasets[0]} - {METHOD, BASELINE}
        order = list(ABLATED)
        return sorted(arms, key=lambda arm: (order.index(arm) if arm in ABLATED else len(order), arm))

    def subject(self, arm: str) -> str:
        parts = arm.removeprefix("without-").split("-and-")
        return _listed([ABLATED.get(f"without-{one}", f"leaving {one.replace('-', ' ')} out") for one in parts])

    def called(self, dataset: str, metric: str, arm: str, other: str) -> dict[str, tuple[Called, str]]:
        """Level -> what is called of an arm against another one there, and the key of their difference."""
        found: dict[str, tuple[Called, str]] = {}
        for level in self.inputs.data_plan.levels:
            if arm == "without-clean-dev" and not level.value:
                continue  # without noise, noisy labels are the clean ones
            ours, theirs = f"{arm}@{level.name}", f"{other}@{level.name}"
            for one in self.inputs.comparisons:
                if (one.dataset, one.metric, {one.better, one.worse}) == (dataset, metric, {ours, theirs}):
                    better: Called = "improved" if one.better == ours else "worsened"
                    found[level.name] = better if one.verdict in ("improved", "worsened") else one.verdict, one.key
        return found

    def verdicts(self, dataset: str, metric: str, arm: str, other: str, subject: str) -> list[str]:
        """A sentence for each verdict, with the levels that have it."""
        called = self.called(dataset, metric, arm, other)
        sentences: list[str] = []
        for verdict, words in VERDICTS.items():
            rates = [f"<s:level.{name}>" for name, (one, _) in called.items() if one == verdict]
            where = f"at {'noise rates' if len(rates) > 1 else 'a noise rate'} of {_listed(rates)}"
            text = words.format(subject=subject, metric=WORDS.get(metric, metric), where=where)
            sentences += [f"On {_named(dataset)}, {text}."] if rates else []
        return sentences

    def by_rate(self, dataset: str) -> list[str]:
        """One sentence a noise rate with the means of both arms and their paired difference, by its verdict."""
        said: list[str] = []
        for level, (called, key) in self.called(dataset, self.primary, METHOD, BASELINE).items():
            start = f"On {_named(dataset)} at a noise rate of <s:level.{level}>,"
            a, b = (f"<r:{self.split}/{dataset}/{self.primary}/{arm}@{level}.mean>" for arm in (METHOD, BASELINE))
            paired = f"(paired difference <r:{key}.mean>, interval <r:{key}.ci>)"
            said += {
                "improved": [f"{start} the method improved the {self.words} from {b} to {a} {paired}."],
                "worsened": [f"{start} the method worsened the {self.words} from {b} to {a} {paired}."],
                "no measurable difference": [
                    f"{start} there is no measurable difference: {a} for the method against {b} {paired}.",
                    f"One of up to <r:{key}.mde> could have gone unseen there."],
                "unknown": [f"{start} the replicates do not allow a statement: the means are {a} for the method and "
                            f"{b} without it."]}[called]
        return said

    def harm(self, dataset: str) -> str:
        """The baseline at the first and the last rate, as numbers; a fact of means, not a tested claim."""
        levels = self.inputs.data_plan.levels
        first, last = (f"<r:{self.split}/{dataset}/{self.primary}/{BASELINE}@{level.name}.pm> at a noise rate of "
                       f"<s:level.{level.name}>" for level in (levels[0], levels[-1]))
        return f"On {_named(dataset)} the baseline's {self.words} is {first} and {last}."

    def in_brief(self) -> list[str]:
        """The verdicts of the primary metric, and what noisy development labels do to the main dataset."""
        said = [sentence for dataset in self.datasets
                for sentence in self.verdicts(dataset, self.primary, METHOD, BASELINE, "the method")]
        said += self.verdicts(self.datasets[0], self.primary, "without-clean-dev", METHOD, ABLATED["without-clean-dev"])
        return said or ["The record holds no paired comparison of the arms, so no effect is claimed."]

    def conclusion(self) -> str:
        """What is answered, by the verdicts over all datasets under noise."""
        noisy = {level.name for level in self.inputs.data_plan.levels if level.value}
        outcomes = {called for dataset in self.datasets for level, (called, _) in self.called(
            dataset, self.primary, METHOD, BASELINE).items() if level in noisy}
        if outcomes <= {"unknown"}:
            return ("The replicates do not allow a statement on whether label smoothing with a temperature helps "
                    "calibration under label noise; the means are reported for whoever adds more.")
        if "improved" not in outcomes:
            return ("In no comparison under noise could we measure that label smoothing with a temperature improves "
                    "the proper score.")
        if outcomes == {"improved"}:
            return "In every comparison under noise, label smoothing with a temperature improved the proper score."
        return ("Label smoothing with a temperature improved the proper score in some comparisons under noise; the "
                "results say in which.")


def _named(dataset: str) -> str:
    return rf"\textsf{{{dataset.replace('_', ' ')}}}"


def _listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
