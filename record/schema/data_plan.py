"""What is measured on what: the data plan, its metrics, arms and levels, datasets as made, and measured values."""

from __future__ import annotations

from itertools import product
from typing import Any, Literal, cast

from pydantic import Field, TypeAdapter, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.hypotheses import Hypothesis
from labwright.record.schema.prior_work import OmittedPriorWork
from labwright.record.schema.tuning import Hyperparameter, HyperparameterSetting, PublishedAnchor, TuningPlan


class MetricSpec(FrozenModel):
    """A metric by name. The primary one is fixed in the data plan and never redefined."""

    name: str = Field(description="snake_case, one that the scorer knows where predictions are submitted")
    formula: str = Field(
        default="",
        description=(
            "how it is computed from predictions: 'worst(f1_score(average=macro), by=hospital)'; empty: as its "
            "name says"
        ),
    )
    title: str = Field(default="", description="how a table heads it, e.g. 'log loss'")
    unit: str = Field(default="", description="empty for a pure number")
    higher_is_better: bool = Field(description="direction of improvement")
    worst: float | None = Field(
        default=None,
        description=("the worst value there is, which training that diverged counts as; null where there is none"),
    )
    low: float | None = Field(default=None, description="lowest value there is; null where there is none")
    high: float | None = Field(default=None, description="highest value there is; null where there is none")

    @property
    def display_name(self) -> str:
        """Its title, else its name in words."""
        return self.title or self.name.replace("_", " ")

    @property
    def is_comparative(self) -> bool:
        """Whether a value takes the predictions of several conditions, so that no cell has it by itself."""
        return self.formula.startswith("flip_rate")


class ResourceNeeds(FrozenModel):
    """What a cell of an arm needs of the machine; None: what every experiment gets."""

    gpus: int | None = Field(default=None, ge=0, description="GPUs, all at once")
    memory_gb: float | None = Field(default=None, gt=0, description="memory, 10^9 bytes")
    hours: float | None = Field(default=None, gt=0, description="wall clock of one cell, at most")

    def find_excess(self, available: ResourceNeeds) -> tuple[str, ...]:
        """What is more than there is room for, in words."""
        pairs = ((name, getattr(self, name), getattr(available, name)) for name in ResourceNeeds.model_fields)
        return tuple(
            f"{wanted:.3g} {_RESOURCE_UNITS[name]} ({there:.3g} can be had)"
            for name, wanted, there in pairs
            if wanted is not None and there is not None and wanted > there
        )

    def __str__(self) -> str:
        return ", ".join(
            f"{value:.3g} {_RESOURCE_UNITS[name]}"
            for name in ResourceNeeds.model_fields
            if (value := getattr(self, name)) is not None
        )


_RESOURCE_UNITS = {"gpus": "GPUs", "memory_gb": "GB of memory", "hours": "h a cell"}


class Arm(FrozenModel):
    """One compared arm. A measurement's condition is `arm`, or `arm@level` where the plan has levels."""

    name: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", description="short identifier, used as the condition")
    title: str = Field(default="", description="how a table names it")
    role: Literal["baseline", "method", "ablation"]
    description: str = ""
    untuned: str = Field(default="", description="why it has no hyperparameters, where it has none")
    answers: tuple[str, ...] = Field(default=(), description="baselines of prior work that it is, under another name")
    needs: ResourceNeeds = Field(default=ResourceNeeds(), description="where its cells need more, or less, than others")
    words: SkipJsonSchema[tuple[str, ...]] = ()
    """Of a study of a repository alone: what makes this arm of its command, options or overrides key=value."""


