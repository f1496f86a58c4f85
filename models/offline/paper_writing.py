"""Roles `outline` and `write`: the study's paper, rebuilt from the whole record for every call."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from math import ceil

from labwright.models.offline import plain_study
from labwright.models.offline.edits import compute_changes, render_template
from labwright.models.offline.experiment_code import add_labels
from labwright.models.offline.ideation import to_ablation
from labwright.models.offline.label_noise import paper as label_noise
from labwright.models.offline.plain_study import Outline, is_repository_study
from labwright.models.offline.study import FigureSpec, find_study_by_idea, find_study_by_plan
from labwright.models.offline.table_study import is_table_study, write_table_plots
from labwright.models.roles.figures import (
    FigurePart,
    FigureReviewInputs,
    FigureScript,
    FiguresInputs,
    PaperFigureReviews,
    PlotInputs,
    Plots,
)
from labwright.models.roles.paper_revision import (
    MAX_REQUESTS,
    AddendumInputs,
    AddendumPlan,
    CopyEditInputs,
    CopyEdits,
    FoundRequest,
    PlannedMeasure,
    ReflectInputs,
    Reflection,
    RequestOutcome,
    RespondInputs,
    ReviewerRequests,
    ReviewerRequestsInputs,
    TextEdit,
    WrittenAnswer,
    WrittenAnswers,
)
from labwright.models.roles.paper_writing import (
    OutlineInputs,
    PaperOutline,
    PlannedAbstract,
    PlannedSection,
    RequiredStatement,
    SectionInputs,
    Sections,
    WriteInputs,
)
from labwright.record.schema.data_plan import parse_arm
from labwright.record.schema.paper import (
    EstimateRequest,
    FigurePlacement,
    PaperDraft,
    RequestKind,
    ReviewerRequest,
    Section,
)


def answer_outline(inputs: OutlineInputs) -> PaperOutline:
    """Return the plan of the paper that `write` gives: what its sections use, and where they report the statements."""
    record = inputs.inputs
    draft = write_draft(record)
    places = _assign_statements(record.statements, [section.title for section in draft.sections])
    sizes = [len(one.body) for one in draft.sections]
    own = not plain_study.is_plain_study(record)
    return PaperOutline(
        title=draft.title,
        estimates=label_noise.request_estimates(record) if own else (),
        explanations=label_noise.explain_effects(record, draft.sections) if own else (),
        sections=tuple(
            PlannedSection(
                title=one.title,
                claim=_first_plain_sentence(one.body) or one.title,
                keys=_find_used_keys(one.body, "result", "setup"),
                figures=_find_used_keys(one.body, "paperfigure"),
                tables=_find_used_keys(one.body, "papertable"),
                references=_find_used_keys(one.body, "citep", "citet"),
                tells=tuple(places.get(one.title, ())),
                share=size / sum(sizes),
            )
            for one, size in zip(draft.sections, sizes, strict=True)
        ),
        abstract=PlannedAbstract(
            claim=_first_plain_sentence(draft.abstract),
            keys=_find_used_keys(draft.abstract, "result", "setup"),
            tells=tuple(one.id for one in record.statements if one.abstract),
        ),
    )


def answer_write(inputs: SectionInputs) -> Sections:
    """Return the requested sections of the paper, with the captions of the figures that they place."""
    draft = write_draft(inputs.inputs)
    chosen = tuple(section for section in draft.sections if section.title in inputs.asked)
    placed = _find_used_keys("\n".join(section.body for section in chosen), "paperfigure")
    shown = {one.name for one in inputs.figures}
    return Sections(
        sections=chosen,
        abstract=draft.abstract if inputs.abstract else "",
        captions={name: text for name, text in draft.captions.items() if name in shown | set(placed)},
    )


def _assign_statements(statements: Sequence[RequiredStatement], titles: Sequence[str]) -> dict[str, list[str]]:
    """Map section titles to statements: outcomes to the results, ablations to theirs, disclosures to the last."""
    results = next((title for title in titles if "Result" in title), titles[0])
    ablations = next((title for title in titles if "Ablation" in title), results)
    found: dict[str, list[str]] = {}
    for one in statements:
        kind = one.id.partition("-")[0]
        found.setdefault({"disclosure": titles[-1], "ablation": ablations}.get(kind, results), []).append(one.id)
    return found


def _find_used_keys(text: str, *commands: str) -> tuple[str, ...]:
    pattern = rf"\\(?:{'|'.join(commands)})\{{([^}}]*)\}}"
    return tuple(dict.fromkeys(key for match in re.findall(pattern, text) for key in match.split(",")))


def _first_plain_sentence(text: str) -> str:
    """Return the first sentence without macros and formulas."""
    plain = re.sub(r"\\paragraph\{[^}]*\}", "", text)
    sentences = (one.strip() for one in re.split(r"(?<=[.?!])\s+", plain))
    return next((one for one in sentences if one and not set(one) & set("\\$")), "")


def write_draft(inputs: WriteInputs) -> PaperDraft:
    """Write the paper that the comparisons support, whatever they are. Raises `CatalogueError` for an unknown idea."""
    paper = build_outline(inputs)
    return PaperDraft(
        title=paper.title,
        abstract=paper.abstract,
        sections=tuple(Section(title=part.title, body=part.body) for part in paper.sections),
        captions={figure.name: figure.description for figure in inputs.figures},
    )


def build_outline(inputs: WriteInputs) -> Outline:
    """Build the study's paper with the rank of each paragraph. Raises `CatalogueError` for an unknown idea."""
    if plain_study.is_plain_study(inputs):
        return plain_study.build_plain_outline(inputs)
    find_study_by_idea(inputs.idea)
    return label_noise.build_label_noise_outline(inputs)


