"""Format trees and statuses as coloured lines. Each state has a symbol and a word, so colour is never needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from labwright.inspector.diagnosis import ErrorCount, RunDiagnosis
from labwright.inspector.safe_text import (
    format_cached,
    format_count,
    format_dollars,
    format_duration,
    shorten,
    to_plain,
)
from labwright.inspector.status import BudgetUsage, LlmUsage, PhaseSpending, RemainingEstimate, RunStatus
from labwright.inspector.tree import NodeRow, RunTree, StageRows, TreeMetric, format_branch_point, format_remaining
from labwright.record.cell_status import CellTotals, PhaseHours
from labwright.record.claims.differences import ClaimDifference
from labwright.record.claims.sentences import describe_need, describe_outcome, format_lost_seeds
from labwright.record.claims.setting_controls import ArmTuningReport, TuningReport
from labwright.record.reducers.run_state import RoleUsage
from labwright.record.schema.hypotheses import HypothesisDecision
from labwright.record.schema.nodes import KIND_NAMES, SEARCH_KINDS, NodeKind, NodeStatus
from labwright.record.table import format_quantity

SCORING = "scoring test predictions"
MAX_LINES = 24
"""Maximum number of lines of a list in a status."""
MAX_INDENT_DEPTH = 8
"""Maximum depth that is indented; chains of improvements may be deeper."""


class StatusSymbol(NamedTuple):
    """A symbol, its replacement on terminals without Unicode, and a colour."""

    symbol: str
    ascii: str
    colour: str


STATUS_SYMBOLS: dict[NodeStatus, StatusSymbol] = {
    "proposed": StatusSymbol("·", ".", "dim"),
    "running": StatusSymbol("▸", ">", "cyan"),
    "good": StatusSymbol("✓", "+", "green"),
    "buggy": StatusSymbol("✗", "x", "red"),
    "pruned": StatusSymbol("−", "-", "magenta"),
    "cancelled": StatusSymbol("○", "o", "dim"),
}
KIND_COLOURS: dict[NodeKind, str] = {
    "draft": "blue",
    "debug": "red",
    "improve": "green",
    "trial": "dim",
    "tune": "yellow",
    "ablate": "magenta",
    "replicate": "dim",
    "aggregate": "cyan",
    "rung": "dim",
}
BEST_SYMBOL, PATH_SYMBOL = StatusSymbol("★", "*", "bold yellow"), StatusSymbol("•", "'", "yellow")


def print_lines(console: Console, lines: list[Text]) -> None:
    """Print each line without wrapping; cut it at the terminal's width, but never in a pipe."""
    for line in lines:
        cut = console.is_terminal
        console.print(line, no_wrap=True, overflow="ellipsis" if cut else "ignore", crop=cut, highlight=False)


def format_hours(hours: Iterable[PhaseHours]) -> str:
    """Format the compute time of each phase, spent of planned, summed over slots."""
    return ", ".join(
        f"{one.phase} {format_duration(one.spent)}"
        + ("" if one.planned is None else f" of {format_duration(one.planned)}")
        for one in hours
    )


def format_tree(tree: RunTree, *, ascii: bool = False) -> list[Text]:
    """Format the whole tree by stage, omitting stages without nodes."""
    lines = [Text(format_branch_point(one), style="dim") for one in tree.ancestry]
    lines += [Text(format_metric(tree.metric), style="dim")] if tree.metric else []
    for stage in tree.stages:
        if stage.nodes:
            lines.append(format_stage(stage))
            lines += [format_node(row, tree.metric, ascii=ascii) for row in stage.nodes]
    if not any(stage.nodes for stage in tree.stages):
        lines.append(Text("no nodes yet", style="dim"))
    return lines


def format_metric(metric: TreeMetric) -> str:
    """Describe the metric shown in the tree."""
    unit = f" in {to_plain(metric.unit)}" if metric.unit else ""
    better = "higher" if metric.higher_is_better else "lower"
    if not metric.dataset:
        return f"{to_plain(metric.title)} of one run ({better} is better)"
    return (
        f"{to_plain(metric.title)}{unit} on {to_plain(metric.dataset)}, validation, mean over the method's conditions "
        f"({better} is better; the best node is chosen over all datasets)"
    )


