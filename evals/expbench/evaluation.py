"""Evaluate one answer from a masked copy to its scores; the result is written atomically to `evaluated.json`."""

from __future__ import annotations

import shutil
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from labwright.evals.expbench import scores
from labwright.evals.expbench.answer_judge import (
    AnswerVerdicts,
    ArmComparison,
    JudgedWork,
    direction_support,
    is_supported,
    list_stated_results,
    number_support,
)
from labwright.evals.expbench.answers import ExpTask, SubmittedAnswer, format_change
from labwright.evals.expbench.result_files import (
    AnswerExecution,
    build_comparisons,
    build_record,
    execute_answer,
    find_arms,
    list_counts,
    list_measured,
)
from labwright.evals.expbench.scores import ItemCounts, JudgedAnswer
from labwright.evals.expbench.violations import InvalidTask, copy_masked, decide, find_facts, import_commit
from labwright.record.schema import FrozenModel
from labwright.sandbox.job import SandboxError
from labwright.sandbox.repository.git_mirror import GitMirror
from labwright.sandbox.settings import SandboxSettings

EVALUATED_FILE = "evaluated.json"
JudgedStep = Literal["design", "implement", "execute", "conclude"]
STEPS: tuple[JudgedStep, ...] = ("design", "implement", "execute", "conclude")


class AnswerFacts(FrozenModel):
    """What is reported of the evaluation of an answer."""

    task: str
    variant: str = ""
    why: str = ""
    reasons: tuple[str, ...] = ()
    suspicions: tuple[str, ...] = ()
    anchor: Literal["pass", "violation", "no_answer"] = Field(
        default="pass", description="by the original harness's rules"
    )
    outputs: bool | None = Field(default=None, description="whether the script also wrote results")
    c_bound: bool | None = None
    checked: bool = Field(
        default=True, description="whether numbers were compared with results that this program observed"
    )
    seconds: float = 0.0
    minutes: float | None = None
    usd: float | None = None
    judging_usd: float = 0.0


class Evaluated(AnswerFacts):
    """The evaluation of an answer."""

    state: scores.AnswerState
    flags: dict[str, bool] = Field(default_factory=dict)
    verdicts: AnswerVerdicts | None = None
    executed: bool | None = None
    output: str = Field(default="", description="the end of the script's output")
    numbers: tuple[tuple[str, str], ...] = Field(
        default=(), description="claims of the conclusion, and whether each is supported"
    )
    directions: tuple[tuple[ArmComparison, str], ...] = ()

    def to_judged(self, steps: Sequence[str] = STEPS, *, by_anchor: bool = False) -> JudgedAnswer:
        """Return the input for scoring; a step that was not requested is unknown."""
        found, violation = self.verdicts, any(self.flags.values())
        state: scores.AnswerState = "no_answer" if by_anchor and self.anchor == "no_answer" else self.state
        return JudgedAnswer(
            task=self.task,
            state=state,
            violation=self.anchor == "violation" if by_anchor else violation,
            design=None if found is None or found.design is None else to_items(found.design),
            implementation=None if found is None or found.implementation is None else to_items(found.implementation),
            conclusion=None if found is None else found.conclusion,
            executed=self.executed if "execute" in steps else None,
        )


def to_items(found: Sequence[Any]) -> ItemCounts:
    applicable = [one for one in found if one.verdict != "not applicable"]
    return ItemCounts(sum(one.is_counted for one in applicable), len(applicable))


