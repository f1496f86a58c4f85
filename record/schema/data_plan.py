"""The data plan: metrics, arms, levels and datasets; facts of prepared datasets; and measured values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import product
from typing import Any, Literal, cast

from pydantic import Field, TypeAdapter, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from labwright.record.schema import FrozenModel, Scalar, is_empty
from labwright.record.schema.hypotheses import Effect, Hypothesis
from labwright.record.schema.prior_work import OmittedPriorWork

# Tuning of arms: hyperparameters, budget and trials; and published anchors.

HyperparameterSetting = dict[str, Scalar]
"""Hyperparameter -> value, for one arm."""


HyperparameterKind = Literal["log", "linear", "integer", "choice"]


class Hyperparameter(FrozenModel):
    """One dimension of the search spaces. All arms that have it share one range."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$", description="name in the code: cell.setting['learning_rate']")
    kind: HyperparameterKind = Field(description="log: positive, on a log scale; linear; integer; choice: of `options`")
    low: float | None = Field(default=None, description="lower end of the range, inclusive; null for a choice")
    high: float | None = Field(default=None, description="upper end of the range, inclusive; null for a choice")
    closed: bool = Field(default=False, description="whether no value beyond is possible (a rate): never widened")
    options: tuple[Scalar, ...] = Field(default=(), description="only for a choice")
    default: Scalar = Field(description="in range; the setting that every arm starts from")
    source: str = Field(min_length=1, description="where the default comes from: a paper, a library, common practice")
    arms: tuple[str, ...] = Field(default=(), description="arms that have it; empty: every baseline and method")
    given: str = Field(default="", description="name of the choice that it depends on; empty: always active")
    among: tuple[Scalar, ...] = Field(default=(), description="options of that choice that make it active")
    word: SkipJsonSchema[str] = ""
    """Only for a repository: the word that sets it in the command, such as '--lr {value}'; empty: NAME=VALUE."""

    @model_validator(mode="before")
    @classmethod
    def _parse_number(cls, value: Any) -> Any:
        """Convert numbers such as 1e-3, which YAML reads as strings."""
        given = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        with suppress(ValueError):
            if given.get("kind") in ("log", "linear", "integer") and isinstance(given.get("default"), str):
                return given | {"default": float(given["default"])}
        return cast("Any", value)

    def __str__(self) -> str:
        of = ", ".join(map(str, self.options)) or f"{self.low:g} to {self.high:g}, {self.kind}"
        arms = f", of {', '.join(self.arms)}" if self.arms else ""
        given = f", where {self.given} is {' or '.join(map(str, self.among))}" if self.given else ""
        return f"{self.name} {self.default} ({of}{arms}{given})"


def select_active(space: Iterable[Hyperparameter], values: Mapping[str, Scalar]) -> HyperparameterSetting:
    """Return the values of the dimensions that are active, in the order of a space."""
    found: HyperparameterSetting = {}
    for one in space:
        if not one.given or found.get(one.given) in one.among:
            found[one.name] = values[one.name]
    return found


EARLIER_TUNING_FIELDS = frozenset({"currency", "rungs", "rungs_by"})


class TuningPlan(FrozenModel):
    """Rules for tuning arms, fixed before any code is written. Trials are always compared on validation data."""

    budget: float = Field(default=24, gt=0, description="trials of each arm; the defaults count as one")
    metric: str = Field(default="", description="metric by which trials are compared; empty: the primary metric")
    sampler: Literal["random", "sobol", "tpe", "gp"] = Field(
        default="gp", description="TPE and a Gaussian process learn from trials"
    )
    datasets: tuple[str, ...] = Field(default=(), description="datasets of trials; empty: the main dataset")
    levels: tuple[str, ...] = Field(default=(), description="levels that trials are measured at; empty: all levels")

    @model_validator(mode="before")
    @classmethod
    def _drop_earlier_fields(cls, given: Any) -> Any:
        """Drop what plans of earlier versions have."""
        if not isinstance(given, dict):
            return given
        fields = cast("dict[str, Any]", given)
        return {key: value for key, value in fields.items() if key not in EARLIER_TUNING_FIELDS}

    def __str__(self) -> str:
        data, levels = (
            ", ".join(self.datasets) or "the main dataset",
            f" at {', '.join(self.levels)}" * bool(self.levels),
        )
        return f"{self.budget:g} trials per arm, by {self.metric or 'the primary metric'} on {data}{levels}"


