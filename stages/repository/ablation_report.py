r"""What came of a repository's reproduction and ablation: `ablations.json` for programs, `report.md` for people, and
`section.tex` for a paper, whose every number is `\result{ablation/PART/METRIC/d.FORM}`, defined in `results.tex` by the
runs that the record has. They are read with the macros of our templates (`record.result_macros`)."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from labwright.record.printed_value import PrintedValue, escape_tex, print_count, print_signed, print_significant
from labwright.record.reducers.state_fields import RepositoryState
from labwright.record.result_macros import ResultMacroUse, render_results, to_plain_text
from labwright.record.run_folder import write_file
from labwright.record.schema.repository import PartResult, format_command_line
from labwright.sandbox.repository.metric import PREDICTIONS_KIND

_NON_TEX_CHARACTERS = re.compile(r"[^\w.:@+-]+", re.ASCII)
JSON_FILE, REPORT_FILE, SECTION_FILE, RESULTS_FILE = "ablations.json", "report.md", "section.tex", "results.tex"


def write_report(code: RepositoryState, folder: Path) -> None:
    """Write all files, each whole or not at all."""
    write_file(folder / JSON_FILE, json.dumps(to_json(code), indent=1) + "\n")
    write_file(folder / REPORT_FILE, "\n".join(_render_report(code)) + "\n")
    if code.ablation_results is not None:
        values = build_printed_values(code)
        write_file(
            folder / RESULTS_FILE,
            render_results({ResultMacroUse("result", key): value for key, value in values.items()}),
        )
        write_file(folder / SECTION_FILE, "\n".join(_render_section(code, values)) + "\n")


def build_key(code: RepositoryState, part: str) -> str:
    """The key of the effect of a part: of its name and the metric's what TeX reads as it is."""
    assert code.command is not None
    metric = code.command.command.metric.partition(":")[2]
    told = part.replace("/", ":")
    plain = _NON_TEX_CHARACTERS.sub("-", told)
    if plain != told:  # two names may not become one
        plain += f"-{hashlib.sha256(part.encode()).hexdigest()[:6]}"
    return f"ablation/{plain}/{_NON_TEX_CHARACTERS.sub('-', metric.replace('/', ':')).strip('-') or 'metric'}/d"


def build_printed_values(code: RepositoryState) -> dict[str, PrintedValue]:
    """What every number of the section prints, by its key."""
    found: dict[str, PrintedValue] = {}
    for one in code.ablation_results.results if code.ablation_results is not None else ():
        numbers = {"mean": one.mean, "low": one.low, "high": one.high}
        digits = _count_decimals(one)
        found |= {
            f"{build_key(code, one.part)}.{form}": print_signed(value, digits)
            for form, value in numbers.items()
            if value is not None
        }
        found |= {f"{build_key(code, one.part)}.p": print_significant(one.p, 2)} if one.p is not None else {}
        found |= {f"{build_key(code, one.part)}.n": print_count(one.n)} if one.n else {}
    if code.baseline is not None and code.baseline.mean is not None:
        found[f"{build_key(code, 'baseline')}.mean"] = print_significant(code.baseline.mean, 6)
    return found


def list_printed_texts(code: RepositoryState) -> dict[str, set[str]]:
    """All texts of every number that report and section print, by its key."""
    found = {key: {to_plain_text(value)} for key, value in build_printed_values(code).items()}
    for one in code.ablation_results.results if code.ablation_results is not None else ():
        for form, text in _format_texts(one).items():
            found.setdefault(f"{build_key(code, one.part)}.{form}", set()).add(text)
    if code.baseline is not None and code.baseline.spread is not None:
        found[f"{build_key(code, 'baseline')}.sd"] = {f"{code.baseline.spread:.2g}"}
    return found


def _format_texts(one: PartResult) -> dict[str, str]:
    """Numbers of a row of the report, by their forms."""
    numbers = {"mean": one.mean, "low": one.low, "high": one.high}
    found = {form: f"{value:+.4g}" for form, value in numbers.items() if value is not None}
    found |= {"relative": f"{one.relative:+.1%}"} if one.relative is not None else {}
    return found | ({"p": f"{one.p:.2g}"} if one.p is not None else {})


def _count_decimals(one: PartResult) -> int:
    """Decimals by the width of the interval: its first digit that matters, and one more."""
    width = abs((one.high or 0) - (one.low or 0)) or abs(one.mean or 0)
    return 2 if not width else max(0, min(8, 1 - math.floor(math.log10(width)))) if width < 100 else 0


