"""Typeset a paper in a folder of its own, and check the result.

All files are first written into a draft folder, which is renamed when it is complete, so a reader never sees a partial
file or an outdated PDF.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import NamedTuple

from labwright.literature.bibtex import parse_bibtex
from labwright.pdf.reader import PdfError, read_pdf
from labwright.record.claims.requested_estimates import list_requests
from labwright.record.claims.sentences import join_names
from labwright.record.events.paper_events import DraftAssessed
from labwright.record.reducers.run_state import RunState
from labwright.record.result_macros import ResultMacroUse, fill_macros, is_interval_form, print_value, to_plain_text
from labwright.record.run_folder import create_draft_folder, seal_folder
from labwright.record.schema.paper import PaperDraft, PaperFinding, Section
from labwright.record.table import format_quantity
from labwright.record.untrusted_files import remove_tree
from labwright.review.evidence import (
    Evidence,
    Violation,
    check_draft,
    check_pdf,
    find_sentence_spans,
    numbers,
    scan,
    tex_runner,
)
from labwright.review.evidence.pdf_check import extract_pdf_text, find_tex_error
from labwright.stages.paper.latex_sources import LatexSources, PaperParts, PaperTable, build_sources
from labwright.stages.paper.outline import count_page_words, measure_floats
from labwright.stages.paper.paper_context import PaperContext, build_paper_parts
from labwright.stages.paper.required_statements import complete_draft
from labwright.stages.paper.template import PaperTemplate, TemplateError
from labwright.stages.run_context import RunContext

# Turn the output of a compilation into short findings that a writer can act on. Also check the page limit and the
# length of the abstract.

MIN_OVERFULL_POINTS = 10.0
"""Points by which a line must be overfull to be a finding."""
MIN_TABLE_PERCENT = 70
"""Scale in percent below which a shrunk table is a finding."""


def parse_log(log: str, source: str = "") -> tuple[PaperFinding, ...]:
    """Return the findings in a LaTeX log: references, citations, overfull boxes, missing characters. `source` is
    paper.tex."""
    found = [
        PaperFinding(text=f"{kind.lower()} {name!r} is undefined and prints ??", blocks=True)
        for kind, name in re.findall(r"(Reference|Citation) `([^']*)' on page \S+ undefined", log)
    ]
    for match in re.finditer(r"Overfull \\hbox \(([\d.]+)pt too wide\)([^\n]*)", log):
        if float(match[1]) > MIN_OVERFULL_POINTS:
            lines = re.search(r"lines? (\d+)", match[2])
            appendix = 0 <= log.find("(./appendix.tex") < match.start()
            where = "the appendix" if appendix else find_section(source, int(lines[1])) if lines and source else ""
            prefix, place = f"{where}: " if where else "", match[2].replace(" in paragraph", ",")
            line = f"{prefix}a line is too wide by {float(match[1]):.0f} pt{place}: reword it"
            found.append(PaperFinding(text=line, by_edit=not appendix))
    for match in re.finditer(r"Overfull \\vbox \(([\d.]+)pt too high\)", log):
        if float(match[1]) > MIN_OVERFULL_POINTS:
            found.append(PaperFinding(text=f"a page is overfull by {float(match[1]):.0f} pt: shorten a float"))
    lines = [
        f"the table {name!r} is shrunk to {percent} %: it is too wide or too long for the page"
        for name, percent in re.findall(r"paper: table (\S+) is set at (\d+) percent", log)
        if int(percent) < MIN_TABLE_PERCENT
    ]
    lines += [f"missing character: {line}" for line in re.findall(r"Missing character: (.*)", log)]
    lines += [f"the label {name!r} is defined twice" for name in re.findall(r"Label `([^']*)' multiply defined", log)]
    return tuple(dict.fromkeys((*found, *(PaperFinding(text=line) for line in lines))))


LINE_INCHES = 12 / 72
"""Height of a line of text."""
MAX_OVERFULL_SHARE = 1.01
"""Share of a page above which its text is not only a little too high."""


class MainTextLength(NamedTuple):
    """The pages of main text, with the used part of the last one, those up to the end of the words, and the labels of
    the floats that stand alone on the last page."""

    pages: float
    words_end: float
    late_floats: tuple[str, ...] = ()


def measure_pages(folder: Path, floats: Mapping[str, float]) -> MainTextLength | None:
    """Return the length of the main text from the .aux file and the log; references and appendix do not count. `floats`
    maps the label of each float of the text to the share of a page that it takes."""
    aux, log = ((folder / f"paper.{suffix}").read_text(errors="replace") for suffix in ("aux", "log"))
    pages = {
        name: int(page) for name, page in re.findall(r"\\newlabel\{([^{}]*)\}\{\{(?:[^{}]|\{[^{}]*\})*\}\{(\d+)\}", aux)
    }
    if (end := pages.get("paper:main-end")) is None:
        return None
    total = re.search(r"paper: main text ends at ([\d.]+)pt of ([\d.]+)pt", log)
    used = float(total[1]) / float(total[2]) if total is not None else 1.0
    # in styles of earlier versions, the last lines may still wait for the next page
    words_end = end - 1 + (used - 1 if used > MAX_OVERFULL_SHARE else min(1.0, used))
    last = max([end, *(pages[name] for name in floats if name in pages)])
    if last == end:
        return MainTextLength(words_end, words_end)
    late = tuple(name for name in floats if pages.get(name) == last)
    return MainTextLength(last - 1 + min(1.0, sum(floats[name] for name in late)), words_end, late)


def count_lines(pages: float, template: PaperTemplate) -> int:
    """Return how many lines of text fill a number of pages."""
    return ceil(pages * template.columns * template.text_height / LINE_INCHES)


def check_length(length: MainTextLength, template: PaperTemplate) -> tuple[PaperFinding, ...]:
    """Return a finding if the main text exceeds the template's page limit: what is beyond it, floats only if the words
    are not."""
    limit = template.page_limit
    if ceil(length.pages) <= limit:
        return ()

    def count(pages: float) -> str:
        return format_quantity(count_lines(pages - limit, template), "line")

    beyond = f" by about {count(length.words_end)} of text"
    if ceil(length.words_end) <= limit:
        names = join_names([label.replace("fig:", "figure ").replace("tab:", "table ") for label in length.late_floats])
        stand = "stand" if len(length.late_floats) > 1 else "stands"
        beyond = f", since {names} {stand} alone on a further page (about {count(length.pages)})"
    text = (
        f"the main text is too long{beyond}: its limit is {format_quantity(limit, 'page')}; shorten it, or move a "
        "figure to the appendix"
    )
    return (PaperFinding(text=text, blocks=True),)


def find_section(source: str, line: int) -> str:
    """Return the part of the draft, by the writer's name for it, that contains a line of paper.tex."""
    before = "\n".join(source.splitlines()[:line])
    titles = re.findall(r"^\\section\{(.*)\}$", before, re.MULTILINE)
    if titles:
        return f"section {titles[-1]!r}"
    return "abstract" if "\\begin{abstract}" in before else f"paper.tex line {line}"


