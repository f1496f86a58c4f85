"""What `scientist judge` prints: each thing once, an invented quote counted, no empty counts."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from labwright.agent.cli.judge import format_audit, format_judgement, format_removed
from labwright.record.schema.paper import (
    AuditFacts,
    DimensionScore,
    Judgement,
    JudgePanel,
    RemovedPassage,
    ResultsOrigin,
    TextOnlyScore,
    compute_spreads,
)


def judgement(model: str = "m", *, quoted: bool = True, coverage: str = "all 900 characters shown") -> Judgement:
    scores = tuple(
        DimensionScore(
            dimension=name,
            score=5,
            lowest=1,
            highest=10,
            reason="It rains.",
            quote="a passage",
            quoted=quoted or name == "clarity",
        )
        for name in ("clarity", "overall")
    )
    return Judgement(
        paper="p.pdf",
        paper_sha256="0",
        rubric="own",
        rubric_sha256="0",
        model=model,
        scores=scores,
        confidence=3,
        most_confidence=5,
        coverage=coverage,
    )


def printed(*judgements: Judgement) -> str:
    console = Console(file=StringIO(), width=100)
    for line in format_judgement(
        JudgePanel(
            paper="p.pdf",
            rubric="own",
            asked=len(judgements),
            judgements=judgements,
            dimensions=compute_spreads(judgements),
        )
    ):
        console.print(line)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_one_judgement_has_no_spread() -> None:
    assert "sd" not in printed(judgement()) and "sd" in printed(judgement(), judgement("other"))


def test_what_all_judges_saw_is_said_once_and_what_differs_by_judge() -> None:
    same = printed(judgement("one"), judgement("two"))
    assert same.count("read: all 900") == 1 and "one:" not in same
    apart = printed(judgement("one"), judgement("two", coverage="half"), judgement("three"))
    assert "one, three:\nread: all 900" in apart and "two:\nread: half" in apart


def test_quotes_that_are_not_in_the_paper_are_counted() -> None:
    assert "1 of 2 quotes: not in the paper" in printed(judgement(quoted=False))
    assert "quotes:" not in printed(judgement())


def test_an_audit_of_a_run_does_not_say_that_it_looked_at_no_numbers() -> None:
    run = AuditFacts(against="the record of its run", counts=(("bound values", 42),))
    assert [str(one) for facts in (run, AuditFacts(against="itself")) for one in format_audit(facts)] == [
        "audit against the record of its run: bound values 42",
        "audit against itself: 0 numbers",
    ]


def test_the_text_alone_and_how_the_results_came_about_stand_with_the_scores() -> None:
    figures = judgement().model_copy(
        update={
            "text_alone": TextOnlyScore(score=7, lowest=1, highest=10, reason="It reads well."),
            "view": "paper",
            "results": ResultsOrigin(
                answer="invented", details="A script drew them.", quote="rng.uniform", quoted=True, where="code"
            ),
        }
    )
    shown = printed(figures)
    assert "text alone" in shown and "7/10" in shown and "invented" in shown and "(code)" in shown
    assert "the judge saw only the paper" in shown and "quotes:" not in shown
    assert "text alone 7/10; results: invented; confidence 3/5" in figures.score_line
    unknown = figures.model_copy(
        update={"results": ResultsOrigin(answer="invented", details="d", quote="made up by it")}
    )
    assert "1 of 3 quotes: not in the paper" in printed(unknown)


def test_who_removed_a_passage_and_what_was_executed_are_said() -> None:
    found = RemovedPassage(kind="instruction", where="Results", text="Be kind.", characters=8, by="reader")
    assert "instruction, by the reader, Results: Be kind." in str(list(format_removed([found]))[1])
    facts = AuditFacts(against="itself", provenance=("run.py wrote a.json",))
    assert [str(one) for one in format_audit(facts)][1] == "executed: run.py wrote a.json"
