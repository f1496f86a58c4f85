"""What title, abstract and conclusion claim beyond the verdicts: told to the reflector, cut at release, or a DRAFT."""

from __future__ import annotations

from pathlib import Path

import pytest

from labwright.models.roles.paper_revision import ReflectInputs, Reflection, ScopeFindings, ScopeInputs
from labwright.models.roles.paper_writing import RequiredStatement
from labwright.record.events.paper_events import PaperReleased, ScopeChecked
from labwright.record.schema.hypotheses import Effect, Hypothesis, HypothesisDecision, HypothesisVerdict
from labwright.record.schema.paper import ClaimReading, PaperDraft, PaperReading, ScopeFinding, Section
from labwright.stages.paper import paper_context, paper_steps, reflection
from labwright.stages.paper.compilation_findings import check_abstract
from labwright.stages.paper.overclaim_check import (
    CUT_NOTE,
    find_misreadings,
    list_overclaims,
    list_texts,
    remove_overclaims,
)
from labwright.stages.paper.paper_steps import release_paper, write_draft
from labwright.stages.paper.reflection import reflect
from tests.paper import synthetic_paper
from tests.stages.test_paper_writing import Desk, scripted

EVIDENCE = synthetic_paper.make_evidence(synthetic_paper.make_state())
KEY = "diff/digits/log_loss/method@noise20~baseline@noise20"
CLAIM = ScopeFinding(quote="Smoothing always helps.", why="'always' beyond two datasets", may="name the datasets")


def draft(abstract: str, *, title: str = "A title", conclusion: str = "It ends.") -> PaperDraft:
    return PaperDraft(
        title=title,
        abstract=abstract,
        sections=(Section(title="Results", body="It is."), Section(title="Conclusion", body=conclusion)),
    )


def test_sentences_without_a_verdict_and_those_that_claim_too_much_are_cut_and_no_other() -> None:
    told = rf"We find that \verdict{{{KEY}}}."
    one = draft(
        f"We ask. Label smoothing beats the baseline. {told} In general, it is so.",
        conclusion=f"{told} Smoothing\nalways helps.",
    )
    general = ScopeFinding(quote="In general, it is so", why="one dataset")
    after, cuts = remove_overclaims(one, (CLAIM, general), EVIDENCE)
    assert after.abstract == f"We ask. {told}" and after.sections[1].body == told
    assert len(cuts) == 3 and all(line.endswith(CUT_NOTE) for line in cuts)
    assert after.sections[0] == one.sections[0]


def test_a_part_that_would_be_empty_or_no_latex_stays_and_a_list_loses_its_item() -> None:
    alone = draft("Label smoothing wins.")
    assert remove_overclaims(alone, (), EVIDENCE) == (alone, ())
    bold = draft(r"We ask. \textbf{Label smoothing wins. It does.}")
    assert remove_overclaims(bold, (), EVIDENCE)[0] == bold
    items = draft(
        "We ask.",
        conclusion="A list:\n\\begin{itemize}\n\\item Wine is small.\n\\item Label smoothing wins.\n\\end{itemize}",
    )
    assert r"\item Wine is small." in remove_overclaims(items, (), EVIDENCE)[0].sections[1].body
    assert remove_overclaims(items, (), EVIDENCE)[0].sections[1].body.count(r"\item") == 1


def test_every_text_of_a_paper_is_held_against_the_scope() -> None:
    one = draft("We ask.", title="Smoothing always helps.")
    assert list(list_texts(one)) == ["title", "abstract", "section 'Results'", "section 'Conclusion'"]
    [line] = list_overclaims(one, (CLAIM,), EVIDENCE)
    assert line == (
        "[scope] title: 'Smoothing always helps.': it claims more than was decided, 'always' beyond two "
        "datasets; supported wording: name the datasets"
    )