MIN_FILLED_SHARE = 0.6
"""Share of the page limit below which a paper is too short."""


def check_thinness(pages: float | None, limit: int) -> tuple[str, ...]:
    """Return a complaint if a paper leaves much of its space unused."""
    if pages is None or pages >= MIN_FILLED_SHARE * limit:
        return ()
    return (
        f"the main text fills {pages:.1f} of {limit} pages: report more of the method, settings, results and failures "
        "in the record",
    )


MAX_ABSTRACT_SENTENCES, MAX_ABSTRACT_NUMBERS = 6, 4
"""Limits of an abstract. One number per confirmatory effect is always allowed."""


def check_abstract(abstract: str, evidence: Evidence) -> tuple[str, ...]:
    """Return complaints about an abstract with too many sentences or numbers; statements added by the
    program, intervals with their confidence and what the set-up has (levels, margins, sizes, rates) do not count."""
    for statement in evidence.statements:
        abstract = abstract.replace(statement, "")
    count = sum(1 for _ in find_sentence_spans(scan(abstract)))

    def value(use: ResultMacroUse) -> str:
        found = evidence.find_value(use)
        return "" if found is None or use.macro == "setup" or is_interval_form(use.key) else to_plain_text(found)

    printed = fill_macros(abstract, value)
    plain = re.sub(r"\\([%&#_$])", r"\1", printed)
    found = [text for _, text in numbers.find_numbers(evidence.mask_typed(plain))]
    registered = evidence.plan.hypotheses if evidence.plan is not None else ()
    most = max(MAX_ABSTRACT_NUMBERS, sum(len(one.effects) for one in registered if one.confirmatory))
    long = f"the abstract has {count} sentences: use at most {MAX_ABSTRACT_SENTENCES}, the finding first"
    full = (
        f"the abstract prints {len(found)} numbers ({', '.join(found)}): use at most {most}, those in intervals or of "
        r"\setup not counted; leave out whole results, which tables have, and no number that says what was asked"
    )
    return (*[long] * (count > MAX_ABSTRACT_SENTENCES), *[full] * (len(found) > most))


