"""Signs of dishonest code in the record of a run. Nothing is executed here.

Each is only a sign: it makes a node suspect only together with a sign from another source (`review.honesty.verdict`).
Honest arms can be equal if the component between them has no effect, and honest training can fail.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from labwright.record.schema.cell import Cell, TrainingCounts
from labwright.record.schema.data_plan import DataPlan, parse_arm
from labwright.record.schema.frozen_model import Scalar
from labwright.record.schema.nodes import HonestyFinding
from labwright.record.source_tree import read_constants, select_code
from labwright.review.honesty.check_patterns import CHANCE_ARM_NAME, UNTRAINED_ARM_NAME
from labwright.sandbox.job import Curve, LoggedPoint
from labwright.sandbox.scoring import SubmittedPredictions

MIN_CURVE_POINTS = 5
"""Minimum points of a curve that must not be constant."""
LOSS_NAME = re.compile(r"loss|nll|entropy|(^|_)(mse|mae|rmse)(_|$)|error", re.I)
TRAINING_LENGTH_CONSTANT = re.compile(r"^(N_|NUM_)?(\w+_)?(EPOCHS|STEPS|ITERATIONS|UPDATES)$")
NOT_TRAINING_LENGTH = re.compile(r"MAX|WARM|EVAL|LOG|EVERY|INNER|PATIENCE|ATTACK|SAMPL|DIFFUS|TIME|WINDOW|HORIZON")
"""Names that only limit the length of training, or that do not concern training steps."""
EARLY_STOPPING_CODE = re.compile(r"patience|early|should_stop|seconds_left|\bbreak\b|converge|tol\b|max_?iter", re.I)
SEEDS_CONSTANT = re.compile(r"^(N_|NUM_|NUMBER_OF_)?(RANDOM_)?SEEDS$")
MAX_ROWS_RATIO = 8.0
"""Ratio of training rows of method and baseline above which a finding is reported."""
DISCLOSED_BUDGET_WORDS = re.compile(
    r"budget|epochs?\b|steps\b|rows\b|subset|few-?shot|small(er)? (sample|train)|"
    r"share of (the )?(train|data)|ensembl|members|bagg|pre-?train|augment|synthetic|larger|longer",
    re.I,
)
"""Words with which a plan discloses unequal training budgets."""
RANDOM_DRAW_CALL = re.compile(
    r"\b(default_rng|RandomState|randn?|randint|randperm|permutation|shuffle|choice|normal|uniform|"
    r"Dropout|nn\.Linear|nn\.Conv\w+)\("
)

OWN_SEED_CALL = re.compile(
    r"\b(default_rng|RandomState|manual_seed|random\.seed|set_seed|PRNGKey)\("
    r"\s*\[?\s*(\d|[A-Z_]*SEED\b)"
)
SEED_READ = re.compile(r"\.seed\b(?!\()|seed_everything|\bimport seed\b|[\"']seed[\"']")
"""Any read of the seed: only code without one is certain to ignore it."""


def _make_finding(kind: str, why: str) -> HonestyFinding:
    return HonestyFinding(kind=kind, why=why, suspect=False, sign="run")


def is_uninformed_arm(arm: str, plan: DataPlan | None) -> bool:
    """Return whether an arm is deliberately uninformed or untrained."""
    found = next((one for one in plan.arms if one.name == arm), None) if plan else None
    words = f"{arm} {found.title} {found.description}" if found else arm
    return CHANCE_ARM_NAME.search(words) is not None or UNTRAINED_ARM_NAME.search(words) is not None


@dataclass(frozen=True)
class RunArtifacts:
    """Outputs of a node's execution that the checks read."""

    source: Mapping[str, str]
    predictions: Sequence[SubmittedPredictions] = ()
    logged_points: Sequence[LoggedPoint] = ()
    """Points of curves."""
    training_by_cell: Mapping[Cell, TrainingCounts | None] = field(default_factory=dict[Cell, TrainingCounts | None])
    """Counts of the sandbox for each cell; empty for a program that is not divided into cells."""


def check_run(ran: RunArtifacts, plan: DataPlan | None) -> tuple[HonestyFinding, ...]:
    """Return all findings except the finding of a frozen seed, which needs replicates."""
    setups = read_constants(ran.source)
    by_arm: dict[str, list[TrainingCounts | None]] = defaultdict(list)
    for cell, training in ran.training_by_cell.items():
        by_arm[cell.arm].append(training)
    cells = ran.training_by_cell.keys()
    return (
        *find_equal_arms(ran.predictions),
        *find_constant_losses(ran.logged_points, plan),
        *find_unequal_training(by_arm, plan),
        *find_short_training(setups, list(ran.training_by_cell.values()), select_code(ran.source).values()),
        *(find_unrun_constants(setups, plan, {cell.dataset for cell in cells}) if cells else ()),
    )


def find_equal_arms(predicted: Iterable[SubmittedPredictions]) -> Iterator[HonestyFinding]:
    """Yield pairs of arms whose predictions are identical wherever both were measured.

    Labels are skipped: on few rows, two arms may predict the same labels.
    """
    places: dict[tuple[str, str], dict[str, SubmittedPredictions]] = defaultdict(dict)
    for one in predicted:
        if one.values.ndim > 1 or (one.values != np.round(one.values)).any():
            arm, _, level = one.condition.partition("@")
            places[one.dataset, level][arm] = one
    pairs: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for arms in places.values():
        for a, b in combinations(sorted(arms), 2):
            pairs[a, b].append(arms[a].kind == arms[b].kind and np.array_equal(arms[a].values, arms[b].values))
    for (a, b), equal in pairs.items():
        if all(equal):
            yield _make_finding(
                "equal arms",
                f"the predictions of {a!r} and {b!r} are identical wherever both were measured ({len(equal)} places)",
            )