def format_stage(stage: StageRows) -> Text:
    """Format a stage in one line: name, progress, node states, best node, reason for its end."""
    line = Text(stage.stage, style="bold")
    limit = f"/{stage.node_limit}" if stage.node_limit is not None else ""
    nodes = f"{stage.searched_count}{limit} nodes" if limit else format_quantity(stage.searched_count, "node")
    line.append(f"  {nodes}", style="not bold")
    extra = Counter(row.kind for row in stage.nodes if row.kind not in SEARCH_KINDS)
    for kind, number in sorted(extra.items(), reverse=True):
        line.append(f" + {format_quantity(number, KIND_NAMES[kind])}", style="not bold")
    for status, number in Counter[NodeStatus](row.status for row in stage.nodes).items():
        line.append(f"  {number} {status}", style=f"not bold {STATUS_SYMBOLS[status].colour}")
    if stage.best:
        line.append(f"  best {stage.best}", style="not bold yellow")
    if stage.pending:
        line.append(f"  pending: {', '.join(stage.pending)}", style="not bold cyan")
    if stage.limited or stage.ended:
        line.append(f"  ({shorten(stage.limited or stage.ended or '', 60)})", style="not bold dim")
    return line


def format_node(row: NodeRow, metric: TreeMetric | None, *, ascii: bool = False) -> Text:
    """Format a node in one line: position, state, id, kind, metric, and the quantity that it varies."""
    which = 1 if ascii else 0
    mark = BEST_SYMBOL if row.best else PATH_SYMBOL if row.on_best_path else None
    status = STATUS_SYMBOLS[row.status]
    line = Text(f"{mark[which]} " if mark else "  ", style=mark.colour if mark else "")
    branch = ("` " if ascii else "└ ") if row.depth else ""
    line.append("  " * min(row.depth, MAX_INDENT_DEPTH) + branch, style="dim")
    line.append(f"{status[which]} {row.id} ", style=status.colour)
    line.append(KIND_NAMES[row.kind], style=KIND_COLOURS[row.kind])
    if row.metric is not None and metric is not None:
        line.append(f"  {row.metric:.4g}", style="bold" if row.on_best_path or row.best else "")
    elif row.status not in ("good", "buggy"):
        line.append(f"  {row.status}", style=status.colour)
    if row.status == "buggy":
        line.append(f"  {row.failure or 'figures rejected'}", style="red")
    elif row.status in ("pruned", "cancelled") and row.why:
        line.append(
            f"  {row.status}: {shorten(row.why, 60)}" if row.metric is not None else f": {shorten(row.why, 60)}",
            style=status.colour,
        )
    varies = f"seed {row.seed}" if row.kind == "replicate" else shorten(row.varies or row.title, 70)
    if varies:
        line.append(f"  {varies}")
    if row.author:
        line.append(f"  by {shorten(row.author, 40)}", style="cyan")
    if row.plots > 1:
        line.append(f"  replotted {row.plots - 1}x", style="yellow")
    if row.attempts > 1:
        line.append(f"  {row.attempts} attempts" + (f", the last {row.again}" if row.again else ""), style="yellow")
    if row.cells is not None and (row.cells.waiting or row.cells.done_count < row.cells.owed):
        line.append(f"  {row.cells}{format_remaining(row.cells)}", style="cyan" if row.cells.waiting else "yellow")
    if row.seedless:
        line.append("  ignores its seed", style="yellow")
    if row.seconds:
        line.append(f"  {format_duration(row.seconds)}", style="dim")
    if row.closed:
        line.append(f"  closed: {shorten(row.closed, 50)}", style="magenta")
    if row.suspect:
        line.append(f"  suspect: {shorten('; '.join(row.suspect), 50)}", style="magenta")
    return line


def format_status(status: RunStatus) -> list[Text]:
    """Format a status as a short page."""
    title = Text(f"{to_plain(status.run)}: ", style="bold") + Text(shorten(status.title, 80), style="not bold")
    return [
        title,
        *(_format_pair(name, value) for name, value in _list_status_rows(status) if value),
        *(Text(f"  {one.at[11:19]}  {one.text}", style="dim") for one in status.last_events),
    ]


