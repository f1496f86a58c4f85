"""The appendix's table of paired differences: both intervals, the corrected p, what could have been seen, the verdict.

The appendix of a paper, generated from the record: everything that ran, whether or not it helped.

All text of the record is escaped, all its numbers stand in `\rec{}`; no model has a hand in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from statistics import fmean
from typing import cast

from record.claims import FAMILIES, LEVEL, MINIMUM_REPLICATES, POWER, Claim, Difference, Family
from record.fold.state import RunState
from record.nouns.data import DatasetFacts, Grade, MetricSpec, arm_of
from record.nouns.nodes import STAGES, Node
from stages.paper.incidents import incidents, short
from stages.paper.latex import longtable, recorded
from stages.paper.provenance import origin
from stages.paper.tables import CONSTANT

WHICH: dict[Family, str] = {
    "confirmatory": "Confirmatory: the primary metric, method against baseline",
    "exploratory": "Exploratory: other metrics, and ablations",
}
_VERDICTS = {"no measurable difference": "none seen"}


def comparisons(found: Sequence[Difference]) -> str:
    """The table of all differences that the paper may print, by family and dataset; empty where there are none."""
    if not found:
        return ""
    examples = any(one.over_examples is not None for one in found)
    columns = f"@{{}}L{{0.55in}}L{{1.1in}}ll{'l' * examples}llrl@{{}}"
    head = (r"Metric & Comparison & Difference & Over seeds &" + " Over examples &" * examples
            + r" $p$ & MDE & $n$ & Verdict")
    table = longtable(columns, head, list(_rows(found, examples=examples)), _caption(examples=examples), "comparisons")
    return "\n\n".join([table, *_missing(found)])


def _rows(found: Sequence[Difference], *, examples: bool) -> Iterator[str]:
    for family in FAMILIES:
        chosen = [one for one in found if one.family == family]
        for dataset in dict.fromkeys(one.dataset for one in chosen):
            here = [one for one in chosen if one.dataset == dataset]
            size = f"{here[0].compared} comparison{'s' * (here[0].compared != 1)} in all"
            yield (rf"\multicolumn{{{8 + examples}}}{{@{{}}l}}{{\textit{{{WHICH[family]} ({recorded(size)}); "
                   rf"{recorded(dataset)}}}}} \\*")
            yield from (_row(one, examples=examples) for one in here)


def _row(one: Difference, *, examples: bool) -> str:
    forms = ["mean", "ci", *["ci_examples"] * examples, "p_adjusted", "mde", "n"]
    return " & ".join([
        recorded(one.name.replace("_", " ")), recorded(f"{one.condition} minus {one.other}"),
        *(rf"\result{{{one.key}.{form}}}" for form in forms), _VERDICTS.get(one.called, one.called)]) + r" \\"


def _caption(*, examples: bool) -> str:
    over = (f"Over examples: {recorded('95%')} interval of a paired bootstrap over test examples, the replicates being "
            "as they are; what other test examples would change. ") if examples else ""
    both = " and an interval over examples that excludes zero" if examples else ""
    return (
        f"Paired differences over seeds. Over seeds: {recorded('95%')} Student $t$ interval of the mean; what training "
        f"again would change. {over}Intervals are not corrected for several comparisons; $p$ is of the paired $t$ test "
        "and corrected within its family (Holm). MDE: the smallest true difference that would have been found with a "
        f"power of {recorded(f'{POWER:.0%}')} at the family's strictest level, with this deviation and $n$. Verdict: "
        "of the first condition, on the second. It needs at least "
        f"{recorded(MINIMUM_REPLICATES)} pairs that are not all the same, a corrected $p$ of at most "
        f"{recorded(f'{LEVEL:.0%}')}{both}.")


def _missing(found: Sequence[Difference]) -> Iterator[str]:
    """Why there is no interval over examples, a paragraph each reason."""
    reasons = dict.fromkeys(over.reason for one in found if (over := one.over_examples) is not None and over.reason)
    for reason in reasons:
        of = dict.fromkeys(f"{one.name.replace('_', ' ')} on {one.dataset}" for one in found
                           if one.over_examples is not None and one.over_examples.reason == reason)
        yield recorded(f"No interval over examples for {', '.join(of)}: {reason}.")


GRADES: dict[Grade, str] = {
    "scored": "computed by the program from submitted predictions, on labels that the code could not see",
    "evaluated": "computed in a second kernel by a scorer that was frozen before the search",
    "computed": "computed by the program from submitted predictions, but isolation was off: the labels were within the "
                "reach of the experiment's code",
    "logged": "said by the experiment's code, not recomputed",
}


ISOLATED = "The experiment's code ran in a namespace of its own, without the labels that it was scored on."
EXPOSED = (
    "Isolation was off: the experiment's code was not given the labels of the validation and test sets, and what loads "
    "them was replaced, which stops mistakes, not intent; it could read the machine's files and reach its network.")


def appendix(state: RunState, claims: Sequence[Claim], *, isolation: str = "", figures: Sequence[str] = ()) -> str:
    """The appendix as TeX. `isolation` says what kept the code from the labels; by default, what the grades imply.

    `figures` are the names of those that do not stand in the main text.
    """
    held = bool(claims) and all(one.grade in ("scored", "evaluated") for one in claims)
    isolation = isolation or (ISOLATED if held else EXPOSED)
    found = [one for one in claims if isinstance(one, Difference)]
    means = [one for one in claims if not isinstance(one, Difference)]
    began = origin(state)
    parts = [r"\recordappendix", *_further(figures), *([_section("Where the run began"), began] if began else []),
             _section("How the numbers were made"), _grades(claims, isolation),
             _section("Every node of the search"), _nodes(state), incidents(state),
             _section("Every measurement that the paper may cite"), _claims(means),
             *([_section("Every comparison"), comparisons(found)] if found else []),
             _section("Data"), _data(state), _section("Settings"), _settings(state), _section("Cost"), _cost(state)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _further(figures: Sequence[str]) -> list[str]:
    """Its heading comes before its figures: on this page none is set at the top."""
    places = "\n\n".join(rf"\paperfigure{{{name}}}" for name in figures)
    named = ", ".join(rf"Figure~\ref{{fig:{name}}}" for name in figures)
    return [_section("Further figures"), rf"\suppressfloats[t]What the main text has no room for: {named}.", places
            ] if figures else []


def _section(title: str) -> str:
    return rf"\section{{{title}}}"


# --- how ------------------------------------------------------------------------------------------------------------


def _grades(claims: Sequence[Claim], isolation: str) -> str:
    used = {claim.grade for claim in claims}
    items = "\n".join(rf"\item[{grade}] {meaning}." for grade, meaning in GRADES.items() if grade in used)
    listed = f"\\begin{{description}}\n{items}\n\\end{{description}}" if items else "No claim has been measured."
    return (
        "This appendix was generated by the program from the run's event log. Search and tuning saw validation scores "
        "only; test predictions were sealed with each attempt and scored once, after the last stage. A value over "
        "replicates leaves out the seed that the search looked at. Each value has a grade that says who computed "
        "it:\n\n"
        f"{listed}\n\n{recorded(isolation)}")


# --- nodes ----------------------------------------------------------------------------------------------------------

_NODE_COLUMNS = r"@{}lllL{0.44in}lL{1.62in}rrrL{0.62in}@{}"
_NODE_HEAD = r"Node & Parent & Kind & Status & Seed & What it varies & Score & Att. & Time & Error"


def _nodes(state: RunState) -> str:
    if not state.nodes or state.data_plan is None:
        return "No experiment was run."
    metric = state.data_plan.primary
    groups: list[str] = []
    for stage in STAGES:
        if nodes := state.stage_nodes(stage):
            groups.append(rf"\multicolumn{{10}}{{@{{}}l}}{{\textit{{Stage: {stage}}}}} \\*")
            groups += [_node(node, metric, state) for node in nodes]
    caption = (
        f"All {recorded(len(state.nodes))} nodes. Score: {recorded(metric.title or metric.name.replace('_', ' '))} on "
        "validation data, mean over the method's conditions (over all of the node's conditions where it measured no "
        "method). Att.: executions. Time: seconds of code over all attempts.")
    return longtable(_NODE_COLUMNS, _NODE_HEAD, groups, caption, "nodes")


def _node(node: Node, metric: MetricSpec, state: RunState) -> str:
    status = f"{node.status}, suspect" if node.suspect else node.status
    cells = [node.id, node.parent or "--", node.kind, status, node.seed, node.varies or node.title or "--",
             _score(node, metric, state), len(node.attempts), f"{sum(one.seconds for one in node.attempts):.1f}",
             node.failure.kind if node.failure else "--"]
    return " & ".join(recorded(cell) for cell in cells) + r" \\"


def _score(node: Node, metric: MetricSpec, state: RunState) -> str:
    assert state.data_plan is not None
    methods = {arm.name for arm in state.data_plan.arms if arm.role == "method"}
    values = [one for one in node.measurements if one.name == metric.name and one.split == "validation"]
    chosen = [one.value for one in values if arm_of(one.condition) in methods] or [one.value for one in values]
    return f"{fmean(chosen):#.4g}".rstrip(".") if chosen else "--"


# --- measurements ---------------------------------------------------------------------------------------------------


def _claims(claims: Sequence[Claim]) -> str:
    if not claims:
        return "No value was measured over replicates."
    rows = [" & ".join([*(recorded(cell) for cell in (one.dataset, one.name.replace("_", " "), one.condition)),
                        one.split, rf"\result{{{one.key}.pm}}", rf"\result{{{one.key}.ci}}", rf"\result{{{one.key}.n}}",
                        recorded(one.grade)]) + r" \\" for one in claims]
    same = f" {CONSTANT}" if any(one.constant for one in claims) else ""
    table = longtable(
        r"@{}L{0.55in}L{0.72in}L{1.35in}lllrl@{}",
        r"Dataset & Metric & Condition & Split & Mean $\pm$ sd & Interval & $n$ & Grade", rows,
        f"Mean $\\pm$ standard deviation over replicates and the {recorded('95%')} Student $t$ interval: what training "
        f"again would change, on the same test examples.{same}",
        "claims")
    seeds = [" & ".join(recorded(cell) for cell in (
        one.dataset, one.name.replace("_", " "), one.condition, _pairs(one))) + r" \\" for one in claims]
    return table + "\n\n" + longtable(
        r"@{}L{0.55in}L{0.72in}L{1.2in}L{2.8in}@{}", "Dataset & Metric & Condition & Value by seed", seeds,
        "The replicates behind each mean, as seed: value. Paired differences follow from them.", "replicates")


def _pairs(claim: Claim) -> str:
    return ", ".join(f"{seed}: {value:.4g}" for seed, value in zip(claim.seeds, claim.values, strict=True))


# --- data, settings, cost -------------------------------------------------------------------------------------------


def _data(state: RunState) -> str:
    rows = [" & ".join(recorded(cell) for cell in (
        one.title or one.name, one.source, one.features, one.classes,
        *(one.sizes.get(split, 0) for split in ("train", "dev", "validation", "test")), one.duplicates,
        one.fingerprint[:12])) + r" \\" for one in state.datasets]
    if not rows:
        return "No dataset was used."
    head = "Name & Source & Features & Classes & Train & Dev & Val. & Test & Dupl. & Fingerprint"
    table = longtable(
        r"@{}L{0.85in}L{1.05in}rrrrrrrl@{}", head, rows,
        "Datasets. Dupl.: validation and test examples that also stand in train. Fingerprint: the first digits of the "
        "SHA of all splits.", "data")
    return "\n\n".join([table, *(_about(one) for one in state.datasets if one.split_rule), *_scorers(state)])


def _scorers(state: RunState) -> list[str]:
    """The user's own scorers, a paragraph each."""
    return [recorded(
        f"Scorer of {one.dataset}: brought by the user, frozen before the search (SHA {one.sha256[:12]}); it computes "
        f"{', '.join(metric.name for metric in one.metrics)} from "
        f"{'what the code handed in to be evaluated' if one.takes == 'artifact' else 'submitted predictions'}. "
        f"{one.asks}".strip()) for one in state.scorers]