class Level(FrozenModel):
    """One level of the factor that the study varies besides the arm (a noise rate, a length)."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    title: str = ""
    value: float | None = Field(default=None, description="the level as a number, for an axis")
    parts: tuple[str, ...] = Field(default=(), description="the program fills it in: of crossed factors, a level each")
    words: SkipJsonSchema[tuple[str, ...]] = ()
    """Of a study of a repository alone: added to its command."""


class Factor(FrozenModel):
    """One of several factors whose levels are crossed."""

    name: str = Field(min_length=1, description="what the levels are levels of, e.g. 'label noise rate'")
    levels: tuple[Level, ...] = Field(min_length=2)


def cross_factors(factors: tuple[Factor, ...]) -> tuple[Level, ...]:
    """Every combination of a level of each factor, `a0.1_r2`; the last factor varies fastest."""
    return tuple(
        Level(
            name="_".join(one.name for one in each),
            parts=tuple(one.name for one in each),
            title=", ".join(
                one.title or f"{factor.name} {one.name}" for factor, one in zip(factors, each, strict=True)
            ),
        )
        for each in product(*(factor.levels for factor in factors))
    )


def _dump_levels(levels: tuple[Level, ...]) -> list[dict[str, Any]]:
    return [one.model_dump() for one in levels]


class DatasetUse(FrozenModel):
    """A registered dataset and the role it plays."""

    name: str = Field(description="a name from the catalogue that `lab.data(name)` accepts")
    reason: str = ""
    answers: tuple[str, ...] = Field(default=(), description="datasets of prior work that it is, under another name")


class OmittedCells(FrozenModel):
    """Cells that a study does without on purpose: all that have these; an empty name stands for every one, a level of
    one factor for all crossed levels that have it."""

    dataset: str = ""
    arm: str = ""
    level: str = ""
    reason: str = Field(min_length=1, description="why, in one short phrase that readers of the paper are told")

    def __str__(self) -> str:
        named = (f"{self.arm}@{self.level}" if self.arm and self.level else self.arm or self.level, self.dataset)
        return f"{' on '.join(name for name in named if name)} ({self.reason})"


class DataPlan(FrozenModel):
    """What `prepare` makes of an idea's prose before any code is written."""

    task: str = Field(description="one sentence: what is learned from what")
    datasets: tuple[DatasetUse, ...] = Field(min_length=1, description="the first is the main one")
    metrics: tuple[MetricSpec, ...] = Field(min_length=1, description="the first is primary: it selects")
    arms: tuple[Arm, ...] = Field(min_length=1, description="at least one baseline and one method")
    levels: tuple[Level, ...] = ()
    factor: str = Field(default="", description="what the levels are levels of, e.g. 'label noise rate'")
    factors: tuple[Factor, ...] = Field(
        default=(),
        description=("where several are varied: the program crosses them and makes `levels` and `factor` of them"),
    )
    expected_seconds: float = Field(gt=0, description="computing of one experiment: every arm, level and dataset")
    untested: tuple[str, ...] = Field(default=(), description="what the idea asks for and this plan cannot test")
    space: tuple[Hyperparameter, ...] = Field(default=(), description="what is tuned, for which arms")
    tuning: TuningPlan = TuningPlan()
    anchors: tuple[PublishedAnchor, ...] = Field(
        default=(), description="published values that the user gives of baselines"
    )
    left_out: tuple[OmittedCells, ...] = Field(default=(), description="cells that are not measured, on purpose")
    omitted: tuple[OmittedPriorWork, ...] = Field(
        default=(), description="what two of the closest papers use and this does not"
    )
    open: tuple[str, ...] = Field(default=(), description="what experiments may choose; all else is fixed")
    covered: tuple[int, ...] = Field(
        default=(), description=("numbers, from 1, of the idea's experiments that measuring every arm answers in full")
    )
    packages: tuple[str, ...] = Field(
        default=(),
        description=(
            "packages that its code imports beside those that are always there, from the list that may be asked for"
        ),
    )
    pretrained: tuple[str, ...] = Field(
        default=(),
        description=("pretrained models that its code loads, OWNER/NAME@REVISION, from the list that may be asked for"),
    )
    subjects: tuple[str, ...] = Field(default=(), description="language models that its code asks, by name")
    hypotheses: tuple[Hypothesis, ...] = Field(default=(), max_length=5, description="what the study decides")
    objective: Literal["improve", "measure"] = Field(
        default="measure",
        description=("what ranks experiments: the method's metric, or every arm at its best and nothing of the effect"),
    )
    objective_reason: str = Field(default="", description="why, in one sentence that the paper prints")
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
        """Every `arm` or `arm@level` that the plan asks to be measured, on some dataset at least."""
        return tuple(
            f"{arm.name}@{level}" if level else arm.name
            for arm in self.arms
            for level in self.level_names
            if any(self.has_cell(use.name, arm.name, level) for use in self.datasets)
        )

    def has_cell(self, dataset: str, arm: str, level: str) -> bool:
        """Whether the study has this cell; an arm that is no arm of the plan is an ablation's."""
        names = "", level, *next((one.parts for one in self.levels if one.name == level), ())
        return not any(
            one.dataset in ("", dataset) and one.arm in ("", arm) and one.level in names for one in self.left_out
        )

    @property
    def all_levels(self) -> tuple[Level, ...]:
        """The levels that are measured, and those of each factor that they are crossed from."""
        return (*self.levels, *(level for factor in self.factors for level in factor.levels))

    @property
    def compared_arms(self) -> tuple[str, ...]:
        """The arms that are compared: baselines and methods."""
        return tuple(arm.name for arm in self.arms if arm.role != "ablation")

    @property
    def tuned_arms(self) -> tuple[str, ...]:
        """Those of them that have hyperparameters."""
        return tuple(arm for arm in self.compared_arms if self.find_space(arm))

    def find_needs(self, arm: str) -> ResourceNeeds:
        """What the cells of an arm need; those of an ablation that the plan does not have, what the first
        method's do.
        """
        own = next((one.needs for one in self.arms if one.name == arm), None)
        return own or next((one.needs for one in self.arms if one.role == "method"), ResourceNeeds())

    def find_space(self, arm: str) -> tuple[Hyperparameter, ...]:
        """The dimensions that an arm has, those that hang on a choice after it."""
        return tuple(one for one in self.space if arm in (one.arms or self.compared_arms))

    def find_defaults(self, arm: str) -> HyperparameterSetting:
        """The setting that an arm starts from: trial 0."""
        found: HyperparameterSetting = {}
        for one in self.find_space(arm):
            if not one.given or found.get(one.given) in one.among:
                found[one.name] = one.default
        return found

    @property
    def untested_statements(self) -> tuple[str, ...]:
        """What the idea asks for and this plan does without, each in words."""
        return (*self.untested, *map(str, self.omitted), *map(str, self.left_out))

    @property
    def level_names(self) -> tuple[str, ...]:
        """The levels by name; the empty one alone where the plan has none."""
        return tuple(level.name for level in self.levels) or ("",)


