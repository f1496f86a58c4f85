"""`scientist bench replication`: how many claims of a player hold on fresh samples.

Each question is played, its conclusion is read by a blind reader, and the compared methods are run again on fresh
samples by a script that no player saw. Everything that is done is kept in the output folder and not repeated.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from labwright.agent.cli.errors import DONE, FAILED, format_line, print_lines, print_to_stderr
from labwright.agent.cli.preflight import check_disk_space, check_isolation, check_writable
from labwright.agent.forecast import open_budgeted_models
from labwright.agent.settings import Settings, compose_settings
from labwright.evals.commands import BenchReplication
from labwright.evals.item_loop import STOPS, open_answers, parse_names, print_interrupted, report_results
from labwright.evals.replication.players import PlayerName, play, read_played
from labwright.evals.replication.questions import ReplicationQuestion, read_questions, replicate
from labwright.evals.replication.results import (
    ReplicationResults,
    ScoredAnswer,
    build_results,
    build_tables,
    read_headline,
)
from labwright.models.errors import ModelConfigError, ModelError
from labwright.record.errors import UsageError
from labwright.record.llm_calls import store_prompt
from labwright.record.schema.decisions import RunTask
from labwright.sandbox.job import SandboxError
from labwright.stages.run_context import decision_number

PLAYERS: tuple[PlayerName, ...] = ("study", "loop")


def run_replication(args: BenchReplication) -> int:
    out = args.out.absolute()
    settings = compose_settings(config=args.config, flags=args.flags)
    players = parse_names("--players", args.players, PLAYERS)
    questions = read_questions(args.questions, tuple(args.only or ()))
    if settings.models.name == "offline":
        raise UsageError("the offline model cannot answer questions: configure another, as with --model")
    check_writable(out, "--out")
    check_disk_space(settings, out)
    check_isolation(settings.sandbox)
    failed = False
    for question in questions:
        for player in players:
            try:
                answer = play(player, question, settings, out / question.name / player)
            except STOPS:
                return print_interrupted()
            except ModelConfigError:
                raise
            except (ModelError, SandboxError, OSError) as error:
                print_to_stderr(f"{question.name}, {player}: {error}")
                failed = True
                continue
            print_lines(
                [
                    format_line(
                        answer.conclusion or f"no answer: {answer.why}", "bold", label=f"{question.name}, {player}: "
                    )
                ]
            )
    if not args.score or failed:
        return FAILED if failed else DONE
    try:
        results = asyncio.run(score_answers(questions, players, settings, out, samples=args.samples))
    except STOPS:
        return print_interrupted()
    tables = build_tables(results)
    return report_results(out, results, tables[-1].to_csv(), tables, is_complete=True)


async def score_answers(
    questions: tuple[ReplicationQuestion, ...],
    players: tuple[PlayerName, ...],
    settings: Settings,
    out: Path,
    *,
    samples: int,
) -> ReplicationResults:
    """Read the headlines of all finished answers and measure the fresh samples. Raises `ModelError`, `UsageError`."""
    folder = out / "reading"
    found: list[ScoredAnswer] = []
    with open_answers(folder) as log:
        models = open_budgeted_models(settings, log, partial(store_prompt, folder))
        for question in questions:
            effect = await replicate(question, samples, out / question.name)
            for player in players:
                answer = read_played(out / question.name / player)
                if answer is not None:
                    task = RunTask(task=f"{question.name} {player}")
                    client = models.make_client(decision_number(log, task), 0)
                    headline = await read_headline(client, answer.conclusion, question.truth)
                    found.append(
                        ScoredAnswer(answer=answer, kind=question.truth.kind, headline=headline, effect=effect)
                    )
    return build_results(settings.models.model_names, found)
