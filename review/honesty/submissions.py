"""Findings on what is submitted: predictions, artifacts for a frozen scorer, and metrics.

The labels of validation and test are withheld, so a metric that needs them, when the code itself logs it, was computed
on something else: on dev, on train, on copies. One rule, for the source and, exactly, for what was recorded.

Not guaranteed: a metric under a name of its own (`robust_accuracy`) is not looked at, nor a score of a folder dataset,
whose labels we do not know.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from record.nouns.data import DataPlan, DatasetFacts, Measurement
from record.nouns.nodes import Finding
from review.honesty import library as lib
from review.honesty.flow import Sink
from review.honesty.flow.training import Training
from review.honesty.form import Lines
from review.honesty.values import HELD_OUT, SPLITS, UNKNOWN, Tag, Tags

SOURCES: Tags = frozenset({Tag.DATA, Tag.OPAQUE})
SCREENS: Tags = frozenset({Tag.OPAQUE, Tag.FILE, Tag.EARLIER, Tag.LOOKED_UP})
"""What hides, or explains, that a prediction does not depend on the rows that it is for."""


@dataclass(frozen=True)
class Submissions:
    """What one program submits. `trained`: whether a network of it learns from data, by its losses; `generated`:
    whether the plan says that data are generated; `hidden`: the datasets with withheld labels, which are not."""

    lines: Lines
    plan: DataPlan | None
    training: Training
    trained: bool
    generated: bool = False
    hidden: Collection[str] = ()

    def findings(self, sink: Sink) -> Iterable[Finding]:
        """Of a prediction or a metric."""
        if sink.name != "submit" and not _quality(sink, self.plan):
            return
        what = "the prediction" if sink.name == "submit" else "the value"
        expected = _knows_nothing(sink, self.plan)
        kind = self._from_nowhere(sink)
        if kind is not None:
            planned = self.generated and sink.named.get("dataset") not in self.hidden and (
                kind == "synthetic" or (kind == "random" and Tag.SCORE in sink.tags))
            yield self.lines.finding(kind, sink.call, f"{what} {_ROOTLESS[kind]}", suspect=not expected and not planned)
        if sink.name == "submit":
            yield from self._prediction(sink, expected=expected)
        else:
            yield from self._metric(sink, expected=expected)
        for tag, kind, why in _DONE:
            ways = [way for way in sink.ways if not (tag is Tag.EARLIER and Tag.DATA in way)]
            if any(tag in way for way in ways):
                yield self.lines.finding(kind, sink.call, f"{what} {why}", suspect=not (kind == "noised" and expected))

    def artifact(self, sink: Sink) -> Iterable[Finding]:
        """Of a file, a folder or an array for a frozen scorer. What a loop changes step by step is searched for."""
        kind = None if sink.tags & {Tag.LEARNT, Tag.MODEL} else _rootless(sink.tags)
        expected = _knows_nothing(sink, self.plan) or _left_untrained(sink)
        if kind is not None:
            yield self.lines.finding(kind, sink.call, f"the artifact {_ROOTLESS[kind]}", suspect=not expected)
        if self.training.untrained(sink.tags) and not sink.tags & {Tag.OPAQUE, Tag.LABEL, Tag.LEARNT}:
            yield self.lines.finding("untrained", sink.call, "the artifact is of a model that was never trained",
                                     suspect=not expected)

    def _from_nowhere(self, sink: Sink) -> str | None:
        for tags in (*sink.ways, sink.tags):
            kind = _rootless(tags)
            if kind is not None and not _alternative(sink, tags) and not (kind == "synthetic" and self.trained):
                return kind
        return None

    def _prediction(self, sink: Sink, *, expected: bool) -> Iterable[Finding]:
        tags = sink.tags
        unseen = not tags & (HELD_OUT | SCREENS)
        if unseen and Tag.LABEL in tags and not tags & {Tag.PREDICTED, Tag.MODEL}:
            yield self.lines.finding("blind", sink.call, "the prediction is made of labels and does not depend on the "
                                     "rows to be predicted", suspect=not expected)
        by_model = self.training.untrained(tags) and not tags & {Tag.OPAQUE, Tag.LABEL}
        by_hand = Tag.RANDOM in tags and bool(tags & HELD_OUT) and not tags & (_LEARNT | SCREENS)
        if by_model or by_hand:
            yield self.lines.finding("untrained", sink.call, "the prediction comes from parameters as they were drawn: "
                                     "nothing was trained", suspect=not expected and not _left_untrained(sink))
        if Tag.TYPED in tags:
            yield self.lines.finding("answers", sink.call, "a list of whole numbers in the source goes into the "
                                     "prediction", suspect=not expected)

    def _metric(self, sink: Sink, *, expected: bool) -> Iterable[Finding]:
        split, seen = sink.named.get("split"), sink.tags & SPLITS
        of_train = seen == frozenset({Tag.TRAIN}) and Tag.OPAQUE not in sink.tags
        learnt = Tag.PART not in sink.tags or Tag.REUSED in sink.tags
        if split in ("validation", "test", "dev") and of_train and learnt:
            yield self.lines.finding("wrong split", sink.call, f"a score on training rows is given as one on {split}")
        alone = Tag.LABEL in sink.tags and not sink.tags & {Tag.ROWS, Tag.PREDICTED, *_LOOKED, *SCREENS}
        if alone and _named_after_success(sink):
            yield self.lines.finding("blind", sink.call, "the score compares labels with labels: no prediction goes "
                                     "into it", suspect=not expected)


_LEARNT: Tags = frozenset({Tag.TRAIN, Tag.DEV, Tag.LABEL, Tag.MODEL})
_LOOKED: Tags = frozenset({Tag.MODEL, Tag.RANDOM})
_SUCCESS = re.compile(r"acc|(^|_)f1|auc|precision|recall|log_loss|(^|_)nll", re.I)
_ROOTLESS = {
    "constant": "depends on neither data nor model: it is made of numbers in the source",
    "random": "is drawn at random and depends on neither data nor model",
    "synthetic": "comes from generated data or random inputs alone, no dataset of the plan goes into it",
}
_DONE = (
    (Tag.NOISED, "noised", "is another prediction with random numbers put into it"),
    (Tag.BOOSTED, "adjusted", "is a score that a typed number was added to, or that was held above one"),
    (Tag.FILE, "foreign file", "comes from a file that nothing in this source writes and no dataset holds"),
    (Tag.EARLIER, "foreign file", "is read from a file before this source writes it: it is of another run"),
    (Tag.LOOKED_UP, "matched", "is the label of an identical training row: withheld rows are looked up, not predicted"),
    (Tag.CHOSEN, "chosen", "is the best of several scores on test rows"),
)


def _quality(sink: Sink, plan: DataPlan | None) -> bool:
    name = sink.named.get("metric")
    known = {metric.name for metric in plan.metrics} if plan else set[str]()
    return not isinstance(name, str) or name in known or lib.QUALITY.search(name) is not None


def _rootless(tags: Tags) -> str | None:
    """The kind of a value that comes from nowhere; None where it may come from data."""
    if tags & SOURCES or tags & {Tag.FILE, Tag.EARLIER}:
        return None
    if Tag.MODEL in tags:
        return "synthetic" if Tag.RANDOM in tags else None
    return "random" if Tag.RANDOM in tags else "constant"


def _alternative(sink: Sink, tags: Tags) -> bool:
    """Whether a way without origin is only how a variable begins (a number, None), while another way has one."""
    rooted = any(_rootless(way) is None for way in sink.ways)
    if not rooted or tags & {Tag.RANDOM}:
        return False
    ways = sink.value.others
    return all(way.constant is not UNKNOWN for way in ways if way.deep() == tags)


def _knows_nothing(sink: Sink, plan: DataPlan | None) -> bool:
    """Whether the arm is one that is meant to know nothing (chance, majority ...)."""
    condition = sink.named.get("condition")
    name = condition.partition("@")[0] if isinstance(condition, str) else ""
    arm = next((one for one in plan.arms if one.name == name), None) if plan else None
    wording = f"{name} {arm.title} {arm.description}" if arm else f"{name} {sink.inside}"
    return lib.CHANCE.search(wording) is not None


def _left_untrained(sink: Sink) -> bool:
    """Whether the arm is named as one that is left as it was drawn."""
    condition = sink.named.get("condition")
    return lib.UNLEARNT.search(f"{condition if isinstance(condition, str) else ''} {sink.inside}") is not None


def _named_after_success(sink: Sink) -> bool:
    name = sink.named.get("metric")
    return isinstance(name, str) and _SUCCESS.search(name) is not None


OF_NUMBERS = frozenset({"mse", "mae", "r2", "rmse", "mean_squared_error", "mean_absolute_error", "r2_score"})
OF_CLASSES = frozenset({
    "accuracy", "macro_f1", "auroc", "log_loss", "ece", "brier", "acc", "f1", "f1_macro", "auc", "roc_auc", "logloss",
    "brier_score", "error_rate", "balanced_accuracy", "top1_accuracy", "expected_calibration_error"})
"""Metrics that we score (sandbox.metrics), and other names of them."""
SPLIT = re.compile(r"^(validation|valid|val|test)_")
Withheld = Mapping[str, frozenset[str]]
"""By dataset: the metrics that take its withheld labels."""
KIND = "unseen labels"


def withheld(plan: DataPlan | None, facts: Iterable[DatasetFacts] | None = None) -> Withheld:
    """Of the plan's datasets. A reconstruction of images has an mse without labels, so the task tells what needs them.

    Without facts every metric is taken to need them.
    """
    if plan is None:
        return {}
    if facts is None:
        return {use.name: OF_CLASSES | OF_NUMBERS for use in plan.datasets}
    planned = {use.name for use in plan.datasets}
    return {one.name: OF_CLASSES if one.classes else OF_NUMBERS for one in facts
            if one.name in planned and one.task != "none"}


def unseen_in_source(sinks: Iterable[Sink], lines: Lines, hidden: Withheld) -> Iterator[Finding]:
    """Calls of `lab.result`; of `lab.log` a note, since a curve is no result."""
    for one in sinks:
        if one.name not in ("result", "log"):
            continue
        metric, dataset, split = (one.named.get(key) for key in ("metric", "dataset", "split"))
        if _unseen(metric, dataset, split, hidden):
            yield lines.finding(KIND, one.call, _why(metric, dataset, split), suspect=one.name == "result")


def unseen_in_record(measurements: Sequence[Measurement], hidden: Withheld) -> tuple[Finding, ...]:
    """Of recorded values, each quantity once."""
    logged = dict.fromkeys((one.name, one.dataset, one.split) for one in measurements
                         if one.grade == "logged" and one.step is None)
    return tuple(Finding(kind=KIND, why=_why(*one)) for one in logged if _unseen(*one, hidden))


def _unseen(metric: object, dataset: object, split: object, hidden: Withheld) -> bool:
    if not isinstance(metric, str) or not isinstance(dataset, str) or split not in ("validation", "test"):
        return False
    plain = SPLIT.sub("", re.sub(r"\W+", "_", metric.strip().lower()))
    return plain in hidden.get(dataset, frozenset[str]())


def _why(metric: object, dataset: object, split: object) -> str:
    return (f"{metric!r} of {dataset!r} on {split} is said by the code, which cannot have the labels of these rows: "
            'hand in predictions with lab.submit, or name what it is (dev_accuracy, split="dev")')