def parse_arm(condition: str) -> str:
    """The arm named by a condition: `method@noise20` -> `method`."""
    return condition.partition("@")[0]


def parse_level(condition: str) -> str:
    """The level named by a condition, or an empty string."""
    return condition.partition("@")[2]


class DatasetFacts(FrozenModel):
    """A dataset as it was materialised for a run."""

    name: str
    title: str = ""
    source: str = Field(description="e.g. 'sklearn:load_digits'")
    features: int
    classes: int
    sizes: dict[str, int] = Field(description="examples by split: train, dev, validation, test")
    duplicates: int = Field(default=0, description="test and validation examples that also stand in train")
    fingerprint: str = Field(description="sha256 of all splits")
    seed: int
    task: str = Field(default="", description="classification, regression, or none: a folder that the code reads")
    target: str = Field(default="", description="the column, or what else the labels are")
    columns: tuple[str, ...] = Field(default=(), description="features as the source has them, before any encoding")
    class_names: tuple[str, ...] = ()
    shape: tuple[int, ...] = Field(default=(), description="of one example, where it is no plain row of features")
    split_rule: str = Field(default="", description="how the splits were made, in words")
    form: str = Field(default="", description="what `x` holds, in words, where it is no array of float32 or tokens")
    duplicates_by: dict[str, int] = Field(default_factory=dict, description="'test in train' -> rows")
    missing: dict[str, int] = Field(default_factory=dict, description="column -> rows without a value")
    origin: str = Field(default="", description="sha256 of the file, folder or examples that it was read from")
    warnings: tuple[str, ...] = Field(default=(), description="what a reader of its results must know")
    meta: dict[str, tuple[str, ...]] = Field(
        default_factory=dict,
        description=("columns that metrics may go by and features are not -> their values, none where there are many"),
    )
    meta_in_test: dict[str, int] = Field(
        default={},
        exclude_if=lambda found: not found,
        description=("such a column -> how many values of it the test examples have; empty in records from before"),
    )
    meta_shown: tuple[str, ...] = Field(default=(), description="those of them that code sees in train and dev")
    scorer: str = Field(default="", description="what a frozen scorer of the user's computes, and from what, in words")
    command: str = Field(default="", description="of a user's repository: what each cell is one run of")

    @property
    def example_count(self) -> int:
        """How many there are in all splits."""
        return sum(self.sizes.values())

    @property
    def is_synthetic(self) -> bool:
        """Whether its examples were made by a program, and not collected."""
        return self.source.startswith("generated")