class Trial(FrozenModel):
    """A setting that is tried for an arm. Numbers are unique in a run, from 1; 0 is the arm's defaults."""

    arm: str
    number: int = Field(ge=0)
    setting: HyperparameterSetting


class PublishedAnchor(FrozenModel):
    """A published value of a baseline, which the measured value should match."""

    arm: str
    level: str = ""
    dataset: str
    metric: str
    value: float
    tolerance: float = Field(gt=0, description="in the metric's unit")
    source: str = Field(min_length=1, description="where it was published")

    @property
    def condition(self) -> str:
        """The condition as named in measurements: `arm` or `arm@level`."""
        return f"{self.arm}@{self.level}" if self.level else self.arm

    def __str__(self) -> str:
        return (
            f"{self.condition} on {self.dataset}: {self.metric} {self.value:g} within {self.tolerance:g} "
            f"({self.source})"
        )


class MetricSpec(FrozenModel):
    """A metric by name. The primary metric is fixed in the data plan and never redefined."""

    name: str = Field(description="snake_case; a metric known to the scorer if predictions are submitted")
    formula: str = Field(
        default="",
        description="from predictions: 'worst(f1_score(average=macro), by=hospital)'; empty: as its name says",
    )
    title: str = Field(default="", description="column heading in tables, e.g. 'log loss'")
    unit: str = Field(default="", description="empty for a pure number")
    higher_is_better: bool = Field(description="direction of improvement")
    worst: float | None = Field(default=None, description="worst possible value, that of diverged training; null: none")
    low: float | None = Field(default=None, description="lowest possible value; null if there is none")
    high: float | None = Field(default=None, description="highest possible value; null if there is none")

    @property
    def display_name(self) -> str:
        """The title, otherwise the name written as words."""
        return self.title or to_words(self.name)


class ResourceNeeds(FrozenModel):
    """Resources that a cell of an arm needs; None: the standard resources of every experiment."""

    gpus: int | None = Field(default=None, ge=0, description="GPUs used at the same time")
    memory_gb: float | None = Field(default=None, gt=0, description="memory, 10^9 bytes")
    hours: float | None = Field(default=None, gt=0, description="maximum wall clock of one cell")

    def find_excess(self, available: ResourceNeeds) -> tuple[str, ...]:
        """Describe the needs that exceed the available resources."""
        pairs = ((name, getattr(self, name), getattr(available, name)) for name in ResourceNeeds.model_fields)
        return tuple(
            f"{wanted:.3g} {_RESOURCE_UNITS[name]} ({there:.3g} available)"
            for name, wanted, there in pairs
            if wanted is not None and there is not None and wanted > there
        )

    def __str__(self) -> str:
        return ", ".join(f"{value:.3g} {_RESOURCE_UNITS[name]}" for name, value in self if value is not None)


_RESOURCE_UNITS = {"gpus": "GPUs", "memory_gb": "GB of memory", "hours": "h of wall clock"}

ArmRole = Literal["baseline", "method", "ablation"]


class Arm(FrozenModel):
    """One compared arm. A measurement's condition is `arm`, or `arm@level` if the plan has levels."""

    name: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", description="short identifier, used as the condition")
    title: str = Field(default="", description="short name for readers, e.g. 'random erasing'")
    role: ArmRole
    description: str = ""
    untuned: str = Field(default="", description="reason, if it has no hyperparameters")
    answers: tuple[str, ...] = Field(default=(), description="baselines of prior work that it is under another name")
    needs: ResourceNeeds = Field(default=ResourceNeeds(), description="where its cells need other resources than usual")
    setting_of: str = Field(
        default="", exclude_if=is_empty, description="of an ablation: arm whose tuned setting it has; empty: the method"
    )
    words: SkipJsonSchema[tuple[str, ...]] = ()
    """Only for a repository: words that add this arm to the command, options or overrides key=value."""


