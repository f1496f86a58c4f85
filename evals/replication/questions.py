"""Questions with a known answer: whether one method beats another, on a population that can be sampled at will.

A folder has one subfolder a question:

    NAME/repository/     what a player gets, a folder of code that runs
    NAME/question.toml   the question, in the format of `scientist run --task`
    NAME/truth.json      `KnownTruth`, which no player sees
    NAME/replicate.py    `python replicate.py SEED` prints `{"subject": ..., "other": ...}`: the metric of both methods
                         on a fresh sample with that seed, measured as the question means it; no player sees it

The truth is that of the fresh samples (`replicate`), never that of a label.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from labwright.agent.plan_files import parse_question
from labwright.evals.item_loop import read_stored, store_result
from labwright.record.claims.differences import estimate_mean
from labwright.record.errors import UsageError
from labwright.record.schema import FrozenModel, describe_validation_error
from labwright.record.schema.idea import ResearchQuestion

REPLICATE_SECONDS = 120.0
"""Time limit of one fresh sample."""
TRUTH_FILE, EFFECT_FILE = "truth.json", "effect.json"

QuestionKind = Literal["true", "null", "trap"]
Outcome = Literal["better", "worse", "no difference", "open"]
"""The subject compared with the other; open: nothing is decided."""


class ComparedMethod(FrozenModel):
    """A method, and how a text may call it."""

    name: str
    title: str
    description: str = ""


class KnownTruth(FrozenModel):
    """What a question compares, and of which kind it is."""

    kind: QuestionKind
    trap: str = Field(default="", description="what misleads, in one line")
    subject: ComparedMethod
    other: ComparedMethod
    metric: str
    higher_is_better: bool
    margin: float = Field(gt=0, description="smallest difference that matters, as the question says it")
    dataset: str = Field(description="title of the population")


class FreshEffect(FrozenModel):
    """The difference (subject minus other; positive: the subject is better) over fresh samples."""

    mean: float
    low: float
    high: float
    samples: int
    outcome: Outcome = Field(description="open: the samples do not decide, so the question has no known answer")


@dataclass(frozen=True)
class ReplicationQuestion:
    """One question in its folder."""

    name: str
    folder: Path
    asked: ResearchQuestion
    truth: KnownTruth

    @property
    def repository(self) -> Path:
        return self.folder / "repository"


def read_questions(folder: Path, only: Sequence[str] = ()) -> tuple[ReplicationQuestion, ...]:
    """Read the questions of a folder in the order of their names. Raises `UsageError`."""
    found: list[ReplicationQuestion] = []
    for place in sorted(one.parent for one in folder.absolute().glob(f"*/{TRUTH_FILE}")):
        if only and place.name not in only:
            continue
        try:
            asked = parse_question(tomllib.loads((place / "question.toml").read_text(encoding="utf-8")))
            truth = KnownTruth.model_validate_json((place / TRUTH_FILE).read_bytes())
        except ValidationError as error:
            raise UsageError(f"{place}: {describe_validation_error(error)}") from None
        except (OSError, ValueError) as error:
            raise UsageError(f"{place}: {error}") from None
        found.append(ReplicationQuestion(place.name, place, asked, truth))
    missing = sorted({*only} - {one.name for one in found}) or ([] if found else [f"NAME/{TRUTH_FILE}"])
    if missing:
        raise UsageError(f"{folder} has no {', '.join(missing)}: give a folder of questions (docs/benchmarks.md)")
    return tuple(found)


async def replicate(question: ReplicationQuestion, samples: int, folder: Path, parallel: int = 2) -> FreshEffect:
    """Return the effect over fresh samples with the seeds from 0, measured now or earlier (`effect.json`).

    Raises `UsageError` if the script of the question fails.
    """
    known = read_stored(folder / EFFECT_FILE, FreshEffect)
    if known is not None and known.samples >= samples:
        return known
    slots = asyncio.Semaphore(parallel)

    async def measure(seed: int) -> float:
        async with slots:
            return await asyncio.to_thread(_measure_sample, question, seed)

    sign = 1 if question.truth.higher_is_better else -1
    differences = [sign * one for one in await asyncio.gather(*map(measure, range(samples)))]
    effect = estimate_effect(differences, question.truth.margin)
    store_result(folder / EFFECT_FILE, effect)
    return effect


def estimate_effect(differences: Sequence[float], margin: float) -> FreshEffect:
    """Return mean and Student's 95 % interval of paired differences, and the outcome: a direction if the interval
    excludes zero and the mean is at least the margin, no difference if the interval lies within the margin."""
    found = estimate_mean(differences)
    mean, (low, high) = found.mean, found.compute_interval(0.05)
    outcome: Outcome = "open"
    if -margin < low <= high < margin:
        outcome = "no difference"
    elif abs(mean) >= margin and (low > 0 or high < 0):
        outcome = "better" if mean > 0 else "worse"
    return FreshEffect(mean=mean, low=low, high=high, samples=len(differences), outcome=outcome)


def _measure_sample(question: ReplicationQuestion, seed: int) -> float:
    """Return subject minus other on one fresh sample."""
    why, printed = "", ""
    words = [sys.executable, "-I", str(question.folder / "replicate.py"), str(seed)]
    environment = {"PATH": os.environ.get("PATH", ""), "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            words, cwd=question.folder, env=environment, capture_output=True, text=True, timeout=REPLICATE_SECONDS
        )
        printed = done.stderr or done.stdout
        values: dict[str, float] = json.loads(done.stdout)
        return float(values["subject"]) - float(values["other"])
    except subprocess.TimeoutExpired:
        why = f"took more than {REPLICATE_SECONDS:g} s"
    except (ValueError, KeyError, TypeError):
        why = f"printed no values: {' '.join(printed.split())[-300:]}"
    raise UsageError(f"{question.folder / 'replicate.py'} {seed}: {why}")
