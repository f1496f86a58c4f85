"""A study of a user's repository as it is planned: what a planner is told, and what is wrong with a plan of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from labwright.models.roles.planning import PlanningInputs, RepositoryPlanInputs
from labwright.record.events.repository import BaselineChecked
from labwright.record.nouns.data import DataPlan
from labwright.record.nouns.repository import Command
from labwright.record.nouns.space import with_space
from labwright.stages.bench import UserRepository
from labwright.stages.repository.asking import documents
from labwright.stages.repository.code import Code, code_in
from labwright.stages.repository.options import Option, keys_in, variants_in
from labwright.stages.repository.patches import shown_of
from labwright.stages.repository.words import options_of, takes_overrides, words_faults


def with_reasons(plan: DataPlan) -> DataPlan:
    """The plan of a repository's study; arms without hyperparameters run as its authors set them."""
    return plan.model_copy(
        update={
            "arms": tuple(
                arm
                if arm.untuned or plan.space_of(arm.name)
                else arm.model_copy(update={"untuned": "it runs with the settings of the repository's authors"})
                for arm in plan.arms
            )
        }
    )


def repository_faults(plan: DataPlan, data: str, command: Command, code: Code) -> Iterator[str]:
    """What makes a plan none of a repository whose data it calls `data`, one sentence each."""
    if [use.name for use in plan.datasets] != [data]:
        yield f"a study of a repository has one dataset, its own, which the plan calls {data}"
    if plan.primary.higher_is_better != (command.direction == "max"):
        yield (
            f"the plan's {plan.primary.name} is better when "
            f"{'higher' if plan.primary.higher_is_better else 'lower'}, and --direction is {command.direction}: "
            "make them agree"
        )
    if not any(arm.role == "baseline" and not arm.words for arm in plan.arms):
        yield "no baseline is the repository as it is: one of them has no words"
    alike = Counter(arm.words for arm in plan.arms if arm.words or arm.role == "baseline")
    yield from (
        f"two arms are the same: both have {'the words ' + ' '.join(words) if words else 'no words'}"
        for words, count in alike.items()
        if count > 1
    )
    yield from words_faults(plan, command.argv, code)


@dataclass(frozen=True)
class RepositoryStudy:
    """What a planner is told of a repository, and what becomes of the plans that it hands in."""

    of: UserRepository
    data: str
    """What a plan calls its data."""

    def inputs(self, shared: PlanningInputs, checked: BaselineChecked | None) -> RepositoryPlanInputs:
        texts, command = self.of.mirror.texts(self.of.code.tree), self.of.code.command
        code = code_in(texts)
        end = "" if takes_overrides(command.argv, code) else ": no word sets it"
        return RepositoryPlanInputs(
            **{name: getattr(shared, name) for name in PlanningInputs.model_fields},
            dataset=self.data,
            direction=command.direction,
            space=self.of.space,
            repository=shown_of(self.of, checked, first=[one.path for one in documents(texts)]),
            options=tuple(map(_option, options_of(command.argv, code))),
            keys=(
                *(f"{group} is one of {', '.join(names)}" for group, names in variants_in(texts, code).items()),
                *(f"{one.name} = {one.value!r} ({one.path}){end}" for one in keys_in(texts, command.argv, code)),
            ),
        )

    def fitted(self, plan: DataPlan) -> tuple[DataPlan, tuple[str, ...]]:
        """The plan with what the person gave, and what is wrong with it."""
        plan, faults = with_space(plan, self.of.space)
        plan = with_reasons(plan)
        if not self.of.code.predictions:  # no value is known by example
            plan = plan.model_copy(
                update={
                    "hypotheses": tuple(
                        one.model_copy(update={"unit": "seeds", "cluster": ""}) for one in plan.hypotheses
                    )
                }
            )
        code = code_in(self.of.mirror.texts(self.of.code.tree))
        return plan, (
            *faults,
            *repository_faults(plan, self.data, self.of.code.command, code),
            *_of_a_planner(plan, scored=bool(self.of.code.predictions)),
        )


def _of_a_planner(plan: DataPlan, *, scored: bool) -> Iterator[str]:
    """What a person may leave open, and a planner may not."""
    if len(plan.metrics) > 1 and not scored:
        yield f"the repository gives one number a run: take {', '.join(one.name for one in plan.metrics[1:])} out"
    yield from (
        f"arm {arm.name!r} has neither words nor a description: say what changes in the code"
        for arm in plan.arms
        if arm.role != "baseline" and not arm.words and not arm.description.strip()
    )


def _option(one: Option) -> str:
    default = "" if one.value is None else f", default {one.value!r}"
    action = f", {one.action}" if one.action else ""
    return f"{', '.join(one.flags)}{action}{default} ({one.path}:{one.line})" + (f": {one.help}" if one.help else "")