@dataclass(frozen=True)
class PaperAssessment:
    """The assessment of a compiled paper. `findings` need fixing; `violations` come from the evidence check."""

    pdf: Path | None = None
    pages_filled: float | None = None
    """Pages of main text, counting only the used part of the last page."""
    findings: tuple[PaperFinding, ...] = ()
    violations: tuple[Violation, ...] = ()

    @property
    def pages(self) -> int | None:
        """Pages of main text."""
        return None if self.pages_filled is None else ceil(self.pages_filled)


async def assess_paper(
    parts: PaperParts, template: PaperTemplate, folder: Path, *, timeout: float = 120.0
) -> PaperAssessment:
    """Check a draft, build it into `folder` and check the PDF. `timeout` is the TeX time limit in seconds for each of
    the two.

    A part of the draft with forbidden commands is printed as plain text and never reaches TeX.
    """
    violations = check_draft(parts.draft, parts.evidence)
    built = await build_paper(parts, template, folder, timeout=timeout)
    if built.pdf is not None and not parts.refused:
        violations += await check_pdf(folder, replace(parts.evidence, prints=template.prints), timeout=timeout)
    return replace(built, violations=violations)


async def build_paper(
    parts: PaperParts, template: PaperTemplate, folder: Path, *, timeout: float = 120.0
) -> PaperAssessment:
    """Write and compile the paper into `folder`. `timeout` is the limit in seconds for all TeX runs.

    Without TeX, only the sources are written, and a finding names what to install.
    """
    made = build_sources(parts, template)
    work = create_draft_folder(folder)
    try:
        for file, text in made.files.items():
            (work / file).parent.mkdir(exist_ok=True)
            (work / file).write_text(text, encoding="utf-8")
        (work / "figures").mkdir()
        for file, path in made.copies.items():
            shutil.copyfile(path, work / file)
        try:
            built = await _compile(work, made, parts, template, timeout)
        except tex_runner.TexMissing as missing:
            built = PaperAssessment(findings=(PaperFinding(text=str(missing), blocks=True),))
        kept = {work / file for file in (*made.files, *made.copies, "paper.bbl", "paper.log")} | {built.pdf}
        for path in work.iterdir():
            if path.is_file() and path not in kept:
                path.unlink()
        seal_folder(work, folder)
    finally:
        remove_tree(work, ignore_errors=True)
    found = tuple(dict.fromkeys((*made.findings, *built.findings)))
    return replace(built, pdf=folder / "paper.pdf" if built.pdf else None, findings=found)


async def _compile(
    work: Path, made: LatexSources, parts: PaperParts, template: PaperTemplate, timeout: float
) -> PaperAssessment:
    failed = _find_failure(await tex_runner.run_latexmk("paper", work, timeout=timeout), work, timeout)
    if failed:
        return PaperAssessment(findings=(PaperFinding(text=failed, blocks=True),))
    log = (work / "paper.log").read_text(errors="replace")
    words = measure_floats(
        [one for one in parts.figures if one.placement == "main"],
        [one for one in parts.tables if one.placement == "main"],
        parts.draft.captions,
        template,
    )
    length = measure_pages(work, {label: room / count_page_words(template) for label, room in words.items()})
    too_long = check_length(length, template) if length is not None else ()
    fonts = await _check_type3_fonts(work / "paper.pdf")
    findings = (*parse_log(log, made.files["paper.tex"]), *too_long, *fonts)
    return PaperAssessment(work / "paper.pdf", length.pages if length is not None else None, findings)


def _find_failure(ran: tex_runner.ProcessResult, work: Path, timeout: float) -> str:
    """Return why there is no PDF; empty if there is one, even if its references are unresolved."""
    if ran.timed_out:
        return f"TeX timed out after {timeout:g} s and was killed (probably an infinite TeX loop)"
    unsettled = "Maximum runs of" in ran.output and (work / "paper.pdf").exists()
    if ran.code == 0 or unsettled:
        return ""
    if "Bibtex errors" in ran.output and (work / "paper.blg").exists():
        said = " ".join((work / "paper.blg").read_text(errors="replace").split())
        if missing := re.search(r"couldn't open style file (\S+\.bst)", said):
            package = tex_runner.guess_debian_package(missing[1])
            return f"bibtex failed: no file {missing[1]}: add it to the template, or apt-get install {package}"
        return f"bibtex failed: {said[-300:]}"
    line = ""  # source line named by the error
    place = re.search(r"^(?:\./)?([\w.-]+):(\d+): (?!Emergency| ==>)", ran.output, re.MULTILINE)
    if place is not None and (work / place[1]).exists():
        lines = (work / place[1]).read_text(errors="replace").splitlines()
        at = int(place[2]) - 1
        line = f" in: {lines[at].strip()[:200]!r}" if at < len(lines) else ""
    return f"TeX stopped at an error: {find_tex_error(ran.output)}{line}"