class HubItem(FrozenModel):
    """A model or dataset of the Hugging Face hub, as the hub tells of it."""

    kind: Literal["model", "dataset"]
    name: str = Field(description="what a plan calls it: of a model OWNER/NAME@REVISION")
    id: str
    revision: str = Field(description="the commit that it stood for")
    bytes: int = Field(default=0, description="of all its files; 0: not told")
    licence: str = Field(default="", description="empty: none is told")

    def __str__(self) -> str:
        size = f"{self.bytes / 1e6:.1f} MB" if self.bytes else "size not told"
        return (
            f"{self.name}: {self.id} at {self.revision[:12]}, {size}, "
            f"{f'licence {self.licence}' if self.licence else 'no licence is told'}"
        )


class FrozenScorer(FrozenModel):
    """A scorer of the user's own, as it was frozen before the search (`sandbox.scorers`)."""

    dataset: str
    function: str
    takes: Literal["predictions", "artifact"]
    metrics: tuple[MetricSpec, ...] = Field(min_length=1)
    sha256: str = Field(description="of its file")
    asks: str = Field(default="", description="what it wants to be handed, in the words of its docstring")


MAX_ABSOLUTE_VALUE = 1e100
"""Size of a value beyond which it is as good as infinite: sums of squares of smaller ones are finite."""

Split = Literal["train", "dev", "validation", "test"]
EvidenceGrade = Literal["scored", "evaluated", "computed", "judged", "unattributed", "logged"]

MAX_STEPS = 2**53
"""Beyond it steps are not told from each other as numbers on an axis."""


class Measurement(FrozenModel):
    """One measured value. `grade` says who computed it, and from what (see docs/evidence.md)."""

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
            raise ValueError(f"a measurement must be finite, and at most {MAX_ABSOLUTE_VALUE:g} in size, not {value!r}")
        return value

    @field_validator("name", "condition", "dataset")
    @classmethod
    def _replace_unencodable(cls, text: str) -> str:
        text.encode()  # a lone surrogate could not be written into a record
        return text


class ResampledInterval(FrozenModel):
    """How a paired difference, or an effect of a hypothesis, varies on test data with the test examples: a percentile
    interval over resamples of them, of the mean over the same replicates. `reason` says why there is none, where there
    is none."""

    key: str = Field(description="of the difference or effect")
    nodes: tuple[str, ...] = Field(description="whose predictions were resampled")
    others: tuple[str, ...] = Field(default=(), description="those of a difference's other arm, in the same order")
    sd: float | None = Field(
        default=None,
        description=(
            "of the mean over other test examples, or clusters of them; in records without `worth`, over the resamples"
        ),
    )
    low: float | None = None
    high: float | None = None
    examples: int = Field(default=0, description="of the test set")
    clusters: int = Field(
        default=0,
        description="of an effect over clusters: how many the test set has, the fewest of "
        "the datasets that it is read on",
    )
    worth: float = Field(
        default=0.0,
        description=(
            "of an effect: so many examples, or clusters of equal size, `sd` rests on; 0 in records from before"
        ),
    )
    draws: int = Field(default=0, description="resamples of the whole test set")
    reason: str = ""

    def supports_sign(self, mean: float) -> bool:
        """Whether the interval lies on the side of zero that the mean lies on, or there is none."""
        if self.low is None or self.high is None:
            return True
        return self.low > 0 if mean > 0 else self.high < 0
