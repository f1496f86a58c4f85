"""Signs in logs: lines left out by hand, stamps of no clock, durations against them, failures, lines of no program."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from review.foreign.logs import Log, LogLine
from review.foreign.origins import SCORE
from review.foreign.provenance import Provenance
from review.foreign.scripts import words_of_line
from review.foreign.signs.sign import CIRCUMSTANTIAL, CONCLUSIVE, NOTE, Kind, Sign

_ELIDED = re.compile(
    r"^\W*(?:\.\.\.|\u2026)?\W*(?:similar|same|identical|remaining|other|further|intermediate|additional|more)\b[^.]{0,60}"
    r"\b(?:logs?|lines?|output|epochs?|runs?|models?|seeds?|entries|training)\b|(?:omitted|truncated|abbreviated|elided|"
    r"shortened|skipped|left out|cut) (?:for|to|here)\b[^.]{0,30}(?:brevity|space|clarity|length|readab)?|"
    r"\[\W*(?:\.\.\.|\u2026)[^\]]*(?:\.\.\.|\u2026)?\W*\]|\bfor brevity\b",
    re.I,
)
_ROUND_OK = 5
RARE = 1e-5
"""A chance below which stamps are no clock's."""
_MADE = re.compile(
    r"\b(?:simulat\w*|mock\w*|fake\w*|dummy|placeholder|synthetic|fabricat\w*|hard-?coded|example|assumed|hypothetical|"
    r"made-up|artificial|illustrative)[ _-]+(?:\w+[ _-]+)?(?:results?|metrics?|scores?|accurac\w+|performances?|logs?|"
    r"evaluations?|numbers|curves?|measurements?)\b",
    re.I,
)
_TOOK = re.compile(
    r"(?:completed?|finished|done|took|total (?:run)?time|total training time|elapsed|runtime|duration|training time)\b"
    r"[^\d\n]{0,30}(?:(\d+)\s*h(?:ours?|r)?s?\W+)?(?:(\d+)\s*m(?:in\w*)?\W+)?(\d+(?:\.\d+)?)\s*"
    r"(s\b|sec\w*|m\b|min\w*|h\b|hours?|hrs?)",
    re.I,
)
_UNIT = {"s": 1.0, "m": 60.0, "h": 3600.0}
_CONTINUOUS = re.compile(
    r"\b(?:\w*loss|mse|rmse|mae|nll|perplexity|ppl|mrr|auc\w*|auroc|f1|r2|r\u00b2|spearman|pearson|ece|bleu|rouge\S*|ndcg|"
    r"psnr|ssim|kl|time|seconds)\b[^\d\n]{0,24}?(-?\d+\.\d{3,})",
    re.I,
)
_FOREIGN = re.compile(
    r"warn|deprecat|traceback|^\s+(?:File|at|raise|return|\^)\b|^\s*File \"|\bit/s\b|s/it\b|%\||^\w+Error|"
    r"tensorflow|cuda|hugging|tokeniz|absl|pip |"
    r"^\s*[\d\[\](),.\s|=+*#_-]+$|^[-=*#_+|\s]+$|nvidia|sklearn|python",
    re.I,
)
_NUMBERED = re.compile(r"[A-Za-z]{3}.*\d\.\d{2}|\d\.\d{2}.*[A-Za-z]{3}")


def of_logs(found: Provenance, *, said: str) -> Iterator[Sign]:
    """All signs in the logs. `said` is the paper: what it says openly is no sign."""
    yield from _emptiness(found.logs)
    for log in found.logs:
        yield from _elisions(log)
        yield from _stamps(log)
        yield from _durations(log)
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
            yield _sign("elided log", "a program leaves out no lines", log, line, 0.85)