def _about(one: DatasetFacts) -> str:
    """How a dataset was cut and what must be known of it, as a paragraph."""
    said = [f"splits: {one.split_rule}", *([f"target: {one.target}"] if one.target else []), *one.warnings]
    if one.missing:
        gaps = ", ".join(f"{name} ({rows} rows)" for name, rows in list(one.missing.items())[:6])
        more = f" and {len(one.missing) - 6} more columns" if len(one.missing) > 6 else ""
        said.append(f"values are missing in {gaps}{more}: numbers are train's median there and marked in a column of "
                    "their own, texts a category of their own")
    return recorded(f"{one.title or one.name}. {'; '.join(said)}.")


def _settings(state: RunState) -> str:
    if state.started is None:
        return "No settings were recorded."
    flat = dict(_flat({name: value for name, value in state.started.settings.items() if name != "data"}))  # told above
    flat.pop("sandbox.scorers", None)
    given = [f"{recorded(name)} & {recorded(short(str(value), 160))}"
             for name, value in sorted(flat.items()) if value != "--"]
    first = (f"Model: {recorded(state.started.model)}. Program version: {recorded(state.started.version)}. "
             f"Seed of the run: {recorded(state.started.seed)}.")
    if not given:
        return first
    half = (len(given) + 1) // 2
    rows = [rf"{left} & {right} \\" for left, right in zip_longest(given[:half], given[half:], fillvalue=" & ")]
    unset = ", ".join(recorded(name) for name, value in sorted(flat.items()) if value == "--")
    table = longtable(
        r"@{}L{1.45in}L{1.15in}L{1.45in}L{1.15in}@{}", "Setting & Value & Setting & Value", rows,
        "Settings of the run; of paths the last part.", "settings")
    return f"{first}\n\n{table}" + (
        f"\n\n{{\\scriptsize\\raggedright Without a value: {unset}.\\par}}" if unset else "")

