"""Filters that determine how much of a string or a list a prompt shows.

Binding text is shown whole: the idea's claim, the data plan, the required measurements of a node, code. So is a
model's text in a field with a stated length (`FIELD_LENGTHS`). Other prose is cut at the end of a sentence, and
program output in its middle, each with a mark. Items of a list that belong together share one line, and omitted items
are counted.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from labwright.models.roles.figures import ArrayBrief, Range
from labwright.models.roles.paper_writing import ClaimLine, EstimateLine
from labwright.record.claims.hypothesis_tests import ReplicateValues, compute_effect_value
from labwright.record.claims.sentences import describe_outcome
from labwright.record.estimands import EstimandError, MissingCell, describe_estimand, list_main_arms
from labwright.record.result_macros import ClaimKey, to_plain_text
from labwright.record.schema.data_plan import DataPlan, Measurement, parse_arm, parse_level
from labwright.record.schema.hypotheses import Effect, EffectDecision
from labwright.record.schema.paper import AxesFacts, DrawnFacts

FIELD_LENGTHS = {
    "plan": 1200,
    "analysis": 1800,
    "next_step": 600,
    "description": 600,
    "tried": 700,
    "found": 1800,
    "supported_by_replicates": 1000,
    "next": 500,
    "reasons": 1000,
    "notes": 6000,
}
"""Maximum number of characters that the author of a field is asked to write."""

FIELD_LEEWAY = 1.5
"""A field is shown whole up to this multiple of its stated length."""

MAX_OTHER_FILE_CHARACTERS = 4000
"""Characters shown of a program's file that is not code."""

MIN_CUT_SHARE = 0.1
"""Share of a string that a cut in its middle must remove to be worthwhile."""

MARK_PREFIX = "[[scientist: "
"""Prefix of this program's marks within a text; `strip_marks` ensures that the text itself cannot contain one."""

_SENTENCE_END = re.compile(r"[.!?][\"')\]]*(?=\s|$)")


def format_mark(what: str) -> str:
    """Return a mark of this program within a text, in brackets that `strip_marks` removes from texts."""
    return f"{MARK_PREFIX}{what}]]"


def strip_marks(text: str) -> str:
    """Return the text without passages that look like a mark: two opening brackets before a letter are separated."""
    return re.sub(r"\[(?=\[\s*[^\W\d_])", "[ ", text)


def cut_middle(text: str, limit: int, *, min_saved_share: float = MIN_CUT_SHARE) -> str:
    """Return the text, or about `limit` characters of its head and tail with a mark that states how much was left
    out.

    The text stays whole if the cut would save less than the share `min_saved_share`.
    """
    left = len(text) - limit
    if left < min_saved_share * len(text) or left <= 0:
        return text
    head, tail = limit * 2 // 5, limit - limit * 2 // 5
    return f"{text[:head]}\n{format_mark(f'{left} characters left out here')}\n{text[-tail:]}"


def flatten(text: str) -> str:
    """Return the whole text on one line."""
    return " ".join(text.split())


def cut_line(text: str, limit: int = 200) -> str:
    """Return the text on one line of at most `limit` characters, for names and titles (prose: `cut_sentences`)."""
    shown = " ".join(text.split(maxsplit=limit)[:limit])  # more words than that are longer than the line
    if len(shown) <= limit:
        return shown
    space = shown.rfind(" ", max(0, limit - 30), limit - 3)
    return f"{shown[: space if space > 0 else limit - 4]} ..."


def cut_sentences(text: str, limit: int) -> str:
    """Return the text on one line, or its first whole sentences of at most `limit` characters and a mark.

    If not even the first sentence fits, it is cut between words.
    """
    shown = flatten(text)
    if len(shown) <= limit:
        return shown
    ends = [match.end() for match in _SENTENCE_END.finditer(shown, 0, limit)]
    cut = ends[-1] if ends else max(shown.rfind(" ", 0, limit), 0) or limit
    return f"{shown[:cut].rstrip()} [... {len(shown) - cut} characters left out]"


def join_findings(findings: Iterable[str]) -> str:
    """Join findings into one text, each as a separate sentence."""
    return " ".join(one if one.rstrip().endswith((".", "!", "?")) else f"{one.rstrip()}." for one in findings)