def _list_status_rows(status: RunStatus) -> Iterator[tuple[str, str]]:
    """Yield the rows of a status, label and text; rows without a text are not shown."""
    code = f" (exit code {status.exit_code})" if status.exit_code is not None else ", no process"
    ended = f"{status.condition}{code}" + (f": {status.reason}" if status.reason else "")
    yield "state", f"running ({to_plain(status.process)})" if status.process else ended
    yield from (("branch", format_branch_point(one)) for one in status.ancestry)
    yield "paused", status.paused
    yield "phase", status.phase
    yield "next", status.next
    if status.diagnosis is not None:
        yield from _list_diagnosis_rows(status, status.diagnosis)
    yield from ((name, shorten(text, 400)) for name, text in status.findings)
    yield from _label_first("effects", status.effects)
    yield from (("commands", shorten(one, 120)) for one in status.steering)
    yield from (("answers", shorten(one, 200)) for one in status.answers)
    yield "prior work", shorten(status.prior_work, 200)
    yield "memory", shorten(status.memory, 400)
    yield "packages", shorten(status.installed, 200)
    yield from (("protocol", shorten(one, 300)) for one in status.protocol)
    for stage in status.stages:
        counts = ", ".join(f"{number} {name}" for name, number in sorted(stage.nodes.items()))
        limit = f"/{stage.node_limit}" if stage.node_limit is not None else ""
        line = f"{stage.searched}{limit} nodes ({counts or 'none'})"
        line += f", best {stage.best}" if stage.best else ""
        line += f"; pending: {', '.join(stage.pending)}" if stage.pending else ""
        line += f"; {shorten(stage.limited, 80)}" if stage.limited else ""
        line += f"; identical values for every seed: {', '.join(stage.seedless)}" if stage.seedless else ""
        yield stage.stage, line
    cost = status.cost
    yield "calls", f"{cost.calls} to {status.model}, {_format_tokens(cost, ' tokens')}"
    for role, one in status.roles.items():
        yield "", f"{role}: {format_quantity(one.calls, 'call')}, {_format_tokens(one)}, {format_duration(one.seconds)}"
    yield "budget", _format_budget(status.budget) if status.budget is not None else ""
    yield from _label_first("subject", format_llm_usage(status.llm_usage) if status.llm_usage is not None else ())
    if (ahead := status.remaining) is not None:
        yield "forecast", format_remaining_estimate(ahead)
        yield "spent", format_phases(ahead.phases) if any(one.planned + one.spent for one in ahead.phases) else ""
        yield from (("can decide", line) for line in ahead.hours)
    if status.plan:
        seeds = "" if status.locked is None else f", locked with {format_quantity(status.locked, 'fresh seed')}"
        if status.locked is not None and status.looks and status.looks[-1] > status.locked:
            seeds += f", up to {status.looks[-1]} at registered looks"
        yield "plan", f"{status.plan[:12]}{f', amended {status.amendments} x' * bool(status.amendments)}{seeds}"
    over = any(one.confirmed for one in status.decisions)
    for one in status.decisions:
        label = "decided" if one.confirmed else "exploratory" if over else "so far"
        yield label, format_decision(one, is_preview=label == "so far")
    yield "cells", format_cells(status.cells) if status.cells is not None else ""
    yield "tuning", format_tuning(status.tuning) if status.tuning is not None else ""
    deleted = f"{format_quantity(status.collected, 'folder')} of unreferenced checkpoints and artifacts"
    yield "deleted", f"{deleted}: {status.freed / 1e9:.2f} GB" if status.collected else ""
    work, code, calls = map(format_duration, (status.elapsed, status.code_seconds, cost.seconds))
    yield "time", f"{work} of work, {code} running code, {calls} in model calls"
    yield "slots", format_hours(status.hours)
    yield "paper", to_plain(status.paper or "")
    if status.judgement is not None:
        yield "judge", f"{to_plain(status.judgement.model)}: {to_plain(status.judgement.score_line)}"
    elif status.no_judgement:
        yield "judge", f"not judged: {shorten(status.no_judgement, 200)}"


