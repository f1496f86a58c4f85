"""What cannot hold in a data plan: what it names is not there, contradicts itself, or is not computed on its data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from models.roles import CatalogueEntry
from record.nouns.data import DataPlan, MetricSpec, Scorer
from sandbox.metrics import METRICS, computed

SPLITS = ("train", "dev", "validation", "test")


def faults_of(
    plan: DataPlan, catalogue: Mapping[str, CatalogueEntry], scorers: Mapping[str, Scorer] | None = None,
) -> tuple[str, ...]:
    """What is wrong with a plan, one sentence each; empty when it can be carried out.

    `scorers` are the user's own, by dataset.
    """
    known = {use.name: catalogue[use.name] for use in plan.datasets if use.name in catalogue}
    of_plan = {name: one for name, one in (scorers or {}).items() if name in known}
    return (*_datasets(plan, catalogue), *_arms(plan), *_levels(plan), *_twice(plan),
            *_metrics(plan, known, of_plan), *_directions(plan, of_plan.values()))


def _datasets(plan: DataPlan, catalogue: Mapping[str, CatalogueEntry]) -> Iterator[str]:
    for use in plan.datasets:
        entry = catalogue.get(use.name)
        if entry is None:
            yield f"there is no dataset {use.name!r}; there are {', '.join(sorted(catalogue))}"
        elif empty := _empty(entry):
            yield f"dataset {use.name!r} has no {' and no '.join(empty)} examples: take another one"


def _empty(entry: CatalogueEntry) -> list[str]:
    """The splits without an example; a folder has none that we know, and some sizes are known only once it is cut."""
    known = entry.task != "none" and entry.sizes
    return [split for split in SPLITS if not entry.sizes.get(split)] if known else []


def _arms(plan: DataPlan) -> Iterator[str]:
    roles = {arm.role for arm in plan.arms}
    yield from (f"no arm has the role {role!r}" for role in ("baseline", "method") if role not in roles)


def _levels(plan: DataPlan) -> Iterator[str]:
    if plan.levels and not plan.factor.strip():
        yield f"there are levels ({plan.levels[0].name}, ...) of nothing: say in `factor` what they are levels of"
    if plan.factor.strip() and not plan.levels:
        yield f"factor {plan.factor!r} has no levels: give them, or leave it empty"
    values = Counter(level.value for level in plan.levels if level.value is not None)
    yield from (f"two levels have the value {value:g}" for value, count in values.items() if count > 1)


def _twice(plan: DataPlan) -> Iterator[str]:
    """Names that are the same, or are told apart by capitals alone: as conditions, keys and headings they collide."""
    for noun, names in (("arm", [arm.name for arm in plan.arms]), ("level", [level.name for level in plan.levels]),
                        ("metric", [metric.name for metric in plan.metrics]),
                        ("dataset", [use.name for use in plan.datasets])):
        counts = Counter(name.casefold() for name in names)
        yield from (f"{noun} {name!r} is named twice" for name in sorted(counts) if counts[name] > 1)


def _metrics(
    plan: DataPlan, known: Mapping[str, CatalogueEntry], scorers: Mapping[str, Scorer]
) -> Iterator[str]:
    """The primary metric must be had on every dataset, one that programs compute on some dataset."""
    had = {name: _had(entry, scorers.get(name)) for name, entry in known.items()}
    for name, names in had.items():
        if names is not None and plan.primary.name not in names:
            yield (f"the primary metric {plan.primary.name!r} cannot be computed on {name!r} ({_task(known[name])}); "
                   f"there are {', '.join(sorted(names))}")
    programs = METRICS.keys() | {metric.name for one in scorers.values() for metric in one.metrics}
    for metric in plan.metrics[1:]:
        if had and metric.name in programs and all(names is not None and metric.name not in names
                                                  for names in had.values()):
            yield (f"metric {metric.name!r} cannot be computed on any dataset of the plan "
                   f"({', '.join(f'{name}: {_task(entry)}' for name, entry in known.items())})")


def _had(entry: CatalogueEntry, scorer: Scorer | None) -> frozenset[str] | None:
    """The metrics that are computed on a dataset; None where code gives what it likes."""
    ours = None if entry.task == "none" else computed(entry.classes)
    if scorer is None:
        return ours
    own = frozenset(metric.name for metric in scorer.metrics)
    return own if scorer.takes == "artifact" else own | (ours or frozenset())


def _task(entry: CatalogueEntry) -> str:
    if entry.task == "none":
        return "a folder without labels"
    return f"{entry.classes} classes" if entry.classes else "regression"


def _directions(plan: DataPlan, scorers: Iterable[Scorer]) -> Iterator[str]:
    known: dict[str, MetricSpec] = dict(METRICS) | {metric.name: metric for one in scorers for metric in one.metrics}
    for metric in plan.metrics:
        ours = known.get(metric.name)
        if ours is not None and ours.higher_is_better != metric.higher_is_better:
            yield (f"metric {metric.name!r} has the wrong direction: it is better when "
                   f"{'higher' if ours.higher_is_better else 'lower'}, so higher_is_better is "
                   f"{str(ours.higher_is_better).lower()}")
