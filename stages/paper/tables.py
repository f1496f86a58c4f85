"""Tables of a paper: rows of `\\result` macros, so that the binder holds for them as it does for the text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from record.claims import GRADES, Claim, Difference
from record.nouns.data import DataPlan, DatasetFacts, MetricSpec, arm_of, level_of
from stages.paper.latex import recorded, row, words
from stages.paper.sources import Table

CONSTANT = "Where several replicates have no deviation, all of them gave the same value: the spread is unknown."
"""What a caption says where `record.claims.Claim.constant` holds."""

COMPARED = "The appendix has the paired differences, with corrected verdicts."

_NONE = "--"


def tables(claims: Sequence[Claim], plan: DataPlan, facts: Sequence[DatasetFacts] = (),
           ablated: Sequence[str] = (), found: Sequence[Difference] = ()) -> tuple[Table, ...]:
    """The tables that a paper may place, of claims of one split (test, or validation where there is no other).

    `main` has the primary metric with intervals, `metrics` the others, `ablation` the conditions in `ablated`; the
    last two only where there is something to show. Of a dataset, level and metric, the mean of the arm that `found`
    calls better than every other arm of the table is bold; where an arm cannot be told from it, none is.
    """
    titles = _Titles(plan, facts, found)
    compared = [one for one in claims if titles.role(one.condition) in ("baseline", "method")]
    made = [_main(compared, plan, titles) if compared else None, _others(compared, plan, titles),
            _ablation(claims, ablated, plan, titles)]
    return tuple(table for table in made if table is not None)


def _main(claims: Sequence[Claim], plan: DataPlan, titles: _Titles) -> Table:
    chosen = [one for one in claims if one.name == plan.primary.name]
    tabular = _wide(chosen, titles)
    return Table("main", tabular, (
        f"{titles.metric(plan.primary)} on {_split(claims)} data ({_direction(plan.primary)}): mean $\\pm$ standard "
        f"deviation over $n$ replicates with different seeds, and in brackets the {recorded('95%')} Student $t$ "
        f"interval of the mean: what training again would change, not other test examples. {COMPARED}"
        f"{_bold(tabular)}{_graded(chosen, titles)}{_same(chosen)}"))


def _others(claims: Sequence[Claim], plan: DataPlan, titles: _Titles) -> Table | None:
    metrics = [metric for metric in plan.metrics[1:] if any(claim.name == metric.name for claim in claims)]
    if not metrics:
        return None
    shown = [claim for claim in claims if claim.name in {one.name for one in metrics}]
    directed = ", ".join(f"{titles.metric(one).lower()}: {_direction(one)}" for one in metrics)
    tabular = _many(claims, metrics, titles)
    return Table("metrics", tabular, (
        f"Secondary metrics on {_split(claims)} data ({directed}): mean $\\pm$ standard deviation over the same "
        "replicates. The appendix has their intervals."
        f"{_bold(tabular)}{_graded(shown, titles)}{_same(shown)}"))


def _ablation(claims: Sequence[Claim], conditions: Sequence[str], plan: DataPlan, titles: _Titles) -> Table | None:
    chosen = [claim for claim in claims if claim.name == plan.primary.name]
    removed = [claim for claim in chosen if claim.condition in set(conditions)]
    if not removed:
        return None
    places = {(claim.dataset, level_of(claim.condition)) for claim in removed}
    method = [claim for claim in chosen if titles.role(claim.condition) == "method"
              and (claim.dataset, level_of(claim.condition)) in places]
    shown = [*method, *removed]
    groups = [
        [_group(dataset, titles, 4), *map(row, _ablated([one for one in shown if one.dataset == dataset], titles))]
        for dataset in dict.fromkeys(claim.dataset for claim in removed)]
    head = ("Variant", titles.factor, r"Mean $\pm$ sd [interval]", "$n$")
    return Table("ablation", _tabular("llcr", head, groups), (
        f"Ablations, {titles.metric(plan.primary).lower()} on {_split(claims)} data ({_direction(plan.primary)}): the "
        f"method beside itself without one part, with the {recorded('95%')} Student $t$ interval."
        f"{_graded(shown, titles)}{_same(shown)}"))


def _bold(tabular: str) -> str:
    """A sentence on what is bold, where anything is."""
    return " Bold: called better than every other arm of its row or group." if r"\textbf" in tabular else ""


def _same(claims: Iterable[Claim]) -> str:
    """A sentence on values without a deviation, where there are any."""
    return f" {CONSTANT}" if any(one.constant for one in claims) else ""


def _graded(claims: Sequence[Claim], titles: _Titles) -> str:
    """A sentence that gives the grade of every value; where grades differ, by metric and dataset."""
    grades = sorted({one.grade for one in claims}, key=GRADES.index)
    if len(grades) < 2:
        return "".join(f" Grade of all values: {grade}." for grade in grades)
    parts: list[str] = []
    for grade in grades:
        of = dict.fromkeys((one.name, one.dataset, arm_of(one.condition)) for one in claims if one.grade == grade)
        parts.append(f"{grade}: " + ", ".join(
            f"{recorded(words(name))} of {titles.arm(arm)} on {titles.dataset(dataset)}"
            for name, dataset, arm in of))
    return f" Grades: {'; '.join(parts)}."


# --- layouts --------------------------------------------------------------------------------------------------------


def _wide(chosen: Sequence[Claim], titles: _Titles) -> str:
    """Arms side by side where two fit, else one row an arm; a group of rows a dataset."""
    arms = [arm for arm in titles.arms if any(arm_of(one.condition) == arm for one in chosen)]
    wide = len(arms) <= 2
    head = (titles.factor, *map(titles.arm, arms), "$n$") if wide else (
        titles.factor, "Arm", r"Mean $\pm$ sd [interval]", "$n$")
    groups = [[_group(dataset, titles, len(head)), *(row(cells) for cells in (_side_by_side if wide else _stacked)(
        [one for one in chosen if one.dataset == dataset], arms, titles))]
              for dataset in dict.fromkeys(one.dataset for one in chosen)]
    return _tabular("l" + "c" * len(arms) + "r" if wide else "llcr", head, groups)


def _side_by_side(claims: Sequence[Claim], arms: Sequence[str], titles: _Titles) -> Iterator[tuple[str, ...]]:
    for level in titles.levels(claims):
        cells = [_find(claims, arm, level) for arm in arms]
        yield titles.level(level), *_values(cells, titles), _counts(cells)


def _stacked(claims: Sequence[Claim], arms: Sequence[str], titles: _Titles) -> Iterator[tuple[str, ...]]:
    for level in titles.levels(claims):
        found = [one for arm in arms if (one := _find(claims, arm, level))]
        for k, (one, value) in enumerate(zip(found, _values(found, titles), strict=True)):
            yield "" if k else titles.level(level), titles.arm(arm_of(one.condition)), value, _counts([one])


def _ablated(claims: Sequence[Claim], titles: _Titles) -> Iterator[tuple[str, ...]]:
    for arm in dict.fromkeys(arm_of(one.condition) for one in claims):
        found = sorted((one for one in claims if arm_of(one.condition) == arm),
                       key=lambda one: titles.rank(level_of(one.condition)))
        for k, one in enumerate(found):
            yield "" if k else titles.arm(arm), titles.level(level_of(one.condition)), _value(one), _counts([one])


def _many(claims: Sequence[Claim], metrics: Sequence[MetricSpec], titles: _Titles) -> str:
    """One row a dataset, level and arm; one column a metric, without intervals."""
    groups: list[list[str]] = []
    for dataset in dict.fromkeys(one.dataset for one in claims):
        here = [one for one in claims if one.dataset == dataset]
        groups.append([_group(dataset, titles, len(metrics) + 2)])
        for level in titles.levels(here):
            columns = [[_find([one for one in here if one.name == metric.name], arm, level) for arm in titles.compared]
                       for metric in metrics]
            values = [_values(cells, titles, interval=False) for cells in columns]
            shown = [k for k in range(len(titles.compared)) if any(cells[k] for cells in columns)]
            groups[-1] += [row(("" if k else titles.level(level), titles.arm(titles.compared[k]),
                                *(column[k] for column in values))) for k in shown]
    return _tabular("ll" + "c" * len(metrics), (titles.factor, "Arm", *map(titles.metric, metrics)), groups)


# --- cells ----------------------------------------------------------------------------------------------------------


def _find(claims: Iterable[Claim], arm: str, level: str) -> Claim | None:
    return next((one for one in claims if (arm_of(one.condition), level_of(one.condition)) == (arm, level)), None)


def _values(cells: Sequence[Claim | None], titles: _Titles, *, interval: bool = True) -> list[str]:
    """What the cells of one place print, the best of them in bold."""
    best = titles.best(cells)
    return [_value(one, interval=interval, bold=one is not None and one is best) for one in cells]


def _value(claim: Claim | None, *, interval: bool = True, bold: bool = False) -> str:
    if claim is None:
        return _NONE
    text = rf"\textbf{{\result{{{claim.key}.pm}}}}" if bold else rf"\result{{{claim.key}.pm}}"
    return rf"{text} {{\footnotesize \result{{{claim.key}.ci}}}}" if interval and claim.low is not None else text


def _counts(claims: Sequence[Claim | None]) -> str:
    """One count where all agree, else one each."""
    found = [one for one in claims if one is not None]
    distinct = found[:1] if len({one.n for one in found}) == 1 else found
    return "/".join(rf"\result{{{one.key}.n}}" for one in distinct) or _NONE


def _group(dataset: str, titles: _Titles, columns: int) -> str:
    return rf"\multicolumn{{{columns}}}{{@{{}}l}}{{\textit{{{titles.dataset(dataset)}}}}} \\"


def _tabular(columns: str, head: Sequence[str], groups: Sequence[Sequence[str]]) -> str:
    body = "\n\\addlinespace[3pt]\n".join("\n".join(group) for group in groups)
    return (f"\\begin{{tabular}}{{@{{}}{columns}@{{}}}}\n\\toprule\n{row(head)}\n\\midrule\n"
            f"{body}\n\\bottomrule\n\\end{{tabular}}")


def _split(claims: Sequence[Claim]) -> str:
    return claims[0].split if claims else "test"


def _direction(metric: MetricSpec) -> str:
    return "higher is better" if metric.higher_is_better else "lower is better"


class _Titles:
    """How a table names the plan's things."""

    def __init__(self, plan: DataPlan, facts: Sequence[DatasetFacts], found: Sequence[Difference]) -> None:
        self._plan = plan
        self._better = {(one.dataset, one.name, one.better, one.other if one.better == one.condition else one.condition)
                        for one in found if one.called in ("improved", "worsened")}
        self._datasets = {one.name: one.title or one.name for one in facts}
        self._levels = {one.name: one.title or one.name for one in plan.levels}
        self.arms = [one.name for one in plan.arms]
        self.compared = [one.name for one in plan.arms if one.role != "ablation"]
        self.factor = recorded(_capital(plan.factor)) if plan.factor else "Level" if plan.levels else ""

    def metric(self, metric: MetricSpec) -> str:
        unit = f" ({metric.unit})" if metric.unit else ""
        return recorded(_capital(metric.title or words(metric.name)) + unit)

    def dataset(self, name: str) -> str:
        return recorded(self._datasets.get(name, name))

    def arm(self, name: str) -> str:
        title = next((one.title for one in self._plan.arms if one.name == name), "")
        return recorded(_capital(title or words(name).replace("-", " ")))

    def level(self, name: str) -> str:
        return recorded(self._levels.get(name, name))

    def role(self, condition: str) -> str:
        return next((one.role for one in self._plan.arms if one.name == arm_of(condition)), "ablation")

    def best(self, cells: Sequence[Claim | None]) -> Claim | None:
        """The claim of a place that is called better than every other there; None where one cannot be told from it."""
        shown = [one for one in cells if one is not None]
        return next((one for one in shown if len(shown) > 1 and all(
            (one.dataset, one.name, one.condition, other.condition) in self._better
            for other in shown if other is not one)), None)

    def rank(self, level: str) -> int:
        return list(self._levels).index(level) if level in self._levels else len(self._levels)

    def levels(self, claims: Iterable[Claim]) -> list[str]:
        """The levels of claims, in the plan's order."""
        return sorted({level_of(one.condition) for one in claims}, key=lambda one: (self.rank(one), one))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
