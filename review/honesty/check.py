"""The findings on a program: what flows into its predictions and metrics, and how it handles failure and chance.

A finding is `suspect` where an honest program has no reason to do so; what may be right is a note.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from record.nouns.data import DataPlan, DatasetFacts
from record.nouns.measurements import Measurement
from record.nouns.nodes import Finding
from review.honesty import library as lib
from review.honesty.arms import between_arms
from review.honesty.flow import Flow, Sink, TooLongError
from review.honesty.form import Lines, structural
from review.honesty.handed_in import SOURCES, HandedIn
from review.honesty.plotted import typed_figures
from review.honesty.reaching import reaching
from review.honesty.unseen import KIND, Withheld, unseen_in_record, unseen_in_source, withheld
from review.honesty.values import HELD_OUT, Tag

TRANSDUCTIVE = re.compile(r"transduct|semi-?supervis|unlabel|test-time|domain adapt|self-train|pseudo-?label", re.I)
GENERATED = re.compile(r"synthetic|simulat|generated|toy|distil|pre-?train", re.I)


def check_program(
    files: Mapping[str, str], plan: DataPlan | None = None, *, facts: Iterable[DatasetFacts] | None = None,
) -> tuple[Finding, ...]:
    """What is found in the files of a node, one finding a kind and line. Code that does not parse has none.

    `facts` tell which datasets have withheld labels, and of what kind; without them all of the plan have them.
    """
    hidden = withheld(plan, facts)
    found: dict[tuple[str, str, int], Finding] = {}
    for name, source in files.items():
        try:
            findings = list(typed_figures(source, plan) if name == "plots.py" else _experiment(source, plan, hidden))
        except (SyntaxError, TooLongError, RecursionError):
            continue
        for one in findings:
            found.setdefault((name, one.kind, one.line), one.model_copy(update={"file": name}))
    return tuple(found.values())


def check_figures(name: str, script: str) -> tuple[Finding, ...]:
    """What is found in a plotting script on its own: drawn again, of an aggregate, or of the paper."""
    return tuple(one.model_copy(update={"file": name}) for one in check_program({"plots.py": script}))


def check_record(
    measurements: Sequence[Measurement], plan: DataPlan | None, *, facts: Iterable[DatasetFacts],
    known: Sequence[Finding] = (),
) -> tuple[Finding, ...]:
    """What is found in the values that were recorded of a run, unless its source was found to say so (`known`)."""
    if any(one.kind == KIND and one.suspect for one in known):
        return ()
    return unseen_in_record(measurements, withheld(plan, facts))


def _experiment(source: str, plan: DataPlan | None, hidden: Withheld) -> Iterable[Finding]:
    flow = Flow(source)
    flow.run()
    lines = Lines(source)
    sinks = list(flow.sinks.values())
    told = _words(plan)
    handed = HandedIn(lines, plan, flow.training, trained=any(
        one.name == "backward" and one.tags & SOURCES for one in sinks), generated=bool(GENERATED.search(told)),
                      hidden=hidden)
    for one in sinks:
        if one.name in ("submit", "result", "log"):
            yield from handed.findings(one)
        elif one.name == "artifact":
            yield from handed.artifact(one)
        elif one.name == "inert" and not flow.training.rated(one.tags):
            yield lines.finding("inert", one.call, f"{one.named['why']}: nothing is learnt",
                                suspect=lib.UNLEARNT.search(told) is None)
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
    yield from between_arms(sinks, lines, plan, flow.training)
    yield from structural(flow, sinks, lines, plan)
    yield from unseen_in_source(sinks, lines, hidden)
    yield from reaching(flow.tree, lines)


def _words(plan: DataPlan | None) -> str:
    if plan is None:
        return ""
    return " ".join([plan.task, plan.notes, *(f"{arm.name} {arm.title} {arm.description}" for arm in plan.arms)])


# --- what is learnt from --------------------------------------------------------------------------------------------


def _learnt(sink: Sink, lines: Lines, *, transductive: bool) -> Iterable[Finding]:
    held = sink.tags & HELD_OUT
    if held:
        names = " and ".join(sorted(tag.name.lower() for tag in held if isinstance(tag, Tag)))
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