async def _check_type3_fonts(pdf: Path) -> tuple[PaperFinding, ...]:
    """Return a finding if words are set in Type 3 fonts, which print and search badly."""
    try:
        document = await asyncio.to_thread(read_pdf, pdf, timeout=30)
    except PdfError:
        return ()
    pages = ", ".join(str(number) for number, page in enumerate(document.pages, 1) if page.has_type3)
    if not pages:
        return ()
    text = f"Type 3 fonts in the PDF (page {pages}): save figures with pdf.fonttype 42"
    return (PaperFinding(text=text, by_edit=False),)


# Typeset a two-line sample paper to check a template.
#
# Guarantees, if `try_template` raises nothing: the skeleton compiles with a title, an abstract, a section, a table, a
# citation and an appendix; all of them and the notice are in the PDF; the end of the main text is marked, so that the
# page limit can be checked; the style prints no number that counts as unbound. Limits: a long paper may still look bad.

TIMEOUT_SECONDS = 60.0
"""TeX time limit for the sample."""

_KEY = "sample/value.mean"
_WORDS = {
    "title": "Samplename",
    "abstract": "Samplesummary",
    "sections": "Samplebody",
    "authors": "Samplewriter",
    "notice": "Samplenotice",
    "sections (their titles)": "Sampleheading",
    "appendix": "Sampleappendix",
}
"""The skeleton variable that prints each mark."""
_FACES = r"\emph{a} \textbf{b} \textsf{c} \textsf{\textbf{d}} \texttt{e} \textsc{f} é $x_i$"
"""Every font style that a paper may use, so that missing fonts show now."""
_ENTRY = "@misc{sample, title = {Samplework}, author = {Doe, Jane}, year = {2000}, verified = {sample}}"


async def try_template(template: PaperTemplate, *, anonymous: bool = False) -> None:
    """Typeset the sample. Raises `TemplateError` and `review.evidence.tex_runner.TexMissing`."""
    tex_runner.find_program("pdflatex")
    with tempfile.TemporaryDirectory(prefix="scientist-template-", ignore_cleanup_errors=True) as name:
        folder = Path(name) / "paper"
        body = f"Samplebody \\result{{{_KEY}}} \\citep{{sample}}. {_FACES}\n\n\\papertable{{sample}}"
        sections = (Section(title="Sampleheading", body=body),)
        names, results = frozenset({"sample"}), {_KEY: print_value(0.5, 1)}
        parts = PaperParts(
            draft=PaperDraft(title="Samplename", abstract="Samplesummary.", sections=sections),
            authors="Samplewriter",
            anonymous=anonymous,
            notice="Samplenotice",
            appendix="\\recordappendix\n\\section{Sampleappendix}\n\\begin{longtable}{L{0.5\\linewidth}}a\\\\\n"
            "\\end{longtable}\n",
            library=parse_bibtex(_ENTRY),
            tables=(PaperTable("sample", rf"\begin{{tabular}}{{c}}\result{{{_KEY}}}\end{{tabular}}", "A table."),),
            evidence=Evidence(results=results, cites=names, tables=names),
        )
        built = await build_paper(parts, template, folder, timeout=TIMEOUT_SECONDS)
        if built.pdf is None:
            raise TemplateError(f"template {template.name!r} does not compile a two-line paper: {built.findings[0]}")
        text = "".join((await extract_pdf_text(folder / "paper.pdf")).split()).casefold()  # styles use small capitals
        faults = [
            f"prints no {what}: its skeleton needs << {what.split(' ')[0]} >>"
            for what, mark in _WORDS.items()
            if mark.casefold() not in text and not (anonymous and what == "authors")
        ]
        if built.pages is None:
            faults.append(
                r"does not mark the end of the main text: its skeleton needs \maintextends after the last section"
            )
        stamped = build_sources(replace(parts, refused=("a sample",)), template).files["paper.tex"]
        if r"\draftwatermark{" not in stamped:
            watermark = r"<% if draft %>\draftwatermark{DRAFT}<% endif %>"
            faults.append(f"does not mark a refused paper: its skeleton needs {watermark}")
        for one in await check_pdf(folder, replace(parts.evidence, prints=template.prints)):
            faults.append(
                f"prints a number that is not in the record: {one.excerpt}; if its style prints this text, list it "
                "under 'prints' in template.toml"
                if one.kind == "number"
                else f"cannot be checked: {one}"
            )
        if faults:
            raise TemplateError(f"template {template.name!r} {faults[0]}")