def _render_section(code: RepositoryState, values: Mapping[str, PrintedValue]) -> Iterator[str]:
    r"""A section with one table; `\result` prints each number."""
    assert code.ablation_results is not None and code.imported is not None

    def told(part: str, form: str) -> str:
        key = f"{build_key(code, part)}.{form}"
        return rf"\result{{{key}}}" if key in values else "--"

    scored = code.command is not None and code.command.command.metric.startswith(PREDICTIONS_KIND)
    grade = "scored" if scored else "logged"
    yield "% Written by the program from the record; \\input it below results.tex in a paper of ours."
    yield r"\section{Ablations}\label{sec:ablations}"
    yield (
        rf"Parts of the repository were taken out one by one at commit \texttt{{{code.imported.commit[:12]}}}, "
        rf"whose own result is {told('baseline', 'mean')}. Table~\ref{{tab:ablations}} has the effect of each "
        r"on fresh seeds, positive where the part helps, with its 95\,\% interval and $p$ after Holm's correction; "
        + (
            r"the program scored the predictions, so all values are scored."
            if scored
            else r"the repository's own code reports the metric, so all values are logged."
        )
    )
    yield rf"\begin{{table}}\centering\caption{{Effects of taking parts out. Grade of all values: {grade}.}}"
    yield r"\label{tab:ablations}\begin{tabular}{lrrrrl}\toprule"
    yield r"part & effect & low & high & $p$ & verdict \\ \midrule"
    for one in code.ablation_results.results:
        if one.n > 1:
            cells = (
                escape_tex(one.part.replace("+", " + ")),
                *(told(one.part, form) for form in ("mean", "low", "high", "p")),
                one.called,
            )
            yield " & ".join(cells) + r" \\"
    yield r"\bottomrule\end{tabular}\end{table}"


def to_json(code: RepositoryState) -> dict[str, Any]:
    """All that is known, by what it is."""

    def told(value: Any) -> Any:
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
        "code": told(code.imported),
        "environment": told(code.environment),
        "command": told(code.command),
        "repairs": [told(one) for one in code.repairs],
        "baseline": told(code.baseline),
        "parts": [
            part.model_dump(mode="json", exclude={"mutations"})
            | {"ways": [way.what for way in part.mutations], "tried": gates.get(part.name, [])}
            for part in (code.parts.parts if code.parts is not None else ())
        ],
        "not_examined": [one.model_dump(mode="json") for one in (code.parts.rest if code.parts is not None else ())],
        "ablations": told(code.ablation_results),
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


def _render_report(code: RepositoryState) -> Iterator[str]:
    assert code.imported is not None
    yield f"# {Path(code.imported.repository).name}: reproduced and ablated"
    yield f"\nCommit `{code.imported.commit[:12]}`{', with uncommitted work' * code.imported.snapshot}."
    yield from (f"- {one}" for one in code.imported.faults)
    if (found := code.command) is not None:
        ran = next(
            (one.repair.argv for one in reversed(code.repairs) if one.kept and one.repair.kind == "argv"),
            found.command.argv,
        )
        yield f"\n## Command\n\n    {format_command_line(ran)}\n"
        yield (
            f"Named by the {found.by}"
            if ran == found.command.argv
            else f"In place of `{format_command_line(found.command.argv)}`, which the {found.by} named and "
            f"which does not run"
        ) + (f"; {found.why}." if found.why else ".")
        given = found.by if not code.imported.settings.get("metric") else "person"
        yield f"Metric `{found.command.metric}` ({found.command.direction}imal is best), named by the {given}."
        if not any("{seed}" in word for word in ran):
            yield "It is given no seed: runs are compared unpaired."
    if (environment := code.environment) is not None:
        yield (
            f"\nPython {environment.python}"
            + "".join(f"; {name} {version} installed beside" for name, version in environment.packages.items())
            + "."
        )
        yield from (f"- It asks for {one.wanted}; there is: {one.found or 'none'}." for one in environment.deviations)
    if code.repairs:
        yield "\n## Repairs\n"
        yield from (
            f"- {'kept' if one.kept else 'taken back'} ({one.by}): {one.repair.reason}; it was stopped by "
            f"`{one.signature}`" + (f", then by `{one.then}`" if one.then else "")
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
            "same digits": "The first seed again gave the same digits.",
            "differs": "The first seed again gave another value: it does not set all that is random.",
            "unseeded": "No seed is given.",
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
        f"\n## Ablations\n\n{code.ablation_results.runs} runs. Effects are positive where the part helps; n "
        "fresh seeds, 95 % "
    )
    yield "intervals, p corrected by Holm. What was seen in the search alone is marked, and nothing is called."
    yield "\n| part | how | where | n | effect | interval | p | called |\n|---|---|---|---|---|---|---|---|"
    yield from map(_format_row, code.ablation_results.results)
    if code.ablation_results.agreement is not None:
        yield (
            "\nParts were ranked by a proxy; its ranks and those of full runs agree by "
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
        one.called + (f" ({one.flag})" if one.flag else ""),
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
