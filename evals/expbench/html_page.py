"""The benchmark as one page without scripts: tasks by M, D, I, E, C; a row opens items, verdicts, quotes and output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from html import escape

from labwright.evals.expbench import scores
from labwright.evals.expbench.answer_judge import ItemJudged
from labwright.evals.expbench.answers import ExpTask
from labwright.evals.expbench.evaluation import Evaluated
from labwright.evals.expbench.table import ExpTable, format_groups, format_overall
from labwright.record.table import Table

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; color: #1c2430; }
table { border-collapse: collapse; margin: .8rem 0; } td, th { padding: .2rem .7rem; text-align: right; }
td:first-child, th:first-child { text-align: left; } tr { border-bottom: 1px solid #dfe4ea; }
details { border-bottom: 1px solid #dfe4ea; padding: .35rem 0; } summary { cursor: pointer; display: flex; gap: .6rem; }
summary .name { flex: 1; overflow-wrap: anywhere; } .cell { min-width: 3.4rem; text-align: center; border-radius: 4px; }
.full { background: #d7efdc; } .part { background: #fbeecb; } .none { background: #f6d5d2; }
.unknown { color: #75808d; }
blockquote, pre { background: #f4f6f8; margin: .3rem 0; padding: .4rem .7rem; white-space: pre-wrap; }
blockquote { border-left: 3px solid #9fb0c3; } .note { color: #55606d; }
"""


def render_page(found: ExpTable, evaluated: Sequence[Evaluated], tasks: Mapping[str, ExpTask]) -> str:
    """Return the whole page; untrusted text is escaped."""
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>EXP-Bench</title>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<style>{STYLE}</style></head><body><h1>EXP-Bench</h1>",
        f"<p>Answers of {escape(found.model)}, judged by {escape(found.judge)}: "
        + escape(", ".join(f"{number} {name.replace('_', ' ')}" for name, number in found.counts.items()))
        + ".</p>",
        Table.of(("score", "%", "95 %", "tasks", "by EXP-Bench's rules, %"), format_overall(found)).to_html(),
        Table.of(("", "n", *scores.SCORE_NAMES, "C bound"), format_groups(found)).to_html(),
        "<h2>Answers</h2>",
        *(_render_answer(one, tasks[one.task]) for one in evaluated),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _render_answer(one: Evaluated, task: ExpTask) -> str:
    values = scores.compute_scores(one.to_judged())
    stopped = any(one.flags.values())
    cells = _render_cell("M", None if one.state not in ("answered", "no_answer") else Fraction(not stopped)) + "".join(
        _render_cell(name, values[name]) for name in ("D", "I", "E", "C", "All·E")
    )
    name = one.task + (f", {one.variant}" if one.variant else "")
    return (
        f"<details><summary><span class='name'>{escape(name)}</span>{cells}</summary>"
        + "\n".join(_render_details(one, task))
        + "</details>"
    )


def _render_cell(name: str, value: Fraction | None) -> str:
    kind = "unknown" if value is None else "full" if value == 1 else "part" if value else "none"
    shown = "-" if value is None else f"{scores.to_percent(value):g}" if name in ("D", "I") else str(int(value))
    return f"<span class='cell {kind}' title='{escape(name)}'>{escape(name)} {shown}</span>"


def _render_details(one: Evaluated, task: ExpTask) -> Iterator[str]:
    yield f"<p><b>{escape(task.question)}</b></p>"
    if one.why:
        yield f"<p>{escape(one.why)}</p>"
    lists = (("Violations on record", one.reasons), ("Noted", one.noted), ("Suspected by a model", one.suspicions))
    yield from (f"<p>{title}: {escape('; '.join(lines))}</p>" for title, lines in lists if lines)
    found = one.verdicts
    if found is not None:
        for title, items in (("Design", found.design), ("Implementation", found.implementation)):
            yield f"<h3>{title}</h3>" + "\n".join(_render_item(item) for item in items or ())
        right = {1: "correct", 0: "incorrect"}.get(-1 if found.conclusion is None else found.conclusion, "not judged")
        yield f"<h3>Conclusion: {right}</h3><p>{escape(found.reason)}</p>"
        yield f"<p class='note'>expected: {escape(task.outcome)}</p>"
    if one.numbers or one.directions:
        support = [f"{text}: {how}" for text, how in one.numbers] + [
            f"{claim} ({how})" for claim, how in one.directions
        ]
        verb = "Supported" if one.c_bound else "Not supported"
        yield f"<p>{verb} by the measurements: {escape('; '.join(support))}</p>"
    if one.output:
        yield f"<h3>The script</h3><pre>{escape(one.output)}</pre>"


def _render_item(one: ItemJudged) -> str:
    missing = "" if one.quoted else " (not found in the text: not counted)"
    quote = f"<blockquote>{escape(one.quote)}{missing}</blockquote>"
    return (
        f"<p>{'&#10003;' if one.is_counted else '&#10007;'} {escape(one.text)} "
        f"<span class='note'>{escape(one.verdict)}{': ' if one.reason else ''}{escape(one.reason)}</span></p>"
        + (quote if one.quote else "")
    )