class Level(FrozenModel):
    """One level of the factor (a noise rate, a length) that the study varies in addition to the arm."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    title: str = Field(default="", description="short name for readers, e.g. '20 % label noise'")
    value: float | None = Field(default=None, description="the level as a number, for an axis")
    parts: tuple[str, ...] = Field(default=(), description="set by the program: of crossed factors, a level of each")
    words: SkipJsonSchema[tuple[str, ...]] = ()
    """Only for a repository: words added to the command."""


class Factor(FrozenModel):
    """One of several crossed factors."""

    name: str = Field(min_length=1, description="the quantity that the levels vary, e.g. 'label noise rate'")
    levels: tuple[Level, ...] = Field(min_length=2)


def cross_factors(factors: tuple[Factor, ...]) -> tuple[Level, ...]:
    """Return every combination of one level per factor, `a0.1_r2`; the last factor varies fastest."""
    crossed: list[Level] = []
    for each in product(*(factor.levels for factor in factors)):
        names = tuple(one.name for one in each)
        titles = (one.title or f"{factor.name} {one.name}" for factor, one in zip(factors, each, strict=True))
        crossed.append(Level(name="_".join(names), parts=names, title=", ".join(titles)))
    return tuple(crossed)


def _dump_levels(levels: tuple[Level, ...]) -> list[dict[str, Any]]:
    return [one.model_dump() for one in levels]


class DatasetUse(FrozenModel):
    """A registered dataset and its role in the study."""

    name: str = Field(description="its name in the catalogue")
    title: str = Field(default="", exclude_if=is_empty, description="short name for readers, e.g. 'Digits'")
    reason: str = ""
    answers: tuple[str, ...] = Field(default=(), description="datasets of prior work that it is under another name")


class SubmittedColumn(FrozenModel):
    """A column that the experiment's code creates and submits with its predictions, one whole number per row, for
    metrics that read it."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$", description="its name in formulas and in `lab.submit`")
    holds: Literal["classes", "groups"] = Field(
        description="classes: a class number per row, or -1 for none; groups: the number of the row's group, from 0"
    )
    description: str = Field(min_length=1, description="its exact content, as created by the code")


class OmittedCells(FrozenModel):
    """Cells that a study omits on purpose: all cells that match. An empty name matches all cells; a level of one factor
    matches all crossed levels that contain it.
    """

    dataset: str = ""
    arm: str = ""
    level: str = ""
    reason: str = Field(min_length=1, description="reason, in one short phrase for the readers of the paper")

    def __str__(self) -> str:
        named = (f"{self.arm}@{self.level}" if self.arm and self.level else self.arm or self.level, self.dataset)
        return f"{' on '.join(name for name in named if name)} ({self.reason})"


