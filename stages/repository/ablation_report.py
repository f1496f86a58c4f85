r"""Write the report of a repository's reproduction and ablation.

The files are `ablations.json` for programs, `report.md` for readers, and `section.tex` for a paper. Every number of the
section is `\result{ablation/PART/METRIC/d.FORM}`, defined in `results.tex` from the recorded runs; the macros are those
of the LaTeX templates (`record.result_macros`).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from labwright.record.printed_value import PrintedValue, escape_tex, print_count, print_signed, print_significant
from labwright.record.reducers.run_state import RunState
from labwright.record.reducers.state_fields import RepositoryState
from labwright.record.result_macros import ResultMacroUse, render_results, to_plain_text
from labwright.record.run_folder import write_file
from labwright.record.schema.repository import PartResult, format_command_line
from labwright.sandbox.repository.metric import PREDICTIONS_KIND

_NON_TEX_CHARACTERS = re.compile(r"[^\w.:@+-]+", re.ASCII)
JSON_FILE, REPORT_FILE, SECTION_FILE, RESULTS_FILE = "ablations.json", "report.md", "section.tex", "results.tex"


def write_report(state: RunState, folder: Path) -> None:
    """Write all files, each atomically."""
    code = state.repository_state
    write_file(folder / JSON_FILE, json.dumps(to_json(code), indent=1) + "\n")
    write_file(
        folder / REPORT_FILE, "\n".join(_render_report(code, given=bool(state.read_setting("code.metric")))) + "\n"
    )
    if code.ablation_results is not None:
        values = build_printed_values(code)
        write_file(
            folder / RESULTS_FILE,
            render_results({ResultMacroUse("result", key): value for key, value in values.items()}),
        )
        write_file(folder / SECTION_FILE, "\n".join(_render_section(code, values)) + "\n")


def build_key(code: RepositoryState, part: str) -> str:
    """Return the key of a part's effect: the names of the part and the metric, restricted to characters that TeX reads
    literally."""
    assert code.command is not None
    metric = code.command.command.metric.partition(":")[2]
    name = part.replace("/", ":")
    plain = _NON_TEX_CHARACTERS.sub("-", name)
    if plain != name:  # keep different names different
        plain += f"-{hashlib.sha256(part.encode()).hexdigest()[:6]}"
    return f"ablation/{plain}/{_NON_TEX_CHARACTERS.sub('-', metric.replace('/', ':')).strip('-') or 'metric'}/d"


def build_printed_values(code: RepositoryState) -> dict[str, PrintedValue]:
    """Return the printed form of every number of the section, by key."""
    found: dict[str, PrintedValue] = {}
    for result in code.ablation_results.results if code.ablation_results is not None else ():
        numbers = {"mean": result.mean, "low": result.low, "high": result.high}
        digits = _count_decimals(result)
        found |= {
            f"{build_key(code, result.part)}.{form}": print_signed(value, digits)
            for form, value in numbers.items()
            if value is not None
        }
        found |= {f"{build_key(code, result.part)}.p": print_significant(result.p, 2)} if result.p is not None else {}
        found |= {f"{build_key(code, result.part)}.n": print_count(result.n)} if result.n else {}
    if code.baseline is not None and code.baseline.mean is not None:
        found[f"{build_key(code, 'baseline')}.mean"] = print_significant(code.baseline.mean, 6)
    return found


def list_printed_texts(code: RepositoryState) -> dict[str, set[str]]:
    """Return all printed forms of every number of the report and the section, by key."""
    found = {key: {to_plain_text(value)} for key, value in build_printed_values(code).items()}
    for result in code.ablation_results.results if code.ablation_results is not None else ():
        for form, text in _format_texts(result).items():
            found.setdefault(f"{build_key(code, result.part)}.{form}", set()).add(text)
    if code.baseline is not None and code.baseline.spread is not None:
        found[f"{build_key(code, 'baseline')}.sd"] = {f"{code.baseline.spread:.2g}"}
    return found


def _format_texts(one: PartResult) -> dict[str, str]:
    """Format the numbers of a row of the report, by form."""
    numbers = {"mean": one.mean, "low": one.low, "high": one.high}
    found = {form: f"{value:+.4g}" for form, value in numbers.items() if value is not None}
    found |= {"relative": f"{one.relative:+.1%}"} if one.relative is not None else {}
    return found | ({"p": f"{one.p:.2g}"} if one.p is not None else {})


def _count_decimals(one: PartResult) -> int:
    """Return the number of decimals: up to the second significant digit of the interval's width."""
    width = abs((one.high or 0) - (one.low or 0)) or abs(one.mean or 0)
    return 2 if not width else max(0, min(8, 1 - math.floor(math.log10(width)))) if width < 100 else 0


