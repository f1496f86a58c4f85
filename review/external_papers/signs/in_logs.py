"""Find signs in logs: omitted lines, false timestamps, failures, lines that no program prints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from labwright.review.external_papers.logs import Log, LogLine
from labwright.review.external_papers.name_scopes import SCORE_NAME
from labwright.review.external_papers.provenance import LIBRARY_LINE, PaperProvenance
from labwright.review.external_papers.signs.in_stamps import line_sign, of_stamps
from labwright.review.external_papers.signs.sign import CONCLUSIVE, NOTE, Sign

_ELIDED = re.compile(
    r"^\W*(?:\.\.\.|\u2026)?\W*(?:similar|same|identical|remaining|other|further|intermediate|additional|"
    r"more)\b[^.]{0,60}"
    r"\b(?:logs?|lines?|output|epochs?|runs?|models?|seeds?|entries|training)\b|(?:omitted|truncated|abbreviated|"
    r"elided|"
    r"shortened|skipped|left out|cut) (?:for|to|here)\b[^.]{0,30}(?:brevity|space|clarity|length|readab)?|"
    r"\[\W*(?:\.\.\.|\u2026)[^\]]*(?:\.\.\.|\u2026)?\W*\]|\bfor brevity\b",
    re.I,
)
_ROUND_OK = 5
_MADE = re.compile(
    r"\b(?:simulat\w*|mock\w*|fake\w*|dummy|placeholder|synthetic|fabricat\w*|hard-?coded|example|assumed|hypothetical|"
    r"made-up|artificial|illustrative)[ _-]+(?:\w+[ _-]+)?(?:results?|metrics?|scores?|accurac\w+|performances?|logs?|"
    r"evaluations?|numbers|curves?|measurements?)\b",
    re.I,
)
_CONTINUOUS = re.compile(
    r"\b(?:\w*loss|mse|rmse|mae|nll|perplexity|ppl|mrr|auc\w*|auroc|f1|r2|r\u00b2|spearman|pearson|ece|bleu|"
    r"rouge\S*|ndcg|"
    r"psnr|ssim|kl|time|seconds)\b[^\d\n]{0,24}?(-?\d+\.\d{3,})",
    re.I,
)
_NUMBERED = re.compile(r"[A-Za-z]{3}.*\d\.\d{2}|\d\.\d{2}.*[A-Za-z]{3}")


def of_logs(found: PaperProvenance, *, said: str) -> Iterator[Sign]:
    """Yield all signs in the logs, except what the paper (`said`) discloses."""
    yield from _emptiness(found.logs)
    for log in found.logs:
        yield from _elisions(log)
        yield from of_stamps(log)
        yield from _round(log)
        yield from _words(log, said)
    yield from _without_program(found)
    yield from _failures(found)


def _emptiness(logs: Sequence[Log]) -> Iterator[Sign]:
    said = [log for log in logs if any(line.text.strip() for line in log.lines)]
    if logs and not said:
        yield Sign("no log", "every log is empty", logs[0].name, "", 0.6)


def _elisions(log: Log) -> Iterator[Sign]:
    for line in log.lines:
        if (
            line.stamp is None
            and len(line.text) < 200
            and _ELIDED.search(line.text)
            and not re.search(
                r"^\s*(?:File|\S+\.py)|\bdepth\b|\brows? x\b|lines? of traceback|truncated to|max_length", line.text
            )
        ):
            yield line_sign("elided log", "a program does not omit lines", log, line, 0.85)


def _round(log: Log) -> Iterator[Sign]:
    """Find continuous quantities whose last digits are all zeros."""
    values = [
        (line, value)
        for line in log.lines
        for value in _CONTINUOUS.findall(line.text)
        if float(value) not in (0.0, 1.0)
    ]
    round_ones = [
        (line, value) for line, value in values if value.endswith("00" if len(value.partition(".")[2]) > 3 else "0")
    ]
    if (
        len(round_ones) >= _ROUND_OK
        and len(round_ones) >= 0.8 * len(values)
        and len({value for _, value in round_ones}) > 3
    ):
        yield line_sign(
            "typed log",
            f"{len(round_ones)} of {len(values)} continuous values end in zeros",
            log,
            round_ones[0][0],
            0.75,
        )


def _words(log: Log, said: str) -> Iterator[Sign]:
    open_about_it = re.search(r"simulat", said[:6000], re.I) is not None
    for line in log.lines:
        match = _MADE.search(line.text)
        if match is not None and not (open_about_it and match[0].lower().startswith("simulat")):
            yield line_sign("words", "the log says that its results were made up", log, line, 0.8)


def _without_program(found: PaperProvenance) -> Iterator[Sign]:
    """Find lines with scores that no code prints, although it prints other lines of the logs."""
    readable = [one for one in found.scripts if one.tree is not None and not one.is_test]
    if not readable or any(one.tree is None and one.path.endswith(".py") for one in found.scripts):
        return
    shown = [one for one in found.sources if one.line.text.strip() and not LIBRARY_LINE.search(one.line.text)]
    own = [bool(one.templates) or not found.is_recognisable(one.line) for one in shown]
    numbers = re.compile(r"\d\.\d") if found.prints_freely else _NUMBERED
    strange = [one for one, there in zip(shown, own, strict=True) if not there and numbers.search(one.line.message)]
    matched, of = sum(own), len(shown)
    if of >= 8 and matched < 0.15 * of and sum(len(one.templates) for one in readable) >= 2:
        first = next(one for one, there in zip(shown, own, strict=True) if not there)
        what = f"the code can print at most {matched} of {of} log lines"
        yield line_sign("line of no program", what, first.log, first.line, CONCLUSIVE)
    elif strange:
        what = (
            f"no code prints this, nor {len(strange) - 1} other lines with numbers; {matched} of {of} may be the code's"
        )
        weight = CONCLUSIVE if len(strange) > 2 else NOTE
        yield line_sign("line of no program", what, strange[0].log, strange[0].line, weight)


def _failures(found: PaperProvenance) -> Iterator[Sign]:
    """Find a log that ends with an error, if no other log continues further."""
    ends = [(log, line) for log in found.logs if (line := log.final_error) is not None]
    others = [
        log for log in found.logs if log.final_error is None and len(log.lines) > 3 and not log.name.endswith(".err")
    ]
    for log, line in ends:
        scored = sum(bool(SCORE_NAME.search(one.message) and re.search(r"\d\.\d", one.message)) for one in log.lines)
        weight = 0.3 if others or _of_plots(log, line) else 0.55 if scored >= 3 else 0.7
        yield line_sign("failed", "the log ends in an error" + (", after scores" if scored else ""), log, line, weight)
    yield from _summaries(found)


def _of_plots(log: Log, end: LogLine) -> bool:
    """Return whether only plotting failed, after the results were written."""
    trace = [line.text for line in log.lines if end.number - 25 <= line.number <= end.number]
    drawing = re.compile(r"\bin \w*(?:plot|draw|figure|visuali)|savefig|matplotlib|seaborn", re.I)
    return any(drawing.search(text) for text in trace)


def _summaries(found: PaperProvenance) -> Iterator[Sign]:
    """Find a log without timestamps that has scores, next to timestamped logs without scores."""
    stamped = [log for log in found.logs if len(log.stamped_lines) >= 5]
    if not stamped or any(_scores(log) for log in stamped):
        return
    for log in found.logs:
        if (
            not log.stamped_lines[3:]
            and _scores(log) >= 4
            and not any(one.templates for one in found.sources if one.log is log)
        ):
            line = next(one for one in log.lines if SCORE_NAME.search(one.text) and re.search(r"\d\.\d", one.text))
            yield line_sign(
                "typed log", "this log has scores, but the timestamped logs never reach any", log, line, 0.75
            )


def _scores(log: Log) -> int:
    return sum(bool(SCORE_NAME.search(line.message) and re.search(r"\d\.\d", line.message)) for line in log.lines)
