"""`scientist judge`: score a paper, or the paper of a run, against a rubric. A run's log is not modified."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rich.text import Text

from labwright.agent.audit import audit_run
from labwright.agent.cli.commands import Judge
from labwright.agent.cli.errors import DONE, FAILED, format_line, print_result, print_to_stderr, take_first
from labwright.agent.cli.status import read_paper_state
from labwright.agent.forecast import open_model
from labwright.agent.settings import compose_settings, override_settings
from labwright.inspector.live_view import find_process
from labwright.inspector.safe_text import to_plain
from labwright.models.client import ModelClient
from labwright.models.offline.judgements import CONFIGURE_MODEL_HINT
from labwright.models.roles.judge import INFLUENCE, JUDGE, Rubric
from labwright.models.settings import ModelSettings
from labwright.record.errors import UsageError
from labwright.record.event_log import RecordError, is_run
from labwright.record.run_folder import RunFolder
from labwright.record.schema.paper import (
    TEXT_ONLY_DIMENSION,
    AuditFacts,
    Judgement,
    JudgePanel,
    RemovedPassage,
    ScoreSpread,
)
from labwright.record.table import Table, format_quantity
from labwright.record.zips import refuse_zip
from labwright.review.evidence.tex_runner import TexError
from labwright.review.external_papers import collect_audit_facts
from labwright.review.judge import (
    JudgeCase,
    PanelMember,
    ask_panel,
    build_code_exhibit,
    drop_pictures,
    find_family_warnings,
    find_rubric,
    guard_paper,
    judge_case,
    load_bundled_rubrics,
    read_file_exhibit,
    read_paper,
    read_results_exhibit,
    render_pages,
    screen_case,
)
from labwright.review.judge.attachments import MAX_PAGES
from labwright.review.judge.guards import neutralise
from labwright.stages.paper.paper_steps import build_case, write_judgement

# Output of `scientist judge`: scores with reasons, the material that the judges saw, and the audit.

NOT_QUOTED = "not in the paper"
PAPER_ONLY_NOTE = "the judge saw only the paper: no code, log, record or audit"
MAX_LISTED = 12


def format_judgement(found: Judgement | JudgePanel) -> Iterator[Text | Table]:
    """Format a judgement as a table, or a panel as the spread of each dimension, each judgement and the missing ones.
    Then add the audit, removed passages and warnings."""
    head = f"{found.paper}, rubric {found.rubric}"
    if isinstance(found, Judgement):
        judgements = (found,)
        yield format_line(f"{head}, judged by {found.model}")
        yield from _format_scores(found)
    else:
        judgements = found.judgements
        yield format_line(f"{head}: {len(judgements)} of {format_quantity(found.asked, 'judgement')}")
        if found.dimensions and len(judgements) > 1:
            yield Table.of(("dimension", "n", "mean", "sd", "range", "scores", ""), map(_list_spread, found.dimensions))
        for judgement in judgements:
            yield Text(f"\n{to_plain(judgement.model)}", style="bold")
            yield from _format_scores(judgement)
    yield from _format_judge_inputs(judgements)
    if isinstance(found, JudgePanel):
        yield from (
            format_line(f"{one.model}, {one.repeat}: {one.why}", "bold red", label="missing: ") for one in found.missing
        )
    if found.audit is not None:
        yield from format_audit(found.audit)
    yield from format_removed(judgements[0].removed if judgements else ())
    yield from (format_line(warning, "yellow", label="warning: ") for warning in found.warnings)


def _list_spread(one: ScoreSpread) -> tuple[str | Text, ...]:
    """Return the row of a dimension: how much the judges' scores differ."""
    sd, disagree = "-" if one.sd is None else f"{one.sd:.2f}", "judges disagree" if one.disagree else ""
    scores = ", ".join(map(str, one.scores))
    return one.dimension, str(one.n), f"{one.mean:.2f}", sd, str(one.range), scores, Text(disagree, "bold yellow")