def cut_field(text: str, field: str) -> str:
    """Return the text of a field on one line, whole unless it far exceeds the requested length."""
    return cut_sentences(text, round(FIELD_LEEWAY * FIELD_LENGTHS[field]))


def fence(text: str, limit: int | None = None, language: str = "") -> str:
    """Return the text as a fenced block, cut in the middle if there is a limit; its fence is longer than any fence
    in the text.
    """
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    ticks = "`" * (longest + 1)
    body = text.rstrip()
    return f"{ticks}{language}\n{body if limit is None else cut_middle(body, limit)}\n{ticks}"


def format_files(texts: Mapping[str, str]) -> str:
    """Format every file of a program as a fenced block under its path: code whole, other files cut in the middle."""
    code = {path: path.endswith(".py") for path in texts}
    blocks = [
        f"{path}:\n{fence(text, None if code[path] else MAX_OTHER_FILE_CHARACTERS, 'python' * code[path])}"
        for path, text in texts.items()
    ]
    return "\n\n".join(blocks)


# --- lists ----------------------------------------------------------------------------------------------------------


def format_number(value: float | None) -> str:
    """Format a number with six digits, or 'unknown'."""
    return "unknown" if value is None else f"{value:.6g}"


def cap_lines(lines: Sequence[str], limit: int, what: str = "lines") -> str:
    """Return the first lines, and the number of further ones; '- none' if there are no lines."""
    left = [f"[... {len(lines) - limit} more {what} left out ...]"] if len(lines) > limit else []
    return "\n".join([*lines[:limit], *left]) or "- none"


def list_conditions(plan: DataPlan, ablations: bool) -> tuple[str, ...]:
    """Return the plan's conditions measured only by ablation nodes, or those measured by every experiment."""
    main = list_main_arms(plan)
    return tuple(condition for condition in plan.conditions if (parse_arm(condition) in main) != ablations)


def format_effect(spec: Effect, plan: DataPlan) -> str:
    """Describe an effect and its smallest size of interest."""
    metric = plan.name_metric(spec.metric or plan.primary_metric.name)
    margin = "" if spec.limit == spec.smallest else f"; smallest effect of interest {spec.smallest:g}"
    return (
        f"{describe_estimand(spec.estimand, plan)}, in {metric}, is {spec.claim_text} "
        f"(`{flatten(spec.estimand)}`{margin})"
    )


def format_effects(measurements: Iterable[Measurement], plan: DataPlan) -> str:
    """List a plan's effects in the validation values of one run, if measured, one line each."""
    values = {
        (one.dataset, one.condition, one.name): one.value
        for one in measurements
        if one.split == "validation" and one.step is None
    }
    lines: list[str] = []
    for one in plan.hypotheses:
        for each in one.effects:
            with suppress(MissingCell, EstimandError):
                value = compute_effect_value(plan, each, ReplicateValues(0, "", values))
                lines.append(
                    f"- `{one.id}`: {describe_estimand(each.estimand, plan)}: {format_number(value)} "
                    f"(smallest effect of interest {each.smallest:g})"
                )
    return "\n".join(lines)


def format_effect_result(part: EffectDecision, plan: DataPlan) -> str:
    """Describe an effect over replicates."""
    if part.mean is None or part.low is None:
        return f"{describe_estimand(part.effect.estimand, plan)}: {part.why or 'unknown'}"
    return (
        f"{describe_estimand(part.effect.estimand, plan)}: {format_number(part.mean)} "
        f"[{format_number(part.low)}, {format_number(part.high)}], n = {len(part.values)}: {describe_outcome(part)}"
    )


def format_measurements(
    measurements: Iterable[Measurement],
    limit: int = 120,
    plan: DataPlan | None = None,
    before: Iterable[Measurement] = (),
) -> str:
    """Format one line per (dataset, condition, split): every value by name, in the order of recording.

    With a plan, scores of metrics that it does not name are left out, since a submission is scored by all applicable
    metrics. Values of several runs are listed by name. With `before`, each value has its previous value and the
    difference; rows measured only before follow.
    """
    shown, old = _group_by_row(measurements, plan), _group_by_row(before, plan)
    lines = [_format_row(row, values, old.get(row, ())) for row, values in shown.items()]
    lines += [f"{_format_row(row, values)} (parent only)" for row, values in old.items() if row not in shown]
    return cap_lines(lines, limit)


