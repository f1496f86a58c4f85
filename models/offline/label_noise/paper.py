"""The paper on label noise and calibration: `paper.jinja` with the verdicts of its hypotheses and comparisons."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from labwright.models.offline.outline import Outline, read_outline
from labwright.models.offline.scripts import render_template
from labwright.models.roles.paper_writing import WriteInputs
from labwright.record.schema.data_plan import parse_arm

TITLE = "Calibration under Label Noise: Label Smoothing, a Temperature, and the Labels It Is Fitted On"
METHOD, BASELINE = "method", "baseline"
METRIC_WORDS = {"log_loss": "log loss", "ece": "ECE"}
ABLATED_ARM_WORDS = {
    "without-clean-dev": "fitting the temperature on noisy development labels",
    "without-smoothing": "leaving label smoothing out",
    "without-temperature": "leaving the temperature out",
    "without-long-training": "stopping the training early",
    "without-mild-smoothing": "smoothing more strongly",
    "without-weight-decay": "leaving weight decay out",
    "without-wide-layer": "narrowing the hidden layer",
}
"""Arms in the order in which a paper treats them, the strongest test of the claim first."""
TEMPLATE_SLOTS = (
    "hypotheses",
    "decided",
    "main",
    "metrics",
    "ablation",
    "primary-by-noise",
    "ece-by-noise",
    "reliability-and-memorisation",
    "reliability-and-training",
)
"""Grades that the template mentions."""


def build_label_noise_outline(inputs: WriteInputs) -> Outline:
    """Build the whole paper for these inputs, for any outcome."""
    find = _Findings(inputs)
    main = find.datasets[0]
    told = " ".join(inputs.disclosures).lower()
    floats = [("table", "tab", name) for name in inputs.tables]
    floats += [("figure", "fig", one.name) for one in inputs.figures if one.placement == "main"]
    ablations = [find.format_verdicts(main, arm, METHOD) for arm in find.ablated]
    disclosed = [
        sentence
        for word, sentence in (
            ("fail", "Some executions failed; the appendix lists them."),
            (
                "without isolation",
                "Experiments ran without isolation, so held-out labels were within the code's reach.",
            ),
        )
        if word in told
    ]
    disclosed += [
        one
        for one in inputs.disclosures
        if re.search("tuned|unanchored|differ in|ideas that were run together|also scored by", one)
    ]
    lines = {
        name: "\n".join(sentences)
        for name, sentences in {
            "abstract": find.summarise(),
            "decided": find.format_decided(),
            "disclosed": disclosed,
        }.items()
    }
    return read_outline(
        TITLE,
        render_template(
            "paper.jinja",
            names=find.datasets,
            named=_format_dataset,
            datasets=_join_names([_format_dataset(one) for one in find.datasets]),
            doubled=[one.name for one in inputs.facts if one.duplicates and one.name in find.datasets],
            rates=_join_names([f"<s:level.{level.name}>" for level in inputs.data_plan.levels]),
            split=find.split,
            harm=find.format_harm(main),
            by_rate=[
                "\n".join(find.format_verdicts(dataset, METHOD, BASELINE))
                for dataset in find.datasets
                if not inputs.decided
            ],
            conclusion=find.format_conclusion(),
            ablations=["\n".join(one) for one in ablations],
            **lines,
            unknown_floats=[one for one in floats if one[2] not in TEMPLATE_SLOTS],
        ),
        inputs,
    )


@dataclass(frozen=True)
class _Findings:
    """Sentences with marks of `models.offline.outline`; empty if there is nothing to say."""

    inputs: WriteInputs

    @property
    def primary(self) -> str:
        return self.inputs.data_plan.primary_metric.name

    @property
    def metric_words(self) -> str:
        return METRIC_WORDS.get(self.primary, self.primary)

    @property
    def split(self) -> str:
        """The split of the results: test, or validation if no test predictions were scored."""
        return "test" if any(line.key.startswith("test/") for line in self.inputs.results) else "validation"

    @property
    def datasets(self) -> list[str]:
        """Datasets with a result, the plan's main one first; the plan's main one if there are none."""
        planned = [use.name for use in self.inputs.data_plan.datasets]
        measured = {line.key.split("/")[1] for line in self.inputs.results if line.key.count("/") >= 3}
        return [name for name in planned if name in measured] or planned[:1]

    @property
    def ablated(self) -> list[str]:
        """Ablated arms that are compared with the method on the main dataset."""
        arms = {
            parse_arm(side)
            for one in self.inputs.comparisons
            for side in (one.better, one.worse)
            if one.metric == self.primary and one.dataset == self.datasets[0]
        } - {METHOD, BASELINE}
        order = list(ABLATED_ARM_WORDS)
        return sorted(arms, key=lambda arm: (order.index(arm) if arm in ABLATED_ARM_WORDS else len(order), arm))

    def format_subject(self, arm: str) -> str:
        parts = arm.removeprefix("without-").split("-and-")
        return _join_names(
            [ABLATED_ARM_WORDS.get(f"without-{one}", f"leaving {one.replace('-', ' ')} out") for one in parts]
        )

    def format_verdicts(self, dataset: str, arm: str, other: str) -> list[str]:
        """Return a sentence with the verdict at each level; for an ablation, at the last one."""
        said: list[str] = []
        levels = self.inputs.data_plan.levels
        for level in levels if arm == METHOD else levels[-1:]:
            start = (
                f"At a noise rate of <s:level.{level.name}>, for {self.format_subject(arm)},"
                if arm != METHOD
                else (f"At a noise rate of <s:level.{level.name}>,")
            )
            said += [
                f"{start} we find that <v:{one.key}.short>."
                for one in self.inputs.comparisons
                if (one.dataset, one.metric, {one.better, one.worse})
                == (dataset, self.primary, {f"{arm}@{level.name}", f"{other}@{level.name}"})
            ]
        return said

    def format_decided(self) -> list[str]:
        """Report the outcomes of the plan's hypotheses."""
        return [
            f"{'Of what was registered' if one.confirmatory else 'Beside it, as something to look at'}, we find "
            f"that <v:{one.key}>."
            for one in self.inputs.decided
        ]

    def format_harm(self, dataset: str) -> str:
        """Report the baseline at the first and the last rate, as numbers; a fact about means, not a tested claim."""
        levels = self.inputs.data_plan.levels
        first, last = (
            f"<r:{self.split}/{dataset}/{self.primary}/{BASELINE}@{level.name}.pm> at a noise rate of "
            f"<s:level.{level.name}>"
            for level in (levels[0], levels[-1])
        )
        return f"On {_format_dataset(dataset)} the baseline's {self.metric_words} is {first} and {last}."

    def summarise(self) -> list[str]:
        """Report what was registered; without hypotheses, the first primary comparison of the main dataset."""
        start = "For smoothing with a temperature fitted on clean labels, when training labels are partly wrong,"
        said = [f"{start} we find that <v:{one.key}.short>." for one in self.inputs.decided if one.confirmatory]
        return (
            said
            or self.format_verdicts(self.datasets[0], METHOD, BASELINE)[:1]
            or ["The record holds no paired comparison of the arms, so no effect is claimed."]
        )

    def format_conclusion(self) -> str:
        """State the answer and its scope."""
        return "\n".join(
            (
                *self.summarise()[:1],
                ("This holds for these datasets, networks and noise rates; more of them would be another study."),
            )
        )


def _format_dataset(dataset: str) -> str:
    return rf"\textsf{{{dataset.replace('_', ' ')}}}"


def _join_names(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
