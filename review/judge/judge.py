"""Judge a paper with a rubric: build the question, check the quotes in the answer, ask a panel of judges.

A panel member that fails is reported as missing, with the reason. Limits: members with different names may not judge
independently. Repeats at temperature 0 measure the reproducibility of a provider's answers, not the confidence of a
judgement.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from labwright.models.client import ModelClient, Models, render
from labwright.models.errors import ImagesRefused, ModelError
from labwright.models.roles.judge import JUDGE, JudgeAnswer, JudgeInputs, RecordFacts, Rubric
from labwright.models.settings import find_family, is_same_family
from labwright.record.schema.paper import (
    AuditFacts,
    CheckResult,
    DimensionScore,
    Judgement,
    JudgePanel,
    JudgeView,
    MissingJudgement,
    RemovedPassage,
    ResultsOrigin,
    TextOnlyScore,
    compute_spreads,
)
from labwright.review.judge.attachments import GuardedExhibit, PagePictures, describe_exhibits
from labwright.review.judge.guards import GuardedPaper
from labwright.review.judge.paper_reader import Paper, RubricError, make_excerpt, quote_is_in

MAX_PAPER_CHARACTERS = 100_000
"""Characters of a paper shown to a judge, about 25,000 tokens: this is thirty pages, or the main text of a longer
paper.
"""


@dataclass(frozen=True)
class JudgeCase:
    """A paper to judge, its rubric and its attachments."""

    guarded: GuardedPaper
    rubric: Rubric
    name: str
    facts: RecordFacts | None = None
    audit: AuditFacts | None = None
    exhibits: tuple[GuardedExhibit, ...] = ()
    pictures: PagePictures | None = None
    view: JudgeView = "all"

    @property
    def removed(self) -> tuple[RemovedPassage, ...]:
        """Return everything that the guards removed, passages of the paper first."""
        return (*self.guarded.removed, *(one for exhibit in self.exhibits for one in exhibit.removed))


async def judge_case(case: JudgeCase, client: ModelClient, *, model: str) -> Judgement:
    """Return a model's judgement of a case. Raises `ModelError`."""
    paper = case.guarded.paper
    images = case.pictures.images if case.pictures else ()
    inputs = build_judge_inputs(paper, case.rubric, case.facts).model_copy(
        update={
            "audit": case.audit,
            "exhibits": tuple(one.exhibit for one in case.exhibits),
            "removed": len(case.removed),
            "pages": case.pictures.pages if case.pictures and images else None,
        }
    )
    try:
        answer = await client.ask(JUDGE, inputs, images)
    except ImagesRefused:
        inputs, images = inputs.model_copy(update={"pages": None}), ()
        answer = await client.ask(JUDGE, inputs)
    plain = build_judgement(answer, paper, inputs, name=case.name, model=model)
    withheld: list[str] = []
    if pages := inputs.pages:
        rest = pages.total - len(pages.shown) - len(pages.withheld)
        if pages.withheld:
            withheld.append(f"images of pages {', '.join(map(str, pages.withheld))}: a passage on them was removed")
        if rest > 0:
            withheld.append(f"images of {rest} more pages")
    return plain.model_copy(
        update={
            "removed": case.removed,
            "audit": case.audit,
            "view": case.view,
            "coverage": "" if inputs.left_out else f"all {paper.characters} characters shown",
            "left_out": (*plain.left_out, *case.guarded.unchecked, *withheld),
            "pages": inputs.pages.shown if inputs.pages and images else (),
            "exhibits": describe_exhibits(case.exhibits),
        }
    )


def build_judge_inputs(paper: Paper, rubric: Rubric, facts: RecordFacts | None = None) -> JudgeInputs:
    """Build the prompt inputs of a judge. Included files that could not be read are listed as omitted."""
    shown = make_excerpt(paper.sections, MAX_PAPER_CHARACTERS)
    missing = (f"included file {name!r}: missing, or outside the paper's folder" for name in paper.missing_files[:20])
    left_out = (*shown.left_out, *missing)
    return JudgeInputs(rubric=rubric, paper=shown.text, characters=paper.characters, left_out=left_out, facts=facts)


def build_judgement(answer: JudgeAnswer, paper: Paper, inputs: JudgeInputs, *, name: str, model: str) -> Judgement:
    """Return the answer with every quote looked up in the whole paper. `name` is the paper's name in reports."""
    rubric, text = inputs.rubric, paper.text
    scores = tuple(
        DimensionScore(
            dimension=one.name,
            lowest=one.lowest,
            highest=one.highest,
            quoted=quote_is_in(given.quote, text),
            **given.model_dump(),
        )
        for one in rubric.dimensions
        for given in [getattr(answer.scores, one.name)]
    )
    checks = tuple(
        CheckResult(check=one.name, quoted=bool(given.quote) and quote_is_in(given.quote, text), **given.model_dump())
        for one in rubric.checks
        for given in [getattr(answer.checks, one.name)]
    )
    text_alone, overall = None, rubric.overall_dimension
    if answer.text_alone is not None and overall is not None:
        given = answer.text_alone.model_dump()
        text_alone = TextOnlyScore(lowest=overall.lowest, highest=overall.highest, **given)
    return Judgement(
        paper=name,
        paper_sha256=paper.sha256,
        rubric=rubric.name,
        rubric_sha256=hash_rubric(rubric),
        model=model,
        scores=scores,
        text_alone=text_alone,
        results=_build_results(answer, paper, inputs),
        confidence=answer.confidence,
        most_confidence=rubric.confidence.highest,
        strengths=answer.strengths,
        weaknesses=answer.weaknesses,
        left_out=inputs.left_out,
        checks=checks,
    )