def _group_by_row(measurements: Iterable[Measurement], plan: DataPlan | None) -> dict[str, list[Measurement]]:
    named = {metric.name for metric in plan.metrics} if plan else set[str]()
    rows: dict[str, list[Measurement]] = {}
    for m in measurements:
        if not named or m.name in named or m.grade not in ("scored", "computed"):
            rows.setdefault(f"{m.dataset}, {m.condition}, {m.split}", []).append(m)
    return rows


def _format_row(row: str, values: Sequence[Measurement], before: Sequence[Measurement] = ()) -> str:
    runs = {name: [m for m in values if m.name == name] for name in dict.fromkeys(m.name for m in values)}
    if any(len(of) > 1 for of in runs.values()):
        return f"- {row}: " + "; ".join(
            f"{name} {', '.join(format_number(m.value) for m in of)}{' (self-reported)' * (of[0].grade == 'logged')}"
            for name, of in runs.items()
        )
    now, then = ({(m.name, m.value, m.grade == "logged") for m in some} for some in (values, before))
    known = {m.name: m.value for m in before} if now != then else {}
    shown: list[str] = []
    for m in values:
        old = known.get(m.name)
        change = (
            ""
            if old is None
            else " (unchanged)"
            if old == m.value
            else (f" (before {format_number(old)}, {m.value - old:+.4g})")
        )
        shown.append(f"{m.name} {format_number(m.value)}{' (self-reported)' * (m.grade == 'logged')}{change}")
    return f"- {row}: {', '.join(shown)}{' (unchanged)' * (now == then)}"


# --- claims ---------------------------------------------------------------------------------------------------------


def format_claims(lines: Sequence[ClaimLine]) -> str:
    """List means, one line per arm: its key, its subject, and the text printed by each form at each level. `.mean` is
    left out if `.pm` is present, since `.pm` begins with the mean.
    """
    arms: dict[tuple[str, ...], list[tuple[ClaimKey, ClaimLine]]] = {}
    for line in lines:
        if (key := ClaimKey.parse_key(line.key)) is not None:
            arms.setdefault((*key[:3], parse_arm(key.condition)), []).append((key, line))
    return "\n".join(_format_arm_claims("/".join(stem), found) for stem, found in arms.items())


def _format_arm_claims(stem: str, found: Sequence[tuple[ClaimKey, ClaimLine]]) -> str:
    by_form: dict[str, list[str]] = {}
    for key, line in found:
        level = parse_level(key.condition)
        by_form.setdefault(key.form, []).append(f"{level} {to_plain_text(line.printed)}".strip())
    if "pm" in by_form:
        by_form.pop("mean", None)
    leveled = any(parse_level(key.condition) for key, _ in found)
    forms = "; ".join(f"`.{form}` {', '.join(texts)}" for form, texts in by_form.items())
    return f"- `{stem}{'@LEVEL' * leveled}`: {cut_line(found[0][1].meaning, 140)}; {forms}"


def format_estimate(line: EstimateLine) -> str:
    """Format an estimate: its key, what is estimated, what its forms print, and what the record supports. Of a share,
    only the forms in per cent or points are listed."""
    shares = {form: text for form, text in line.forms.items() if form.startswith(("percent", "points"))}
    shown = shares or {form: text for form, text in line.forms.items() if form in ("mean", "ci")}
    if line.forms.get("confidence", "95") != "95":
        shown["confidence"] = line.forms["confidence"]
    forms = ", ".join(f"`.{form}` {text}" for form, text in shown.items())
    return "; ".join(filter(None, (f"`{line.key}`: {flatten(line.subject)}", forms, flatten(line.note))))