def _render_section(code: RepositoryState, values: Mapping[str, PrintedValue]) -> Iterator[str]:
    r"""Yield the lines of a section with one table; `\result` prints each number."""
    assert code.ablation_results is not None and code.imported is not None

    def cite(part: str, form: str) -> str:
        key = f"{build_key(code, part)}.{form}"
        return rf"\result{{{key}}}" if key in values else "--"

    scored = code.command is not None and code.command.command.metric.startswith(PREDICTIONS_KIND)
    grade = "scored" if scored else "logged"
    yield "% Generated from the record. \\input it after results.tex in a paper that uses this program's templates."
    yield r"\section{Ablations}\label{sec:ablations}"
    yield (
        rf"Parts of the repository were removed one at a time at commit \texttt{{{code.imported.commit[:12]}}}, "
        rf"whose own result is {cite('baseline', 'mean')}. Table~\ref{{tab:ablations}} gives the effect of each part "
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
    for result in code.ablation_results.results:
        if result.n > 1:
            cells = (
                escape_tex(result.part.replace("+", " + ")),
                *(cite(result.part, form) for form in ("mean", "low", "high", "p")),
                _format_verdict(result),
            )
            yield " & ".join(cells) + r" \\"
    yield r"\bottomrule\end{tabular}\end{table}"


def to_json(code: RepositoryState) -> dict[str, Any]:
    """Return all facts about a study as JSON."""

    def dump(value: Any) -> Any:
        return None if value is None else value.model_dump(mode="json", exclude={"type", "format"})

    gates = {
        name: [
            {"way": one.way, "gate": one.gate, "why": one.why}
            for (part, _), one in code.tried_mutations.items()
            if part == name
        ]
        for name in dict.fromkeys(part for part, _ in code.tried_mutations)
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
            for part in (code.parts.parts if code.parts is not None else ())
        ],
        "not_examined": [one.model_dump(mode="json") for one in (code.parts.rest if code.parts is not None else ())],
        "ablations": dump(code.ablation_results),
        "runs": [
            {
                "id": one.run.id,
                "purpose": one.purpose,
                "parts": one.parts,
                "seed": one.run.seed,
                "value": one.run.value,
                "seconds": round(one.run.seconds, 2),
                "failure": one.run.failure.message if one.run.failure is not None else None,
            }
            for one in code.runs.values()
        ],
    }


def _render_report(code: RepositoryState, *, given: bool) -> Iterator[str]:
    """Render the report; `given`: the user named the metric."""
    assert code.imported is not None
    yield f"# {Path(code.imported.repository).name}: reproduced and ablated"
    yield f"\nCommit `{code.imported.commit[:12]}`{', with uncommitted work' * code.imported.snapshot}."
    yield from (f"- {one}" for one in code.imported.faults)
    if (found := code.command) is not None:
        ran = next(
            (one.repair.argv for one in reversed(code.repairs) if one.kept and one.repair.kind == "argv"),
            found.command.argv,
        )
        source = "user" if found.by == "person" else found.by
        yield f"\n## Command\n\n    {format_command_line(ran)}\n"
        yield (
            f"Named by the {source}"
            if ran == found.command.argv
            else f"Replaces `{format_command_line(found.command.argv)}`, named by the {source}, which does not run"
        ) + (f": {found.why.rstrip('.')}." if found.why else ".")
        metric_source = "user" if given else source
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
    yield from _render_baseline(code)
    yield from _render_results(code)


def _render_baseline(code: RepositoryState) -> Iterator[str]:
    check = code.baseline
    if check is None:
        return
    yield "\n## Baseline\n"
    mean = (
        "no value"
        if check.mean is None
        else f"mean {check.mean:.6g}" + (f", sd {check.spread:.2g}" if check.spread is not None else "")
    )
    expected = code.command.expected if code.command is not None else None
    yield (
        f"**{check.verdict}**: {mean} over {max(0, len(check.runs) - 1)} seeds"
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


def _render_results(code: RepositoryState) -> Iterator[str]:
    if code.ablation_results is None or code.parts is None:
        return
    if not code.ablation_results.results:
        yield f"\n## Ablations\n\n**Nothing was ablated**: {code.ablation_results.stopped or 'no part was found'}."
        yield from _render_not_examined(code)
        return
    yield (
        f"\n## Ablations\n\n{code.ablation_results.runs} runs. Effects are positive if the part helps; n "
        "fresh seeds, 95 % "
    )
    yield "intervals, p corrected by Holm. Parts measured only in the search are marked and have no verdict."
    yield "\n| part | how | where | n | effect | interval | p | verdict |\n|---|---|---|---|---|---|---|---|"
    yield from map(_format_row, code.ablation_results.results)
    if code.ablation_results.agreement is not None:
        yield (
            "\nParts were ranked by a proxy; its ranking agrees with that of full runs by "
            f"{code.ablation_results.agreement:.2f} "
        )
        yield "(Kendall's tau)."
    if code.ablation_results.stopped:
        yield f"\n{code.ablation_results.stopped}."
    yield from _render_not_examined(code)


def _render_not_examined(code: RepositoryState) -> Iterator[str]:
    assert code.parts is not None
    yield "\n## Not examined\n"
    yield from (f"- {one.name} ({one.kind}): {one.why}" for one in code.parts.rest)


def _format_verdict(one: PartResult) -> str:
    return "not significant" if one.called == "no measurable difference" else one.called


def _format_row(one: PartResult) -> str:
    texts = _format_texts(one)
    effect = texts.get("mean", "-") + (f" ({texts['relative']})" if "relative" in texts else "")
    span = f"{texts['low']} to {texts['high']}" if "low" in texts and "high" in texts else "-"
    cells = (
        one.part,
        one.mutation,
        one.where,
        str(one.n),
        effect,
        span,
        texts.get("p", "-"),
        _format_verdict(one) + (f" ({one.flag})" if one.flag else ""),
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