# Roles `reflect` (targeted edits for complaints about a draft) and `copy_edit`. A sentence that the binder refuses is
# deleted, an unplaced figure is placed, and a paper that is too long loses the paragraphs with the highest rank, then
# a figure to the appendix. It does not write new claims.

_VIOLATION_LINE = re.compile(
    r"^\[(?P<kind>\w+)\] (?P<where>.*?): (?P<excerpt>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"): ", re.DOTALL
)
MAX_ROUNDS_IN_VAIN = 2
"""Number of consecutive undone rounds after which it gives up."""
_DOUBLED_WORD = re.compile(r"(?:\b\w+\W+)?\b([a-z]+) \1\b(?:\W+\w+\b)?")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\\])")


def answer_reflect(inputs: ReflectInputs) -> Reflection:
    """Return edits for violations first, then for length; done if neither needs any, or two rounds failed."""
    draft, limit = inputs.draft, inputs.inputs.page_limit
    vain = len(list(takewhile(lambda one: one.outcome != "kept", reversed(inputs.tried))))
    if vain >= MAX_ROUNDS_IN_VAIN:
        return Reflection(done=True)
    paper = build_outline(inputs.inputs)
    bodies = {"title": draft.title, "abstract": draft.abstract} | {s.title: s.body for s in draft.sections}
    before = dict(bodies)
    captions: dict[str, str] = {}
    if inputs.news and not inputs.tried:
        fresh = {"title": paper.title, "abstract": paper.abstract} | {part.title: part.body for part in paper.sections}
        bodies |= {title: text for title, text in fresh.items() if title in bodies}
        if inputs.pages is not None and inputs.pages >= limit:  # the added results need room
            _shorten(paper, bodies, ranks=1)
    for violation in inputs.violations:
        _fix_violation(inputs, violation, bodies, captions)
    placements: dict[str, FigurePlacement] = {}
    if not inputs.violations and inputs.pages is not None and inputs.pages > limit:
        # Slightly less text may push a figure to the next page: after an undone round, cut more.
        _shorten(paper, bodies, ranks=ceil(inputs.pages - limit) + vain)
        if bodies == before or vain:
            placed = re.findall(r"\\paperfigure\{([^}]*)\}", "\n".join(section.body for section in draft.sections))
            placements = {placed[-1]: "appendix"} if placed else {}
    edits = tuple(edit for title in bodies for edit in _compute_text_edits(title, before[title], bodies[title]))
    found = Reflection(done=False, edits=edits, captions=captions, placements=placements)
    return found.model_copy(update={"done": found.is_empty})


def answer_copy_edit(inputs: CopyEditInputs) -> CopyEdits:
    """Remove words that are typed twice in a row."""
    return CopyEdits(
        edits=tuple(
            TextEdit(section=one.where, old=found[0], new=found[0].replace(f"{found[1]} {found[1]}", found[1]))
            for one in inputs.texts
            for found in _DOUBLED_WORD.finditer(one.text)
        )
    )