def _build_results(answer: JudgeAnswer, paper: Paper, inputs: JudgeInputs) -> ResultsOrigin | None:
    """Return the judge's statement on the results, with its quote looked up in everything that the judge was shown."""
    if answer.results is None:
        return None
    given, audit = answer.results, inputs.audit
    shown: list[tuple[str, str]] = [(one.kind, one.text) for one in inputs.exhibits]
    if audit is not None:
        shown.append(("audit", "\n".join(audit.findings)))
    shown.append(("paper", paper.text))
    if inputs.facts is not None:
        shown.append(("record", render(JUDGE, inputs).user))
    places = [where for where, text in shown if given.quote and quote_is_in(given.quote, text)]
    return ResultsOrigin(quoted=bool(places), where=places[0] if places else "", **given.model_dump())


@dataclass(frozen=True)
class PanelMember:
    """A judge of a panel: its configured name and its client."""

    name: str
    models: Models


async def ask_panel(
    case: JudgeCase, members: Sequence[PanelMember], *, repeats: int = 1, writers: Sequence[str] = ()
) -> JudgePanel:
    """Ask every member `repeats` times, members concurrently. `writers` are the models that wrote the paper."""

    async def asked(member: PanelMember) -> list[Judgement | MissingJudgement]:
        outcomes: list[Judgement | MissingJudgement] = []
        client = member.models.make_client(0, 0)
        shown = case if member.models.accepts_images else drop_pictures(case)
        for repeat in range(1, repeats + 1):
            try:
                outcomes.append(await judge_case(shown, client, model=member.models.get_model_name(JUDGE)))
            except ModelError as error:
                outcomes.append(MissingJudgement(model=member.name, repeat=repeat, why=str(error)))
        return outcomes

    found = [one for outcomes in await asyncio.gather(*map(asked, members)) for one in outcomes]
    given = tuple(one for one in found if isinstance(one, Judgement))
    names = list(dict.fromkeys(one.name for one in members))
    same = [
        f"{first} and {second} are of the same model family: their agreement is weaker evidence"
        for first, second in itertools.combinations(names, 2)
        if is_same_family(first, second)
    ]
    unknown = [
        f"the model family of {name} cannot be inferred from its name" for name in names if find_family(name) is None
    ]
    return JudgePanel(
        paper=case.name,
        rubric=case.rubric.name,
        asked=len(members) * repeats,
        judgements=given,
        dimensions=compute_spreads(given),
        missing=tuple(one for one in found if isinstance(one, MissingJudgement)),
        audit=case.audit,
        warnings=(*find_family_warnings(names, writers), *same, *(unknown if len(names) > 1 else ())),
    )


def drop_pictures(case: JudgeCase) -> JudgeCase:
    """Return the case without images, for a model that accepts none."""
    return replace(case, pictures=None)


def find_family_warnings(judges: Sequence[str], writers: Sequence[str]) -> tuple[str, ...]:
    """Return warnings about judges of the same family as a writer."""
    return tuple(
        f"{judge} belongs to the family that wrote the paper ({writer}): judges tend to favour their own family"
        for judge in dict.fromkeys(judges)
        for writer in dict.fromkeys(writers)
        if is_same_family(judge, writer)
    )


# Read rubrics from TOML files: bundled ones by name, or the user's own in the same format.

RUBRICS_FOLDER = Path(__file__).parent / "rubrics"
END_TO_END_RUBRIC = RUBRICS_FOLDER / "end_to_end.toml"
MAX_RUBRIC_BYTES = 200_000


def load_bundled_rubrics() -> dict[str, Rubric]:
    """Return the bundled rubrics by name."""
    found = [read_rubric(path) for path in sorted(RUBRICS_FOLDER.glob("*.toml"))]
    return {one.name: one for one in found}


def find_rubric(name_or_path: str) -> Rubric:
    """Return the rubric with a name or at a path; bundled names come first.

    Raises `RubricError`.
    """
    names = load_bundled_rubrics()
    name = name_or_path.replace("_", "-")
    if name in names:
        return names[name]
    if not name_or_path.endswith(".toml") and not Path(name_or_path).exists():
        raise RubricError(
            f"unknown rubric {name_or_path!r}: give one of {', '.join(names)}, or the path of a TOML file"
        )
    return read_rubric(Path(name_or_path))


def read_rubric(path: Path = END_TO_END_RUBRIC) -> Rubric:
    """Read the rubric in a file. Raises `RubricError`."""
    try:
        if path.stat().st_size > MAX_RUBRIC_BYTES:
            raise RubricError(f"the rubric {path} is larger than {MAX_RUBRIC_BYTES} bytes: shorten it")
        return Rubric.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise RubricError(f"cannot read the rubric {path}: {error.strerror}; give the path of a TOML file") from None
    except ValidationError as error:
        first = error.errors()[0]
        place, message = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
        fault = ": ".join(filter(None, (place, message)))
        raise RubricError(f"the rubric {path}: {fault}; docs/judge.md describes the format") from None
    except (ValueError, RecursionError) as error:
        raise RubricError(f"the rubric {path} is not valid TOML: {' '.join(str(error).split())}") from None


def hash_rubric(rubric: Rubric) -> str:
    """Return a hash of the rubric's content, independent of formatting."""
    return hashlib.sha256(rubric.model_dump_json().encode()).hexdigest()
