"""Trees and statuses as lines of coloured text: symbol and word for each state, so that colour is never needed."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from labwright.inspector.cells import cells_text, left_text, tuning_text
from labwright.inspector.status import Ahead, BudgetUse, Status, SubjectsUse
from labwright.inspector.text import cached, count, dollars, duration, plain, short
from labwright.inspector.tree import CloseCall, Row, ShownMetric, StageRows, Tree, branch_text
from labwright.record.claims.clauses import lost_seeds
from labwright.record.fold.facts import RoleUsage
from labwright.record.nouns.hypotheses import Decision
from labwright.record.nouns.nodes import SEARCH_KINDS, NodeKind, NodeStatus

DEEPEST = 8
"""Levels of indentation that are shown; a chain of improvements may be deeper."""


class Mark(NamedTuple):
    """A symbol, what stands for it where the terminal has no Unicode, and a colour."""

    symbol: str
    ascii: str
    colour: str


STATUS: dict[NodeStatus, Mark] = {
    "proposed": Mark("·", ".", "dim"),
    "running": Mark("▸", ">", "cyan"),
    "good": Mark("✓", "+", "green"),
    "buggy": Mark("✗", "x", "red"),
    "pruned": Mark("−", "-", "magenta"),
    "cancelled": Mark("○", "o", "dim"),
}
KIND: dict[NodeKind, str] = {
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
BEST, PATH = Mark("★", "*", "bold yellow"), Mark("•", "'", "yellow")


def print_lines(console: Console, lines: list[Text]) -> None:
    """Print each line on one line of a terminal; nothing is cut where output is no terminal."""
    for line in lines:
        cut = console.is_terminal
        console.print(line, no_wrap=True, overflow="ellipsis" if cut else "ignore", crop=cut, highlight=False)


def tree_lines(tree: Tree, *, ascii: bool = False) -> list[Text]:
    """The whole tree by stage, stages without nodes left out."""
    lines = [Text(branch_text(one), style="dim") for one in tree.ancestry]
    lines += [Text(metric_text(tree.metric), style="dim")] if tree.metric else []
    for stage in tree.stages:
        if stage.nodes:
            lines.append(stage_line(stage))
            lines += [row_line(row, tree.metric, ascii=ascii) for row in stage.nodes]
            lines += [close_call_line(one) for one in stage.compared]
    if not any(stage.nodes for stage in tree.stages):
        lines.append(Text("no nodes yet", style="dim"))
    return lines


def metric_text(metric: ShownMetric) -> str:
    """What the numbers in the tree are."""
    unit = f" in {plain(metric.unit)}" if metric.unit else ""
    better = "higher" if metric.higher_is_better else "lower"
    return (
        f"{plain(metric.title)}{unit} on {plain(metric.dataset)}, validation, mean over the method's conditions "
        f"({better} is better; the best node is chosen over all datasets)"
    )


def stage_line(stage: StageRows) -> Text:
    """A stage in one line: name, progress, what the nodes came to, its best, why it ended."""
    line = Text(stage.stage, style="bold")
    line.append(f"  {stage.searched}/{stage.node_limit or '?'} nodes", style="not bold")
    extra = Counter(row.kind for row in stage.nodes if row.kind not in SEARCH_KINDS)
    for kind, number in sorted(extra.items(), reverse=True):
        line.append(f" + {number} {kind}{'s' if number > 1 else ''}", style="not bold")
    for status, number in Counter[NodeStatus](row.status for row in stage.nodes).items():
        line.append(f"  {number} {status}", style=f"not bold {STATUS[status].colour}")
    if stage.best:
        line.append(f"  best {stage.best}", style="not bold yellow")
    if stage.pending:
        line.append(f"  still to do: {', '.join(stage.pending)}", style="not bold cyan")
    if stage.limited or stage.ended:
        line.append(f"  ({short(stage.limited or stage.ended or '', 60)})", style="not bold dim")
    return line


def close_call_line(one: CloseCall) -> Text:
    """A comparison of two nodes in one line."""
    line = Text(f"  {one.a} or {one.b}: ")
    if not one.answered:
        line.append("asking a model which is sounder", style="dim")
        return line
    line.append(f"{one.better or 'neither'} is sounder", style="yellow")
    line.append(f"  {short(one.reasons, 80)}", style="dim")
    return line


def row_line(row: Row, metric: ShownMetric | None, *, ascii: bool = False) -> Text:
    """A node in one line: place in the tree, state, id, kind, metric, what it varies."""
    which = 1 if ascii else 0
    mark = BEST if row.best else PATH if row.on_best_path else None
    status = STATUS[row.status]
    line = Text(f"{mark[which]} " if mark else "  ", style=mark.colour if mark else "")
    branch = ("` " if ascii else "└ ") if row.depth else ""
    line.append("  " * min(row.depth, DEEPEST) + branch, style="dim")
    line.append(f"{status[which]} {row.id} ", style=status.colour)
    line.append(row.kind, style=KIND[row.kind])
    if row.metric is not None and metric is not None:
        line.append(f"  {row.metric:.4g}", style="bold" if row.on_best_path or row.best else "")
    elif row.status not in ("good", "buggy"):
        line.append(f"  {row.status}", style=status.colour)
    if row.status == "buggy":
        line.append(f"  {row.failure or 'figures refused'}", style="red")
    elif row.status in ("pruned", "cancelled") and row.why:
        line.append(
            f"  {row.status}: {short(row.why, 60)}" if row.metric is not None else f": {short(row.why, 60)}",
            style=status.colour,
        )
    varies = f"seed {row.seed}" if row.kind == "replicate" else short(row.varies or row.title, 70)
    if varies:
        line.append(f"  {varies}")
    if row.author:
        line.append(f"  by {short(row.author, 40)}", style="cyan")
    if row.plots > 1:
        line.append(f"  replotted {row.plots - 1}x", style="yellow")
    if row.attempts > 1:
        line.append(f"  {row.attempts} attempts" + (f", the last {row.again}" if row.again else ""), style="yellow")
    if row.cells is not None and (row.cells.waiting or row.cells.done < row.cells.owed):
        line.append(f"  {row.cells}{left_text(row.cells)}", style="cyan" if row.cells.waiting else "yellow")
    if row.seedless:
        line.append("  ignores its seed", style="yellow")
    if row.seconds:
        line.append(f"  {duration(row.seconds)}", style="dim")
    if row.closed:
        line.append(f"  closed: {short(row.closed, 50)}", style="magenta")
    if row.suspect:
        line.append(f"  suspect: {short('; '.join(row.suspect), 50)}", style="magenta")
    return line


def status_lines(status: Status) -> list[Text]:
    """A status as a short page."""
    lines = [Text(f"{plain(status.run)}: ", style="bold") + Text(short(status.title, 80), style="not bold")]
    code = f" (exit code {status.exit_code})" if status.exit_code is not None else ", no process works on it"
    lines.append(
        _pair(
            "state",
            f"running ({plain(status.process)})"
            if status.process
            else (f"{status.condition}{code}" + (f": {status.reason}" if status.reason else "")),
        )
    )
    lines += [_pair("branch", branch_text(one)) for one in status.ancestry]
    if status.paused:
        lines.append(_pair("paused", status.paused))
    lines.append(_pair("phase", status.phase))
    lines.append(_pair("next", status.next))
    lines += [_pair("steering", short(one, 120)) for one in status.steering]
    lines += [_pair("answers", short(one, 200)) for one in status.answers]
    lines += [_pair("prior work", short(status.prior_work, 200))] * bool(status.prior_work)
    lines += [_pair("packages", short(status.installed, 200))] * bool(status.installed)
    lines += [_pair("protocol", short(one, 300)) for one in status.protocol]
    for stage in status.stages:
        counts = ", ".join(f"{number} {name}" for name, number in sorted(stage.nodes.items()))
        line = f"{stage.searched}/{stage.node_limit or '?'} nodes ({counts or 'none'})"
        line += f", best {stage.best}" if stage.best else ""
        line += f"; still to do: {', '.join(stage.pending)}" if stage.pending else ""
        line += f"; {short(stage.limited, 80)}" if stage.limited else ""
        line += f"; the same values for every seed: {', '.join(stage.seedless)}" if stage.seedless else ""
        lines.append(_pair(stage.stage, line))
    cost = status.cost
    lines.append(_pair("calls", f"{cost.calls} to {status.model}, {_tokens(cost, ' tokens')}"))
    lines += [
        _pair("", f"{role}: {_calls(one.calls)}, {_tokens(one)}, {duration(one.seconds)}")
        for role, one in status.roles.items()
    ]
    if status.budget is not None:
        lines.append(_pair("budget", _budget(status.budget)))
    if status.subjects is not None:
        lines += [
            _pair("subject" if number == 0 else "", text) for number, text in enumerate(subject_lines(status.subjects))
        ]
    if status.ahead is not None:
        lines.append(_pair("forecast", ahead_text(status.ahead)))
        if status.ahead.design:
            lines.append(_pair("design", status.ahead.design))
    if status.plan:
        seeds = "" if status.locked is None else f", locked with {status.locked} fresh seeds"
        lines.append(
            _pair("plan", f"{status.plan[:12]}{f', amended {status.amendments} x' * bool(status.amendments)}{seeds}")
        )
    over = any(one.confirmed for one in status.decisions)
    lines += [
        _pair("decided" if one.confirmed else "looked at" if over else "so far", decision_text(one))
        for one in status.decisions
    ]
    if status.cells is not None:
        lines.append(_pair("cells", cells_text(status.cells)))
    if status.tuning is not None:
        lines.append(_pair("tuning", tuning_text(status.tuning)))
    if status.collected:
        lines.append(
            _pair(
                "collected",
                f"{status.collected} folders of checkpoints and artifacts that nothing "
                f"refers to: {status.freed / 1e9:.2f} GB",
            )
        )
    lines.append(
        _pair(
            "time",
            f"{duration(status.elapsed)} of work, {duration(status.code_seconds)} running code, "
            f"{duration(cost.seconds)} in model calls",
        )
    )
    if status.paper:
        lines.append(_pair("paper", plain(status.paper)))
    if status.judgement is not None:
        lines.append(_pair("judge", f"{plain(status.judgement.model)}: {plain(status.judgement.line)}"))
    elif status.no_judgement:
        lines.append(_pair("judge", f"no judgement, because {short(status.no_judgement, 200)}"))
    return lines + [Text(f"  {one.at[11:19]}  {one.text}", style="dim") for one in status.last_events]


BAR = 20
"""Characters of a bar."""


def bar(done: float, of: float, width: int = BAR) -> str:
    """How much is done of something, as `[#####...............]`."""
    full = min(width, int(width * done / of)) if of > 0 else 0
    return f"[{'#' * full}{'.' * (width - full)}]"


def subject_lines(used: SubjectsUse) -> list[str]:
    """What each language model was asked, and a bar of their budget."""
    lines = [
        f"{plain(one.name)} ({plain(', '.join(one.models)) or 'no answer yet'}): {_calls(one.calls)}, "
        f"{count(one.input_tokens)} in, {count(one.output_tokens)} out, {dollars(one.usd, 0)}"
        f"{f', {one.lost} under way or lost' if one.lost else ''}"
        for one in used.each
    ]
    if used.share is not None:
        caps = [f"${used.spent.usd:.2f} of ${used.usd:.2f}"] if used.usd is not None else []
        caps += [f"{count(used.spent.tokens)} of {count(used.tokens)} tokens"] if used.tokens is not None else []
        lines.append(f"{bar(used.share, 1)} {' and '.join(caps)} spent or set aside")
    return lines


def _budget(used: BudgetUse) -> str:
    """Each limit with what is spent, reserved and left of it."""
    found: list[str] = []
    parts = (used.spent, used.reserved, used.left)
    for limit, shown in (
        (None if used.usd is None else f"${used.usd:.2f}", [f"${one.usd:.2f}" for one in parts]),
        (None if used.tokens is None else f"{count(used.tokens)} tokens", [count(one.tokens) for one in parts]),
        (
            None if used.gpu_hours is None else f"{used.gpu_hours:g} GPU-hours",
            [f"{one.gpu_seconds / 3600:.2f}" for one in parts],
        ),
    ):
        if limit is not None:
            found.append("{} spent, {} reserved, {} left of {}".format(*shown, limit))
    return "; ".join(found)


def _tokens(cost: RoleUsage, unit: str = "") -> str:
    return (
        f"{count(cost.input_tokens)}{unit} in{cached(cost.cached_tokens, cost.cached_usd)}, "
        f"{count(cost.output_tokens)} out, {dollars(cost.usd, cost.unpriced)}"
    )


def _calls(number: int) -> str:
    return f"{number} call{'s' * (number != 1)}"


def decision_text(one: Decision) -> str:
    """What a hypothesis comes to, the estimate before the verdict."""
    parts = "; ".join(
        part.why
        if part.mean is None or part.low is None
        else f"{part.mean:.4g} [{part.low:.4g}, {part.high:.4g}], smallest {part.effect.smallest:g}, "
        f"n = {len(part.values)}{f' ({part.verdict})' * (len(one.parts) > 1)}"
        for part in one.parts
    )
    more = next((f", {part.decides} would decide it as it stands" for part in one.parts if part.decides), "")
    more += next((f"; {text}" for part in one.parts for text in lost_seeds(part, one.hypothesis)), "")
    more += (
        f"; rival predicts {one.hypothesis.rival.theirs}, found {one.rival_found or 'open'}"
        if (one.rival is not None and one.hypothesis.rival is not None)
        else ""
    )
    return short(f"{one.hypothesis.id}: {parts}: {one.verdict}{more}", 200)


def ahead_text(ahead: Ahead) -> str:
    """What a run is likely to take to its end, in one line."""
    price = "price unknown" if ahead.usd is None else f"${ahead.usd:.2f}"
    gpus = "" if ahead.gpu_hours is None else f", {ahead.gpu_hours:.1f} GPU-hours"
    return f"about {_calls(ahead.calls)}, {count(ahead.tokens)} tokens, {price}{gpus} to the end"


def _pair(name: str, value: str) -> Text:
    return Text(f"{name:<12}", style="cyan") + Text(value)