def _compute_text_edits(section: str, before: str, after: str) -> Iterator[TextEdit]:
    """Yield replacements of whole paragraphs that turn one text of a part into another, the last ones first."""
    old, new = (text.split("\n\n") for text in (before, after))
    for verb, a, b, c, d in reversed(SequenceMatcher(None, old, new, autojunk=False).get_opcodes()):
        if verb == "equal":
            continue
        # For an insertion, or if the passage occurs twice, include the paragraphs before it.
        while a > 0 and (a == b or before.count("\n\n".join(old[a:b])) != 1):
            a, c = a - 1, c - 1
        while b < len(old) and (a == b or before.count("\n\n".join(old[a:b])) != 1):
            b, d = b + 1, d + 1
        yield TextEdit(section=section, old="\n\n".join(old[a:b]), new="\n\n".join(new[c:d]))


# --- violations -----------------------------------------------------------------------------------------------------


def _fix_violation(inputs: ReflectInputs, violation: str, bodies: dict[str, str], captions: dict[str, str]) -> None:
    """Change the bodies or captions for one violation; leave them if it names none of their text."""
    match = _VIOLATION_LINE.match(violation)
    excerpt = ast.literal_eval(match["excerpt"]) if match else ""
    known = {figure.name: figure.description for figure in inputs.inputs.figures}
    name = next((name for name in known if name == excerpt or f"{{{name}}}" in violation), "")
    if name and "caption" in violation:
        captions[name] = known[name]
    elif name and "never placed" in violation:
        _place_figure(inputs.draft, bodies, name)
    elif match and excerpt:
        _remove_sentence(bodies, match["where"], excerpt)


def _place_figure(draft: PaperDraft, bodies: dict[str, str], name: str) -> None:
    """Place a figure at the end of the section that refers to it, otherwise of the second-last one."""
    titles = [section.title for section in draft.sections]
    reference = f"\\ref{{fig:{name}}}"
    host = next((title for title in titles if reference in bodies[title]), titles[max(0, len(titles) - 2)])
    sentence = "" if reference in bodies[host] else f"Figure~{reference} is given for completeness.\n\n"
    bodies[host] = f"{bodies[host]}\n\n{sentence}\\paperfigure{{{name}}}"


def _remove_sentence(bodies: dict[str, str], where: str, excerpt: str) -> None:
    """Remove the sentence with the excerpt from the part that the violation names, or from wherever it is."""
    core = " ".join(re.sub(r"^line \d+: ", "", excerpt).strip().removeprefix("...").removesuffix("...").split())
    named = [title for title in bodies if f"'{title}'" in where or title == where]
    for title in named or list(bodies):
        paragraphs = bodies[title].split("\n\n")
        kept = [_drop_sentence(paragraph, core) for paragraph in paragraphs]
        if title != "title" and kept != paragraphs:
            bodies[title] = "\n\n".join(paragraph for paragraph in kept if paragraph)


