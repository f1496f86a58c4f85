r"""Write the report of a repository's reproduction and ablation.

The files are `ablations.json` for programs, `report.md` for readers, and `section.tex` for a paper. Every result in the
report and the section is a claim of the record in its printed form (`record.claims.part_effects`); the section prints
it by `\result{KEY}`, defined in `results.tex`, with the macros of the LaTeX templates (`record.result_macros`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from labwright.record.claims.part_effects import (
    compute_baseline_claim,
    compute_fresh_baseline_claim,
    format_report_claims,
    format_report_texts,
)
from labwright.record.printed_value import escape_tex
from labwright.record.reducers.repository_state import AblationState
from labwright.record.reducers.run_state import RunState
from labwright.record.result_macros import ResultMacroUse, render_results
from labwright.record.schema.nodes import Node
from labwright.record.schema.repository import PartResult, format_command_line
from labwright.sandbox.repository.metric import PREDICTIONS_KIND
from labwright.stages.repository.ablation_stats import WHOLE_TRAINING

JSON_FILE, REPORT_FILE, SECTION_FILE, RESULTS_FILE = "ablations.json", "report.md", "section.tex", "results.tex"

_KIND_TEXTS = {"author": "left out by the author", "budget": "beyond the budget"}
"""What the report calls the kinds of `UnexaminedPart`."""


def build_report_files(state: RunState) -> dict[str, str]:
    """Return the content of every file by name."""
    values = format_report_claims(state)
    texts = format_report_texts(state)
    files = {
        JSON_FILE: json.dumps(to_json(state), indent=1) + "\n",
        REPORT_FILE: "\n".join(_render_report(state, texts)) + "\n",
    }
    if state.ablation.results is not None:
        uses = {ResultMacroUse("result", key): value for key, value in values.items()}
        files[RESULTS_FILE] = render_results(uses)
        files[SECTION_FILE] = "\n".join(_render_section(state, texts)) + "\n"
    return files


def _render_section(state: RunState, values: Mapping[str, str]) -> Iterator[str]:
    r"""Yield the lines of a section with one table; `\result` prints each number."""
    code, baseline = state.repository, compute_baseline_claim(state)
    assert state.ablation.results is not None and code.imported is not None

    def cite(key: str, form: str) -> str:
        return rf"\result{{{key}.{form}}}" if f"{key}.{form}" in values else "--"

    scored = code.command is not None and code.command.command.metric.startswith(PREDICTIONS_KIND)
    grade = "scored" if scored else "logged"
    yield "% Generated from the record. \\input it after results.tex in a paper that uses this program's templates."
    yield r"\section{Ablations}\label{sec:ablations}"
    own = cite(baseline.key if baseline is not None else "", "mean")
    yield (
        rf"Parts of the repository were removed one at a time at commit \texttt{{{code.imported.commit[:12]}}}, "
        rf"whose own result is {own}. Table~\ref{{tab:ablations}} gives the effect of each part "
        r"on fresh seeds, positive if the part helps, with a 95\,\% interval and the Holm-corrected $p$; "
        + (
            r"the program scored the predictions, so all values are scored."
            if scored
            else r"the repository's own code reports the metric, so all values are logged."
        )
    )
    yield rf"\begin{{table}}\centering\caption{{Effects of removing parts. Grade of all values: {grade}.}}"
    yield r"\label{tab:ablations}\begin{tabular}{lrrrrl}\toprule"
    yield r"part & effect & low & high & $p$ & verdict \\ \midrule"
    for result in state.ablation.results.results:
        if result.fresh:
            cells = (
                escape_tex(result.part.replace("+", " + ")),
                *(cite(result.key, form) for form in ("mean", "low", "high", "p")),
                result.called
                + (rf" (detectable: {cite(result.key, 'detectable')})" if _shows_detectable(result) else ""),
            )
            yield " & ".join(cells) + r" \\"
    yield r"\bottomrule\end{tabular}\end{table}"


def to_json(state: RunState) -> dict[str, Any]:
    """Return all facts about a study as JSON."""
    code, ablation = state.repository, state.ablation

    def dump(value: Any) -> Any:
        return None if value is None else value.model_dump(mode="json", exclude={"type", "format"})

    gates = {
        name: [
            {"way": one.way, "gate": one.gate, "why": one.why}
            for (part, _), one in ablation.tried_mutations.items()
            if part == name
        ]
        for name in dict.fromkeys(part for part, _ in ablation.tried_mutations)
    }
    return {
        "code": dump(code.imported),
        "environment": dump(code.environment),
        "command": dump(code.command),
        "repairs": [dump(one) for one in code.repairs],
        "baseline": dump(code.baseline),
        "parts": [
            part.model_dump(mode="json", exclude={"mutations"})
            | {"ways": [way.what for way in part.mutations], "tried": gates.get(part.name, [])}
            for part in (ablation.parts.parts if ablation.parts is not None else ())
        ],
        "not_examined": [
            one.model_dump(mode="json") for one in (ablation.parts.rest if ablation.parts is not None else ())
        ],
        "ablations": dump(ablation.results),
        "runs": [_run_to_json(state, one) for one in state.nodes.values() if one.is_finished],
    }


def _run_to_json(state: RunState, node: Node) -> dict[str, Any]:
    command, runs = state.repository.command, state.cells.list_node_runs(node.id)
    name = command.command.metric_name if command is not None else ""
    return {
        "id": runs[-1].id if runs else "",
        "node": node.id,
        "stage": node.stage,
        "kind": node.kind,
        "title": node.title,
        "parts": [] if node.varies == node.title else node.varies.split("+"),
        "seed": node.seed,
        "value": next((one.value for one in node.measurements if one.name == name), None),
        "seconds": round(sum(one.seconds for one in runs), 2),
        "failure": node.failure.message if node.failure is not None else None,
    }


def _render_report(state: RunState, texts: Mapping[str, str]) -> Iterator[str]:
    code, is_given = state.repository, bool(state.read_setting("code.metric"))
    assert code.imported is not None
    yield f"# {Path(code.imported.repository).name}: reproduced and ablated"
    yield f"\nCommit `{code.imported.commit[:12]}`{', with uncommitted work' * code.imported.snapshot}."
    yield from (f"- {one}" for one in code.imported.faults)
    if (found := code.command) is not None:
        ran = next(
            (one.repair.argv for one in reversed(code.repairs) if one.kept and one.repair.argv), found.command.argv
        )
        source, remark = ("user", ". The model's remark: ") if found.by == "person" else (found.by, ": ")
        yield f"\n## Command\n\n    {format_command_line(ran)}\n"
        yield (
            f"Named by the {source}"
            if ran == found.command.argv
            else f"Replaces `{format_command_line(found.command.argv)}`, named by the {source}, which does not run"
        ) + (f"{remark}{found.why}{'.' * (not found.why.endswith('.'))}" if found.why else ".")
        metric_source = "user" if is_given else "model" if found.by == "person" else found.by
        better = "higher" if found.command.direction == "max" else "lower"
        yield f"Metric `{found.command.metric}` ({better} is better), named by the {metric_source}."
        if not any("{seed}" in word for word in ran):
            yield "The command sets no seed: runs are compared unpaired."
    if (environment := code.environment) is not None:
        yield (
            f"\nPython {environment.python}"
            + "".join(f"; additionally installed: {name} {version}" for name, version in environment.packages.items())
            + "."
        )
        yield from (f"- It requires {one.wanted}; found: {one.found or 'none'}." for one in environment.deviations)
    if code.repairs:
        yield "\n## Repairs\n"
        yield from (
            f"- {'kept' if one.kept else 'reverted'} ({one.by}): {one.repair.reason}; failure "
            f"`{one.signature}`" + (f", afterwards `{one.then}`" if one.then else "")
            for one in code.repairs
        )
    yield from _render_baseline(state, texts)
    yield from _render_results(state, texts)
    if state.limit_reason is not None:
        yield f"\nThe study ended before its plan was complete: {state.limit_reason}. Resume it to continue."


def _render_baseline(state: RunState, texts: Mapping[str, str]) -> Iterator[str]:
    code, claim = state.repository, compute_baseline_claim(state)
    check = code.baseline
    if check is None:
        return
    yield "\n## Baseline\n"
    mean = "no value"
    if claim is not None:
        spread = f", standard deviation {texts[f'{claim.key}.sd']}" if claim.sd is not None else ""
        mean = f"mean {texts[f'{claim.key}.mean']}{spread}"
    expected = code.command.expected if code.command is not None else None
    yield (
        f"**{check.verdict}**: {mean} over {len(check.seeds)} seeds"
        + (f"; expected {expected.value:g} ± {expected.tolerance:g}" if expected is not None else "")
        + "."
    )
    yield (
        {
            "same digits": "Repeating the first seed gave the same digits.",
            "differs": "Repeating the first seed gave another value: the seed does not control all randomness.",
            "unseeded": "The command sets no seed.",
            None: "",
        }[check.same_seed]
        if check.mean is not None
        else ""
    )
    if check.why:
        yield f"{check.why[0].upper()}{check.why[1:]}."


def _render_results(state: RunState, texts: Mapping[str, str]) -> Iterator[str]:
    ablation, baseline = state.ablation, compute_fresh_baseline_claim(state)
    if ablation.results is None or ablation.parts is None:
        return
    if not ablation.results.results:
        yield f"\n## Ablations\n\n**Nothing was ablated**: {ablation.results.stopped or 'no part was found'}."
        yield from _render_not_examined(ablation)
        return
    yield (
        f"\n## Ablations\n\n{ablation.results.runs} runs. Effects are positive if the part helps; n fresh seeds, 95 % "
    )
    yield "intervals, p corrected by Holm. Parts measured only in the search are marked and have no verdict."
    yield "Detectable: the smallest effect that four of five such studies would find."
    if baseline is not None:
        spread = f", standard deviation {texts[f'{baseline.key}.sd']}" if baseline.sd is not None else ""
        yield (
            f"\n**Baseline on fresh seeds**: mean {texts[f'{baseline.key}.mean']}{spread} over {baseline.n} seeds. "
            "Percentages relate to its mean on the seeds of the part."
        )
    yield "\n| part | how | where | n | effect | interval | p | verdict |\n|---|---|---|---|---|---|---|---|"
    yield from (_format_row(one, texts) for one in ablation.results.results)
    if (floor := ablation.tried_mutations.get((WHOLE_TRAINING, 0))) is not None:
        yield f"\nThe run without {WHOLE_TRAINING} gives no floor; {floor.why}."
    if ablation.results.agreement is not None:
        yield (
            "\nParts were ranked by a proxy; its ranking agrees with that of full runs by "
            f"{ablation.results.agreement:.2f} "
        )
        yield "(Kendall's tau)."
    if ablation.parts.why:
        yield f"\nHow parts were chosen: {' '.join(ablation.parts.why.split())}"
    if ablation.results.stopped:
        yield f"\n{ablation.results.stopped}."
    yield from _render_not_examined(ablation)


def _render_not_examined(ablation: AblationState) -> Iterator[str]:
    assert ablation.parts is not None
    if ablation.parts.rest:
        yield "\n## Not examined\n"
    yield from (f"- {one.name} ({_KIND_TEXTS[one.kind]}): {one.why}" for one in ablation.parts.rest)


def _shows_detectable(one: PartResult) -> bool:
    return one.called == "no measurable difference" and one.detectable is not None


def _format_row(one: PartResult, texts: Mapping[str, str]) -> str:
    def show(form: str, default: str = "-") -> str:
        return texts.get(f"{one.key}.{form}", default)

    relative = f" ({show('relative')}%)" if one.relative is not None else ""
    cells = (
        one.part,
        one.mutation,
        one.where,
        str(one.n),
        f"{show('mean')}{relative}" if one.mean is not None else "-",
        f"{show('low')} to {show('high')}" if one.low is not None else "-",
        show("p"),
        one.called
        + (f" (detectable: {show('detectable')})" if _shows_detectable(one) else "")
        + (f" ({one.flag})" if one.flag else ""),
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
