"""A bench of ablation plans: judged by scripts, stored rows scored, killed and continued, refused in one line."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import random
import re
import signal
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labwright.agent import forecast
from labwright.agent.cli import main
from labwright.evals.ablationbench import data
from labwright.evals.ablationbench.command import LOG_FILE
from labwright.evals.ablationbench.data import TASKS, Task, read_papers
from labwright.evals.ablationbench.judge_eval import MAJORITY, JudgeEval, PlanLabels, build_judge_table, vote_majority
from labwright.evals.ablationbench.output import AblationBenchTable, build_table
from labwright.evals.ablationbench.papers import MethodEndUnclear, PlannedAblation, read_visible_paper
from labwright.evals.ablationbench.plan_judge import (
    ask_author_matches,
    ask_review_requests,
    ask_reviewer_matches,
    blind_lists,
)
from labwright.evals.ablationbench.planners import choose_likely, plan_from_headings
from labwright.evals.ablationbench.results import PaperResult
from labwright.evals.ablationbench.roles import (
    PaperAblations,
    PaperAblationsInputs,
    RequestedEntry,
    RequestMatch,
    RequestMatchInputs,
    ReviewQuote,
    ReviewRequest,
    ReviewRequests,
    ReviewRequestsInputs,
    WantedAblation,
)
from labwright.evals.ablationbench.runner import MAX_PARALLEL, AblationBenchWork, OpenModels, run_bench
from labwright.models.client import Models
from labwright.models.replay import ScriptedModel
from labwright.models.roles.judge import ShownPaper
from labwright.models.settings import ModelSettings
from labwright.record.event_log import EventLog, MemoryLog, Recorder, read_rows
from labwright.review.judge.paper_reader import PaperError
from tests.evals.ablation_set import PARTS, WORDS, JudgeBehaviour, make_scripted_model, write_set

K: dict[str, int] = {"author": 5, "reviewer": 2}


def models(leaning: JudgeBehaviour = "reads", on_question: Callable[[], None] = lambda: None) -> OpenModels:
    def opened(judge: str | None, log: Recorder) -> Models:
        return Models(make_scripted_model(leaning, on_question=on_question), log, ModelSettings(), time.monotonic)

    return opened


def results(
    folder: Path,
    out: Path,
    planner: str = "lm",
    leaning: JudgeBehaviour = "reads",
    log: Recorder | None = None,
    tasks: tuple[Task, ...] = TASKS,
) -> list[PaperResult]:
    papers = [paper for task in tasks for paper in read_papers(str(folder), task, "test")]
    return asyncio.run(
        run_bench(
            AblationBenchWork(planner=planner, judges=("script",)), papers, out, log or MemoryLog(), models(leaning)
        )
    )


def tabled(found: list[PaperResult], judges: tuple[str, ...] = ("script",)) -> AblationBenchTable:
    return build_table(found, split="test", planner="p", judges=judges, k=K)


# --- what planners see ------------------------------------------------------------------------------------------------


def paper(folder: Path, *titles: str) -> Path:
    path = folder / "paper.md"
    path.write_text("# A Model of Things\n\n" + "\n\n".join(f"## {title}\n\n{WORDS} In {title}." for title in titles))
    return path


@pytest.mark.parametrize(
    ("titles", "last"),
    [
        (("Introduction", "Our approach", "Training", "Results"), "Training"),
        (("1 Introduction", "2 System model", "2.1 Gate", "3 Experiments", "4 Conclusion"), "2.1 Gate"),
        (("Introduction", "Method", "Theoretical analysis", "Results"), "Theoretical analysis"),
        (("1 Introduction", "2 Method", "2.1 Evaluation module", "2.2 Results", "3 Results"), "2.1 Evaluation module"),
        (("Introduction", "Method", "Theory"), None),
        (("Introduction", "Galactic drift", "Results"), None),
        (("Preliminary results", "Method", "Results", "Appendix"), "Method"),
        (("System", "Pilot experiments", "Method", "Results"), None),
    ],
)
def test_a_paper_is_cut_behind_its_method_or_asked_about(
    tmp_path: Path, titles: tuple[str, ...], last: str | None
) -> None:
    path = paper(tmp_path, *titles)
    if last is None:
        with pytest.raises(MethodEndUnclear, match=r"--until SECTION; the titles are: .*'(Introduction|System)'"):
            asyncio.run(read_visible_paper(path, show_all=False))
        last = titles[1]
        seen = asyncio.run(read_visible_paper(path, show_all=False, until=last.upper()))
    else:
        seen = asyncio.run(read_visible_paper(path, show_all=False))
    assert seen.kept[-1] == last and seen.cut and f"In {titles[-1]}." not in seen.shown_paper.text
    with pytest.raises(PaperError, match=r"no section title in .* contains this"):
        asyncio.run(read_visible_paper(path, show_all=False, until="nowhere"))


def test_an_agent_reads_the_sections_that_it_asks_for(tmp_path: Path) -> None:
    """The end of the method stays the end of what it can read, and its last answer may ask for nothing more."""
    folder = write_set(tmp_path / "set")
    asked: list[PaperAblationsInputs] = []

    def reads(inputs: PaperAblationsInputs) -> PaperAblations:
        asked.append(inputs)
        if inputs.requests_left > 1:
            return PaperAblations(wants=("method", "9.6", "nowhere at all"))
        one = WantedAblation(name="n", ablated_part="gate", action="REMOVE", claim="c", quote="q", probability=0.9)
        return PaperAblations(reasoning="read", ablations=(one,))

    def opened(judge: str | None, log: Recorder) -> Models:
        return Models(ScriptedModel.from_role_functions(paper_ablations=reads), log, ModelSettings(), time.monotonic)

    bench = AblationBenchWork(planner="agent", judges=())
    tasks: tuple[tuple[Task, bool], ...] = (("reviewer", True), ("author", False))
    for task, sees_result in tasks:
        asked.clear()
        [first, *_] = read_papers(str(folder), task, "test")
        [found] = asyncio.run(run_bench(bench, [first], tmp_path / task, MemoryLog(), opened))
        assert [one.ablated_part for one in found.plan.entries] == ["gate"] and found.plan.took.calls == len(asked) == 3
        assert [one.requests_left for one in asked] == [3, 2, 1] and asked[0].contents
        assert "[no section has 'nowhere at all']" in asked[-1].paper.text
        assert ("Without the mixing gate the error is 9.6" in asked[-1].paper.text) is sees_result


def test_headings_are_the_parts_that_a_method_names(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set")
    found = plan_from_headings(asyncio.run(read_visible_paper(folder / "papers" / "gate", show_all=False)))
    assert [one.ablated_part.lower() for one in found] == list(PARTS["gate"])
    assert found[0].name == "Without mixing gate"


def test_a_plan_stops_where_expected_f1_falls() -> None:
    def wanted(probability: float) -> WantedAblation:
        return WantedAblation(
            name="n", ablated_part="p", action="REMOVE", claim="c", quote="q", probability=probability
        )

    assert len(choose_likely([wanted(p) for p in (0.9, 0.7, 0.2, 0.1)], 2.0)) == 2
    assert len(choose_likely([wanted(p) for p in (0.5, 0.5, 0.5)], 3.7)) == 3 and choose_likely([], 2.0) == []


# --- scores of stored rows --------------------------------------------------------------------------------------------


def test_a_judge_is_measured_by_its_errors() -> None:
    plans = [PlanLabels(f"p/{n}", (True,) * 4 + (False,) * 4, (True,) * 3 + (False,) * 5) for n in range(3)]
    judge = build_judge_table("author", "j", plans)
    assert judge.sensitivity.value == 0.75 and judge.specificity.value == 1.0
    both = vote_majority([plans, [PlanLabels(one.id, one.human, None) for one in plans]])
    assert [one.judge for one in both] == [None] * 3


# --- models that plan and judge ---------------------------------------------------------------------------------------


def test_controls_tell_judges_that_do_not_read_from_one_that_does(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set")
    means: dict[tuple[str, str, str], float] = {}
    for leaning in ("reads", "all", "nothing", "by place"):
        made = tabled(results(folder, tmp_path / leaning, leaning=leaning))
        means |= {
            (leaning, task.task, one.what): one.figures["f1"].mean for task in made.tasks for one in task.controls
        }
    for task in TASKS:
        assert means["reads", task, "gold"] == 1.0 and means["reads", task, "other"] == 0.0
        assert means["all", task, "other"] > 0.7 and means["nothing", task, "gold"] == 0.0
    assert means["by place", "author", "other"] > 0.7
    assert 0.0 < means["reads", "author", "headings"] < 1.0


def test_sides_are_blind_and_their_order_stands_with_the_verdict(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set")
    [first, *_] = read_papers(str(folder), "author", "test")
    entries = plan_from_headings(asyncio.run(read_visible_paper(first.folder, show_all=False)))
    sides = [blind_lists(first, entries, f"seed {n}") for n in range(40)]
    assert {one.order.gold_side for one in sides} == {"A", "B"}
    assert len({one.order.model_dump_json() for one in sides}) > 8
    assert blind_lists(first, entries, "seed 1") == sides[1]
    client = models()(None, MemoryLog()).make_client(1, 0)
    for n, one in enumerate(sides[:4]):
        matches, order = asyncio.run(ask_author_matches(client, first, entries, f"seed {n}"))
        assert order == one.order and [(m.gold, m.entry, m.quoted) for m in matches] == [
            ("g1", "e1", True),
            ("g2", "e2", True),
        ]


def test_reviewer_judges_see_orders_of_their_own_and_their_answers_are_put_back(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set")
    [first, *_] = read_papers(str(folder), "reviewer", "test")
    paper = replace(first, reviews=("Ablate the gate.", "Ablate the fold.", "Ablate the sieve."))
    names = ("sieve", "gate", "memory", "fold")
    entries = [PlannedAblation(name=name, ablated_part=name, action="REMOVE") for name in names]
    seen = list[tuple[str, ...]]()

    def list_requests(inputs: ReviewRequestsInputs) -> ReviewRequests:
        seen.append(inputs.reviews)
        found = (
            ReviewRequest(part=text.split()[-1].rstrip("."), asked=(ReviewQuote(review=number, quote=text),))
            for number, text in enumerate(inputs.reviews, 1)
        )
        return ReviewRequests(requests=tuple(found))

    def match(inputs: RequestMatchInputs) -> RequestMatch:
        seen.append(tuple(one.name for one in inputs.entries))
        wanted = {one.part: one.id for one in inputs.requests}
        found = [
            RequestedEntry(entry=one.id, why="w", requests=(wanted[one.name],) if one.name in wanted else ())
            for one in inputs.entries
        ]
        return RequestMatch(answers=tuple(found))

    model = ScriptedModel.from_role_functions(review_requests=list_requests, request_match=match)
    client = Models(model, MemoryLog(), ModelSettings(), time.monotonic).make_client(1, 0)
    shown = ShownPaper(text="", characters=0)
    for seed in map(str, range(6)):
        requests = asyncio.run(ask_review_requests(client, paper, seed))
        found = asyncio.run(ask_reviewer_matches(client, paper, shown, requests, entries, seed))
        assert [(one.entry, one.quotes, one.quoted) for one in found] == [
            ("e1", ("Ablate the sieve.",), True),
            ("e2", ("Ablate the gate.",), True),
            ("e4", ("Ablate the fold.",), True),
        ]
    assert len(set(seen)) > 4, "both lists come in several orders"


def test_a_paper_that_was_not_judged_is_missing_and_no_zero(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set")
    rows = [json.loads(line) for line in (folder / "author" / "test.jsonl").read_text().splitlines()]
    rows[1]["ablations_in_paper"] = "[]"
    (folder / "author" / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "plans").mkdir()
    gate = '{"name": "G", "ablated_part": "gate", "action": "REMOVE"}'
    for id, text in {"gate": gate, "fold": "{}", "sieve": ""}.items():
        (folder / "plans" / f"{id}.jsonl").write_text(text)
    (folder / "rows" / "author" / "bo" / "plans").mkdir(parents=True)
    (folder / "rows" / "author" / "bo" / "plans" / "sieve.jsonl").write_text("")
    found = asyncio.run(
        run_bench(
            AblationBenchWork(planner="plans", judges=("bo",), plans=folder / "plans", answers=folder / "rows"),
            read_papers(str(folder), "author", "test"),
            tmp_path / "out",
            MemoryLog(),
            models(),
        )
    )
    made = tabled(found, ("bo",))
    assert [(row.id, row.state) for row in made.rows] == [
        ("gate", "not judged"),
        ("fold", "not scorable"),
        ("sieve", "scored"),
        ("route", "no plan"),
    ]
    [one] = made.tasks
    assert (one.scored, one.empty_plans, one.figures["f1"].mean) == (1, 1, 0.0) and not made.is_complete
    assert "0 of 1 judges answered" in made.rows[0].why


# --- killed and continued ---------------------------------------------------------------------------------------------


def _until_killed(folder: Path, out: Path, asked: Path) -> None:
    def slowly() -> None:
        with open(asked, "a") as file:
            file.write("x")
        time.sleep(0.015)

    out.mkdir(exist_ok=True)
    papers = [paper for task in TASKS for paper in read_papers(str(folder), task, "test")]
    with closing(EventLog(out / LOG_FILE)) as log:
        asyncio.run(
            run_bench(AblationBenchWork(planner="lm", judges=("script",)), papers, out, log, models(on_question=slowly))
        )


@pytest.mark.slow
def test_killed_at_random_ten_times_it_ends_with_the_same_table_and_asks_nothing_twice(tmp_path: Path) -> None:
    folder, out, asked = write_set(tmp_path / "set"), tmp_path / "out", tmp_path / "asked"
    asked.touch()
    fork, rng, kills = multiprocessing.get_context("fork"), random.Random(26), 0
    for _ in range(10):
        child = fork.Process(target=_until_killed, args=(folder, out, asked))
        until, limit = asked.stat().st_size + rng.randint(1, 4), time.monotonic() + 120
        child.start()
        while child.exitcode is None and asked.stat().st_size < until and time.monotonic() < limit:
            child.join(rng.uniform(0.001, 0.008))
        if child.exitcode is None and child.pid is not None:
            os.kill(child.pid, signal.SIGKILL)
            child.join()
            kills += 1
    assert kills == 10, "each was at work when it was killed"
    _until_killed(folder, out, asked)
    with closing(EventLog(out / LOG_FILE)) as log:
        keys = log.state.calls.answers
        assert sum('"type":"answered"' in body for _, body in read_rows(out / LOG_FILE)) == len(keys)
        again = tabled(results(folder, out, log=log))
        assert log.state.calls.answers.keys() == keys.keys(), "a finished bench asks nothing"
        assert len(keys) <= asked.stat().st_size <= len(keys) + kills * MAX_PARALLEL
    whole = tabled(results(folder, tmp_path / "whole"))

    def plain(made: AblationBenchTable) -> list[dict[str, Any]]:
        return [row.model_dump(exclude={"planner": {"seconds"}, "judge": {"seconds"}}) for row in made.rows]

    assert plain(again) == plain(whole) and again.overall == whole.overall


# --- the command ------------------------------------------------------------------------------------------------------


def _stored(folder: Path) -> tuple[Path, Path]:
    """Plans of two planners, and rows of two judges that match by part."""
    for planner, places in (("good", (0, 1)), ("poor", (2,))):
        for id, parts in PARTS.items():
            plan = folder / "plans" / "author" / planner / f"{id}.jsonl"
            plan.parent.mkdir(parents=True, exist_ok=True)
            plan.write_text(
                "".join(
                    json.dumps({"name": f"P{at}", "ablated_part": parts[at], "action": "REMOVE"}) + "\n"
                    for at in places
                )
            )
            for judge in ("ada", "bo"):
                rows = folder / "rows" / "author" / judge / planner / f"{id}.jsonl"
                rows.parent.mkdir(parents=True, exist_ok=True)
                found = [at for at in places if at < 2 and (judge == "ada" or id != "gate")]
                rows.write_text(
                    "".join(
                        json.dumps({"name_in_paper": f"Ablation {at + 1}", "name_in_plan": f"P{at}"}) + "\n"
                        for at in found
                    )
                )
    return folder / "plans", folder / "rows"


def test_stored_plans_are_scored_continued_and_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_set(tmp_path / "set")
    plans, rows = _stored(folder)
    common = [
        "bench",
        "ablation",
        "--data",
        str(folder),
        "--task",
        "author",
        "--plans",
        str(plans),
        "--answers",
        str(rows),
    ]
    for planner in ("good", "poor"):
        assert main([*common, "--planner", planner, "--out", str(tmp_path / planner)]) == 0
    said = capsys.readouterr().out
    assert "author@5, test: good" in said and "4 of 4 papers scored" in said and "kappa between judges" in said
    csv = (tmp_path / "good" / "results.csv").read_text().splitlines()
    assert len(csv) == 5 and csv[2].startswith("author,fold,scored,2,2,1.0,1.0,1.0,")
    assert main(["bench", "ablation", "--compare", str(tmp_path / "good"), str(tmp_path / "poor"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    [f1] = [one for one in found["paired"] if one["figure"] == "author f1"]
    assert f1["difference"]["mean"] == 0.75 and f1["difference"]["n"] == 4 and f1["adjusted"] == f1["p"]
    assert main([*common, "--planner", "poor", "--out", str(tmp_path / "good")]) == 2
    assert "was created with planner 'good', but now it is planner 'poor'" in capsys.readouterr().err
    assert main([*common, "--planner", "good", "--dry-run"]) == 0
    assert "author: 4 papers, 4 of them scorable" in capsys.readouterr().out


def test_models_plan_and_judge_and_a_finished_bench_asks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, model = write_set(tmp_path / "set"), make_scripted_model()
    monkeypatch.setattr(forecast, "open_backend", lambda settings: model)  # pyrefly: ignore
    words = [
        "bench",
        "ablation",
        "--data",
        str(folder),
        "--model",
        "any:thing",
        "--judges",
        "any:a,any:b",
        "--out",
        str(tmp_path / "out"),
    ]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert re.search(r"gold as the plan +4 +1.000 +1.000 +1.000", said) and "f1_unique" in said
    assert "both tasks: precision" in said and "planner: 4 calls" in said and "judge: 8 calls" in said
    asked = len(model.requests)
    assert main([*words, "--json"]) == 0 and len(model.requests) == asked
    found = json.loads(capsys.readouterr().out)
    assert found["judges"] == ["any:a", "any:b"] and found["rows"][0]["found"] == [True, True]
    kept = json.loads((tmp_path / "out" / "author" / "gate.json").read_text())["judged"][0]["verdicts"][1]
    assert sorted(kept["order"]["entries"]) == ["e1", "e2", "e3"] and kept["matches"][0]["quoted"]
    plans, _ = _stored(folder)
    (folder / "judge_eval").mkdir()
    (folder / "judge_eval" / "author.jsonl").write_text(
        "".join(
            json.dumps(
                {"id": f"poor/{id}", "labels": json.dumps({"name_in_paper": "Ablation 1", "name_in_plan": "P2"})}
            )
            + "\n"
            for id in PARTS
        )
    )
    judging = [
        "bench",
        "ablation-judge",
        "--data",
        str(folder),
        "--task",
        "author",
        "--plans",
        str(plans),
        "--model",
        "any:thing",
        "--out",
        str(tmp_path / "judged"),
        "--json",
    ]
    assert main(judging) == 0
    [one] = json.loads(capsys.readouterr().out)["judges"]
    assert (one["judge"], one["items"], one["sensitivity"]["value"]) == ("any:thing", 4, 0.0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Missing option '--data'"),
        (["--data", "{none}"], "there is no folder author or reviewer"),
        (["--data", "{set}", "--split", "train"], "train.jsonl does not exist"),
        (["--data", "{set}", "--task", "editor"], "name one or more of author, reviewer"),
        (["--data", "{set}"], "a judge must read"),
        (["--data", "{set}", "--judges", "a,a"], "name each judge once"),
        (["--data", "{set}", "--planner", "magic"], "choose from lm, agent, headings"),
        (["--data", "{set}", "--answers", "{set}"], "--plans DIR"),
        (["--compare", "{set}"], "at least two benchmarks"),
        (["--compare", "{set}", "{set}"], "contains no results"),
        (["{set}", "--data", "{set}"], "--compare"),
        (["--data", "{set}", "--only", "x*"], "none of the 4 papers"),
        (["--data", "{set}", "--planner", "lm", "--judges", "openai:gpt-4o"], "the offline model cannot read papers"),
        (["--data", "{set}", "--plans", "{set}", "--answers", "{set}"], "has rows of"),
        (["--data", "{set}", "--plans", "{set}", "--judges", "openai:x"], "set has no plan of these papers"),
        (
            ["--data", "{set}", "--planner", "headings", "--judges", "openai:x", "--out", "{set}/author/test.jsonl"],
            "is a file",
        ),
        (["--data", "{set}", "--planner", "headings", "--judges", "openai:x", "--out", "{set}"], "is not empty"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_set(tmp_path / "set")
    given = [word.format(set=tmp_path / "set", none=tmp_path / "none") for word in words]
    assert main(["bench", "ablation", *given]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1 and not (tmp_path / "bench-ablation").exists()


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('{"id": "../x"}', "cannot name a file"),
        ("[]", "line 1: not a JSON object"),
        ("{}", "missing 'id'"),
        ('{"id": "a", "ablations_in_paper": "{}"}', "expected a list"),
        (None, "has the id gate twice"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_by_its_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], row: str | None, said: str
) -> None:
    table = write_set(tmp_path / "set") / "author" / "test.jsonl"
    table.write_text(table.read_text().splitlines()[0] * 1 + "\n" + table.read_text() if row is None else row)
    assert main(["bench", "ablation", "--data", str(tmp_path / "set"), "--task", "author"]) == 2
    assert said in capsys.readouterr().err


def test_parquet_is_read_as_json_lines_are(tmp_path: Path) -> None:
    import pyarrow  # without types
    from pyarrow import parquet

    folder = write_set(tmp_path / "set")
    before = read_papers(str(folder), "author", "test")
    lines = folder / "author" / "test.jsonl"
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    (folder / "researcher").mkdir()
    parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "researcher" / "test.parquet")  # pyrefly: ignore
    lines.unlink()
    assert read_papers(str(folder), "author", "test") == before and len(before) == 4


def test_tables_of_the_hub_are_read_by_their_published_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_set(tmp_path / "set")
    rows = [json.loads(line) for line in (folder / "author" / "test.jsonl").read_text().splitlines()]

    class Library:  # the public tables cannot be had here: what is held is which names are asked for
        @staticmethod
        def load_dataset(name: str, split: str) -> list[dict[str, Any]]:
            if (name, split) != ("owner/researcher-ablation-bench", "test"):
                raise ConnectionError("no network")
            return rows

    monkeypatch.setattr(data, "import_datasets_library", Library)
    found = read_papers("hf:owner", "author", "test", papers=folder)
    assert [one.id for one in found] == list(PARTS) and found[0].folder == folder / "papers" / "gate"
    assert main(["bench", "ablation", "--data", "hf:owner", "--split", "dev"]) == 2
    err = capsys.readouterr().err
    assert "cannot read owner/researcher-ablation-bench (ConnectionError: no network)" in err and err.count("\n") == 1


def test_judges_are_held_against_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_set(tmp_path / "set")
    _, rows = _stored(folder)
    (folder / "judge_eval").mkdir()
    (folder / "judge_eval" / "author.jsonl").write_text(
        "".join(
            json.dumps(
                {
                    "id": f"good/{id}",
                    "labels": "\n".join(
                        json.dumps({"name_in_paper": f"Ablation {n}", "name_in_plan": f"P{n - 1}"}) for n in (1, 2)
                    ),
                }
            )
            + "\n"
            for id in PARTS
        )
    )
    words = ["bench", "ablation-judge", "--data", str(folder), "--task", "author", "--out", str(tmp_path / "out")]
    assert main([*words, "--answers", str(rows)]) == 0
    said = capsys.readouterr().out
    assert "author: 4 labelled plans, 8 items" in said and "majority" in said
    found = JudgeEval.model_validate_json((tmp_path / "out" / "results.json").read_bytes())
    assert [(one.judge, one.sensitivity.value) for one in found.judges] == [
        ("ada", 1.0),
        ("bo", 0.75),
        (MAJORITY, 0.75),
    ]
    assert main(words) == 2 and "a judge must read" in capsys.readouterr().err
