"""The files of `paper/supplement/`: what the record holds as tables that programs read, each column with its meaning.

Made from the record alone, so that an audit makes them again. Values are in full here; the paper and its supplement
print them rounded.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from labwright.record.cells import all_cells
from labwright.record.claims.decisions import decisions
from labwright.record.claims.differences import Difference
from labwright.record.claims.means import Claim
from labwright.record.claims.node_score import score_of, shown_on
from labwright.record.fold.facts import RoleUsage
from labwright.record.fold.state import RunState
from labwright.record.nouns.decisions import Expand
from labwright.record.nouns.nodes import Node
from labwright.record.nouns.papers import JUDGING
from labwright.stages.paper.latex import longtable, recorded_row, short

FOLDER = "supplement"
"""Where they lie, below the paper's folder."""


@dataclass(frozen=True)
class Sheet:
    """A table. `columns` maps each name to its meaning; `widths` are as `latex.longtable` takes them."""

    name: str
    title: str
    columns: Mapping[str, str]
    rows: Sequence[Sequence[object]]
    widths: str = ""

    @property
    def csv(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([list(self.columns), *([_plain(value) for value in one] for one in self.rows)])
        return text.getvalue()

    @property
    def tex(self) -> str:
        """It as a table of the supplement; empty where it has no rows."""
        rows = "\n".join(recorded_row(*map(_brief, one)) for one in self.rows)
        head = " & ".join(name.replace("_", " ") for name in self.columns)
        return (
            ""
            if not rows
            else longtable(self.name, f"@{{}}{self.widths}@{{}}", head, f"{self.title}.", caller=lambda: rows)
        )


def files(sheets: Iterable[Sheet]) -> dict[str, str]:
    """The files by their names below the paper's folder: a CSV a table, and the dictionary of all columns."""
    sheets = list(sheets)
    told = "\n".join(
        f"\n## {one.name}.csv\n\n{one.title}.\n\n| column | meaning |\n|---|---|\n"
        + "\n".join(f"| {name} | {meaning} |" for name, meaning in one.columns.items())
        for one in sheets
    )
    return {
        f"{FOLDER}/README.md": (
            "# Data behind the paper\n\nMade by the program from the record of the run; values are in full, an "
            "empty field "
            "is a value that there is not. `scientist audit` makes every file again. All decisions, executions "
            "and choices "
            f"are in `review/` of the run (disclosure).\n{told}\n"
        ),
        **{f"{FOLDER}/{one.name}.csv": one.csv for one in sheets},
    }


def usage(state: RunState) -> list[tuple[str, RoleUsage]]:
    """Model calls by role, up to the writing of the paper, and in all."""
    found = sorted((role, one) for role, one in state.usage.items() if role not in JUDGING)
    return [*found, ("total", state.usage_without(*JUDGING))] if found else []


def sheets(state: RunState, claims: Sequence[Claim]) -> tuple[Sheet, ...]:
    """All tables; those without a row among them."""
    means = [one for one in claims if not isinstance(one, Difference)]
    paired = [one for one in claims if isinstance(one, Difference)]
    plan, cells = state.data_plan, all_cells(state)
    where = shown_on(plan) if plan is not None else "validation data"
    return (
        Sheet(
            "hypotheses",
            "What was registered and what came of it, a row an effect",
            {
                "id": "of the hypothesis",
                "statement": "in words",
                "confirmatory": "whether the paper stands on it",
                "estimand": "expression over cells, above zero if the hypothesis is right",
                "smallest": "effect of interest, in the metric's unit",
                "mean": "estimate",
                "low": "end of the interval",
                "high": "end of the interval",
                "n": "seeds, or datasets",
                "verdict": "of this effect",
                "values": "by seed, in the order of seeds",
            },
            [
                (
                    one.hypothesis.id,
                    one.hypothesis.statement,
                    one.hypothesis.confirmatory,
                    part.effect.estimand,
                    part.effect.smallest,
                    part.mean,
                    part.low,
                    part.high,
                    len(part.values),
                    part.verdict,
                    " ".join(f"{value:.6g}" for value in part.values),
                )
                for one in decisions(state)
                for part in one.parts
            ],
        ),
        Sheet(
            "measurements",
            "Means over replicates",
            {
                **_PLACE,
                "n": "replicates",
                "mean": "over them",
                "sd": "their standard deviation",
                "low": "end of the 95 % interval of the mean",
                "high": "end of the interval",
                "grade": "who computed it",
                "key": "as the paper's source names it",
            },
            [
                (
                    one.split,
                    one.dataset,
                    one.name,
                    one.condition,
                    one.n,
                    one.mean,
                    one.sd,
                    one.low,
                    one.high,
                    one.grade,
                    one.key,
                )
                for one in means
            ],
        ),
        Sheet(
            "replicates",
            "The values behind the means",
            {**_PLACE, "seed": "of the replicate", "node": "that measured it", "value": "measured"},
            [
                (one.split, one.dataset, one.name, one.condition, seed, node, value)
                for one in means
                for seed, node, value in zip(one.seeds, one.nodes, one.values, strict=True)
            ],
        ),
        Sheet(
            "comparisons",
            "Paired differences over seeds, condition minus other; nobody registered them",
            {
                **_PLACE,
                "other": "what is taken away",
                "n": "pairs",
                "mean": "difference",
                "low": "end of the 95 % interval over seeds",
                "high": "end of the interval",
                "low_examples": "end of the 95 % bootstrap interval over test examples",
                "high_examples": "its other end",
                "p": "of the paired t test",
                "p_adjusted": "after Holm, within the family",
                "family": "primary, or other",
                "compared": "comparisons in the family",
                "mde": "true difference found with a power of 80 %",
                "verdict": "of condition against other",
                "key": "as the paper's source names it",
            },
            [
                (
                    one.split,
                    one.dataset,
                    one.name,
                    one.condition,
                    one.other,
                    one.n,
                    one.mean,
                    one.low,
                    one.high,
                    one.over_examples.low if one.over_examples else None,
                    one.over_examples.high if one.over_examples else None,
                    one.p,
                    one.p_adjusted,
                    one.family,
                    one.compared,
                    one.detectable,
                    one.verdict,
                    one.key,
                )
                for one in paired
            ],
        ),
        Sheet(
            "nodes",
            f"Every node; score: mean of the primary metric over the method's conditions on {where} "
            "(over all where it measured no method), time: seconds of code over all attempts",
            {
                "node": "its id",
                "parent": "the node that it was made from",
                "stage": "of the search",
                "kind": "of work",
                "status": "at the end",
                "seed": "it ran with",
                "varies": "what it changes",
                "score": "see above",
                "runs": "executions",
                "time": "seconds",
                "error": "kind of failure",
            },
            [
                (
                    node.id,
                    node.parent,
                    node.stage,
                    node.kind,
                    node.status + (", suspect" if node.suspect else ""),
                    node.seed,
                    _varies(node, state),
                    score_of(node, plan),
                    len(node.attempts),
                    round(sum(one.seconds for one in node.attempts), 1),
                    node.failure.kind if node.failure else None,
                )
                for node in state.nodes.values()
            ],
            "lllllrL{1.9in}rrrL{0.6in}",
        ),
        Sheet(
            "cells",
            "What each node owed, and what became of it",
            {
                "node": "that owed it",
                "dataset": "of the plan",
                "arm": "of the plan",
                "level": "of the plan",
                "trial": "setting of hyperparameters",
                "seed": "it ran with",
                "outcome": "measured, taken over, failed or left out",
                "taken_from": "node that measured it",
                "seconds": "of computing",
                "why": "it failed or was left out",
            },
            [
                (
                    node,
                    one.cell.dataset,
                    one.cell.arm,
                    one.cell.level,
                    one.cell.trial,
                    one.cell.seed,
                    one.outcome,
                    one.node,
                    round(one.seconds, 3),
                    one.why,
                )
                for node, found in cells.items()
                for one in found
            ],
        ),
        Sheet(
            "cost",
            "Model calls by role, up to the writing of this paper",
            {
                "role": "of the model",
                "calls": "answered",
                "input_tokens": "sent, cached ones too",
                "cached_tokens": "of these, read from a provider's cache",
                "output_tokens": "answered",
                "US_dollars": "where the price is known",
                "unpriced": "calls without a known price",
                "seconds": "waited",
            },
            [
                (
                    role,
                    one.calls,
                    one.input_tokens,
                    one.cached_tokens,
                    one.output_tokens,
                    round(one.usd, 4),
                    one.unpriced,
                    round(one.seconds),
                )
                for role, one in usage(state)
            ],
            "lrrrrrrr",
        ),
        Sheet(
            "subjects",
            "Language models that experiments asked: every answer is kept in the record, and each was asked for once",
            {
                "subject": "as the plan names it",
                "versions": "that answered",
                "calls": "answered",
                "input_tokens": "sent",
                "output_tokens": "answered",
                "US_dollars": "paid",
                "asked": "first and last, UTC",
            },
            [
                (
                    one.name,
                    " ".join(one.models),
                    one.calls,
                    one.input_tokens,
                    one.output_tokens,
                    round(one.usd, 4),
                    f"{one.first[:16]} to {one.last[:16]}",
                )
                for one in state.subjects
            ],
            "lL{1.6in}rrrrL{1.5in}",
        ),
        Sheet(
            "settings",
            "Settings of the run; of paths the last part",
            {"setting": "its name", "value": "as used"},
            list(_settings(state)),
        ),
    )


_PLACE = {"split": "of the data", "dataset": "of the plan", "metric": "its name", "condition": "arm, or arm@level"}


def _settings(state: RunState) -> Iterator[tuple[str, str]]:
    def flat(value: object, prefix: str) -> Iterator[tuple[str, str]]:
        if isinstance(value, dict):
            for name, inner in cast(dict[str, object], value).items():
                yield from flat(inner, f"{prefix}.{name}" if prefix else name)
        elif value is not None:
            yield prefix, short(value, 160)

    settings = state.started.settings if state.started is not None else {}
    return (one for one in sorted(flat(settings, "")) if one[0] != "sandbox.scorers" and not one[0].startswith("data."))


def _varies(node: Node, state: RunState) -> str | None:
    action = state.decisions[node.decision].action
    if isinstance(action, Expand) and action.trials:
        return f"{action.trials[0].arm}: {len(action.trials)} trials"
    return node.varies or node.title or None


def _plain(value: object) -> object:
    """A value of a CSV: no text of others begins a formula of a spreadsheet."""
    text = "" if value is None else " ".join(value.split()) if isinstance(value, str) else value
    return f"'{text}" if isinstance(text, str) and re.match(r"[=+@-](?![\d.e+ -]*$)", text) else text


def _brief(value: object) -> object:
    return "--" if value is None or value == "" else f"{value:.4g}" if isinstance(value, float) else value