def format_audit(facts: AuditFacts) -> Iterator[Text]:
    """Format the findings of the audit."""
    numbers = [format_quantity(facts.numbers, "number")] if facts.numbers or not facts.counts else []
    counts = ", ".join([*numbers, *(f"{what} {count}" for what, count in facts.counts)])
    yield format_line(f"audit against {facts.against}: {counts}")
    yield from (format_line(finding, "red", label="! ") for finding in facts.findings[:MAX_LISTED])
    if (more := facts.more + max(0, len(facts.findings) - MAX_LISTED)) > 0:
        yield Text(f"and {format_quantity(more, 'more finding')}: scientist audit shows all", style="dim")
    yield from (format_line(f"not audited: {left_out}", "dim") for left_out in facts.left_out[:MAX_LISTED])


def format_removed(removed: Sequence[RemovedPassage]) -> Iterator[Text]:
    """Format the passages that the guards removed."""
    if removed:
        yield Text(f"hidden from the model: {format_quantity(len(removed), 'passage')}", style="bold yellow")
    texts = (f"{one.kind}, by the {one.by}, {one.where}: {one.text[:300]}" for one in removed)
    yield from take_first([format_line(text, "yellow", label="removed: ") for text in texts], MAX_LISTED)


def _format_scores(found: Judgement) -> Iterator[Text | Table]:
    if found.heuristic:
        yield Text("HEURISTIC: computed from the record of the run; no model read the paper", style="bold yellow")
    yield Table.of(("dimension", "score", "reason"), _list_score_rows(found))
    yield from (format_line(strength, "green", label="+ ") for strength in found.strengths)
    yield from (format_line(weakness, "red", label="- ") for weakness in found.weaknesses)
    results = [found.results] if found.results is not None else []
    given = [one.quoted for one in (*found.scores, *found.checks, *results) if one.quote]
    if not all(given):
        yield Text(f"{given.count(False)} of {format_quantity(len(given), 'quote')}: {NOT_QUOTED}", style="bold red")


def _list_score_rows(found: Judgement) -> Iterator[tuple[str, str, str | Text]]:
    """Yield rows for the checks, the scores, the score of the text alone, and the origin of the results."""
    for one in found.checks:
        reason = _format_reason(one.details, one.quote, one.quoted or not one.quote)
        yield one.check, "yes" if one.answer else "no", reason
    for one in found.scores:
        yield one.dimension, f"{one.score}/{one.highest}", _format_reason(one.reason, one.quote, one.quoted)
    if (alone := found.text_alone) is not None:
        yield TEXT_ONLY_DIMENSION, f"{alone.score}/{alone.highest}", alone.reason
    if (one := found.results) is not None:
        mark = f" ({one.where})" if one.where else ""
        yield "results", one.answer, _format_reason(one.details, one.quote, one.quoted or not one.quote) + mark
    yield "confidence", f"{found.confidence}/{found.most_confidence}", ""


def _format_judge_inputs(judgements: Sequence[Judgement]) -> Iterator[Text]:
    """Format what the judges saw, once if all saw the same."""
    models_by_inputs: dict[tuple[str, ...], list[str]] = {}
    for one in judgements:
        pages = ", ".join(map(str, one.pages))
        seen = (
            *([PAPER_ONLY_NOTE] if one.view == "paper" else []),
            *([f"read: {one.coverage}"] if one.coverage else []),
            *([f"pages seen: {pages}"] if pages else []),
            *(f"also shown: {exhibit}" for exhibit in one.exhibits),
            *(f"not shown to the judge: {left_out}" for left_out in one.left_out),
        )
        models_by_inputs.setdefault(seen, []).append(one.model)
    for seen, models in models_by_inputs.items():
        head = [f"{', '.join(dict.fromkeys(models))}:"] if len(models_by_inputs) > 1 else []
        yield from (format_line(text, "dim") for text in [*head, *seen])


def _format_reason(reason: str, quote: str, quoted: bool) -> Text:
    """Format a reason and its quote, marked if the quote is not in the paper."""
    mark = "" if quoted else f" ({NOT_QUOTED})"
    quotation = f"\u201c{to_plain(quote)}\u201d" if quote else ""
    return Text(f"{to_plain(reason)} ") + Text(quotation, style="dim") + Text(mark, style="bold red")


MAX_JUDGES, MAX_REPEATS = 12, 20
MAX_FINDINGS_LISTED = 30