def format_setups(lines: Sequence[ClaimLine]) -> str:
    """List settings, one line per group of keys. Names that a text may type, counts of the search, and values of levels
    whose titles have them are left out."""
    titled = {
        line.key.removesuffix(".title")
        for line in lines
        if re.fullmatch(r"level\..*\.title", line.key) and re.search(r"\d", line.printed)
    }
    groups: dict[str, list[str]] = {}
    for line in lines:
        stem, _, name = line.key.rpartition(".")
        typed = name == "title" and not stem.startswith(("data.", "level."))
        if line.key == "run.seeds" or not (typed or stem == "run" or line.key in titled):
            note = ' (add "besides the defaults")' * (name == "trials" and stem.startswith("tuned."))
            groups.setdefault(stem, []).append(f"`.{name}` {cut_line(line.printed, 100)}{note}")
    return "\n".join(f"- `{stem}`: {', '.join(found)}" for stem, found in groups.items())


def format_other_claims(lines: Sequence[Sequence[ClaimLine | EstimateLine]], primary: str = "") -> str:
    """List further claims, one line per split and arm (or pair): metrics as M, datasets as D, levels as L. Differences
    in the primary metric follow with interval and n."""
    found: dict[tuple[str, str], tuple[dict[str, None], dict[str, None], dict[str, None]]] = {}
    values: dict[tuple[str, str], list[str]] = {}
    for line in (one for group in lines for one in group):
        key = ClaimKey.parse_key(line.key)
        if key is None or line.listed:
            continue
        level = parse_level(key.condition)
        sides = [f"{parse_arm(one)}@L" if level else one for one in (key.condition, key.other) if one]
        metrics, datasets, levels = found.setdefault((key.split, "~".join(sides)), ({}, {}, {}))
        metrics[key.metric] = datasets[key.dataset] = levels[level] = None
        if isinstance(line, EstimateLine) and key.metric == primary:
            form = "points" if "points" in line.forms else "mean"
            interval = line.forms.get("points_ci" if form == "points" else "ci", "no interval")
            values.setdefault((key.split, "~".join(sides)), []).append(
                f"{' '.join(filter(None, (key.dataset, level)))} `.{form}` {line.forms.get(form, 'n/a')} "
                f"({interval}; n {line.forms.get('n', '?')})"
            )
    return "\n".join(
        f"- `{split}/D/M/{sides}`: D of {', '.join(datasets)}; M of {', '.join(metrics)}"
        + (f"; L of {', '.join(levels)}" if any(levels) else "")
        + "".join(f"; {text}" for text in values.get((split, sides), ()))
        for (split, sides), (metrics, datasets, levels) in found.items()
    )


# --- arrays ---------------------------------------------------------------------------------------------------------


def format_arrays(briefs: Sequence[ArrayBrief], limit: int = 80) -> str:
    """Format one line per array name, for all folders and all cells of a dataset that have it: shape, type, range.

    Folders and cells with the same names are listed once, above.
    """
    names: dict[str, dict[str, ArrayBrief]] = {}
    for one in briefs:
        folder, _, name = one.path.rpartition("/")
        names.setdefault(name, {})[folder] = one
    folders = list(dict.fromkeys(folder for by_folder in names.values() for folder in by_folder))
    heads = (
        []
        if len(folders) < 2
        else [f"In each of {', '.join(f'`{folder}/`' for folder in folders)}, where no other folders are named:"]
    )
    prefix = f"{folders[0]}/" if len(folders) == 1 and folders[0] else ""
    lines, before = list[str](), ""
    for own in _group_cell_arrays(names):
        group = [one for name in own for one in names[name].values()]
        absent = [f"`{folder}/`" for folder in folders if folder not in names[own[0]]]
        label = f"`{prefix}{own[0]}`"
        if len(own) > 1:
            array, dataset, _ = own[0].split("__", 2)
            cells = ", ".join(name.removesuffix(".npy").split("__", 2)[2] for name in own)
            label = f"`{prefix}{array}__{dataset}__*.npy` for {'the same *' if cells == before else f'* = {cells}'}:"
            before = cells
        lines.append(_format_array(label, group) + (f"; not in {', '.join(absent)}" if absent else ""))
    return "\n".join([*heads, cap_lines(lines, limit, "names" if heads else "arrays")])