class DataPlan(FrozenModel):
    """The plan that `prepare` makes from an idea before any code is written."""

    task: str = Field(description="one sentence: the quantity to predict, and the data from which it is learned")
    datasets: tuple[DatasetUse, ...] = Field(min_length=1, description="the first is the main dataset")
    metrics: tuple[MetricSpec, ...] = Field(min_length=1, description="the first is primary and is used for selection")
    arms: tuple[Arm, ...] = Field(min_length=1, description="at least one baseline and one method")
    columns: tuple[SubmittedColumn, ...] = Field(
        default=(), exclude_if=is_empty, max_length=8, description="columns that the code makes, for formulas"
    )
    levels: tuple[Level, ...] = ()
    factor: str = Field(default="", description="the quantity that the levels vary, e.g. 'label noise rate'")
    factors: tuple[Factor, ...] = Field(
        default=(), description="if several vary: the program crosses them into `levels`"
    )
    expected_seconds: float = Field(gt=0, description="compute time of one experiment: every arm, level and dataset")
    untested: tuple[str, ...] = Field(default=(), description="aspects of the idea that this plan cannot test")
    space: tuple[Hyperparameter, ...] = Field(default=(), description="tuned hyperparameters and their arms")
    tuning: TuningPlan = TuningPlan()
    reference_models: SkipJsonSchema[bool] = Field(
        default=True,
        exclude_if=lambda value: value,
        description="whether built-in reference models are measured, too; false for lack of time",
    )
    anchors: tuple[PublishedAnchor, ...] = Field(default=(), description="published values of baselines, from the user")
    left_out: tuple[OmittedCells, ...] = Field(default=(), description="cells that are deliberately not measured")
    omitted: tuple[OmittedPriorWork, ...] = Field(default=(), description="used by two close papers, but not here")
    open: tuple[str, ...] = Field(default=(), description="choices left to the experiments; everything else is fixed")
    covered: tuple[int, ...] = Field(default=(), description="numbers of the idea's experiments that this plan answers")
    packages: tuple[str, ...] = Field(default=(), description="packages that its code imports, of those available")
    pretrained: tuple[str, ...] = Field(
        default=(), description="available models that its code loads, OWNER/NAME@REVISION"
    )
    subjects: tuple[str, ...] = Field(default=(), description="names of the language models that its code queries")
    hypotheses: tuple[Hypothesis, ...] = Field(default=(), max_length=5, description="hypotheses that it decides")
    objective: Literal["improve", "measure"] = Field(
        default="measure", description="rank experiments by the method's metric, or by every arm at its best"
    )
    objective_reason: str = Field(default="", description="reason, in one sentence that the paper prints")
    notes: str = ""

    @model_validator(mode="before")
    @classmethod
    def _cross_factors(cls, value: Any) -> Any:
        given = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        if not given.get("factors"):
            return cast("Any", value)
        factors = TypeAdapter(tuple[Factor, ...]).validate_python(given["factors"])
        if len(factors) == 1:
            return given | {"factors": (), "levels": _dump_levels(factors[0].levels), "factor": factors[0].name}
        return given | {
            "levels": _dump_levels(cross_factors(factors)),
            "factor": " x ".join(one.name for one in factors),
        }

    @property
    def primary_metric(self) -> MetricSpec:
        return self.metrics[0]

    @property
    def conditions(self) -> tuple[str, ...]:
        """Every `arm` or `arm@level` that the plan measures on at least one dataset."""
        return tuple(
            f"{arm.name}@{level}" if level else arm.name
            for arm in self.arms
            for level in self.level_names
            if any(self.has_cell(use.name, arm.name, level) for use in self.datasets)
        )

    def has_cell(self, dataset: str, arm: str, level: str) -> bool:
        """Return whether the study has this cell; arms that are not in the plan belong to ablations."""
        lacking = {one.level for one in self.left_out if one.dataset in ("", dataset) and one.arm in ("", arm)}
        parts = next((one.parts for one in self.levels if one.name == level), ())
        return lacking.isdisjoint(("", level, *parts))

    @property
    def all_levels(self) -> tuple[Level, ...]:
        """The measured levels, and the levels of each factor from which they are crossed."""
        return (*self.levels, *(level for factor in self.factors for level in factor.levels))

    @property
    def compared_arms(self) -> tuple[str, ...]:
        """The arms that are compared: baselines and methods."""
        return tuple(arm.name for arm in self.arms if arm.role != "ablation")

    @property
    def confirmatory_effects(self) -> tuple[tuple[Hypothesis, Effect], ...]:
        """The effects of confirmatory hypotheses, each with its hypothesis."""
        return tuple((one, effect) for one in self.hypotheses if one.confirmatory for effect in one.effects)

    @property
    def tuned_arms(self) -> tuple[str, ...]:
        """The compared arms that have hyperparameters."""
        return tuple(arm for arm in self.compared_arms if self.find_space(arm))

    def find_needs(self, arm: str) -> ResourceNeeds:
        """Return the resource needs of an arm's cells; for an ablation outside the plan, those of the first method."""
        own = next((one.needs for one in self.arms if one.name == arm), None)
        return own or next((one.needs for one in self.arms if one.role == "method"), ResourceNeeds())

    def find_tuned_arm(self, arm: str) -> str:
        """Return the compared arm whose tuned setting an arm uses: itself or, for an ablation, the one that it names
        (by default the first method)."""
        if arm in self.compared_arms:
            return arm
        named = next((one.setting_of for one in self.arms if one.name == arm), "")
        return named or next((one.name for one in self.arms if one.role == "method"), arm)

    def find_space(self, arm: str) -> tuple[Hyperparameter, ...]:
        """Return the search dimensions of an arm; a conditional dimension follows the choice on which it depends."""
        return tuple(one for one in self.space if arm in (one.arms or self.compared_arms))

    def find_defaults(self, arm: str) -> HyperparameterSetting:
        """Return the default setting of an arm (trial 0)."""
        space = self.find_space(arm)
        return select_active(space, {one.name: one.default for one in space})

    def name_arm(self, arm: str) -> str:
        """Return the name that readers see: the title, or the name in words.

        `a-at-b`, arm a with the tuned setting of arm b (`Cell.measured_arm`), becomes `A with the settings of B`.
        """
        titles = {one.name: one.title or re.sub("[_-]", " ", one.name) for one in self.arms}
        if arm in titles:
            return titles[arm]
        pairs = ((own, other) for own, other in product(titles, titles) if arm == f"{own}-at-{other}")
        return next((f"{titles[own]} with the settings of {titles[other]}" for own, other in pairs), to_words(arm))

    def name_level(self, level: str) -> str:
        """Return the name of a level, also of one factor's level, that readers see."""
        return next((one.title for one in self.all_levels if one.name == level and one.title), to_words(level))

    def name_dataset(self, dataset: str) -> str:
        """Return the name of a dataset that readers see: its short title, or its name in words, capitalised."""
        words = to_words(dataset)
        named = (one.title for one in self.datasets if one.name == dataset and one.title)
        return next(named, f"{words[:1].upper()}{words[1:]}")

    def name_metric(self, metric: str) -> str:
        """Return the name of a metric that readers see."""
        return next((one.display_name for one in self.metrics if one.name == metric), to_words(metric))

    def name_condition(self, condition: str) -> str:
        """Return the name of `arm` or `arm@level` that readers see: `temperature scaling at 20 % noise`."""
        arm, level = self.name_arm(parse_arm(condition)), parse_level(condition)
        return f"{arm} at {self.name_level(level)}" if level else arm

    @property
    def untested_statements(self) -> tuple[str, ...]:
        """Descriptions of the items that the idea asks for but this plan omits."""
        return (*self.untested, *map(str, self.omitted), *map(str, self.left_out))

    @property
    def level_names(self) -> tuple[str, ...]:
        """The names of the levels; a single empty name if the plan has no levels."""
        return tuple(level.name for level in self.levels) or ("",)