def run_judge(args: Judge) -> int:
    if args.rubric == "list":
        for name, one in load_bundled_rubrics().items():
            print(f"{name}: {one.title}. {', '.join(part.name for part in (*one.checks, *one.dimensions))}")
        return DONE
    path, judges = args.paper, [name.strip() for name in args.judges.split(",") if name.strip()]
    if path is None:
        raise UsageError("Missing argument 'PAPER|RUN': give a paper or the folder of a run (scientist judge --help)")
    if len(judges) > MAX_JUDGES or not 1 <= args.n <= MAX_REPEATS:
        raise UsageError(f"--judges takes at most {MAX_JUDGES} models, and --n is from 1 to {MAX_REPEATS}")
    try:
        rubric = find_rubric(args.rubric)
        if not path.exists():
            raise UsageError(f"{path} does not exist: give a paper (PDF, LaTeX, Markdown) or the folder of a run")
        refuse_zip(path)  # a judgement is written into the run
        if path.is_dir() and is_run(path):
            return _judge_run(args, path, rubric, judges)
        found = asyncio.run(_judge_paper(args, path, rubric, judges))
    except (TexError, RecordError) as error:
        raise UsageError(str(error)) from None
    print_result(found, format_judgement(found), json=args.json)
    return _choose_exit_code(found)


def _judge_run(args: Judge, path: Path, rubric: Rubric, judges: Sequence[str]) -> int:
    state = read_paper_state(path)
    if (process := find_process(path)) is not None:
        raise UsageError(f"{path} is in use by {process}: the run judges its paper at the end")
    if state.started is None or state.paper.released is None:
        raise UsageError(f"{path} has no paper yet: finish the run first with scientist resume {path}")
    settings = override_settings(state.started.settings, state.overrides | args.flags).models
    if _is_offline(settings, judges):
        raise UsageError(f"the offline model cannot read papers: {CONFIGURE_MODEL_HINT}")
    facts = _audit_facts(path) if args.view == "all" else None

    async def work() -> Judgement | JudgePanel:
        case = await build_case(state, RunFolder(path, state.paper.version), rubric)
        case = await attach_evidence(case, args, facts, _open_readers(settings, judges))
        return await _ask_judges(case, settings, judges, args.n, writers=state.models)

    found = asyncio.run(work())
    print_result(found, format_judgement(found), json=args.json)
    try:
        written = write_judgement(RunFolder(path), found)
    except OSError as error:
        print_to_stderr(f"the judgement above could not be written under {path}/review: {error.strerror}")
        return FAILED
    if not args.json:
        print(f"written to {written}")
    return _choose_exit_code(found)


def _audit_facts(path: Path) -> AuditFacts:
    """Return the findings of a run's audit as facts for a judge."""
    report = audit_run(path)
    findings = [f"{one.kind}, {one.where}: {one.what}" for one in report.findings]
    return AuditFacts(
        against="the record of its run",
        numbers=report.counts.get("numbers", 0),
        counts=tuple(report.counts.items()),
        findings=tuple(findings[:MAX_FINDINGS_LISTED]),
        more=max(0, len(findings) - MAX_FINDINGS_LISTED),
    )


async def _judge_paper(args: Judge, path: Path, rubric: Rubric, judges: Sequence[str]) -> Judgement | JudgePanel:
    """Judge an external paper. Raises `UsageError` for the offline model, which cannot read it."""
    settings, read = compose_settings(flags=args.flags).models, await read_paper(path)
    if _is_offline(settings, judges):
        named = "models.name" in args.flags
        why = "the offline model cannot read papers" if named else "no model is configured"
        raise UsageError(f"{why}: {CONFIGURE_MODEL_HINT}; without one: scientist audit {path}")
    facts = await collect_audit_facts(path, results=args.results) if args.view == "all" else None
    paper = await guard_paper(read)
    case = JudgeCase(paper, rubric, path.name)
    case = await attach_evidence(case, args, facts, _open_readers(settings, judges))
    return await _ask_judges(case, settings, judges, args.n)