def _stamps(log: Log) -> Iterator[Sign]:
    """Whole seconds that are all even, or all multiples of five, as nobody's clock gives."""
    seconds = list(dict.fromkeys(int(line.stamp) for line in log.stamped if line.stamp is not None and not line.fine))
    if not seconds:
        return
    ends = [second % 60 for second in seconds]
    first = next(line for line in log.stamped if not line.fine)
    for divisor in (5, 2):
        fitting = sum(end % divisor == 0 for end in ends)
        if (
            fitting >= (0.6 + 0.2 * (divisor == 2)) * len(ends)
            and _chance(len(ends), fitting, 1 / divisor) < RARE
            and (_steps_vary(seconds))
        ):
            yield _sign(
                "round stamps", f"{fitting} of {len(ends)} stamps are multiples of {divisor} seconds", log, first, 0.8
            )
            return


def _chance(of: int, hits: int, share: float) -> float:
    """How likely so many hits, or more, are."""
    return sum(math.comb(of, at) * share**at * (1 - share) ** (of - at) for at in range(hits, of + 1))


def _steps_vary(seconds: Sequence[int]) -> bool:
    """Whether the steps differ: a program that waits between its lines has one step."""
    steps = [b - a for a, b in pairwise(seconds)]
    return bool(steps) and max(map(steps.count, set(steps))) < 0.8 * len(steps)


def _durations(log: Log) -> Iterator[Sign]:
    """A duration that is said against the stamps before it."""
    first = next((line.stamp for line in log.stamped), None)
    for line in log.stamped:
        took = _TOOK.search(line.message)
        if (
            took is None
            or first is None
            or line.stamp is None
            or re.search(r"eta|remaining|estimat|expect|limit", line.text, re.I)
        ):
            continue
        said = float(took[1] or 0) * 3600 + float(took[2] or 0) * 60 + float(took[3]) * _UNIT[took[4][0].lower()]
        passed = line.stamp - first
        if said > 2 * passed + 30 and passed >= 0:
            yield _sign(
                "time",
                f"{said:g} s are said to have passed, by the stamps it was {passed:g} s at most",
                log,
                line,
                0.75,
            )
    yield from _epochs(log)


_PER_EPOCH = re.compile(r"epoch\D{0,8}(\d+).*?(?:time|took|in)\D{0,6}(\d+(?:\.\d+)?)\s*(s|sec\w*|m|min\w*)\b", re.I)


def _epochs(log: Log) -> Iterator[Sign]:
    timed = [
        (line, int(match[1]), float(match[2]) * _UNIT[match[3][0].lower()])
        for line in log.stamped
        if (match := _PER_EPOCH.search(line.text))
    ]
    for (before, one, _), (line, two, said) in pairwise(timed):
        if (
            two == one + 1
            and before.stamp is not None
            and line.stamp is not None
            and said > 3 * (line.stamp - before.stamp) + 5
        ):
            yield _sign(
                "time",
                f"an epoch of {said:g} s ends {line.stamp - before.stamp:g} s after the one before",
                log,
                line,
                0.75,
            )
            return


def _round(log: Log) -> Iterator[Sign]:
    """Continuous quantities with three or four places whose last are all noughts."""
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
        yield _sign(
            "typed log",
            f"{len(round_ones)} of {len(values)} continuous values end in noughts",
            log,
            round_ones[0][0],
            0.75,
        )


def _words(log: Log, said: str) -> Iterator[Sign]:
    open_about_it = re.search(r"simulat", said[:6000], re.I) is not None
    for line in log.lines:
        match = _MADE.search(line.text)
        if match is not None and not (open_about_it and match[0].lower().startswith("simulat")):
            yield _sign("words", "the log speaks of results that were made", log, line, 0.8)