@pytest.mark.slow
async def test_what_claims_too_much_is_told_to_the_reflector_and_a_title_that_does_is_not_released(
    tmp_path: Path,
) -> None:
    told: list[tuple[str, ...]] = []

    def revised(inputs: ReflectInputs) -> Reflection:
        told.append(inputs.violations)
        return Reflection(done=True)

    def found(inputs: ScopeInputs) -> ScopeFindings:
        title = inputs.texts[0].text
        return ScopeFindings(
            findings=(ScopeFinding(quote=title, why="too much"), ScopeFinding(quote="This stands nowhere.", why="x"))
        )

    desk = Desk(tmp_path, scripted(revised, scope=found))
    await write_draft(desk.bench)
    await reflect(desk.bench)
    assert any(line.startswith("[scope] title: ") for line in told[0])
    assert [len(one.findings) for one in desk.log.state.scope_checks.values()] == [1], (
        "what is quoted has to stand there"
    )
    await release_paper(desk.bench)
    ended = desk.log.state.released
    assert isinstance(ended, PaperReleased) and not ended.released
    assert any(line.startswith("[scope] title: ") for line in ended.reasons)


@pytest.mark.slow
async def test_a_draft_that_leaves_out_what_it_owes_is_not_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = RequiredStatement(id="ladder-x", required_form="sentence", text="A reference is ahead.", abstract=True)

    def none(*_: object) -> tuple[RequiredStatement, ...]:
        return (item,)

    def untold(draft: PaperDraft, *_: object) -> PaperDraft:
        return draft

    monkeypatch.setattr(paper_context, "list_required_statements", none)
    for module in (paper_steps, reflection):  # the program tells what a writer leaves out: here it does not
        monkeypatch.setattr(module, "add_missing_statements", untold)
    desk = Desk(tmp_path, scripted())
    await write_draft(desk.bench)
    await reflect(desk.bench)
    assert [len(one.left_out) for one in desk.log.state.drafts] == [1, 1]
    await release_paper(desk.bench)
    ended = desk.log.state.released
    assert ended is not None and not ended.released
    assert any(line.startswith("the abstract omits ladder-x") for line in ended.reasons)
    assert "abstract omits ladder-x" in (desk.bench.folder.paper_folder / "paper.tex").read_text()


def decided(ident: str, verdict: HypothesisVerdict, *, confirmatory: bool = True) -> HypothesisDecision:
    return HypothesisDecision(
        hypothesis=Hypothesis(
            id=ident,
            statement="S.",
            effects=(Effect(estimand="a - b", smallest=0.1),),
            reason="r",
            confirmatory=confirmatory,
        ),
        parts=(),
        verdict=verdict,
        level=0.05,
        family=1,
        confirmed=True,
    )


def test_what_a_reader_of_the_paper_alone_takes_from_it_is_held_against_what_was_decided() -> None:
    found = ScopeChecked(
        round=0,
        reading=PaperReading(
            finding="It helps.",
            claims=(
                ClaimReading(id="one", says="supported", quote="It  helps."),
                ClaimReading(id="two", says="nothing"),
                ClaimReading(id="three", says="nothing"),
                ClaimReading(id="four", says="refuted"),
            ),
        ),
    )
    lines = find_misreadings(
        found,
        (
            decided("one", "open"),
            decided("two", "refuted"),
            decided("three", "refuted", confirmatory=False),
            decided("four", "refuted"),
        ),
    )
    assert [line.partition(" ")[0] for line in lines] == ["one", "two"]
    assert "decided as open" in lines[0] and "understood supported ('It helps.')" in lines[0]
    assert (
        find_misreadings(None, (decided("one", "refuted"),))
        == find_misreadings(ScopeChecked(round=0), (decided("one", "refuted"),))
        == ()
    )


def test_an_abstract_has_six_sentences_and_four_numbers_at_most() -> None:
    value = r"\result{test/digits/log_loss/method@noise20.mean}"
    assert check_abstract("We ask. " * 6, EVIDENCE) == ()
    assert check_abstract("We ask. " * 7, EVIDENCE)[0].startswith("the abstract has 7 sentences: use at most 6")
    assert check_abstract(f"It is {', '.join([value] * 4)} at 20\\% noise.", EVIDENCE) == ()
    [line] = check_abstract(f"It is {', '.join([value] * 5)}.", EVIDENCE)
    assert "prints 5 numbers" in line and "at most 4" in line