def _group_cell_arrays(names: Mapping[str, Mapping[str, ArrayBrief]]) -> list[list[str]]:
    """Group names in order of first appearance; cells of one dataset form one group if there are at least three
    `name__dataset__rest` with arrays of one shape and type in the same folders.
    """
    found: dict[tuple[object, ...], list[str]] = {}
    for name, by_folder in names.items():
        parts = name.removesuffix(".npy").split("__", 2)
        looks = {(one.shape, one.dtype, len(one.ranges)) for one in by_folder.values()}
        alike = len(parts) == 3 and len(looks) == 1
        found.setdefault((*parts[:2], *by_folder, *looks) if alike else (name,), []).append(name)
    return [part for own in found.values() for part in ([own] if len(own) > 2 else [[name] for name in own])]


def _format_array(label: str, of: Sequence[ArrayBrief]) -> str:
    """Return shapes, types and the joint range of several arrays, or of each column."""
    shapes = " or ".join(dict.fromkeys(f"({', '.join(map(str, one.shape))})" for one in of))
    types = " or ".join(dict.fromkeys(one.dtype for one in of))
    columns = max(len(one.ranges) for one in of)
    ranges = [_format_range([one.ranges[k] for one in of if len(one.ranges) == columns]) for k in range(columns)]
    shown = "".join(f", {f'column {k}: ' * (columns > 1)}{text}" for k, text in enumerate(ranges))
    missing = sum(one.missing for one in of)
    return f"- {label} {shapes} {types}{shown}" + (f", {missing} not finite" if missing else "")


def _format_range(of: Sequence[Range]) -> str:
    low, high = format_number(min(one.low for one in of)), format_number(max(one.high for one in of))
    means = list(dict.fromkeys(format_number(mean) for mean in sorted(one.mean for one in of)))
    return f"{low} to {high}, mean {means[0]}" + (f" to {means[-1]}" if len(means) > 1 else "")


# --- what was drawn -------------------------------------------------------------------------------------------------


def format_drawn_data(axes: AxesFacts, limit: int = 40) -> str:
    """Format one line for each item that an axes draws from data; similar single-point series share one line."""
    points: dict[tuple[str, str, str], list[DrawnFacts]] = {}
    lines: list[str] = []
    for one in axes.drawn:
        if one.low is None:
            continue
        if one.points == 1:
            points.setdefault((one.kind, one.label, one.marker), []).append(one)
        else:
            lines.append(
                f"{_format_drawn_item(one)}: {one.points} values from {format_number(one.low)} to "
                f"{format_number(one.high)}, mean "
                f"{format_number(one.mean)}, first {format_number(one.first)}, last {format_number(one.last)}"
                + (", with intervals" if one.interval else "")
            )
    for of in points.values():
        lows = [one.low for one in of if one.low is not None]
        what = (
            f"{len(of)} single points from {format_number(min(lows))} to {format_number(max(lows))}"
            if len(of) > 1
            else f"one point at {format_number(lows[0])}"
        )
        lines.append(f"{_format_drawn_item(of[0])}: {what}")
    return cap_lines(lines, limit, "series") if lines else ""


def _format_drawn_item(one: DrawnFacts) -> str:
    return f"- {one.kind}" + (f' "{cut_line(one.label, 60)}"' if one.label else "")


# Show a program as a diff against one that the reader may assume to be sound; used to judge the child of a sound
# parent. A mostly new file is shown whole.

CONTEXT_LINES = 15
"""Unchanged lines that are shown around a changed one."""
MAX_CHANGED_SHARE = 0.6
"""Length of the diff, as a share of that of the file, above which the file is shown whole."""


def format_changes(code: Mapping[str, str], before: Mapping[str, str]) -> str:
    """Format the files of a program under their paths: name unchanged files, show the changed lines of the others."""
    shown = [_format_file(path, text, before.get(path)) for path, text in code.items()]
    return "\n\n".join([*shown, *(f"{path}: removed" for path in before if path not in code)])


def _format_file(path: str, text: str, old: str | None) -> str:
    if text == old:
        return f"{path}: unchanged, {len(text.splitlines())} lines"
    if old is not None and path.endswith(".py"):
        lines = difflib.unified_diff(old.splitlines(), text.splitlines(), n=CONTEXT_LINES, lineterm="")
        changes = "\n".join([*lines][2:])  # without the names of the files
        if len(changes) < MAX_CHANGED_SHARE * len(text):
            return f"{path}, changed lines marked by + and -:\n{fence(changes, language='diff')}"
    return format_files({path: text})
