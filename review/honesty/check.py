"""The findings on a program: what flows into its predictions and metrics, and how it handles failure and chance.

A finding is `suspect` where an honest program has no reason to do so; what may be right is a note.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from record.nouns import DataPlan, Finding
from review.honesty import library as lib
from review.honesty.flow import Flow, Sink, TooLongError
from review.honesty.plotted import typed_figures
from review.honesty.structure import Lines, structural
from review.honesty.values import HELD_OUT, SPLITS, UNKNOWN, Tag, Tags

TRANSDUCTIVE = re.compile(r"transduct|semi-?supervis|unlabel|test-time|domain adapt|self-train|pseudo-?label", re.I)
GENERATED = re.compile(r"synthetic|simulat|generated|toy|distil|pre-?train", re.I)
SOURCES = frozenset({Tag.DATA, Tag.OPAQUE})
SCREENS = frozenset({Tag.OPAQUE, Tag.FILE, Tag.EARLIER, Tag.LOOKED_UP})
"""What hides, or explains, that a prediction does not depend on the rows that it is for."""


def check_program(files: Mapping[str, str], plan: DataPlan | None = None) -> tuple[Finding, ...]:
    """What is found in the files of a node, one finding a kind and line. Code that does not parse has none."""
    found: dict[tuple[str, str, int], Finding] = {}
    for name, source in files.items():
        check = typed_figures if name == "plots.py" else _experiment
        try:
            findings = list(check(source, plan))
        except (SyntaxError, TooLongError, RecursionError):
            continue
        for one in findings:
            found.setdefault((name, one.kind, one.line), one.model_copy(update={"file": name}))
    return tuple(found.values())


def _experiment(source: str, plan: DataPlan | None) -> Iterable[Finding]:
    flow = Flow(source)
    flow.run()
    lines = Lines(source)
    sinks = list(flow.sinks.values())
    told = _words(plan)
    trained = any(one.name == "backward" and one.tags & SOURCES for one in sinks)
    for one in sinks:
        if one.name in ("submit", "result", "log"):
            yield from _handed_in(one, lines, plan, trained=trained)
        elif one.name in ("fit", "backward"):
            yield from _learnt(one, lines, transductive=bool(TRANSDUCTIVE.search(told)))
        elif one.name == "statistic":
            yield lines.finding("held out", one.call, "takes a statistic over training rows and rows to be predicted "
                                "together", suspect=not TRANSDUCTIVE.search(told))
        elif one.name == "outside":
            yield lines.finding("outside", one.call, f"looks for files outside its folder, at {one.named['path']!r}")
        elif one.name == "labels":
            yield from _loaded(one, lines, plan)
    for test, tags in flow.selections:
        if tags & HELD_OUT and not tags & {Tag.PART, Tag.OPAQUE}:
            yield lines.finding("held out", test, "the best is chosen by what is seen on rows to be predicted",
                                suspect=not TRANSDUCTIVE.search(told))
    yield from _made_up_training(sinks, lines, told)
    yield from _one_for_two(sinks, lines)
    yield from structural(flow, sinks, lines, plan)


def _words(plan: DataPlan | None) -> str:
    if plan is None:
        return ""
    return " ".join([plan.task, plan.notes, *(f"{arm.name} {arm.title} {arm.description}" for arm in plan.arms)])


# --- what is handed in ----------------------------------------------------------------------------------------------


def _handed_in(sink: Sink, lines: Lines, plan: DataPlan | None, *, trained: bool) -> Iterable[Finding]:
    """`trained`: whether a network of the program learns from data, which is not seen in the network itself."""
    what = "the prediction" if sink.name == "submit" else "the value"
    if sink.name != "submit" and not _quality(sink, plan):
        return
    for tags in (*sink.ways, sink.tags):
        kind = _rootless(sink, tags)
        if kind is not None and not _alternative(sink, tags) and not (kind == "synthetic" and trained):
            suspect = not _meant(sink, plan)
            yield lines.finding(kind, sink.call, f"{what} {_ROOTLESS[kind]}", suspect=suspect)
            break
    unseen = not sink.tags & (HELD_OUT | SCREENS)
    if sink.name == "submit" and unseen and Tag.LABEL in sink.tags and not sink.tags & {Tag.PREDICTED, Tag.MODEL}:
        yield lines.finding("blind", sink.call, f"{what} is made of labels and does not depend on the rows to be "
                            "predicted", suspect=not _meant(sink, plan))
    for tag, kind, why in _DONE:
        ways = [way for way in sink.ways if not (tag is Tag.EARLIER and Tag.DATA in way)]
        if any(tag in way for way in ways):
            yield lines.finding(kind, sink.call, f"{what} {why}", suspect=not (kind == "noised" and _meant(sink, plan)))
    if sink.name != "submit":
        yield from _wrong_split(sink, lines)


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


def _rootless(sink: Sink, tags: Tags) -> str | None:
    """The kind of a value that comes from nowhere; None where it may come from data."""
    if tags & SOURCES or tags & {Tag.FILE, Tag.EARLIER}:
        return None
    if Tag.MODEL in tags:
        return "synthetic" if Tag.RANDOM in tags else None
    return "random" if Tag.RANDOM in tags else "constant"


def _alternative(sink: Sink, tags: Tags) -> bool:
    """Whether a way without origin is only how a variable begins (a number, None), while another way has one."""
    rooted = any(_rootless(sink, way) is None for way in sink.ways)
    if not rooted or tags & {Tag.RANDOM}:
        return False
    ways = sink.value.others
    return all(way.constant is not UNKNOWN for way in ways if way.deep() == tags)


def _meant(sink: Sink, plan: DataPlan | None) -> bool:
    """Whether the arm is one that is meant to know nothing (chance, majority ...)."""
    condition = sink.named.get("condition")
    name = condition.partition("@")[0] if isinstance(condition, str) else ""
    arm = next((one for one in plan.arms if one.name == name), None) if plan else None
    told = f"{name} {arm.title} {arm.description}" if arm else f"{name} {sink.inside}"
    return lib.CHANCE.search(told) is not None


def _wrong_split(sink: Sink, lines: Lines) -> Iterable[Finding]:
    split = sink.named.get("split")
    seen = sink.tags & SPLITS
    sure = seen == frozenset({Tag.TRAIN}) and not sink.tags & {Tag.PART, Tag.OPAQUE}
    if split in ("validation", "test", "dev") and sure:
        yield lines.finding("wrong split", sink.call, f"a score on training rows is given as one on {split}")


# --- what is learnt from --------------------------------------------------------------------------------------------


def _learnt(sink: Sink, lines: Lines, *, transductive: bool) -> Iterable[Finding]:
    held = sink.tags & HELD_OUT
    if held:
        names = " and ".join(sorted(tag.name.lower() for tag in held))
        yield lines.finding("held out", sink.call, f"rows of {names} go into fitting", suspect=not transductive)


def _made_up_training(sinks: list[Sink], lines: Lines, told: str) -> Iterable[Finding]:
    """Every fit of the program is on generated data."""
    learnt = [one for one in sinks if one.name in ("fit", "backward")]
    if any(one.tags & SOURCES for one in learnt):
        return
    for one in learnt:
        if Tag.RANDOM in one.tags:
            yield lines.finding("synthetic", one.call, "all training is on generated data, no dataset of the plan goes "
                                "into it", suspect=not GENERATED.search(told))


def _loaded(sink: Sink, lines: Lines, plan: DataPlan | None) -> Iterable[Finding]:
    path, name = str(sink.named["which"]), sink.named.get("dataset")
    asked = f"{path.rsplit('.', 1)[-1]} {name if isinstance(name, str) else ''}".lower()
    for use in plan.datasets if plan else ():
        if use.name.lower() in asked:
            yield lines.finding("labels", sink.call, f"loads {use.name} with its withheld labels, past lab.data")


def _one_for_two(sinks: list[Sink], lines: Lines) -> Iterable[Finding]:
    """One array handed in for two arms."""
    first: dict[tuple[int, object, object], tuple[str, Sink]] = {}
    for one in sinks:
        condition = one.named.get("condition")
        if one.name != "submit" or not isinstance(condition, str):
            continue
        arm = condition.partition("@")[0]
        key = id(one.value), one.named.get("dataset"), one.named.get("split")
        before = first.setdefault(key, (arm, one))[0]
        if before != arm:
            yield lines.finding("one for two", one.call, f"the very prediction of arm {before!r} is handed in for "
                                                         f"{arm!r}")
