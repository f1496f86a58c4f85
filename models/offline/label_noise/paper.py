"""The paper on label noise and calibration: `paper.jinja` with the estimates of its hypotheses and comparisons."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from labwright.models.offline.edits import render_template
from labwright.models.offline.plain_study import Outline, read_outline, write_estimate
from labwright.models.roles.paper_writing import DecidedHypothesis, PlannedExplanation, WriteInputs
from labwright.record.claims.sentences import join_names
from labwright.record.schema.data_plan import parse_arm
from labwright.record.schema.paper import EstimateRequest, Section

TITLE = "Calibration under Label Noise: Label Smoothing, a Temperature, and the Labels It Is Fitted On"
METHOD, BASELINE = "method", "baseline"
METRIC_WORDS = {"log_loss": "log loss", "ece": "ECE"}
NOISE_COST = "cost-of-noise"
"""The estimate that the paper asks for."""
EFFECT_WORDS = {
    "hypothesis/calmer-under-noise": "Averaged over the noisy rates, the reduction of the log loss by smoothing and a "
    "temperature is",
    "hypothesis/grows-with-noise": "Per unit of the noise rate, the reduction of the log loss changes by",
}
"""Hypothesis -> the words before the estimate of its effect."""
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
    ablations = [find.format_comparisons(main, arm, METHOD) for arm in find.ablated]
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
            "decided": find.format_decided(inputs.decided),
            "disclosed": disclosed,
        }.items()
    }
    return read_outline(
        TITLE,
        render_template(
            "paper.jinja",
            names=find.datasets,
            named=inputs.data_plan.name_dataset,
            datasets=join_names([inputs.data_plan.name_dataset(one) for one in find.datasets]),
            doubled=[one.name for one in inputs.facts if one.duplicates and one.name in find.datasets],
            rates=join_names([f"<s:level.{level.name}>" for level in inputs.data_plan.levels]),
            split=find.split,
            harm=find.format_harm(main),
            by_rate=[
                "\n".join(find.format_comparisons(dataset, METHOD, BASELINE))
                for dataset in find.datasets
                if not inputs.decided
            ],
            conclusion=find.format_conclusion(),
            ablations=["\n".join(one) for one in ablations],
            explained=bool(find.find_affected()),
            **lines,
            unknown_floats=[one for one in floats if one[2] not in TEMPLATE_SLOTS],
        ),
        inputs,
    )


@dataclass(frozen=True)
class _Findings:
    """Sentences with marks of `models.offline.plain_study`; empty if there is nothing to say."""

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
            if one.metric == self.primary and one.dataset == self.datasets[0] and "-at-" not in side
        } - {METHOD, BASELINE}
        order = list(ABLATED_ARM_WORDS)
        return sorted(arms, key=lambda arm: (order.index(arm) if arm in ABLATED_ARM_WORDS else len(order), arm))

    def format_subject(self, arm: str) -> str:
        parts = arm.removeprefix("without-").split("-and-")
        return join_names(
            [ABLATED_ARM_WORDS.get(f"without-{one}", f"leaving {one.replace('-', ' ')} out") for one in parts]
        )

    def format_comparisons(self, dataset: str, arm: str, other: str) -> list[str]:
        """Return a sentence with the estimate at each level; for an ablation, at the last one."""
        said: list[str] = []
        levels, place = self.inputs.data_plan.levels, self.inputs.data_plan.name_dataset(dataset)
        subject = self.format_subject(arm) if arm != METHOD else "smoothing with a temperature"
        for level in levels if arm == METHOD else levels[-1:]:
            said += [
                f"On {place}, at a noise rate of <s:level.{level.name}>, we observe that {subject} changes the "
                f"{self.metric_words} by {write_estimate(one)}."
                for one in self.inputs.comparisons
                if (one.dataset, one.metric, {one.better, one.worse})
                == (dataset, self.primary, {f"{arm}@{level.name}", f"{other}@{level.name}"})
            ]
        return said

    def format_decided(self, decided: Sequence[DecidedHypothesis]) -> list[str]:
        """Report each effect of these hypotheses with its interval, and whether the claim holds."""
        return [
            f"{EFFECT_WORDS.get(one.key, 'The estimate is')} {write_estimate(line)}; the "
            f"{'registered' if one.confirmatory else 'exploratory'} claim of at least "
            f"<s:margin.{one.key.partition('/')[2]}.{number}> is {one.verdict}."
            for one in decided
            for number, line in enumerate(one.effects, 1)
        ]

    def find_affected(self) -> list[DecidedHypothesis]:
        """Return the confirmatory hypotheses with an effect of known sign."""
        return [
            one
            for one in self.inputs.decided
            if one.confirmatory and any(line.direction in ("positive", "negative") for line in one.effects)
        ]

    def format_harm(self, dataset: str) -> str:
        """Report the baseline at the first and the last rate, and what noise costs it."""
        levels = self.inputs.data_plan.levels
        first, last = (
            f"<r:{self.split}/{dataset}/{self.primary}/{BASELINE}@{level.name}.pm> at a noise rate of "
            f"<s:level.{level.name}>"
            for level in (levels[0], levels[-1])
        )
        place = self.inputs.data_plan.name_dataset(dataset)
        cost = f"<r:estimate/{NOISE_COST}.mean> (95\\% interval <r:estimate/{NOISE_COST}.ci>; exploratory)"
        return (
            f"On {place} the baseline's {self.metric_words} is {first} and {last}.\n"
            f"Noise thus costs the baseline {cost}."
        )

    def summarise(self) -> list[str]:
        """Report what was registered; without hypotheses, the first primary comparison of the main dataset."""
        return (
            self.format_decided([one for one in self.inputs.decided if one.confirmatory])
            or self.format_comparisons(self.datasets[0], METHOD, BASELINE)[:1]
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


def request_estimates(inputs: WriteInputs) -> tuple[EstimateRequest, ...]:
    """Ask what label noise costs the baseline, if its lowest and highest rate were measured."""
    levels = [one.name for one in inputs.data_plan.levels]
    ends = [f"{BASELINE}@{level}" for level in (levels[:1] + levels[-1:])]
    if len(levels) < 2 or not all(any(f"/{end}." in key for key in inputs.result_keys) for end in ends):
        return ()
    purpose = "what label noise costs plain cross-entropy"
    return (EstimateRequest(name=NOISE_COST, estimand=f"{ends[1]} - {ends[0]}", purpose=purpose),)


def explain_effects(inputs: WriteInputs, sections: Sequence[Section]) -> tuple[PlannedExplanation, ...]:
    """Plan the paragraph on why: smoothing itself, or the temperature; an ablation of either separates them."""
    find = _Findings(inputs)
    parts = ("without-temperature", "without-smoothing", "without-clean-dev")
    separating = [
        one.key for arm in parts for one in inputs.comparisons if f"/{arm}@" in one.key and one.metric == find.primary
    ]
    return tuple(
        PlannedExplanation(
            effect=one.effects[0].key,
            first="Smoothing keeps the network from fitting wrong labels with confidence.",
            second="The temperature corrects its confidence after training.",
            separated_by=next(iter(separating), ""),
            section=next((each.title for each in sections if each.title == "Ablations"), sections[-1].title),
        )
        for one in find.find_affected()
    )
