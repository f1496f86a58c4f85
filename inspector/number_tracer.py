"""Trace a printed number to its origins in the record and the paper's sources.

A number is matched as printed: `0.021` matches `-0.021 ± 0.003` but not `0.0214`. Numbers drawn in figures are not
found.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from labwright.inspector.provenance import (
    NumberOrigin,
    NumberTrace,
    SourceLocation,
    TraceCandidate,
    build_origins,
    find_assignments,
    find_code_lines,
    find_submitting_lines,
)
from labwright.inspector.run_files import MAX_FILE_BYTES, read_bytes
from labwright.record.claims.differences import ClaimDifference, compute_differences
from labwright.record.claims.estimates import Claim, compute_paper_claims, find_added_replicates, find_winner
from labwright.record.claims.formatting import format_claims, format_decisions, format_setups
from labwright.record.claims.hypothesis_tests import decide_hypotheses, find_deciding_nodes
from labwright.record.claims.part_effects import format_report_claims, list_measured_claims, list_report_claims
from labwright.record.claims.question_results import find_question_results
from labwright.record.claims.requested_estimates import add_measured_arms, compute_requested_estimates, list_requests
from labwright.record.claims.sentences import list_effect_datasets
from labwright.record.estimands import find_effect_metric, list_cells_read
from labwright.record.reducers.run_state import RunState
from labwright.record.reference_baselines import compute_reference_claims
from labwright.record.result_macros import (
    MACRO_USE_PATTERN,
    PrintedValue,
    format_key,
    parse_results,
    strip_form,
    to_plain_text,
)
from labwright.record.run_folder import RunFolder
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.hypotheses import EffectDecision

# Convert a paper's TeX to text whose values keep their keys, to locate them on pages and in source lines. Limits:
# this is not a faithful rendering; for that, see the PDF.

SOURCE_FILES = ("paper.tex", "floats.tex", "appendix.tex")
_RULE = re.compile(
    r"\\(?:toprule|midrule|bottomrule|addlinespace|endhead|endfirsthead|endfoot|endlastfoot|label|"
    r"begin|end|small|scriptsize|footnotesize|centering|noindent|maketitle|cmidrule)\b"
    r"(?:\([^)]*\))?(?:\[[^\]]*\])?(?:\{[^{}]*\})*\*?"
)
_CITE = re.compile(r"\\cite[pt]?\*?(?:\[[^\]]*\])*\{([^{}]*)\}")
_WRAPPED = re.compile(r"\\(?:emph|text[a-z]+|rec|mathbf|url|enquote|ensuremath)\{([^{}]*)\}")
_SPANNED = re.compile(r"\\multicolumn\{\d+\}\{(?:[^{}]|\{[^{}]*\})*\}\{((?:[^{}]|\{[^{}]*\})*)\}")
_SYMBOLS = {"pm": "±", "times": "×", "log": "log", "exp": "exp"} | {
    name: name for name in "alpha beta gamma delta epsilon eta theta lambda mu sigma tau".split()
}
"""Plain-text replacements of commands in running text."""
_RECORDED = re.compile(r"\\rec\{((?:[^{}]|\{\})*)\}")
_MAX_NESTING = 4
"""Maximum nesting of braces that is removed."""


class TextBit(NamedTuple):
    """A piece of text; with a `key`, a printed value."""

    text: str
    key: str = ""


TextBits = tuple[TextBit, ...]


def read_values(results: str) -> dict[str, str]:
    """Parse a `results.tex` into key -> printed text."""
    return {use.key: to_plain_text(text) for use, text in parse_results(results).items()}


def split_text(text: str, values: Mapping[str, str]) -> TextBits:
    """Split TeX into text and printed values, in order."""
    found: list[TextBit] = []
    at = 0
    for _ in range(_MAX_NESTING):  # remove commands around words, since a value may be inside one
        shielded = MACRO_USE_PATTERN.sub(lambda use: f"\x01{use[0][1:-1].replace('{', chr(2))}\x03", text)
        opened = _SPANNED.sub(r"\1", _WRAPPED.sub(r"\1", _CITE.sub(r"[\1]", shielded)))
        text = opened.replace("\x01", "\\").replace("\x02", "{").replace("\x03", "}")
    for use in MACRO_USE_PATTERN.finditer(text):
        found.append(TextBit(_to_plain_text(text[at : use.start()])))
        found.append(TextBit(values.get(use["key"], use["key"]), use["key"]))
        at = use.end()
    found.append(TextBit(_to_plain_text(text[at:])))
    return tuple(bit for bit in found if bit.text)


def _to_plain_text(text: str) -> str:
    text = _RULE.sub(" ", text.replace("~", " ").replace("---", "—").replace("--", "–"))
    text = text.replace("``", "“").replace("''", "”").replace(r"\\", " ").replace("$", "")
    text = re.sub(r"\\([%&#_{}$])", r"\1", text)
    text = re.sub(r"\\ref\{([^{}:]*:)?([^{}]*)\}", r"“\2”", text)
    text = re.sub(r"\\[,;! ]|\\allowbreak\{\}", " ", text)
    text = re.sub(r"\\([a-zA-Z]+)\*?|[{}]", lambda command: _SYMBOLS.get(command[1] or "", ""), text)
    return re.sub(r"\s+", " ", text)


# --- lines of the sources -------------------------------------------------------------------------------------------


class PaperSources:
    """Maps printed values to lines of a paper's sources, read on first access. `printed` maps key -> printed text.

    `files` are read instead of the paper's, relative to the folder of the run.
    """

    def __init__(self, folder: RunFolder, printed: Mapping[str, str], files: Sequence[str] = ()) -> None:
        self._folder, self._printed = folder, printed
        place = folder.paper_folder.relative_to(folder.root)
        self._files = tuple(files) or tuple(f"{place}/{name}" for name in SOURCE_FILES)

    @cached_property
    def uses(self) -> dict[str, tuple[SourceLocation, ...]]:
        """Key -> locations where the paper prints it."""
        found = defaultdict[str, list[SourceLocation]](list)
        for file, number, line in self._lines:
            for key, text in self._find_uses(line):
                found[key].append(SourceLocation(file=file, line=number, text=text))
        return {key: tuple(places) for key, places in found.items()}

    def _find_uses(self, line: str) -> Iterator[tuple[str, str]]:
        """Yield each key that a line prints, once, and the text around it."""
        bits = split_text(line.replace(r"\allowbreak{}", ""), self._printed) if MACRO_USE_PATTERN.search(line) else ()
        for at, bit in enumerate(bits):
            if bit.key and bit.key not in {one.key for one in bits[:at]}:
                before, after = ("".join(one.text for one in part) for part in (bits[:at], bits[at:]))
                start = before.rfind(" ", 0, max(0, len(before) - 60)) + 1
                yield bit.key, ("... " if start else "") + _shorten((before[start:] + after).strip())

    def find_recorded(self, number: str, start: str = "") -> Iterator[SourceLocation]:
        """Yield lines that start with a text and have the number in recorded text (`\\rec`) that has no key."""
        for file, line_number, line in self._lines:
            if any(number == self._to_text(one).strip(".,;:()[]") for one in _RECORDED.findall(line)):
                text = self._to_text(line)
                if text.startswith(start):
                    yield SourceLocation(file=file, line=line_number, text=_shorten(text))

    def find_lines(self, number: str, start: str) -> Iterator[SourceLocation]:
        """Yield the lines of plain text that start with a text and have the number."""
        for file, line_number, line in self._lines:
            if line.startswith(start) and _is_in_text(number, line):
                yield SourceLocation(file=file, line=line_number, text=_shorten(line))

    def _to_text(self, line: str) -> str:
        return "".join(bit.text for bit in split_text(line.replace(r"\allowbreak{}", ""), self._printed)).strip()

    @cached_property
    def _lines(self) -> tuple[tuple[str, int, str], ...]:
        """All lines with their file and line number, from 1."""
        texts = {name: read_bytes(self._folder.root, name, MAX_FILE_BYTES) for name in self._files}
        return tuple(
            (file, number, line)
            for file, text in texts.items()
            if text is not None
            for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), 1)
        )


class AnswerSources(PaperSources):
    """Maps the printed values of a question to lines of its report, where each value has its key."""

    def _find_uses(self, line: str) -> Iterator[tuple[str, str]]:
        keys = (key for key in re.findall(r"`([^`]+)`", line) if key in self._printed)
        yield from ((key, _shorten(line)) for key in keys)


def _shorten(text: str, width: int = 140) -> str:
    return text if len(text) <= width else f"{text[:width].rstrip()}..."


class TracedEffect(NamedTuple):
    """An effect of a hypothesis, or an exploratory estimate."""

    what: str
    found: EffectDecision


_SETTING_KINDS = {
    "code": "constant of the winner's code",
    "data": "size of the data",
    "level": "level of the data plan",
    "run": "count from the record",
    "tuned": "chosen by tuning",
    "anchor": "published value from the data plan",
    "arm": "name from the data plan",
    "hypothesis": "name from the data plan",
    "margin": "smallest effect of interest from the data plan",
    "bound": "bound of a claim from the data plan",
}


MAX_NEAREST = 5
PRINTED_FILES = ("section.tex", "report.md")
"""The files of an ablation that print numbers."""
FORM_NAMES = {
    "mean": "mean",
    "sd": "standard deviation",
    "low": "lower end of the interval",
    "ci": "interval",
    "high": "upper end of the interval",
    "n": "replicates",
    "pm": "mean and standard deviation",
    "p": "p of the t test, corrected for the other parts",
    "relative": "per cent of the baseline",
    "confidence": "confidence of the interval, per cent",
    "percent": "mean in per cent",
    "percent_ci": "interval in per cent",
    "points": "difference in percentage points",
    "points_ci": "interval in percentage points",
}
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w]|\.\d)")


def parse_number(text: str) -> str | None:
    """Convert a number typed by a user to its printed form, without Unicode minus, plus or percent sign. None if it is
    not a number.
    """
    plain = text.strip().replace("\u2212", "-").removeprefix("+").removesuffix("%").strip()
    return plain if _NUMBER.fullmatch(plain) else None


class NumberTracer:
    """Traces numbers in one state of a record. Claims and sources are read once, files with values on each trace.

    Create a new tracer when the state has grown or the paper has been rewritten.
    """

    def __init__(self, state: RunState, folder: RunFolder, *, run: str) -> None:
        """`run` is the run's folder as shown in commands."""
        self._state, self._folder, self._run = state, folder, run
        plan, results = state.search.data_plan, find_question_results(state)
        self._line_starts: dict[str, str] = {}
        """Key -> start of the line of an ablation's report that prints it."""
        settings, sources = format_setups(state), PaperSources
        if state.kind == "ablation":
            claims, printed = list_report_claims(state), format_report_claims(state)
            self._known = {one.key: one for one in (*list_measured_claims(state), *claims)}
            files = PRINTED_FILES
            found = state.ablation.results
            self._line_starts |= {row.key: f"| {row.part} |" for row in (found.results if found is not None else ())}
            for one in claims:
                if not isinstance(one, ClaimDifference):
                    self._line_starts[one.key] = "**Baseline on" if one.key.startswith("fresh/") else "**"
        elif results is not None:
            claims = [*results.claims, *(one.difference for one in results.comparisons)]
            printed, settings = {key: value for key, (value, _) in results.printed.items()}, results.settings
            self._known, files, sources = {one.key: one for one in claims}, PRINTED_FILES[1:], AnswerSources
        else:
            found = compute_paper_claims(state)
            claims = [*found, *compute_differences(state, found), *compute_reference_claims(state)]
            self._known, printed, files = {one.key: one for one in claims}, format_claims(claims, plan), ()
        forms = defaultdict[str, dict[str, str]](dict)
        for key, text in printed.items():
            forms[key.rpartition(".")[0]][key] = to_plain_text(text)
        self._texts = [(claim, forms[key]) for key, claim in {one.key: one for one in claims}.items()]
        """Claim, and the printed text of each of its keys."""
        self._setups = {key: to_plain_text(value) for key, value in settings.items()}
        self._printed = {key: text for _, texts in self._texts for key, text in texts.items()} | self._setups
        self._effects: dict[str, TracedEffect] = {}
        """Effects of hypotheses, and estimates that the paper asked for, by key with form."""
        for one in decide_hypotheses(state):
            words = dict.fromkeys((*(part.direction for part in one.parts), one.verdict))
            what = f"effect of a hypothesis, {', '.join(words)}"
            effects = {key: TracedEffect(what, part) for key, part in one.parts_by_key.items()}
            self._add_effects(effects, format_decisions([one], plan))
        for one in compute_requested_estimates(state, list_requests(state))[0]:
            self._add_effects({one.key: TracedEffect("exploratory estimate", one.found)}, one.printed)
        self._sources = sources(folder, self._printed, files)

    def _add_effects(self, effects: Mapping[str, TracedEffect], values: Mapping[str, PrintedValue]) -> None:
        self._effects |= {key: effects[strip_form(key)] for key in values}
        self._printed |= {key: to_plain_text(value) for key, value in values.items()}

    def trace_number(self, number: str) -> NumberTrace:
        """Return all possible origins of a number (from `parse_number`)."""
        found = [
            *(self._trace_effect(key) for key in self._effects if _is_in_text(number, self._printed[key])),
            *self._find_claims(number),
            *self._find_settings(number),
            *self._find_values(number),
        ]
        found += self._find_rows(number, found)
        shown = [one for one in found if one.places] or found
        return NumberTrace(
            number=number, candidates=tuple(shown), nearest=() if shown else tuple(self._list_nearest(float(number)))
        )

    def _list_nearest(self, number: float) -> list[str]:
        """Return the closest printed numbers with their keys; a number above 1 may also be one of them in percent."""
        scales = (1, 100) if abs(number) > 1 else (1,)
        used = {key: text for key, text in self._printed.items() if key in self._sources.uses} or self._printed
        found = [(token, key) for key, text in used.items() for token in _NUMBER.findall(text)]
        found.sort(key=lambda one: (min(abs(float(one[0]) * scale - number) for scale in scales), *one))
        return [f"{token} ({key})" for token, key in found[:MAX_NEAREST]]

    def trace_key(self, key: str) -> NumberTrace | None:
        """Trace the value bound to a key; None if the record has no such key."""
        text = self._printed.get(key)
        if text is None:
            return None
        if key in self._effects:
            return NumberTrace(number=text, candidates=(self._trace_effect(key),))
        name, _, form = key.rpartition(".")
        if name in self._known:
            uses = self._sources.uses.get(key, ())
            found = self._trace_claim(self._known[name], FORM_NAMES.get(form, form), text, uses)
        else:
            found = self._trace_setting(key, text)
        return NumberTrace(number=text, candidates=(found,))

    # --- possible origins --------------------------------------------------------------------------------------------

    def _find_claims(self, number: str) -> Iterator[TraceCandidate]:
        uses = self._sources.uses
        for claim, texts in self._texts:
            forms = [key for key, text in texts.items() if _is_in_text(number, text)]
            if forms:
                places = tuple(place for key in forms for place in uses.get(key, ()))
                if (start := self._line_starts.get(claim.key)) is not None:
                    places = (*places, *self._sources.find_lines(number, start))
                chosen = next((key for key in forms if key in uses), forms[0])
                form = chosen.rpartition(".")[2]
                yield self._trace_claim(claim, FORM_NAMES.get(form, form), texts[chosen], places)

    def _find_settings(self, number: str) -> Iterator[TraceCandidate]:
        for key, text in self._setups.items():
            is_number = _NUMBER.fullmatch(text) is not None and float(text) == float(number)
            if is_number or _is_in_text(number, text):
                yield self._trace_setting(key, text)

    def _find_values(self, number: str) -> Iterator[TraceCandidate]:
        """Yield matching single values of the paper's claims, which the appendix lists by seed."""
        for claim in self._known.values():
            if isinstance(claim, ClaimDifference):
                continue
            values = zip(claim.nodes, claim.seeds, claim.values, strict=True)
            hits = [(node, seed) for node, seed, value in values if f"{value:.4g}" == number]
            begins = f"{claim.dataset} & {claim.name.replace('_', ' ')} & {claim.condition} &"
            rows = tuple(self._sources.find_recorded(number, begins)) if hits else ()
            for node, seed in hits:
                one = self._trace_claim(claim, f"value of seed {seed}", number, rows, only=node)
                yield one.model_copy(update={"kind": "value"})

    def _find_rows(self, number: str, found: Sequence[TraceCandidate]) -> Iterator[TraceCandidate]:
        """Yield places with other text printed from the record, i.e. rows of the appendix that no other origin
        explains.
        """
        known = {(place.file, place.line) for one in found for place in one.places}
        for place in self._sources.find_recorded(number):
            if (place.file, place.line) not in known:
                node = next((name for name in self._state.nodes if re.match(rf"{name}\b", place.text)), "")
                yield TraceCandidate(
                    kind="text",
                    key=node,
                    what="text from the record",
                    printed=number,
                    places=(place,),
                    reproduce_command=self._format_reproduce_command([node]) if node else "",
                )

    # --- candidates ---------------------------------------------------------------------------------------------------

    def _trace_claim(
        self, claim: Claim, what: str, text: str, places: tuple[SourceLocation, ...], *, only: str | None = None
    ) -> TraceCandidate:
        """Trace a claim that is printed as `text`; with `only`, only the values of that node."""
        parts, code, used = [claim], list[SourceLocation](), {*claim.nodes}
        if isinstance(claim, ClaimDifference):
            used |= {*claim.others}
            keys = [format_key(claim.split, claim.dataset, claim.name, one) for one in (claim.condition, claim.other)]
            parts = [self._known[key] for key in keys if key in self._known]
            what = ", ".join((what, *claim.caveats))
        for part in parts:  # once per source, since replicates run their parent's code
            sources = {self._state.nodes[name].source_sha256: name for name in reversed(part.nodes)}
            for name in sources.values():
                code += find_code_lines(self._folder, name, lambda text, part=part: find_submitting_lines(text, part))
        used = used if only is None else {only}
        origins = tuple(one for part in parts for one in build_origins(self._state, self._folder, part, used))
        return TraceCandidate(
            kind="claim",
            key=claim.key,
            what=what,
            printed=text,
            grade=claim.grade,
            places=places,
            origins=origins,
            data=self._describe_data(claim.dataset),
            code=tuple(dict.fromkeys(code)),
            reproduce_command=self._format_reproduce_command([one.node for one in origins]),
        )

    def _trace_effect(self, key: str) -> TraceCandidate:
        """Trace an effect: its value for each unit, then the values on which these are based."""
        one, uses = self._effects[key], self._sources.uses
        behind = [self._trace_claim(part, "", "", ()) for part in self._find_read_claims(one)]
        added = (node for node in find_added_replicates(self._state) if node.seed in one.found.seeds)
        by_seed = {node.seed: node.id for node in (*find_deciding_nodes(self._state)[0], *added)}
        units = (
            NumberOrigin(node=by_seed[seed], seed=seed, value=value, condition=one.found.effect.estimand)
            for seed, value in zip(one.found.seeds, one.found.values, strict=False)
            if seed in by_seed
        )
        names = list_effect_datasets(self._plan, one.found.effect) if self._plan is not None else ()
        return TraceCandidate(
            kind="claim",
            key=strip_form(key),
            what=one.what,
            printed=self._printed[key],
            places=uses.get(key, ()),
            origins=(*units, *(origin for each in behind for origin in each.origins)),
            code=tuple(dict.fromkeys(place for each in behind for place in each.code)),
            data=tuple(line for name in names for line in self._describe_data(name)),
            reproduce_command=self._format_reproduce_command([*by_seed.values()]),
        )

    @cached_property
    def _plan(self) -> DataPlan | None:
        """The plan with all measured arms, which estimates may read."""
        plan = self._state.search.data_plan
        return None if plan is None else add_measured_arms(self._state, plan)

    def _find_read_claims(self, one: TracedEffect) -> list[Claim]:
        """Return the claims with the means that an effect reads, on the deciding split."""
        plan = self._plan
        split = next((known.split for known in self._known.values() if not isinstance(known, ClaimDifference)), "test")
        if plan is None:
            return []
        metric = find_effect_metric(one.found.effect, plan)
        read = list_cells_read(one.found.effect.estimand, plan, metric)
        keys = dict.fromkeys(format_key(split, place.dataset, metric.name, place.condition) for place in read)
        return [self._known[key] for key in keys if key in self._known]

    def _trace_setting(self, key: str, text: str) -> TraceCandidate:
        where, _, name = key.partition(".")
        best = find_winner(self._state) if where == "code" else None
        return TraceCandidate(
            kind="setting",
            key=key,
            what=_SETTING_KINDS.get(where, "setting"),
            printed=text,
            places=self._sources.uses.get(key, ()),
            data=self._describe_data(name.partition(".")[0]) if where == "data" else (),
            code=tuple(find_code_lines(self._folder, best, lambda text: find_assignments(text, name))) if best else (),
            reproduce_command=self._format_reproduce_command([best]) if best else "",
        )

    def _format_reproduce_command(self, nodes: Iterable[str]) -> str:
        if self._state.kind == "question":
            return f"git apply {self._run}/change.patch && bash {self._run}/reproduce.sh"
        if self._state.kind != "paper":
            return ""
        chosen = " ".join(f"--node {name}" for name in dict.fromkeys(nodes))
        return f"scientist reproduce {self._run} {chosen}".strip()

    def _describe_data(self, name: str) -> tuple[str, ...]:
        return tuple(
            f"{one.name} from {one.source}, fingerprint {one.fingerprint}"
            for one in self._state.search.datasets
            if one.name == name
        )


def _is_in_text(number: str, text: str) -> bool:
    return any(token in (number, f"-{number}") for token in _NUMBER.findall(text))