def _label_first(label: str, lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the lines with a label before the first one."""
    yield from ((label * (not at), line) for at, line in enumerate(lines))


def _list_diagnosis_rows(status: RunStatus, found: RunDiagnosis) -> Iterator[tuple[str, str]]:
    """Yield what happens next, what is unfinished, the errors, and the method's differences to the baseline."""
    doing = "waiting for the model, or processing its answer" if status.process else "started; resume continues it"
    waiting = [
        f"{one.node} {KIND_NAMES[one.kind]} {one.step}: {to_plain(one.detail)} (for {format_duration(one.since)})"
        for one in found.waiting
    ]
    waiting += [f"{to_plain(one)}: {SCORING if one.startswith('look ') else doing}" for one in found.work]
    compared = [f"{found.best} on validation:"] * bool(found.comparisons)
    compared += [to_plain(_format_comparison(one)) for one in found.comparisons]
    steps = [f"{number}. {to_plain(one)}" for number, one in enumerate(found.next, 1) if one != status.next]
    errors = [line for one in found.errors for line in _format_error(one)]
    for title, lines in (("steps", steps), ("unfinished", waiting), ("errors", errors), ("baseline", compared)):
        shown = lines if title == "errors" else lines[:MAX_LINES]
        more = [f"... and {len(lines) - len(shown)} more"] * (len(lines) > len(shown))
        yield from _label_first(title, [*shown, *more])


def _format_error(one: ErrorCount) -> list[str]:
    nodes = ", ".join(one.nodes) + (", ..." if one.count > len(one.nodes) else "")
    fixed = "" if one.kind == "killed" else f"; {one.fixed} fixed by debugging"  # nodes killed by the user have no bug
    shown = one.example if one.fixed < one.count else ()  # `logs --node` has those of repaired nodes
    kind = "" if one.kind == "other" else f"{one.kind} "  # the message says it
    return [f"{kind}{one.count} ({nodes}{fixed}): {one.message}", *(f"    {line}" for line in shown)]


def _format_comparison(one: ClaimDifference) -> str:
    line = f"{one.dataset} {one.condition} - {one.other}: {one.name} {one.mean:+.4g}"
    if one.sd is not None and one.low is not None and one.high is not None:
        line += f" (sd {one.sd:.3g}, 95 % interval [{one.low:+.4g}, {one.high:+.4g}], n = {one.n})"
    return f"{line}  {one.basis_text if one.sd is not None else 'identical for every seed'}"


BAR_WIDTH = 20
"""Width of a bar in characters."""


def format_bar(done: float, total: float, width: int = BAR_WIDTH) -> str:
    """Format progress as `[#####...............]`."""
    full = min(width, int(width * done / total)) if total > 0 else 0
    return f"[{'#' * full}{'.' * (width - full)}]"


def format_llm_usage(used: LlmUsage) -> list[str]:
    """Format the calls to each subject, and a bar of their budget."""
    lines = [
        f"{to_plain(one.name)} ({to_plain(', '.join(one.models)) or 'no answer yet'}): "
        f"{format_quantity(one.calls, 'call')}, {format_count(one.input_tokens)} in, "
        f"{format_count(one.output_tokens)} out, {format_dollars(one.usd, 0)}"
        f"{f', {one.lost} running or lost' if one.lost else ''}"
        for one in used.each
    ]
    if used.used_share is not None:
        caps = [f"${used.spent.usd:.2f} of ${used.usd:.2f}"] if used.usd is not None else []
        if used.tokens is not None:
            caps.append(f"{format_count(used.spent.tokens)} of {format_count(used.tokens)} tokens")
        lines.append(f"{format_bar(used.used_share, 1)} {' and '.join(caps)} spent or reserved")
    return lines


def _format_budget(used: BudgetUsage) -> str:
    """Format each limit with the spent, reserved and remaining amounts."""
    rows: list[list[str]] = []
    parts = (used.spent, used.reserved, used.remaining)
    if used.usd is not None:
        rows.append([*(f"${one.usd:.2f}" for one in parts), f"${used.usd:.2f}"])
    if used.tokens is not None:
        rows.append([*(format_count(one.tokens) for one in parts), f"{format_count(used.tokens)} tokens"])
    if used.gpu_hours is not None:
        rows.append([*(f"{one.gpu_seconds / 3600:.2f}" for one in parts), f"{used.gpu_hours:g} GPU-hours"])
    return "; ".join("{} spent, {} reserved, {} left of {}".format(*row) for row in rows)


def _format_tokens(cost: RoleUsage, unit: str = "") -> str:
    return (
        f"{format_count(cost.input_tokens)}{unit} in{format_cached(cost.cached_tokens, cost.cached_usd)}, "
        f"{format_count(cost.output_tokens)} out, {format_dollars(cost.usd, cost.unpriced)}"
    )


UNDECIDED = "not decided yet"
"""Replaces the verdict until fresh seeds give one."""


def format_decision(one: HypothesisDecision, *, is_preview: bool) -> str:
    """Format a hypothesis with its estimate and verdict; a preview has none."""
    parts = [
        f"{part.mean:.4g} [{part.low:.4g}, {part.high:.4g}], n = {len(part.values)}"
        + f": {describe_outcome(part)}" * (not is_preview)
        if part.mean is not None and part.low is not None
        else part.why
        for part in one.parts
    ]
    more = f"; together {one.verdict}" if len(one.parts) > 1 and not is_preview else ""
    more += next((f", {text}" for part in one.parts if part.low is not None and (text := describe_need(part))), "")
    more += next((f"; {text}" for part in one.parts for text in format_lost_seeds(part)), "")
    more += f"; {one.saturated}" * bool(one.saturated)
    if one.rival is not None and one.hypothesis.rival is not None and not is_preview:
        more += f"; the alternative predicts {one.hypothesis.rival.theirs}, observed: {one.rival_sign or 'open'}"
    return shorten(f"{one.hypothesis.id}: {f'{UNDECIDED}; ' * is_preview}{'; '.join(parts)}{more}", 200)


def format_remaining_estimate(ahead: RemainingEstimate) -> str:
    """Format the estimated cost to the end of a run in one line."""
    price = "price unknown" if ahead.usd is None else f"${ahead.usd:.2f}"
    gpus = "" if ahead.gpu_hours is None else f", {ahead.gpu_hours:.1f} GPU-hours"
    return (
        f"about {format_quantity(ahead.calls, 'call')}, {format_count(ahead.tokens)} tokens, {price}{gpus} to the end"
    )


def format_phases(phases: Sequence[PhaseSpending]) -> str:
    """Format what was spent by phase, and in parentheses what was planned."""
    return "; ".join(f"{one.phase} ${one.spent:.2f} (${one.planned:.2f})" for one in phases)


def _format_pair(name: str, value: str) -> Text:
    return Text.assemble((f"{name:<12}" if len(name) < 12 else f"{name} ", "cyan"), value)


def format_cells(cells: CellTotals) -> str:
    """Format all cells of a run in one line."""
    names = {"taken_over": "reused", "left_out": "left out"}
    counts = {one: getattr(cells, one) for one in ("measured", "taken_over", "failed", "left_out", "waiting")}
    shown = ", ".join(f"{number} {names.get(one, one)}" for one, number in counts.items() if number)
    saved = f", {format_duration(cells.seconds_saved)} saved by reuse" if cells.seconds_saved else ""
    differing = "".join(f"; {a} and {b} have the same key but different values" for a, b in cells.differing[:1])
    return (
        f"{shown} (of {cells.owed}); {format_duration(cells.seconds)} "
        f"compute{saved}{format_remaining(cells)}{differing}"
    )


def format_tuning(account: TuningReport) -> str:
    """Format the used tuning budget and the best value of each arm in one line."""
    return (
        f"{'; '.join(_format_arm(account, one) for one in account.arms)} ({to_plain(account.metric.name)}, "
        f"{account.dataset})"
    )


def _format_arm(account: TuningReport, one: ArmTuningReport) -> str:
    budget, effort = account.tuning.budget, one.effort
    versions = format_quantity(effort.versions, "version")
    given = f"{format_quantity(effort.trials, 'trial')} + {versions} of code (budget {budget:g})"
    notes = ""
    if one.chosen is not None:
        notes = ", fewer trials than planned" * one.chosen.stale + ", not converged" * one.chosen.gaining
    return f"{to_plain(one.arm)} {given}{f', best {one.best:.4g}' if one.best is not None else ''}{notes}"