# Assess versions of a paper's text as a whole, and rank them by their faults; the best one is released.


def build_paper_context(context: RunContext, decision_id: int | None = None) -> PaperContext:
    """Return the record from which a paper is built, either the current one or that of a decision, which prompts
    use.
    """
    state = context.state if decision_id is None else context.state.with_decision_context(decision_id)
    isolation, requests = context.isolation(state), list_requests(state)
    return PaperContext(state, context.folder, context.paper, context.notice(state), isolation, requests)


async def assess_new_draft(context: RunContext, draft: PaperDraft, *, number: int) -> DraftAssessed:
    """Assess a version of the text, built in its own folder. The result is not yet recorded."""
    material = replace(build_paper_context(context), requests=list_requests(context.state, draft))
    found = await assess_draft(context, material, draft, f"round{number}")
    limit = material.template.page_limit
    return DraftAssessed(
        round=number,
        draft=draft,
        pages=found.pages,
        filled=None if found.pages_filled is None else round(found.pages_filled, 2),
        findings=found.findings,
        over=round(max(0.0, (found.pages_filled or 0.0) - limit), 2),
        left_out=complete_draft(draft, material.statements)[0],
        violations=tuple(str(violation) for violation in found.violations),
        untied=dict(Counter(violation.where for violation in found.violations)),
        complaints=(
            *(f"section {one.title!r} is empty: write it" for one in draft.sections if not one.body.strip()),
            *check_thinness(found.pages_filled, limit),
            *check_abstract(draft.abstract, material.evidence),
        ),
    )


async def assess_draft(
    context: RunContext,
    material: PaperContext,
    draft: PaperDraft,
    folder: str,
    *,
    refused: Sequence[str] = (),
    whole: bool = False,
) -> PaperAssessment:
    """Check a draft and build it into a folder of the paper's rounds. If `refused` has reasons, the paper is
    stamped as a DRAFT; `whole` adds the data of the supplement.
    """
    return await assess_paper(
        build_paper_parts(material, draft, refused=refused, whole=whole),
        material.template,
        context.folder.paper_folder / "rounds" / folder,
        timeout=context.paper.timeout,
    )


async def assess_edit(context: RunContext, draft: PaperDraft, *edits: str, anew: bool = False) -> DraftAssessed:
    """Assess an edit of the best version that is not a reflection; with `anew`, earlier versions no longer count. An
    unchanged draft is that version."""
    best = select_best(context.state.paper.drafts)
    if draft == best.draft:
        return best
    made = await assess_new_draft(context, draft, number=find_next_round(context.state))
    return made.model_copy(update={"done": best.done, "edits": edits, "refused": (), "anew": anew})


def find_next_round(state: RunState) -> int:
    """Return the number of the next version outside the rounds of reflection; none that was read before has it."""
    return max(*(one.round for one in state.paper.drafts), *state.paper.claims_read, 0) + 1


def select_best(drafts: Sequence[DraftAssessed]) -> DraftAssessed:
    """Return the version to release: fewest violations and omissions, then fewest faults; among equals the latest."""
    return min(reversed(list_current(drafts)), key=rank_version)


def list_current(drafts: Sequence[DraftAssessed]) -> Sequence[DraftAssessed]:
    """Return the versions assessed since the record last changed or overclaims were cut."""
    return drafts[max((at for at, one in enumerate(drafts) if one.anew), default=0) :]


def rank_version(version: DraftAssessed) -> tuple[float, ...]:
    """Return the faults of a version as a sort key, most important first; lower is better."""
    return (
        len(version.violations) + len(version.left_out),
        sum(finding.blocks for finding in version.findings),
        version.over,
        len(version.findings) + len(version.complaints),
    )


def list_obstacles(assessment: PaperAssessment) -> tuple[str, ...]:
    """Return the reasons not to release the version; empty if there are none."""
    untied = tuple(str(violation) for violation in assessment.violations)
    return untied + tuple(finding.text for finding in assessment.findings if finding.blocks)