def _without_program(found: Provenance) -> Iterator[Sign]:
    """Lines with scores that no line of the code can have printed, where the code prints other lines of the logs.

    Loggers print whatever names they are given: beside them a line counts where words of it stand nowhere in the code.
    """
    readable = [one for one in found.scripts if one.tree is not None and not one.is_test]
    if not readable or any(one.tree is None and one.path.endswith(".py") for one in found.scripts):
        return
    told = [one for one in found.sources if one.line.text.strip() and not _FOREIGN.search(one.line.text)]
    freely = any(one.opaque or one.loggers for one in readable)
    vocabulary = frozenset(word for one in found.scripts for word in one.words) | _LIBRARIES
    own = [bool(one.templates) or (freely and _in_words_of(one.line.message, vocabulary)) for one in told]
    strange = [one for one, there in zip(told, own, strict=True) if not there and _NUMBERED.search(one.line.message)
               and not freely]
    strange += [one for one in told if freely and not one.templates and re.search(r"\d\.\d", one.line.message)
                and words_of_line(re.sub(r"[=:]\s*\S+", "", one.line.message)) - vocabulary]
    matched, of = sum(own), len(told)
    if of >= 8 and matched < .15 * of and sum(len(one.templates) for one in readable) >= 2:
        first = next(one for one, there in zip(told, own, strict=True) if not there)
        yield _sign("line of no program", f"of {of} lines of the logs the code can print {matched}", first.log,
                    first.line, CONCLUSIVE)
    elif strange:
        what = f"no code prints this, nor {len(strange) - 1} other lines with numbers ({matched} of {of} are the code's)"
        yield _sign("line of no program", what, strange[0].log, strange[0].line, CONCLUSIVE if len(strange) > 2 else NOTE)


_LIBRARIES = frozenset(
    "val valid validation train training loss logloss epoch iteration iter step lr accuracy acc elapsed eta learning rate grad "
    "norm runtime samples per second sec eval error auc took seconds time total real user sys info debug fold best score "
    "cv end start done progress remaining improvement tolerance objective converged min max mean std memory mb gb ms it "
    "in of at for the to and on is no with".split())
"""Words of the lines that libraries print of their own accord."""


def _in_words_of(message: str, vocabulary: frozenset[str]) -> bool:
    """Whether a line is made of words that stand in the code, as those of a logger of names and values are."""
    words = words_of_line(message)
    return len(words & vocabulary) >= .75 * len(words)


def _failures(found: Provenance) -> Iterator[Sign]:
    """A log whose last words are an error, where no other log of the folder goes further."""
    ends = [(log, line) for log in found.logs if (line := log.ends_in_failure) is not None]
    others = [
        log
        for log in found.logs
        if log.ends_in_failure is None and len(log.lines) > 3 and not log.name.endswith(".err")
    ]
    for log, line in ends:
        scored = sum(bool(SCORE.search(one.message) and re.search(r"\d\.\d", one.message)) for one in log.lines)
        weight = .3 if others or _of_plots(log, line) else .55 if scored >= 3 else .7
        yield _sign("failed", "the log ends in an error" + (", after scores" if scored else ""), log, line, weight)
    yield from _summaries(found)


def _of_plots(log: Log, end: LogLine) -> bool:
    """Whether what failed only draws: the results were written before."""
    trace = [line.text for line in log.lines if end.number - 25 <= line.number <= end.number]
    drawing = re.compile(r"\bin \w*(?:plot|draw|figure|visuali)|savefig|matplotlib|seaborn", re.I)
    return any(drawing.search(text) for text in trace)


def _summaries(found: Provenance) -> Iterator[Sign]:
    """A log without a stamp that holds scores, beside stamped ones that hold none."""
    stamped = [log for log in found.logs if len(log.stamped) >= 5]
    if not stamped or any(_scores(log) for log in stamped):
        return
    for log in found.logs:
        if (
            not log.stamped[3:]
            and _scores(log) >= 4
            and not any(one.templates for one in found.sources if one.log is log)
        ):
            line = next(one for one in log.lines if SCORE.search(one.text) and re.search(r"\d\.\d", one.text))
            yield _sign(
                "typed log", "this log holds scores, and the stamped logs beside it reach none", log, line, 0.75
            )


def _scores(log: Log) -> int:
    return sum(bool(SCORE.search(line.message) and re.search(r"\d\.\d", line.message)) for line in log.lines)


def _sign(kind: Kind, what: str, log: Log, line: LogLine, weight: float) -> Sign:
    return Sign(kind, what, f"{log.name}:{line.number}", line.text.strip()[:160], weight)
