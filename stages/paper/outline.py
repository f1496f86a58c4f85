"""Check the outline of a paper against the record, repair it, and build the inputs of its sections.

A paper must report the outcome of every hypothesis, good or bad (without hypotheses, every outcome of the primary
comparison), and facts about the run that readers must know. The checks ensure that all of it is planned in some
section, that every name in the outline exists, and that every table is placed exactly once and no figure twice. The
supplement prints everything that no table shows.
`required_statements` checks what a draft must contain.

Limits: a valid outline does not guarantee a good paper or good sentences.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import ceil

from labwright.models.roles.paper_writing import (
    DecidedHypothesis,
    EstimateLine,
    ExploratoryComparison,
    PaperOutline,
    PlannedExplanation,
    PlannedSection,
    RequiredStatement,
    SectionInputs,
    WriteInputs,
)
from labwright.record.claims.requested_estimates import find_registered_key, list_registered_keys
from labwright.record.result_macros import escape_tex, strip_form
from labwright.record.schema.data_plan import DataPlan, parse_arm
from labwright.record.schema.hypotheses import EffectDecision
from labwright.record.schema.paper import PaperDraft, Section
from labwright.stages.paper.citations import is_related_work
from labwright.stages.paper.latex_sources import FigureFile, PaperTable, read_drawn_size
from labwright.stages.paper.template import PaperTemplate

# Estimate the room that floats and text take in print, before anything is written and without TeX. The main text of a
# template has room for a number of words: its pages without title, headings and abstract, and without references
# where these count. Figures take part of it by their drawn size, tables by their rows, both by their captions. What
# is left is divided between the sections by the shares of the outline. Limits: constants are those of 10 pt Times,
# from both built-in templates typeset with 1,500 and 3,000 words. Estimates do not know how floats break over pages:
# papers of two to six pages with six floats were up to half a page off.

WORDS_PER_SQUARE_INCH = 14.0
"""Words of running text, with paragraphs of about a hundred words."""
TITLE_INCHES = 1.9
"""Height of title, author and page-one line, over all columns."""
HEADING_INCHES = 0.38
ABSTRACT_WORDS = 150
USUAL_HEADINGS = 7
REFERENCE_WORDS = 600
"""Words whose room some twenty references take, where they count as main text."""
CAPTION_WORDS = 40
"""Words of a caption that is not written yet."""
CAPTION_WORDS_PER_INCH = 2.9
CAPTION_LINE_INCHES = 11 / 72
FLOAT_GAP_INCHES = 0.3
"""Space around a float, and between it and its caption."""
MAX_FIGURE_SHARE = 0.34
"""Maximum height of a figure as a share of the text height; see `\\paperfloatheight`."""
UNKNOWN_FIGURE_INCHES = (3.5, 2.2)
"""Width and height of a figure without a file."""
ROW_INCHES = 10.5 / 72
"""Height of a table row in \\footnotesize, rules included."""
TABLE_CHARACTERS_PER_INCH = 18.0
RESULT_CHARACTERS = 9
"""Characters that a macro of a table prints."""
MAX_FLOAT_SHARE = 0.45
"""Maximum share of the room that floats may take; figures beyond it belong in the appendix."""


def count_page_words(template: PaperTemplate) -> float:
    """Return the words that a page holds without floats and headings."""
    return WORDS_PER_SQUARE_INCH * template.columns * template.column_width * template.text_height


def count_text_words(template: PaperTemplate, headings: int = USUAL_HEADINGS) -> int:
    """Return the words that the main text has room for next to title, headings and abstract, without floats."""
    taken = (TITLE_INCHES + headings * HEADING_INCHES / template.columns) / template.text_height
    words = round((template.page_limit - taken) * count_page_words(template)) - ABSTRACT_WORDS
    return words - REFERENCE_WORDS * template.counts_references


def measure_floats(
    figures: Sequence[FigureFile], tables: Sequence[PaperTable], captions: Mapping[str, str], template: PaperTemplate
) -> dict[str, int]:
    """Return the words whose room each float takes, by its label: `fig:NAME` or `tab:NAME`."""
    words = count_page_words(template)
    return {
        label: round(words * pages)
        for label, pages in (
            *((f"fig:{one.name}", _measure_figure(one, captions.get(one.name, ""), template)) for one in figures),
            *((f"tab:{one.name}", _measure_table(one, template)) for one in tables),
        )
    }


def _measure_figure(figure: FigureFile, caption: str, template: PaperTemplate) -> float:
    """Return the pages that a figure takes."""
    drawn, picture = UNKNOWN_FIGURE_INCHES, figure.path.with_suffix(".pdf")
    if picture.is_file():
        drawn = read_drawn_size(picture) or drawn
    across = template.columns == 2 and drawn[0] > 1.3 * template.column_width
    room = template.text_width if across else template.column_width
    height = min(drawn[1] * min(1.0, room / drawn[0]), MAX_FIGURE_SHARE * template.text_height)
    return _sum_pages(height, len(caption.split()) or CAPTION_WORDS, room, template)


def _measure_table(table: PaperTable, template: PaperTemplate) -> float:
    """Return the pages that a table takes."""
    widths, rows = _parse_columns(table.tabular), list(_parse_rows(table.tabular))
    natural = max((sum(map(_count_characters, row)) for row in rows if len(row) > 1), default=0)
    fixed = sum(1 for width in widths if width)
    across = template.columns == 2 and (fixed or natural / TABLE_CHARACTERS_PER_INCH > template.column_width)
    room = template.text_width if across else template.column_width
    lines = sum(
        max(
            (
                ceil(_count_characters(cell) / (width * room * TABLE_CHARACTERS_PER_INCH)) if width else 1
                for cell, width in zip(row, widths, strict=False)
            ),
            default=1,
        )
        or 1
        for row in rows
    )
    return _sum_pages(lines * ROW_INCHES, len(table.caption.split()), room, template)


def _sum_pages(height: float, caption_words: int, room: float, template: PaperTemplate) -> float:
    lines = ceil(caption_words / (CAPTION_WORDS_PER_INCH * room))
    inches = height + lines * CAPTION_LINE_INCHES + FLOAT_GAP_INCHES
    columns = template.columns if room <= template.column_width else 1
    return inches / (template.text_height * columns)


def _parse_columns(tabular: str) -> list[float]:
    """Return the width of each column as a share of the line; 0 for columns as wide as their text."""
    opened = re.match(r"\s*\\begin\{tabular\}\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}", tabular)
    layout = re.sub(r"@\{(?:[^{}]|\{[^{}]*\})*\}", "", opened[1]) if opened else ""
    found = re.findall(r"[a-zA-Z](?:\{([\d.]*)\\linewidth\})?", layout)
    return [float(share or 0) for share in found]


def _parse_rows(tabular: str) -> Iterator[list[str]]:
    for line in tabular.split("\n"):
        if line.rstrip().endswith("\\\\"):
            yield re.split(r"(?<!\\)&", line.rstrip().removesuffix("\\\\"))


def _count_characters(cell: str) -> int:
    printed = re.sub(r"\\(?:result|setup)\{[^}]*\}", "x" * RESULT_CHARACTERS, cell)
    return len(re.sub(r"\\[a-zA-Z]+|[{}$@]", "", printed).strip())


def find_crowding_figures(words: int, float_words: Mapping[str, int], spare: Sequence[str]) -> list[str]:
    """Return the names of the last figures among `spare` that leave too little room for text."""
    found, taken = list[str](), sum(float_words.values())
    for name in reversed(spare):
        if taken <= MAX_FLOAT_SHARE * words:
            break
        taken -= float_words[f"fig:{name}"]
        found.append(name)
    return found


def divide_words(outline: PaperOutline, words: int, float_words: Mapping[str, int]) -> dict[str, int]:
    """Return the words of each section: its share of what the placed floats leave, in tens."""
    placed = [f"fig:{name}" for one in outline.sections for name in one.figures]
    placed += [f"tab:{name}" for one in outline.sections for name in one.tables]
    left = max(words - sum(float_words.get(label, 0) for label in placed), (1 - MAX_FLOAT_SHARE) * words)
    return {one.title: 10 * round(left * one.share / 10) for one in outline.sections}


_FLOAT = re.compile(r"\\paper(?:figure|table)\{[^}]*\}")
_MACRO = re.compile(r"\\(?:result|setup|ref|cite\w*)\{[^}]*\}")


def count_words(draft: PaperDraft) -> dict[str, int]:
    """Return the words of the abstract and of each section, a macro as one word."""
    texts = {"abstract": draft.abstract, **{one.title: one.body for one in draft.sections}}
    return {title: len(_MACRO.sub("x", _FLOAT.sub("", text)).split()) for title, text in texts.items()}


RESERVED_TITLES = ("abstract", "title")
"""Titles that no section may have: edits use them to address parts of a draft."""
ORDINALS = ("first", "second", "third")
SHARE_BOUNDS = (0.8, 1.2)
"""Bounds of the sum of all shares."""


def repair_outline(outline: PaperOutline, inputs: WriteInputs) -> tuple[PaperOutline, tuple[str, ...]]:
    """Return the outline with all faults repaired by rule, and the faults, one line each.

    Unknown names are removed. A float stays where it is placed first. Unplaced items go to the longest section, and
    disclosures of the run to the last; figures that a model drew may stay out of the text. A valid outline is returned
    unchanged.
    """
    in_text = [one.name for one in inputs.figures if one.placement == "main"]
    known = {  # names that each field of a section may contain
        "keys": frozenset((*inputs.result_keys, *(line.key for line in inputs.setups))),
        "figures": frozenset(in_text),
        "tables": frozenset(inputs.tables),
        "references": frozenset(one.key for one in inputs.references),
        "tells": frozenset(one.id for one in inputs.statements),
    }
    times = Counter(section.title.strip().lower() for section in outline.sections)
    faults = [
        f"section title {title!r} is empty, reserved or used {count} times: give each section its own title"
        for title, count in times.items()
        if not title or count > 1 or title in RESERVED_TITLES
    ]
    if inputs.related_work_by_program and any(map(is_related_work, outline.sections)):
        faults.append("the program writes the related work: plan no section for it")
        rest = tuple(one for one in outline.sections if not is_related_work(one))
        outline = outline.model_copy(update={"sections": rest or outline.sections})
    sections: list[PlannedSection] = []
    titles: set[str] = set(RESERVED_TITLES)
    placed: dict[str, Counter[str]] = {name: Counter() for name in known}
    for number, section in enumerate(outline.sections, 1):
        title = " ".join(section.title.split()) or f"Part {'I' * number}"
        while title.lower() in titles:
            title = f"More on {title}"
        titles.add(title.lower())
        kept: dict[str, object] = {"title": title}
        for field, names in known.items():
            asked: tuple[str, ...] = getattr(section, field)
            faults += _find_unknown(f"section {section.title!r}", field, asked, names)
            if field in ("figures", "tables"):
                names -= placed[field].keys()
            kept[field] = tuple(name for name in dict.fromkeys(asked) if name in names)
            placed[field].update(asked)
        sections.append(section.model_copy(update=kept))
    explanations, wrong = _repair_explanations(outline, inputs)
    faults += wrong
    for name in ("keys", "tells"):
        faults += _find_unknown("the abstract", name, getattr(outline.abstract, name), known[name])
    for field, names, needed in (
        ("figures", in_text, inputs.program_captions),
        ("tables", inputs.tables, inputs.tables),
    ):
        faults += [
            f"{field}: {name!r} is placed {placed[field][name]} times: place it once"
            for name in names
            if placed[field][name] > 1 or (name in needed and not placed[field][name])
        ]
    for statement in inputs.statements:
        if not placed["tells"][statement.id]:
            faults.append(f"{statement.id!r} is reported in no section: {statement.text}")
        if statement.abstract and statement.id not in outline.abstract.tells:
            faults.append(f"{statement.id!r} is not reported in the abstract: {statement.text}")
    total = sum(section.share for section in sections)
    if not SHARE_BOUNDS[0] <= total <= SHARE_BOUNDS[1]:
        faults.append(f"the shares add up to {total:.2f}: make the sum 1")
    if not faults:
        return outline, ()
    abstract = outline.abstract.model_copy(
        update={
            field: tuple(name for name in getattr(outline.abstract, field) if name in known[field])
            for field in ("keys", "tells")
        }
    )
    repaired = outline.model_copy(
        update={"sections": tuple(sections), "abstract": abstract, "explanations": explanations}
    )
    return _complete_outline(repaired, inputs), tuple(faults)


def use_registered_keys(outline: PaperOutline, plan: DataPlan, measured: Mapping[str, EffectDecision]) -> PaperOutline:
    """Return the outline with the keys of registered effects, alternatives and rivals in place of its own requests for
    them, and of the differences of the same arms. `measured` are those with a value; others replace nothing."""
    asked = {f"estimate/{one.name}": find_registered_key(one, plan) for one in outline.estimates}
    known = {name: key for name, (key, _) in asked.items() if key in measured}
    known |= list_registered_keys(measured, plan)

    def replace(found: re.Match[str]) -> str:
        stem = strip_form(found[1])
        return f'"{known.get(stem, stem)}{found[1].removeprefix(stem)}"'

    kept = tuple(one for one in outline.estimates if f"estimate/{one.name}" not in known)
    text = outline.model_copy(update={"estimates": kept}).model_dump_json()
    return PaperOutline.model_validate_json(re.sub(r'"((?:estimate|diff)/[^"\\]+)"', replace, text))


def _repair_explanations(
    outline: PaperOutline, inputs: WriteInputs
) -> tuple[tuple[PlannedExplanation, ...], list[str]]:
    """Return the explanations of known effects in planned sections, and the faults of the others."""
    estimates = {strip_form(key) for key in inputs.result_keys}
    titles = {section.title for section in outline.sections}
    kept, faults = list[PlannedExplanation](), list[str]()
    for one in outline.explanations:
        if one.effect in estimates and one.section in titles:
            faults += _find_unknown("explanations", "separated_by", [one.separated_by], {*estimates, ""})
            kept.append(one if one.separated_by in estimates else one.model_copy(update={"separated_by": ""}))
        else:
            unknown = one.effect if one.effect not in estimates else one.section
            faults.append(
                f"explanations: {unknown!r} is no estimate or no section: use a key without form, and a title"
            )
    return tuple(kept), faults


def find_unexplained_effects(outline: PaperOutline, inputs: WriteInputs) -> tuple[str, ...]:
    """Return the confirmatory hypotheses with an effect of known sign for which the outline plans no explanation, one
    line each. Hypotheses with the same estimand share one."""
    keys = {one.effect for one in outline.explanations}
    lines = [line for one in inputs.decided for line in one.effects]
    subjects = {line.subject for line in lines if line.key in keys and line.subject}
    explained = keys | {line.key for line in lines if line.subject in subjects}
    return tuple(
        f"no paragraph is planned on why {one.title!r} turned out as it did: add an explanation of {one.effects[0].key}"
        for one in inputs.decided
        if one.confirmatory
        and any(line.direction in ("positive", "negative") for line in one.effects)
        and not explained & {line.key for line in one.effects}
    )


def _complete_outline(outline: PaperOutline, inputs: WriteInputs) -> PaperOutline:
    """Return the outline with a place for every unplaced item, and shares that sum to 1."""
    sections = list(outline.sections)
    total = sum(section.share for section in sections)
    longest = max(range(len(sections)), key=lambda k: sections[k].share)
    for at, field, needed in (
        (longest, "tells", [one.id for one in inputs.statements if not is_disclosure(one)]),
        (-1, "tells", [one.id for one in inputs.statements if is_disclosure(one)]),
        (longest, "figures", inputs.program_captions),
        (longest, "tables", inputs.tables),
    ):
        placed = {name for section in sections for name in getattr(section, field)}
        more = [name for name in needed if name not in placed]
        sections[at] = sections[at].model_copy(update={field: (*getattr(sections[at], field), *more)})
    required = (one.id for one in inputs.statements if one.abstract)
    return outline.model_copy(
        update={
            "sections": tuple(one.model_copy(update={"share": one.share / total}) for one in sections),
            "abstract": outline.abstract.model_copy(
                update={"tells": tuple(dict.fromkeys((*outline.abstract.tells, *required)))}
            ),
        }
    )


def build_report(inputs: WriteInputs, sections: Sequence[Section] = ()) -> PaperDraft:
    """Return a draft by the program alone, after the sections that a model wrote: tables and figures of the main text,
    and the estimates of each hypothesis. Required statements are not added."""
    figures = [one.name for one in inputs.figures if one.placement == "main"]
    placed = "\n".join(one.body for one in sections)
    floats = [f"\\papertable{{{name}}}" for name in inputs.tables]
    floats += [f"\\paperfigure{{{name}}}" for name in figures]
    outcomes = [text for one in inputs.statements if one.required_form == "printed" for text in one.sentences]
    body = (
        "The program wrote this section from the record, without a language model. Each hypothesis was registered "
        "before it was tested.",
        " ".join(outcomes),
        *(one for one in floats if one not in placed),
    )
    return PaperDraft(
        title=escape_tex(inputs.idea.title),
        abstract="This is a report by the program, since the budget had no room for a paper by a language model.",
        sections=(*sections, Section(title="Recorded results", body="\n\n".join(filter(None, body)))),
        captions={one.name: escape_tex(one.description) for one in inputs.figures},
    )


def _find_unknown(where: str, field: str, names: Sequence[str], known: Collection[str]) -> Iterator[str]:
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=2, cutoff=0.8)
            yield f"{where}: unknown name {name!r} in {field}" + (
                f"; the closest are {', '.join(near)}" if near else ""
            )


def group_sections(outline: PaperOutline, size: int) -> list[tuple[str, ...]]:
    """Group section titles, in order, one group per call; `size` 0 puts all into one group."""
    titles = tuple(section.title for section in outline.sections)
    size = size or len(titles)
    return [titles[at : at + size] for at in range(0, len(titles), size)]


def build_section_inputs(
    inputs: WriteInputs, outline: PaperOutline, titles: tuple[str, ...], written_sections: tuple[Section, ...]
) -> SectionInputs:
    """Build the inputs for writing these sections; the abstract is written with the last ones."""
    planned = [section for section in outline.sections if section.title in titles]
    last = not titles or outline.sections[-1].title in titles
    ids = {one for section in planned for one in section.tells} | (set(outline.abstract.tells) if last else set[str]())
    items = tuple(one for one in inputs.statements if one.id in ids)
    keys = {key for section in planned for key in section.keys} | (set(outline.abstract.keys) if last else set[str]())
    explained = [one for one in outline.explanations if one.section in titles]
    claims = {strip_form(key) for key in keys} | {key for one in items for key in one.keys}
    claims |= {key for one in explained for key in (one.effect, one.separated_by)}
    used = {
        field: {name for section in planned for name in getattr(section, field)}
        for field in ("figures", "tables", "references")
    }
    if used["figures"] or used["tables"]:  # the values behind them, which captions and text explain
        drawn = used["figures"].difference(inputs.program_captions)  # these may show any metric of the plan
        primary, *others = [one.name for one in inputs.data_plan.metrics]
        for line in inputs.results:
            metric = line.key.split("/")[2]
            if (line.listed and metric == primary) or (drawn and metric in others):
                claims.add(strip_form(line.key))
        claims |= {key for name in used["tables"] for key in inputs.table_keys.get(name, ())}
    common = {one.key for one in inputs.comparisons if one.at_common_setting and one.listed}
    claims |= common if claims & common else set()  # one of them alone would mislead
    if not any(key.startswith("code.") for key in keys):  # only sections that describe the implementation get the code
        inputs = inputs.model_copy(update={"winner_code": {}})
    # any section may refer to a figure that none places: it appears in the appendix
    placed = {name for section in outline.sections for name in section.figures}
    beside = [one.model_copy(update={"placement": "appendix"}) for one in inputs.figures if one.name not in placed]
    return SectionInputs(
        inputs=inputs,
        outline=outline,
        asked=titles,
        abstract=last,
        words=divide_words(outline, inputs.text_words, inputs.float_words),
        written=written_sections,
        statements=items,
        results=tuple(line for line in inputs.results if strip_form(line.key) in claims),
        setups=tuple(
            line for line in inputs.setups if line.key in keys or line.key.startswith(("margin.", "bound.", "level."))
        ),
        decided=tuple(one for one in inputs.decided if claims & {line.key for line in one.lines}),
        comparisons=tuple(one for one in inputs.comparisons if one.key in claims),
        estimates=inputs.estimates,
        figures=(*(one for one in inputs.figures if one.name in used["figures"]), *beside),
        tables=tuple(name for name in inputs.tables if name in used["tables"]),
        references=tuple(one for one in inputs.references if one.key in used["references"]),
    )


def match_sections(titles: Sequence[str], answered: Sequence[Section]) -> tuple[Section, ...]:
    """Match answered sections to the requested titles, by title, or by position if there are equally many. A
    section without a match is empty, which leads to a complaint.
    """
    found = {" ".join(one.title.split()).lower(): one.body for one in answered}
    if len(answered) == len(titles):
        found = {title.lower(): one.body for title, one in zip(titles, answered, strict=True)} | found
    return tuple(Section(title=title, body=found.get(title.lower(), "").strip()) for title in titles)


def list_reportable_outcomes(
    plan: DataPlan,
    decided: Sequence[DecidedHypothesis],
    comparisons: Sequence[ExploratoryComparison],
    disclosures: Iterable[str],
) -> tuple[RequiredStatement, ...]:
    """Return the outcomes that must be reported, registered ones first."""
    subjects: dict[str, list[str]] = {}
    for line in (line for one in decided for line in one.effects):
        subjects.setdefault(line.subject or line.key, []).append(line.key)
    statements = [_build_outcome(one, subjects) for one in decided]
    methods = {one.name for one in plan.arms if one.role == "method"}
    places: dict[tuple[str, str, str], list[ExploratoryComparison]] = {}
    for comparison in comparisons if not decided else ():
        pair = comparison.pair
        arm, other = parse_arm(pair.condition), parse_arm(pair.other)
        if pair.metric == plan.primary_metric.name and arm in methods:
            places.setdefault((pair.dataset, arm, other), []).append(comparison)
    statements += [_build_statement(found, "-".join(("primary", *place))) for place, found in places.items()]
    if not statements:
        text = "The record has no paired comparison of the primary metric, so no effect may be claimed"
        statements.append(RequiredStatement(id="hypothesis", abstract=True, text=text))
    return (
        *statements,
        *(RequiredStatement(id=f"disclosure-{n}", text=text) for n, text in enumerate(disclosures, 1) if text),
    )


def is_disclosure(statement: RequiredStatement) -> bool:
    """Return whether a statement discloses something about the run rather than an outcome."""
    return not (statement.keys or statement.abstract or statement.point)


def _build_outcome(one: DecidedHypothesis, subjects: Mapping[str, Sequence[str]]) -> RequiredStatement:
    """Build the statement on a hypothesis: its outcome, and the estimates that a section must print. `subjects`: what
    is estimated -> keys."""
    measured = [line for line in one.effects if "mean" in line.forms]
    kind = "confirmatory" if one.confirmatory else "exploratory"
    name = f"the {kind} hypothesis ``\\setup{{{one.key.replace('/', '.')}.title}}''"
    preview = " (a preview)" if one.confirmatory and not one.confirmed else ""

    def write(line: EstimateLine) -> str:
        several = len(one.effects) > 1
        part = f"the {ORDINALS[one.effects.index(line)]} part of {name}" if several else name
        interval = (
            f" (\\result{{{line.key}.confidence}}\\% interval \\result{{{line.key}.ci}})" if "ci" in line.forms else ""
        )
        return (
            f"{part[:1].upper()}{part[1:]} is {line.verdict if several else one.verdict}{preview}: the estimate is "
            f"\\result{{{line.key}.mean}}{interval}."
        )

    return RequiredStatement(
        id=one.key.replace("/", "-"),
        keys=tuple(line.key for line in measured),
        equal_keys={line.key: tuple(subjects[line.subject]) for line in measured if line.subject in subjects},
        abstract=one.confirmatory,
        required_form="printed" if measured else "",
        text=f"{one.statement} Outcome: {one.verdict}{'' if one.confirmatory else ', exploratory'}: {one.outcome}",
        sentences=tuple(map(write, measured)),
    )


def _build_statement(found: Sequence[ExploratoryComparison], name: str) -> RequiredStatement:
    """Build the statement on one pair of arms on one dataset, level by level."""
    return RequiredStatement(
        id=name,
        abstract=True,
        keys=tuple(one.key for one in found),
        text="Exploratory, " + "; ".join(", ".join((one.text, *one.caveats)) for one in found),
    )
