"""`scientist judge-agreement`: a judge's scores held against people's, beside controls. No model is asked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from labwright.agent.cli.edge import DONE
from labwright.agent.cli.paper_commands import JudgeAgreement
from labwright.agent.cli.shown import answer, line, table
from labwright.evals.agreement.figure import check_form, draw
from labwright.evals.agreement.invented import Invented, invented
from labwright.evals.agreement.measures import Interval, Test
from labwright.evals.agreement.report import Agreement, DimensionAgreement, agreement
from labwright.evals.agreement.scores import ScaleRange
from labwright.inspector.text import plain
from labwright.record.errors import WrongUse

WIDEST_SCALE = 101


def judge_agreement(asked: JudgeAgreement) -> int:
    plot, wanted = asked.plot, tuple(name for name in asked.dimensions.split(",") if name.strip())
    if plot is not None:
        check_form(plot)
    told = None
    if asked.invented is not None:
        told = invented(asked.judge or asked.human, asked.invented, scale=_scale(asked.scale), dimensions=wanted)
    if asked.judge is None:
        return _answer_told(told, asked)
    if told is not None and not asked.json:
        answer(told, told_lines(told), json=False)
    found = agreement(asked.human, asked.judge, scale=_scale(asked.scale), dimensions=wanted)
    if plot is not None:
        draw(found, plot)
    if asked.json:
        beside = {} if told is None else {"invented": told.model_dump(mode="json")}
        print(json.dumps(found.model_dump(mode="json") | beside, indent=1, ensure_ascii=False))
        return DONE
    show(found, Console())
    if plot is not None:
        print(f"drawn in {plot}")
    return DONE


def _answer_told(told: Invented | None, asked: JudgeAgreement) -> int:
    """The answer to the second question alone."""
    if told is None:
        raise WrongUse(
            "Missing argument 'JUDGE.csv': give the judge's scores after the humans', or labels with --invented TRUTH"
        )
    if asked.plot is not None:
        raise WrongUse("--plot draws a judge beside people: give HUMAN.csv and JUDGE.csv")
    answer(told, told_lines(told), json=asked.json)
    return DONE


def told_lines(told: Invented) -> Iterator[Text | Table]:
    """How well each figure tells invented papers from measured ones, beside always saying the same."""
    yield line(f"{told.judge} against the labels in {told.truth}: {told.papers} papers")
    yield from (line(one, label="warning: ") for one in told.warnings)
    yield table(
        "figure",
        "AUROC",
        "95 %",
        "p",
        "called invented",
        "recall",
        "false alarms",
        "right",
        rows=(
            (
                *(
                    (
                        one.figure,
                        _four(one.auroc),
                        "-" if one.interval is None else "{:.2f}..{:.2f}".format(*one.interval),
                        _four(one.p),
                    )
                    if first
                    else ("",) * 4
                ),
                cut.said,
                str(cut.recall),
                str(cut.false_alarms),
                str(cut.right),
            )
            for one in told.figures
            for first, cut in zip((True, *[False] * len(one.cuts)), one.cuts, strict=False)
        ),
    )
    for one in told.figures:
        yield line(
            f"{one.invented} of {one.papers} papers are invented; always saying the same is right in "
            f"{one.constant:.2f} of them",
            label=f"{plain(one.figure)}: ",
        )
        yield from (line(finding, label=f"{plain(one.figure)}: ") for finding in one.findings)


def _scale(text: str) -> ScaleRange:
    match = re.fullmatch(r"\s*(\d+)\s*-\s*(\d+)\s*", text)
    if match is None or not 0 < int(match[2]) - int(match[1]) < WIDEST_SCALE:
        raise WrongUse(
            f"--scale {text!r} is no scale of at most {WIDEST_SCALE} scores: give it as LOWEST-HIGHEST, as 1-10"
        )
    return ScaleRange(int(match[1]), int(match[2]))


def show(found: Agreement, console: Console) -> None:
    """The agreement as four tables, then what they allow to say."""
    console.print(
        Text(
            f"{plain(found.judge)} against {plain(found.humans)}: {found.papers} papers, {found.reviews} reviews by "
            f"{found.reviewers} people; human-human: {found.paired} papers with {found.usual} reviews each"
        ),
        soft_wrap=True,
    )
    for warning in found.warnings:
        console.print(Text(f"warning: {plain(warning)}", style="yellow"), soft_wrap=True)
    for title, shown in _tables(found):
        console.print()
        console.print(Text(title, style="bold"), soft_wrap=True)
        console.print(shown)
    console.print()
    for one in found.dimensions:
        for finding in one.findings:
            console.print(
                Text(f"{plain(one.dimension)}: ", style="bold") + Text(finding, style="yellow"), soft_wrap=True
            )
        if not one.findings:
            console.print(
                Text(f"{plain(one.dimension)}: ", style="bold")
                + Text("the judge is about as near to people as people are, nearer than every control"),
                soft_wrap=True,
            )


def _tables(found: Agreement) -> Iterator[tuple[str, Table]]:
    yield (
        "Distance: mean |judge - human| and |human - human|, the excess of the first, Mann-Whitney U",
        _table(
            ("|j-h|", "n", "|h-h|", "n", "excess", "95 %", "U", "p"),
            found,
            lambda one: (
                _four(one.judge_human),
                str(one.judge_human_pairs),
                _four(one.human_human),
                str(one.human_human_pairs),
                _four(one.excess),
                _interval(one.excess_interval),
                f"{one.u.value:.1f}",
                _four(one.u.p),
            ),
        ),
    )
    yield (
        "Order and level: rank correlation over papers with the humans' mean, bias (judge - human)",
        _table(
            ("rho", "p", "tau", "p", "bias", "95 %"),
            found,
            lambda one: (*_test(one.spearman), *_test(one.kendall), _four(one.bias), _interval(one.bias_interval)),
        ),
    )
    yield (
        "Controls: the judge's scores dealt by chance; a judge that always says the same",
        _table(
            ("dealt", "p", "pass U", "best", "|c-h|", "p (U)", "pass U"),
            found,
            lambda one: (
                _four(one.shuffled.distance),
                _four(one.shuffled.p),
                _four(one.shuffled.passing),
                str(one.best_constant.score),
                _four(one.best_constant.distance),
                _four(one.best_constant.p),
                _passing(one),
            ),
        ),
    )
    yield (
        "The human side: ICC(1), distance when dealt by chance, p of agreeing so by chance; the bias U would find",
        _table(
            ("ICC", "dealt", "p", "found from"),
            found,
            lambda one: (
                _four(one.humans.icc),
                _four(one.humans.elsewhere),
                _four(one.humans.p),
                "never" if one.detectable is None else f"{one.detectable:.1f} points",
            ),
        ),
    )


def _table(columns: tuple[str, ...], found: Agreement, row: Callable[[DimensionAgreement], tuple[str, ...]]) -> Table:
    made = Table(box=None, padding=(0, 2, 0, 0), show_header=True, header_style="bold")
    made.add_column("dimension")
    for name in columns:
        made.add_column(name, no_wrap=True, justify="right")
    for one in found.dimensions:
        made.add_row(plain(one.dimension), *row(one))
    return made


def _passing(one: DimensionAgreement) -> str:
    """Constants that the U test passes: `4-8`, or `2,4-5`."""
    runs: list[list[int]] = []
    for score in (constant.score for constant in one.constants if constant.passes):
        if runs and score == runs[-1][-1] + 1:
            runs[-1].append(score)
        else:
            runs.append([score])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs) or "none"


def _four(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _interval(one: Interval) -> str:
    return f"{one.low:.4f}..{one.high:.4f}"


def _test(one: Test | None) -> tuple[str, str]:
    return ("-", "-") if one is None else (_four(one.value), _four(one.p))