def _is_offline(settings: ModelSettings, judges: Sequence[str]) -> bool:
    """Return whether the only judge is the offline model, which cannot read papers."""
    return not judges and settings.list_candidates(JUDGE)[0].name == "offline"


def _open_readers(settings: ModelSettings, judges: Sequence[str]) -> list[ModelClient]:
    """Return the clients that check for prompt injection: the model of that role or, if none is configured, the judges
    in order."""
    own = INFLUENCE.name in settings.roles or settings.name != "offline"
    given = [settings] if own or not judges else map(settings.select_model, judges)
    return [open_model(one).make_client(0, 0) for one in given]


async def _ask_judges(
    case: JudgeCase, settings: ModelSettings, judges: Sequence[str], repeats: int, *, writers: tuple[str, ...] = ()
) -> Judgement | JudgePanel:
    """Return one judgement, or a panel if several were requested. `writers` are the models that wrote the paper.

    Raises: `ModelError` if there is a single judge and it gives no judgement.
    """
    if judges or repeats > 1:
        members = [PanelMember(name.partition("@http")[0], open_model(settings.select_model(name))) for name in judges]
        members = members or [PanelMember(settings.list_candidates(JUDGE)[0].name, open_model(settings))]
        return await ask_panel(case, members, repeats=repeats, writers=writers)
    models = open_model(settings)
    name = models.get_model_name(JUDGE)
    case = case if models.accepts_images else drop_pictures(case)
    found = await judge_case(case, models.make_client(0, 0), model=name)
    return found.model_copy(update={"warnings": find_family_warnings([name], writers)})


def _choose_exit_code(found: Judgement | JudgePanel) -> int:
    """Return exit code 1 if no member of a panel gave a judgement."""
    if isinstance(found, Judgement) or not found.missing:
        return DONE
    print_to_stderr(f"{len(found.missing)} of {found.asked} judgements are missing")
    return DONE if found.judgements else FAILED


# Collect the material for the judge of a paper: the audit, task, log, result files, code, and page images.
#
# `python -m labwright.evals.invented_papers` builds its cases here too, so that judges see the same material. A model
# checks all of it for prompt injection before images are rendered. In the view `paper`, the judge gets only the paper,
# like a reader: no code, log, record or audit.


async def attach_evidence(
    case: JudgeCase, materials: Judge, audit: AuditFacts | None, readers: Sequence[ModelClient]
) -> JudgeCase:
    """Add the given material to the case, as its view requires; the first of the `readers` that answers checks it
    for prompt injection. Raises `JudgeError`, `TexError`."""
    task = [] if materials.task is None else [read_file_exhibit("task", materials.task)]
    if materials.view == "paper":
        case = replace(case, facts=None, audit=None, exhibits=tuple(task), view="paper")
    else:
        log = [] if materials.log is None else [read_file_exhibit("log", materials.log)]
        code = [] if materials.code is None else [build_code_exhibit(materials.code, case.guarded.paper.text)]
        results = None if materials.results is None else read_results_exhibit(materials.results, materials.log)
        shown = (*task, *log, *([results] if results is not None else []), *code)
        case = _attach_audit(replace(case, exhibits=shown), audit)
    case = await screen_case(case, *readers)
    return await _attach_page_images(case, MAX_PAGES if materials.pages is None else materials.pages)


def _attach_audit(case: JudgeCase, audit: AuditFacts | None) -> JudgeCase:
    """Add the audit to the case; quotes in its facts are sanitised like the files themselves."""
    if audit is None:
        return replace(case, audit=None)
    neutrals = [neutralise(line, "findings of the audit") for line in audit.findings]
    removed = tuple(one for _, found in neutrals for one in found)
    findings = tuple(line for line, _ in neutrals)
    paper = replace(case.guarded, removed=(*case.guarded.removed, *removed))
    return replace(case, audit=audit.model_copy(update={"findings": findings}), guarded=paper)


async def _attach_page_images(case: JudgeCase, most: int) -> JudgeCase:
    seen = case.guarded
    if not seen.pages or not most:
        return case
    pictures = await render_pages(seen.paper.path, seen.pages, withheld=seen.withheld_pages, max_pages=most)
    return replace(case, pictures=pictures)