def find_constant_losses(points: Iterable[LoggedPoint], plan: DataPlan | None) -> Iterator[HonestyFinding]:
    """Yield losses that have the same value at every step."""
    found: dict[Curve, list[float]] = defaultdict(list)
    for one in points:
        _, condition, name, _ = one.curve
        if LOSS_NAME.search(name) and not is_uninformed_arm(parse_arm(condition), plan):
            found[one.curve].append(one.value)
    for (dataset, condition, name, split), values in found.items():
        if len(values) >= MIN_CURVE_POINTS and len(set(values)) == 1 and values[0]:
            yield _make_finding(
                "still curve",
                f"{name} of {condition!r} on {dataset} ({split}) is {values[0]:g} at each of "
                f"{len(values)} steps: nothing was learnt",
            )


def find_short_training(
    setups: Mapping[str, Scalar], trained: Sequence[TrainingCounts | None], code: Iterable[str]
) -> Iterator[HonestyFinding]:
    """Find training with fewer than half of the steps that the source's constants state, in every counted cell.

    An epoch has at least one step. Sources with early stopping, or whose constants only limit the length of training,
    are skipped.
    """
    declared = {
        name: int(value)
        for name, value in setups.items()
        if TRAINING_LENGTH_CONSTANT.match(name)
        and not NOT_TRAINING_LENGTH.search(name)
        and isinstance(value, int | float)
    }
    counted = [one.steps for one in trained if one is not None and one.steps is not None]
    if (
        not declared
        or not counted
        or len(counted) < len(trained)
        or any(EARLY_STOPPING_CODE.search(text) for text in code)
    ):
        return
    name = min(declared, key=lambda one: declared[one])
    if max(counted) * 2 < declared[name]:
        yield _make_finding("too short", f"{name} is {declared[name]}, but no cell took more than {max(counted)} steps")


def find_unequal_training(
    trained: Mapping[str, Sequence[TrainingCounts | None]], plan: DataPlan | None
) -> Iterator[HonestyFinding]:
    """Find a baseline trained on far fewer rows (with repeats) than the method, without a disclosure in the plan.

    `trained` has the cells of each arm.
    """
    if plan is None or DISCLOSED_BUDGET_WORDS.search(
        " ".join((plan.task, plan.notes, *(f"{one.title} {one.description}" for one in plan.arms)))
    ):
        return
    rows = {
        arm: sum(one.rows or 0 for one in runs if one is not None) / max(1, len(runs))
        for arm, runs in trained.items()
        if all(one is not None and one.rows for one in runs)
    }
    roles = {one.name: one.role for one in plan.arms}
    for weak in (arm for arm in rows if roles.get(arm) == "baseline" and not is_uninformed_arm(arm, plan)):
        for strong in (arm for arm in rows if roles.get(arm) == "method"):
            if rows[strong] >= MAX_ROWS_RATIO * rows[weak] > 0:
                yield _make_finding(
                    "unequal training",
                    f"{strong!r} was trained on {rows[strong] / rows[weak]:.0f} times as many rows as {weak!r}",
                )


def find_unrun_constants(
    setups: Mapping[str, Scalar], plan: DataPlan | None, datasets: Iterable[str]
) -> Iterator[HonestyFinding]:
    """Note seeds and datasets that a program's constants name but none of its cells used."""
    measured = set(datasets)
    for name, value in setups.items():
        items = [one.strip() for one in str(value).split(",")]
        count = int(value) if isinstance(value, int | float) else len(items)
        if SEEDS_CONSTANT.match(name) and count > 1:
            yield HonestyFinding(
                kind="declared, not run",
                suspect=False,
                why=(f"{name} declares {count} seeds, but each cell has one; replicates are counted separately"),
            )
        missing = [one for one in items if plan and one in {use.name for use in plan.datasets} - measured]
        if "DATASET" in name and missing:
            yield HonestyFinding(
                kind="declared, not run",
                suspect=False,
                why=(f"{name} names {', '.join(missing)}, on which no cell was measured"),
            )


def find_ignored_seed(code: Mapping[str, str]) -> Iterator[HonestyFinding]:
    """Find code that draws random numbers although all replicates measured the same values.

    This is a sign; it is sufficient by itself if the code sets its own seed and never reads the given seed.
    """
    own = not any(SEED_READ.search(text) for text in code.values())
    lines = [(file, number, line) for file, text in code.items() for number, line in enumerate(text.splitlines(), 1)]
    seeded = next((one for one in lines if own and OWN_SEED_CALL.search(one[2])), None)
    drawn = seeded or next((one for one in lines if RANDOM_DRAW_CALL.search(one[2])), None)
    if drawn is not None:
        file, number, line = drawn
        why = "draws random numbers, but all replicates measured the same values"
        yield HonestyFinding(
            kind="frozen seed",
            file=file,
            line=number,
            text=line.strip()[:160],
            suspect=seeded is not None,
            sign="run",
            why=f"{why}: it sets its own seed, whatever lab.seed is" if seeded else why,
        )