def to_words(name: str) -> str:
    """Convert a name of the record to words: `log_loss` becomes `log loss`."""
    return name.replace("_", " ")


def parse_arm(condition: str) -> str:
    """Return the arm of a condition: `method@noise20` -> `method`."""
    return condition.partition("@")[0]


def parse_level(condition: str) -> str:
    """Return the level of a condition, or an empty string."""
    return condition.partition("@")[2]


SERIES_FORM = "windows of"
"""Beginning of `DatasetFacts.form` of a series."""


class DatasetFacts(FrozenModel):
    """A dataset as prepared for a run; a bundled one may not have been loaded yet, and then has no fingerprint."""

    name: str
    title: str = ""
    source: str = Field(description="e.g. 'sklearn:load_digits'")
    features: int
    classes: int
    sizes: dict[str, int] = Field(description="examples by split: train, dev, validation, test")
    duplicates: int = Field(default=0, description="test and validation examples that also occur in train")
    fingerprint: str = Field(description="sha256 of all splits")
    seed: int
    task: str = Field(default="", description="classification, regression, or none (a folder that the code reads)")
    target: str = Field(default="", description="name of the label column, or what the labels are")
    columns: tuple[str, ...] = Field(default=(), description="features in the source, before any encoding")
    class_names: tuple[str, ...] = ()
    shape: tuple[int, ...] = Field(default=(), description="shape of one example, if it is not a plain row of features")
    split_rule: str = Field(default="", description="description of how the splits were made")
    form: str = Field(default="", description="description of `x`, if it is not an array of float32 or tokens")
    duplicates_by: dict[str, int] = Field(default_factory=dict, description="'test in train' -> rows")
    missing: dict[str, int] = Field(default_factory=dict, description="column -> rows without a value")
    origin: str = Field(default="", description="sha256 of the source file, folder or examples")
    warnings: tuple[str, ...] = Field(default=(), description="notes for readers of its results")
    meta: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Column for grouping by metrics, not a feature -> its values, empty if there are many."""
    meta_in_test: dict[str, int] = Field(default={}, exclude_if=is_empty)
    """Column for grouping -> number of its values in the test examples."""
    meta_shown: tuple[str, ...] = Field(default=(), description="columns among these that code sees in train and dev")
    scorer: str = Field(default="", description="description of what the user's frozen scorer computes, and from what")
    command: str = Field(default="", description="for a user's repository: the command that each cell runs")

    @property
    def own(self) -> bool:
        """Whether the user supplied it."""
        return not self.source.startswith("sklearn:")

    @property
    def shows_labels(self) -> bool:
        """Whether later inputs contain labels of earlier ones, as the windows of a series do."""
        return self.form.startswith(SERIES_FORM)

    @property
    def example_count(self) -> int:
        """The number of examples in all splits."""
        return sum(self.sizes.values())


class HubItem(FrozenModel):
    """A model or dataset of the Hugging Face hub, as described by the hub."""

    kind: Literal["model", "dataset"]
    name: str = Field(description="name in a plan; for a model OWNER/NAME@REVISION")
    id: str
    revision: str = Field(description="commit that the name referred to")
    bytes: int = Field(default=0, description="size of all files; 0: unknown")
    licence: str = Field(default="", description="empty: unknown")

    def __str__(self) -> str:
        size = f"{self.bytes / 1e6:.1f} MB" if self.bytes else "size unknown"
        licence = f"licence {self.licence}" if self.licence else "licence unknown"
        return f"{self.name}: {self.id} at {self.revision[:12]}, {size}, {licence}"


class FrozenScorer(FrozenModel):
    """The user's own scorer, frozen before the search (`sandbox.scorers`)."""

    dataset: str
    function: str
    takes: Literal["predictions", "artifact"]
    metrics: tuple[MetricSpec, ...] = Field(min_length=1)
    sha256: str = Field(description="sha256 of its file")
    asks: str = Field(default="", description="expected input, in the words of its docstring")