def _flat(value: object, prefix: str = "") -> Iterable[tuple[str, object]]:
    if isinstance(value, dict):
        for name, inner in cast(dict[str, object], value).items():
            yield from _flat(inner, f"{prefix}.{name}" if prefix else name)
    else:
        yield prefix, "--" if value is None or value == "" else value


def _cost(state: RunState) -> str:
    usage = sorted((role, one) for role, one in state.usage.items() if role != "judge")  # it comes after the paper
    rows = [" & ".join(recorded(cell) for cell in (
        role, one.calls, one.input_tokens, one.output_tokens, _usd(one.usd, one.unpriced, one.calls),
        f"{one.seconds:.0f}")) + r" \\" for role, one in usage]
    code = f"Experiment code ran for {recorded(f'{state.seconds_of_code:.0f}')} seconds in all."
    if not rows:
        return f"No model call was recorded. {code}"
    total = state.usage_without("judge")
    cached = f" Of the input tokens, {recorded(total.cached_tokens)} came out of the providers' caches." * (
        total.cached_tokens > 0)
    rows.append(r"\midrule " + " & ".join(recorded(cell) for cell in (
        "total", total.calls, total.input_tokens, total.output_tokens, _usd(total.usd, total.unpriced, total.calls),
        f"{total.seconds:.0f}")) + r" \\")
    return code + cached + "\n\n" + longtable(
        "@{}lrrrrr@{}", "Role & Calls & Input tokens & Output tokens & US dollars & Seconds", rows,
        "Model calls by role, up to the writing of this paper.", "cost")


def _usd(usd: float, unpriced: int, calls: int) -> str:
    if unpriced == calls:
        return "unknown"
    return f"{usd:.2f}" + (f" and {unpriced} calls of unknown price" if unpriced else "")
