"""Plan a study of a user's repository: the planner's inputs and the checks of its plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from labwright.models.roles.study_plan import PlanningInputs, RepositoryPlanInputs
from labwright.record.events.repository_events import BaselineChecked
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.repository import CommandSpace, RepositoryCommand, apply_space
from labwright.stages.repository.patch_scope import CodeIndex, index_code
from labwright.stages.repository.patched_arms import show_repository
from labwright.stages.repository.program_facts import (
    find_documents,
    find_keys,
    find_space_faults,
    list_options,
    takes_overrides,
)
from labwright.stages.run_context import StudiedRepository


def add_tuning_reasons(plan: DataPlan) -> DataPlan:
    """Return the plan with a reason for every arm without hyperparameters: it runs with the settings of the
    repository's authors.
    """
    reason = {"untuned": "it runs with the settings of the repository's authors"}
    arms = (one if one.untuned or plan.find_space(one.name) else one.model_copy(update=reason) for one in plan.arms)
    return plan.model_copy(update={"arms": tuple(arms)})


def find_repository_faults(plan: DataPlan, data: str, command: RepositoryCommand, code: CodeIndex) -> Iterator[str]:
    """Yield the faults of a plan for a repository whose data is named `data`, one sentence each."""
    if [use.name for use in plan.datasets] != [data]:
        yield f"a study of a repository has one dataset, its own: the plan must name it {data}"
    if plan.primary_metric.higher_is_better != (command.direction == "max"):
        better = "higher" if plan.primary_metric.higher_is_better else "lower"
        yield (
            f"the plan's {plan.primary_metric.name} is better when {better}, and --direction is {command.direction}: "
            "make them agree"
        )
    if not any(arm.role == "baseline" and not arm.words for arm in plan.arms):
        yield "no baseline is the unmodified repository: one baseline must have no command words"
    alike = Counter(arm.words for arm in plan.arms if arm.words or arm.role == "baseline")
    yield from (
        f"two arms are the same: both have {'the words ' + ' '.join(words) if words else 'no words'}"
        for words, count in alike.items()
        if count > 1
    )
    space = CommandSpace(hyperparameters=plan.space, arms=plan.arms, levels=plan.all_levels)
    yield from find_space_faults(space, command.argv, code)


@dataclass(frozen=True)
class RepositoryPlanning:
    """Prepares the inputs of a planner of a repository study, and completes and checks its plans."""

    repository: StudiedRepository
    data: str
    """Name of the repository's data in a plan."""

    def build_inputs(self, shared: PlanningInputs, checked: BaselineChecked | None) -> RepositoryPlanInputs:
        texts, command = self.repository.mirror.read_texts(self.repository.code.tree), self.repository.code.command
        code = index_code(texts)
        end = "" if takes_overrides(command.argv, code) else ": no command word sets it"
        return RepositoryPlanInputs(
            **{name: getattr(shared, name) for name in PlanningInputs.model_fields},
            dataset=self.data,
            direction=command.direction,
            space=self.repository.space,
            repository=show_repository(self.repository, checked, first_files=find_documents(texts)[:3]),
            options=tuple(map(str, list_options(command.argv, code))),
            keys=tuple(f"{one}{end}" for one in find_keys(command.argv, code)),
        )

    def fit_plan(self, plan: DataPlan) -> tuple[DataPlan, tuple[str, ...]]:
        """Return the plan with the user's settings applied, and its faults."""
        plan, faults = apply_space(plan, self.repository.space)
        plan = add_tuning_reasons(plan)
        if not self.repository.code.predictions:  # there are no values per example
            hypotheses = tuple(one.model_copy(update={"unit": "seeds", "cluster": ""}) for one in plan.hypotheses)
            plan = plan.model_copy(update={"hypotheses": hypotheses})
        code = index_code(self.repository.mirror.read_texts(self.repository.code.tree))
        return plan, (
            *faults,
            *find_repository_faults(plan, self.data, self.repository.code.command, code),
            *_find_planner_faults(plan, scored=bool(self.repository.code.predictions)),
        )


def _find_planner_faults(plan: DataPlan, *, scored: bool) -> Iterator[str]:
    """Yield faults that are allowed in a user's plan but not in one by the planner."""
    if len(plan.metrics) > 1 and not scored:
        yield f"the repository gives one number per run: remove {', '.join(one.name for one in plan.metrics[1:])}"
    yield from (
        f"arm {arm.name!r} has neither words nor a description: state what changes in the code"
        for arm in plan.arms
        if arm.role != "baseline" and not arm.words and not arm.description.strip()
    )