def _drop_sentence(paragraph: str, core: str) -> str:
    """Return the paragraph without the sentence that contains the middle of the excerpt."""
    text = " ".join(paragraph.split())
    # An excerpt shows some thirty characters before the fault, and may begin in the previous paragraph.
    at = text.find(core) + min(30, len(core) // 2) if core in text else text.find(core[24:44]) + min(6, len(core) // 2)
    if not core or (core not in text and (len(core) < 44 or core[24:44] not in text)):
        return paragraph
    kept: list[str] = []
    end = 0
    for sentence in _SENTENCE.split(text):
        start, end = end, end + len(sentence) + 1
        if not start <= at < end:
            kept.append(sentence)
    return " ".join(kept)


# --- length ---------------------------------------------------------------------------------------------------------


def _shorten(paper: Outline, bodies: dict[str, str], *, ranks: int) -> None:
    """Drop the remaining paragraphs of the highest ranks, one rank per excess page."""
    optional = [(part.title, one) for part in paper.sections for one in part.paragraphs if one.spare_rank]
    present = {one.spare_rank for title, one in optional if one.text in bodies.get(title, "")}
    dropped = sorted(present, reverse=True)[:ranks]
    for title, one in optional:
        if one.spare_rank in dropped and title in bodies:
            rest = bodies[title].replace(one.text, "").split("\n\n")
            bodies[title] = "\n\n".join(text.strip() for text in rest if text.strip())


# Roles `plot`, `figures` and `figure_review`: redrawn figures, aggregate plots, and the figures of the paper.

MAX_ABLATIONS = 5


def answer_plot(inputs: PlotInputs) -> Plots:
    """Return the plots of an aggregate, or refused plots repaired according to the complaints."""
    if is_table_study(inputs.data_plan):
        return Plots(plots=write_table_plots(inputs.data_plan))
    aggregate = inputs.purpose == "aggregate" or any(array.path.startswith("inputs/") for array in inputs.arrays)
    study = find_study_by_plan(inputs.data_plan)
    sound = render_template("aggregate.py.jinja" if aggregate else "plots.py.jinja")
    # A replot of an aggregate contains the refused script.
    refused = inputs.purpose == "replot" or inputs.complaints
    script = add_labels(study, inputs.plots, " ".join(inputs.complaints), sound) if refused else sound
    edits = compute_changes(inputs.plots, script) if refused and inputs.plots else ()
    shorter = edits and sum(len(one.find) + len(one.replace) for one in edits) < len(script)
    return Plots(edits=edits) if shorter else Plots(plots=script)


def answer_figures(inputs: FiguresInputs) -> FigureScript:
    """Return the final figures of the study, according to what was recorded."""
    plan = inputs.data_plan
    if plain_study.is_plain_study(inputs):
        return plain_study.write_plain_figure(inputs)
    measured = {statistic.dataset for statistic in inputs.statistics}
    datasets = [use.name for use in plan.datasets if use.name in measured][:3] or [plan.datasets[0].name]
    every = list(_choose_figures(inputs, tuple(datasets)))
    chosen = [one for one in every if one.name not in inputs.keep] or every
    ablated, primary = _list_ablated_arms(inputs)[:MAX_ABLATIONS], plan.primary_metric
    script = render_template(
        "figures.py.jinja",
        datasets=datasets,
        ablations=ablated,
        factor=plan.factor,
        split="test" if any(one.key.startswith("test/") for one in inputs.statistics) else "validation",
        arms={arm.name: arm.title or arm.name for arm in plan.arms if arm.role != "ablation"},
        levels={level.name: level.title or level.name for level in plan.levels},
        values={level.name: level.value for level in plan.levels},
        primary=primary.name,
        method=next(arm.name for arm in plan.arms if arm.role == "method"),
        primary_title=primary.title or primary.name,
    )
    return FigureScript(script=script, figures=tuple(chosen))


def answer_figure_review(_: FigureReviewInputs) -> PaperFigureReviews:
    """Review nothing: this model sees no images."""
    return PaperFigureReviews(looked=False)


def _list_ablated_arms(inputs: FiguresInputs) -> list[str]:
    measured = {parse_arm(s.condition) for s in inputs.statistics if s.name == inputs.data_plan.primary_metric.name}
    arms = dict.fromkeys(parse_arm(condition) for condition in inputs.ablations)
    return [arm for arm in arms if arm in measured]


def _choose_figures(inputs: FiguresInputs, datasets: tuple[str, ...]) -> Iterator[FigurePart]:
    """Yield the figures with the calls that draw them: of each slot, the first that can be drawn."""
    plan, taken = inputs.data_plan, set[str]()
    names = {
        "primary": plan.primary_metric.name,
        "title": plan.primary_metric.title or plan.primary_metric.name,
        "main": plan.datasets[0].name.replace("_", " "),
        "better": "Higher" if plan.primary_metric.higher_is_better else "Lower",
    }
    for spec in find_study_by_idea(inputs.idea).figures:
        if spec.slot not in taken and _is_drawable(spec, inputs):
            taken.add(spec.slot)
            yield FigurePart(
                name=spec.name,
                description=spec.description.format(**names),
                code=spec.call.format(**names),
                panels=len(datasets) if spec.panels == "datasets" else spec.panels,
                datasets=datasets if spec.shows == "all" else datasets[:1],
            )


def _is_drawable(spec: FigureSpec, inputs: FiguresInputs) -> bool:
    return (
        (not spec.array or any(re.search(spec.array, array.path) for array in inputs.arrays))
        and (not spec.metric or any(metric.name == spec.metric for metric in inputs.data_plan.metrics))
        and (not spec.ablations or bool(_list_ablated_arms(inputs)))
    )


# Roles `reviewer_requests`, `addendum` and `respond`: requests by their words, controls from the study's own parts.

USUAL_ADDED_SEEDS = 3
_ASKING = re.compile(
    r"\b(?:please|should|could|would|must|need|needs|missing|lacks?|unclear|only|why|how|ask|asks|want)\b|\?$",
    re.IGNORECASE,
)
_KINDS: tuple[tuple[RequestKind, re.Pattern[str]], ...] = (
    ("more seeds", re.compile(r"\b(?:seeds|repetitions|runs)\b", re.IGNORECASE)),
    ("new control", re.compile(r"\b(?:without|ablat\w+|controls?|alone|remov\w+)\b", re.IGNORECASE)),
    ("other baseline", re.compile(r"\bbaselines?\b|\bcompare\w* (?:with|to|against)\b", re.IGNORECASE)),
    (
        "clearer text",
        re.compile(r"\b(?:unclear|clarif\w+|explain\w*|defin\w+|describe\w*|text|figure)\b", re.IGNORECASE),
    ),
    ("other", re.compile(r"\b(?:data|datasets?|larger|theory|code)\b", re.IGNORECASE)),
)


def answer_reviewer_requests(inputs: ReviewerRequestsInputs) -> ReviewerRequests:
    """Return each sentence that asks for something, by the first kind whose words it has."""
    found = [one for number, review in enumerate(inputs.reviews, 1) for one in _list_requests(number, review)]
    return ReviewerRequests(requests=tuple(found[:MAX_REQUESTS]))


def _list_requests(number: int, review: str) -> Iterator[FoundRequest]:
    for sentence in re.split(r"(?<=[.?!])\s+", " ".join(review.split())):
        kind: RequestKind | None = next((kind for kind, words in _KINDS if words.search(sentence)), None)
        if kind is not None and len(sentence.split()) > 3 and _ASKING.search(sentence):
            quote = " ".join(sentence.split()[:30])
            yield FoundRequest(review=number, kind=kind, request=sentence[:600], quote=quote)


def answer_addendum(inputs: AddendumInputs) -> AddendumPlan:
    """Return an arm for each part of the method that a request names and nobody measured, and seeds where asked for."""
    taken = {one.ablation.name for one in inputs.trials if one.outcome == "measured"}
    measures: list[PlannedMeasure] = []
    for one in inputs.requests:
        if one.kind == "more seeds" and inputs.seeds:
            measures.append(PlannedMeasure(request=one.id, seeds=USUAL_ADDED_SEEDS))
        else:
            found = _plan_arm(inputs, one, taken)
            taken |= {found.ablation.name} if found.ablation is not None else set()
            measures.append(found)
    return AddendumPlan(measures=tuple(measures))


def _plan_arm(inputs: AddendumInputs, one: ReviewerRequest, taken: set[str]) -> PlannedMeasure:
    text = f"{one.request} {one.quote}".lower()
    unknown = is_repository_study(inputs) or is_table_study(inputs.data_plan)
    parts = () if unknown else find_study_by_idea(inputs.idea).ablations
    named = [part for part in parts if part.part.lower() in text or any(word in text for word in part.keywords)]
    new = next((part for part in named if part.condition not in taken), None)
    if new is None:
        known = f"the paper has it as {named[0].condition}" if named else "the offline model knows no such experiment"
        return PlannedMeasure(request=one.id, reason=known)
    level = f"@{inputs.data_plan.levels[-1].name}" if inputs.data_plan.levels else ""
    estimand = f"{new.condition}{level} - method{level}"
    estimate = EstimateRequest(name=new.condition, estimand=estimand, purpose=f"what {new.part} contributes")
    return PlannedMeasure(request=one.id, ablation=to_ablation(new, inputs.data_plan), estimates=(estimate,))


def answer_respond(inputs: RespondInputs) -> WrittenAnswers:
    """Return an answer for each request according to its outcome, with the first sentence of the paper on it."""
    texts = [section.body for section in inputs.draft.sections]
    sentences = [one for text in texts for one in re.split(r"(?<=[.?!])\s+", text)]
    return WrittenAnswers(answers=tuple(_answer_request(one, sentences) for one in inputs.outcomes))


def _answer_request(one: RequestOutcome, sentences: list[str]) -> WrittenAnswer:
    if one.values:
        answer = "Thank you, we measured this and report it, whatever it shows."
        quote = next((text for text in sentences if text.startswith("Reviewers of an earlier version")), "")
    elif one.outcome:
        answer, quote = "We agree that this would be worth knowing, but we did not measure it.", ""
    else:
        answer, quote = "Thank you.", next(_find_shared(one.request, sentences), "")
        answer += " The paper says this in the passage below." if quote else " We changed nothing for it."
    return WrittenAnswer(request=one.request.id, answer=answer, quote=" ".join(quote.split()[:30]))


def _find_shared(request: ReviewerRequest, sentences: list[str]) -> Iterator[str]:
    """Yield sentences with three long words of a request."""
    words = {one for one in re.findall(r"[a-z]+", request.quote.lower()) if len(one) > 5}
    yield from (one for one in sentences if len(words & set(re.findall(r"[a-z]+", one.lower()))) > 2)
