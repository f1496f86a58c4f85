"""What the interpreter of the source noticed: signs, and notes where the plan says so.

What flows into predictions and metrics, what is learnt from, what tells arms apart.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping

from record.nouns.data import DataPlan
from record.nouns.nodes import Finding
from record.source import ENTRY
from review.honesty import library as lib
from review.honesty.arms import between_arms
from review.honesty.flow import Flow, Sink
from review.honesty.flow.modules import dotted
from review.honesty.flow.walk import LONGEST
from review.honesty.form import Lines
from review.honesty.row_probe import TRANSDUCTIVE
from review.honesty.submissions import SOURCES, Submissions, Withheld, unseen_in_source
from review.honesty.switches import seeds, unread_switches
from review.honesty.values import HELD_OUT, Tag

GENERATED = re.compile(r"synthetic|simulat|generated|toy|distil|pre-?train", re.I)


def source_signs(
    trees: Mapping[str, ast.Module], lines: Lines, plan: DataPlan | None, hidden: Withheld,
) -> Iterable[Finding]:
    """All of them, as the interpreter would have it. Raises: `TooLongError`, `RecursionError`."""
    entry = next(path for path in (ENTRY, *trees) if path in trees)
    flow = Flow(trees[entry], {dotted(path): tree for path, tree in trees.items() if path != entry}, _arms(trees, plan))
    flow.run()
    sinks = list(flow.sinks.values())
    wording = _words(plan)
    submissions = Submissions(lines, plan, flow.training, trained=any(
        one.name == "backward" and one.tags & SOURCES for one in sinks), generated=bool(GENERATED.search(wording)),
                      hidden=hidden)
    for one in sinks:
        if one.name in ("submit", "result", "log"):
            yield from submissions.findings(one)
        elif one.name == "artifact":
            yield from submissions.artifact(one)
        elif one.name == "inert" and not flow.training.rated(one.tags):
            yield lines.finding("inert", one.call, f"{one.named['why']}: nothing is learnt",
                                suspect=lib.UNLEARNT.search(wording) is None)
        elif one.name in ("fit", "backward"):
            yield from _learnt(one, lines, transductive=bool(TRANSDUCTIVE.search(wording)))
        elif one.name == "statistic":
            yield lines.finding("held out", one.call, "takes a statistic over training rows and rows to be predicted "
                                "together", suspect=not TRANSDUCTIVE.search(wording))
        elif one.name == "outside":
            yield lines.finding("outside", one.call, f"looks for files outside its folder, at {one.named['path']!r}")
        elif one.name == "labels":
            yield from _loaded(one, lines, plan)
    for test, tags in flow.selections:
        if tags & HELD_OUT and not tags & {Tag.PART, Tag.OPAQUE}:
            yield lines.finding("held out", test, "the best is chosen by what is seen on rows to be predicted",
                                suspect=not TRANSDUCTIVE.search(wording))
    yield from _made_up_training(sinks, lines, wording)
    yield from between_arms(sinks, lines, plan, flow.training)
    yield from seeds(flow.tree, sinks, lines)
    yield from unread_switches(flow, lines, plan)
    yield from unseen_in_source(sinks, lines, hidden)


def _arms(trees: Mapping[str, ast.Module], plan: DataPlan | None) -> tuple[str, ...]:
    """The arms of the plan, and those that code names which take a part out."""
    named = {one.value for tree in trees.values() for one in ast.walk(tree)
             if isinstance(one, ast.Constant) and isinstance(one.value, str) and one.value.startswith("without-")}
    return tuple(dict.fromkeys((*(arm.name for arm in plan.arms), *sorted(named))))[:LONGEST] if plan else ()


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


def _made_up_training(sinks: list[Sink], lines: Lines, wording: str) -> Iterable[Finding]:
    """Every fit of the program is on generated data."""
    learnt = [one for one in sinks if one.name in ("fit", "backward")]
    if any(one.tags & SOURCES for one in learnt):
        return
    for one in learnt:
        if Tag.RANDOM in one.tags:
            yield lines.finding("synthetic", one.call, "all training is on generated data, no dataset of the plan goes "
                                "into it", suspect=not GENERATED.search(wording))


def _loaded(sink: Sink, lines: Lines, plan: DataPlan | None) -> Iterable[Finding]:
    path, name = str(sink.named["which"]), sink.named.get("dataset")
    asked = f"{path.rsplit('.', 1)[-1]} {name if isinstance(name, str) else ''}".lower()
    for use in plan.datasets if plan else ():
        if use.name.lower() in asked:
            yield lines.finding("labels", sink.call, f"loads {use.name} with its withheld labels, past lab.data")