@dataclass(frozen=True)
class Evaluation:
    """Evaluates answers. `work` is a folder for temporary copies."""

    repository: Path
    mirror: GitMirror
    sandbox: SandboxSettings
    judge: Callable[[JudgedWork], Awaitable[AnswerVerdicts]]
    work: Path
    seconds: float
    steps: Sequence[str] = STEPS

    async def evaluate(self, task: ExpTask, answer: SubmittedAnswer) -> Evaluated:
        """Evaluate an answer. Raises `ModelError` if no model answers."""
        began = time.monotonic()
        base = Evaluated(
            task=task.name,
            variant=answer.variant,
            minutes=answer.minutes,
            usd=answer.usd,
            state="answered" if answer.given else "no_answer",
        )
        try:
            copy_masked(task, self.repository, self.mirror, copy := self._new_folder("original"))
        except InvalidTask as error:
            return base.model_copy(update={"state": "invalid", "why": str(error)})
        except SandboxError as error:
            return base.model_copy(update={"state": "failed", "why": str(error)})
        if answer.missing:
            shutil.rmtree(self.work, ignore_errors=True)
            return base.model_copy(update={"state": "skipped", "why": "there is no answer to it"})
        try:
            found = await self._evaluate(task, answer, base, copy)
        except SandboxError as error:
            found = base.model_copy(update={"state": "failed", "why": f"{type(error).__name__}: {error}"})
        finally:
            shutil.rmtree(self.work, ignore_errors=True)
        return found.model_copy(update={"seconds": round(time.monotonic() - began, 2)})

    def _new_folder(self, name: str) -> Path:
        folder = self.work / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        return folder

    async def _evaluate(self, task: ExpTask, answer: SubmittedAnswer, base: Evaluated, copy: Path) -> Evaluated:
        originals = self._read_originals(task)
        change = format_change(
            answer.files,
            {name: (copy / name).read_text(errors="replace") for name in answer.files if (copy / name).is_file()},
        )
        facts = find_facts(build_record(answer, {}, {}))
        run = None
        if not facts.has_violation and ("execute" in self.steps or "conclude" in self.steps):
            run = await execute_answer(
                answer, copy, self.sandbox, seconds=self.seconds, cache=self._new_folder("cache")
            )
            facts = find_facts(build_record(answer, run.outputs, run.base))
        result = base.model_copy(
            update={
                "flags": facts.flags,
                "reasons": facts.reasons,
                "anchor": "no_answer" if not answer.given or answer.extra else "pass",
            }
        )
        if run is not None and not facts.has_violation:
            result = result.model_copy(
                update={"executed": run.is_done, "outputs": bool(run.outputs), "output": run.output[-2000:]}
            )
        if not answer.given:
            return result.model_copy(update={"c_bound": False})
        contents = list(run.outputs.values()) if run is not None else []
        arms = [one for content in contents for one in find_arms(content)]
        names = tuple(dict.fromkeys(name for one in arms for name in one.values))
        metrics = tuple(dict.fromkeys(one.metric for one in arms if one.metric))
        verdicts = await self.judge(JudgedWork(task, answer, change, originals, names, metrics))
        suspected = decide(facts.flags, verdicts.suspected) if verdicts.suspected is not None else None
        if suspected is not None:
            result = result.model_copy(
                update={
                    "suspicions": suspected.suspicions,
                    "anchor": suspected.anchor_decision if result.anchor == "pass" else result.anchor,
                }
            )
        elif facts.has_violation and result.anchor == "pass":
            result = result.model_copy(update={"anchor": "violation"})
        return check_conclusion(task, result.model_copy(update={"verdicts": verdicts}), answer, run, contents)

    def _read_originals(self, task: ExpTask) -> str:
        """Read the masked files, for the judge only."""
        tree = import_commit(self.mirror, self.repository, task.commit)
        texts = self.mirror.read_texts(tree)
        return "\n\n".join(f"{name}:\n{texts[name]}" for name in task.masked if name in texts)[:30_000]


def check_conclusion(
    task: ExpTask, found: Evaluated, answer: SubmittedAnswer, run: AnswerExecution | None, contents: Sequence[Any]
) -> Evaluated:
    """Add the support for the conclusion.

    If this program's run hit its limit, but the record says that one of the agent's runs wrote results, its numbers
    are unverified: directions are then compared with the numbers that it states.
    """
    verdicts = found.verdicts
    assert verdicts is not None
    stated = list_stated_results(answer.conclusion, "\n".join(task.agent_inputs.values()), list_counts(contents))
    right = verdicts.conclusion == 1
    measured = {
        f"{place}/{name}": value for place, content in enumerate(contents) for name, value in list_measured(content)
    }
    comparisons = build_comparisons(contents)
    unchecked = (
        run is not None
        and run.exit_code is None
        and not contents
        and any(
            one.get("written_by_run") and not one.get("same_as_base") for one in answer.record.get("result_files", ())
        )
    )
    if unchecked:
        return found.model_copy(
            update={
                "checked": False,
                "numbers": tuple((one, "unchecked") for one in stated),
                "directions": tuple((one, "unchecked") for one in verdicts.claims),
                "c_bound": right and bool(verdicts.claims) and bool(stated),
            }
        )
    if any(found.flags.values()):
        return found.model_copy(update={"c_bound": False})
    return found.model_copy(
        update={
            "numbers": tuple((one, number_support(one, measured)) for one in stated),
            "directions": tuple((one, direction_support(one, comparisons)) for one in verdicts.claims),
            "c_bound": is_supported(right, stated, verdicts.claims, measured, comparisons),
        }
    )