MAX_ABSOLUTE_VALUE = 1e100
"""Largest allowed magnitude of a value: sums of squares of such values are still finite."""

Split = Literal["train", "dev", "validation", "test"]
EvidenceGrade = Literal["scored", "evaluated", "computed", "unattributed", "logged"]

MAX_STEPS = 2**53
"""Largest step number that a float on an axis represents exactly."""


class Measurement(FrozenModel):
    """One measured value. `grade` states what computed the value, and from which data (docs/evidence.md)."""

    name: str
    value: float
    condition: str
    dataset: str
    split: Split
    seed: int
    step: int | None = Field(default=None, ge=-MAX_STEPS, le=MAX_STEPS)
    grade: EvidenceGrade

    @property
    def arm(self) -> str:
        return parse_arm(self.condition)

    @property
    def level(self) -> str:
        return parse_level(self.condition)

    @field_validator("value")
    @classmethod
    def _check_finite(cls, value: float) -> float:
        if not abs(value) <= MAX_ABSOLUTE_VALUE:
            limit = f"{MAX_ABSOLUTE_VALUE:g} in magnitude"
            raise ValueError(f"a measurement must be finite and at most {limit}, not {value!r}")
        return value

    @field_validator("name", "condition", "dataset")
    @classmethod
    def _replace_unencodable(cls, text: str) -> str:
        text.encode()  # a lone surrogate cannot be written to the record
        return text


class ResampledInterval(FrozenModel):
    """How a paired difference or effect varies with the test examples, for the mean over replicates.

    If nothing was computed, `reason` says why.
    """

    key: str = Field(description="key of the difference or effect")
    nodes: tuple[str, ...] = Field(description="nodes whose predictions were resampled")
    others: tuple[str, ...] = Field(default=(), description="nodes of a difference's other arm, in the same order")
    sd: float | None = None
    """Standard deviation of the mean over test examples, or over clusters of them; in records without `worth`, over the
    resamples."""
    shared: tuple[float, ...] = ()
    """Estimated variance over test examples, or clusters of them, that all seeds share, so that no number of seeds
    reduces it (below zero where there is none); for a quotient: of its numerator, of its divisor, and their covariance.
    """
    low: float | None = None
    high: float | None = None
    examples: int = Field(default=0, description="size of the test set")
    clusters: int = 0
    """For an effect over clusters: number of clusters in the test set, the smallest over its datasets."""
    worth: float = 0.0
    """For an effect: effective number of examples, or of equal-sized clusters, behind `sd`."""
    draws: int = Field(default=0, description="number of resamples of the whole test set")
    reason: str = ""
