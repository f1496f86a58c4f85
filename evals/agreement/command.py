"""`scientist judge-agreement`: compare a judge's scores with human scores and controls. No model is called."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from rich.text import Text

from labwright.agent.cli.errors import DONE, format_line, print_result
from labwright.evals.agreement.invented_detection import InventedDetection, measure_detection
from labwright.evals.agreement.measures import ConfidenceInterval, TestedStatistic
from labwright.evals.agreement.report import DimensionAgreement, JudgeAgreementReport, build_agreement
from labwright.evals.agreement.scores import ScaleRange
from labwright.evals.commands import JudgeAgreement
from labwright.evals.detection import build_detection_table, list_notes
from labwright.inspector.safe_text import to_plain
from labwright.record.errors import UsageError
from labwright.record.table import Table

MAX_SCALE_STEPS = 101


def run_judge_agreement(args: JudgeAgreement) -> int:
    wanted = tuple(name for name in args.dimensions.split(",") if name.strip())
    scale, detection = _parse_scale(args.scale), None
    if args.invented is not None:
        detection = measure_detection(args.judge or args.human, args.invented, scale=scale, dimensions=wanted)
    if args.judge is None and detection is None:
        raise UsageError(
            "Missing argument 'JUDGE.csv': give the judge's scores after the humans', or labels with --invented TRUTH"
        )
    if detection is not None and (args.judge is None or not args.json):
        print_result(detection, format_detection(detection), json=args.json)
    if args.judge is None:
        return DONE
    found = build_agreement(args.human, args.judge, scale=scale, dimensions=wanted)
    extra = {} if detection is None else {"invented": detection.model_dump(mode="json")}
    print_result(found.model_dump(mode="json") | extra, format_agreement(found), json=args.json)
    return DONE


def format_detection(detection: InventedDetection) -> Iterator[Text | Table]:
    """Yield how well each score detects fabrication, next to a constant answer."""
    yield format_line(f"{detection.judge} against the labels in {detection.truth}: {detection.papers} papers")
    yield from (format_line(one, label="warning: ") for one in detection.warnings)
    yield build_detection_table(detection.figures)
    for one in detection.figures:
        yield from (format_line(note, label=f"{to_plain(one.figure)}: ") for note in list_notes(one))


def _parse_scale(text: str) -> ScaleRange:
    match = re.fullmatch(r"\s*(\d+)\s*-\s*(\d+)\s*", text)
    if match is None or not 0 < int(match[2]) - int(match[1]) < MAX_SCALE_STEPS:
        raise UsageError(
            f"--scale {text!r} is not a scale of at most {MAX_SCALE_STEPS} scores: give LOWEST-HIGHEST, such as 1-10"
        )
    return ScaleRange(int(match[1]), int(match[2]))


def format_agreement(found: JudgeAgreementReport) -> Iterator[Text | Table]:
    """Yield the agreement as four tables, then the conclusions."""
    yield format_line(
        f"{found.judge} against {found.humans}: {found.papers} papers, {found.reviews} reviews by {found.reviewers} "
        f"people; human-human: {found.paired} papers with {found.usual} reviews each"
    )
    yield from (format_line(f"warning: {one}", "yellow") for one in found.warnings)
    for table in _build_tables(found):
        yield format_line("")
        yield table
    yield format_line("")
    fine = "the judge is about as close to humans as humans are to each other, and closer than every control"
    for one in found.dimensions:
        yield from (format_line(finding, "bold", label=f"{one.dimension}: ") for finding in one.findings or (fine,))


def _build_tables(found: JudgeAgreementReport) -> Iterator[Table]:
    yield _build_table(
        "Distance: mean |judge - human| and |human - human|, the excess of the first, Mann-Whitney U",
        ("|j-h|", "n", "|h-h|", "n", "excess", "95 %", "U", "p"),
        found,
        lambda one: (
            _format_four_digits(one.judge_human),
            str(one.judge_human_pairs),
            _format_four_digits(one.human_human),
            str(one.human_human_pairs),
            _format_four_digits(one.excess),
            _format_interval(one.excess_interval),
            f"{one.u.value:.1f}",
            _format_four_digits(one.u.p),
        ),
    )
    yield _build_table(
        "Order and level: rank correlation over papers with the humans' mean, bias (judge - human)",
        ("rho", "p", "tau", "p", "bias", "95 %"),
        found,
        lambda one: (
            *_format_test(one.spearman),
            *_format_test(one.kendall),
            _format_four_digits(one.bias),
            _format_interval(one.bias_interval),
        ),
    )
    yield _build_table(
        "Controls: the judge's scores permuted; a judge that always gives the same score",
        ("permuted", "p", "pass U", "best", "|c-h|", "p (U)", "pass U"),
        found,
        lambda one: (
            _format_four_digits(one.shuffled.distance),
            _format_four_digits(one.shuffled.p),
            _format_four_digits(one.shuffled.passing),
            str(one.best_constant.score),
            _format_four_digits(one.best_constant.distance),
            _format_four_digits(one.best_constant.p),
            _format_passing(one),
        ),
    )
    yield _build_table(
        "Humans: ICC(1), distance when permuted, p of the agreement under permutation; the bias that U would detect",
        ("ICC", "permuted", "p", "found from"),
        found,
        lambda one: (
            _format_four_digits(one.humans.icc),
            _format_four_digits(one.humans.elsewhere),
            _format_four_digits(one.humans.p),
            "never" if one.detectable is None else f"{one.detectable:.1f} points",
        ),
    )


def _build_table(
    title: str,
    columns: tuple[str, ...],
    found: JudgeAgreementReport,
    row: Callable[[DimensionAgreement], tuple[str, ...]],
) -> Table:
    return Table.of(("dimension", *columns), [(one.dimension, *row(one)) for one in found.dimensions], title=title)


def _format_passing(one: DimensionAgreement) -> str:
    """Format the constant scores that pass the U test: `4-8`, or `2,4-5`."""
    runs: list[list[int]] = []
    for score in (constant.score for constant in one.constants if constant.passes):
        if runs and score == runs[-1][-1] + 1:
            runs[-1].append(score)
        else:
            runs.append([score])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs) or "none"


def _format_four_digits(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _format_interval(one: ConfidenceInterval) -> str:
    return f"{one.low:.4f}..{one.high:.4f}"


def _format_test(one: TestedStatistic | None) -> tuple[str, str]:
    return ("-", "-") if one is None else (_format_four_digits(one.value), _format_four_digits(one.p))
