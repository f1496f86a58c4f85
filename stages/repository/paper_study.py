"""A study with a paper of a user's repository: the planner's inputs, the checks of its plans, and arms as patches.

A model creates the arms that no command words make, as patches of the repository. A patch is refused, and requested
once more with the reason, if it does not apply, leaves an arm equal to the original repository, touches the baseline,
frozen files or code that computes metrics, or swallows an exception.
"""

from __future__ import annotations

import re
from asyncio import to_thread
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import PurePosixPath

from labwright.models.client import ModelClient
from labwright.models.errors import ModelOutputInvalid
from labwright.models.roles.experiment_code import AuthorInputs, Program
from labwright.models.roles.repository import ArmPatch, Patches, PatchingInputs, ShownRepository, check_patches
from labwright.models.roles.study_plan import PlanningInputs, RepositoryPlanInputs
from labwright.record.estimands import list_main_arms
from labwright.record.events.repository_events import BaselineChecked
from labwright.record.events.search_events import DecisionMade
from labwright.record.run_folder import read_source
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.repository import CommandSpace, RepositoryCommand, apply_space, format_command_line
from labwright.record.source_tree import ArmCode, RepositoryProgram, SourceTreeError, build_program, parse_arm_code
from labwright.sandbox.job import RepositoryError
from labwright.sandbox.repository.environment import StudyRepository
from labwright.sandbox.repository.git_mirror import apply_edit
from labwright.sandbox.repository.metric import parse_metric
from labwright.stages.nodes.node_cells import list_arms
from labwright.stages.prompt_inputs import build_code_inputs
from labwright.stages.repository.arm_runs import CommandSetup
from labwright.stages.repository.authors import let_author_work
from labwright.stages.repository.patch_scope import CodeIndex, find_tampering, index_code
from labwright.stages.repository.program_facts import (
    find_documents,
    find_keys,
    find_space_faults,
    list_options,
    show_code,
    takes_overrides,
)
from labwright.stages.run_context import RunContext

METRIC_NAME = re.compile(r"metric|accurac|evaluat|(^|[._])(rmse|mse|auc|f1|r2)$", re.IGNORECASE)
"""Names of functions that compute a metric; the list is narrower than that for ablations, since an arm may have its
own scores.
"""


class NothingLeftError(Exception):
    """Raised when the author says that nothing is worth trying, if that is allowed; the message is the reason."""


def has_only_word_arms(plan: DataPlan, *, main: bool = False) -> bool:
    """Return whether command words alone define the arms, so that no patch is written for them: every arm, or only
    those that every experiment measures (`list_main_arms`)."""
    asked = list_main_arms(plan) if main else tuple(arm.name for arm in plan.arms)
    return all(arm.words for arm in plan.arms if arm.role != "baseline" and arm.name in asked)


def build_search_settings(plan: DataPlan) -> dict[str, int]:
    """Return the search settings for a study of a repository, by key. If command words define all compared arms, one
    program measures them and no search is needed. Reference models are never added."""
    if not has_only_word_arms(plan, main=True):
        return {"search.ladder": False}
    searched = {"search.ladder": False, "search.num_drafts": 1, "search.preliminary.nodes": 2, "search.agenda.nodes": 1}
    if not has_only_word_arms(plan):
        return searched
    ablated = any(arm.role == "ablation" for arm in plan.arms)
    return searched | {"search.planned_ablations": 0, "search.ablation.nodes": 2 if ablated else 1}


async def write_patched_program(
    context: RunContext, decided: DecisionMade, client: ModelClient, code: RepositoryProgram
) -> tuple[Program, dict[str, str], tuple[str, ...]]:
    """Return the program that measures arms patched by a model, its files, and the arms added to those of the plan.

    Raises `NothingLeftError`, `ModelError`.
    """
    assert isinstance(decided.action, ExpandTree)
    if any(arm.name == decided.action.arm and arm.role == "baseline" for arm in context.plan.arms):
        raise NothingLeftError(f"{decided.action.arm} is a baseline, which no patch may change")
    inputs = await to_thread(_build_inputs, context, decided)
    before = inputs.made or {arm.name: ArmCode(words=arm.words) for arm in context.plan.arms}
    builder = PatchBuilder(context.studied, code, context.plan, inputs, before)

    async def check(answer: Patches, tree: str) -> str:
        try:
            check_patches(inputs, answer)
            if not answer.nothing_left:
                await to_thread(builder.build_arms, answer, tree)
        except (ValueError, RepositoryError) as error:
            return str(error)
        return ""

    setup = CommandSetup(await to_thread(builder.build_start_tree), code.command, context.studied.environment)
    made = await let_author_work(context, client, setup, inputs, Patches, check)
    answer = made.result
    if answer is None:
        raise ModelOutputInvalid(f"no acceptable patch in {made.steps} steps: {made.ended}")
    if answer.nothing_left and inputs.covered:
        raise NothingLeftError(answer.nothing_left)
    return (
        Program(title=answer.title, plan=answer.plan, varies=answer.varies),
        build_program(context.plan.arms, code, await to_thread(builder.build_arms, answer, made.tree)),
        answer.list_added_arms(inputs),
    )


@dataclass(frozen=True)
class PatchBuilder:
    """Turns the answers of one author into arms."""

    repository: StudyRepository
    code: RepositoryProgram
    plan: DataPlan
    inputs: AuthorInputs
    known_arms: Mapping[str, ArmCode]
    """Code of each arm in the node to start from."""

    def build_start_tree(self) -> str:
        """Return the tree of the scratch copy: the method's files in the starting node."""
        return self._build_tree(self.known_arms.get(self._method, ArmCode()))

    def build_arms(self, answer: Patches, scratch: str) -> dict[str, ArmCode]:
        """Return the code of each arm after an answer; `scratch` is the tree of the scratch copy. Raises
        `SourceTreeError`, `RepositoryError` if it may not run."""
        added, arms = answer.list_added_arms(self.inputs), dict(self.known_arms)
        for patch in answer.patches:
            for arm in patch.arms:
                self._check_change(arm, added)
                arms[arm] = self._apply_patch(patch, self._find_start(patch, arm, arms), scratch)
        if arms == self.known_arms:
            raise SourceTreeError("patches: they change nothing")
        self._check_distinct(arms, added)
        return arms

    @property
    def _method(self) -> str:
        return next(arm.name for arm in self.plan.arms if arm.role == "method")

    def _build_tree(self, arm: ArmCode) -> str:
        return self.repository.mirror.apply_patch(self.code.tree, arm.patch)

    def _check_change(self, arm: str, added: Sequence[str]) -> None:
        role = next((one.role for one in self.plan.arms if one.name == arm), "")
        if role == "baseline":
            raise SourceTreeError(f"patches: {arm} is the baseline, the unmodified repository: no patch may change it")
        if added and arm not in added:
            raise SourceTreeError(f"patches: an ablation creates its own arm, {added[0]}, and must not change {arm}")
        if not role and arm not in self.known_arms and arm not in added:
            raise SourceTreeError(
                f"patches: there is no arm {arm!r}; the plan has "
                f"{', '.join(one.name for one in self.plan.arms if one.role != 'baseline')}"
            )
        if self.inputs.arm and arm != self.inputs.arm:
            raise SourceTreeError(f"patches: only {self.inputs.arm} may be improved; {arm} must not change")

    def _find_start(self, patch: ArmPatch, arm: str, arms: Mapping[str, ArmCode]) -> ArmCode:
        if patch.start:
            if patch.start not in arms:
                raise SourceTreeError(f"start: there is no arm {patch.start!r}; known arms: {', '.join(arms)}")
            return arms[patch.start]
        own = arms.get(arm, ArmCode())
        return arms[self._method] if self.inputs.stage == "ablation" and own == ArmCode() else own

    def _apply_patch(self, patch: ArmPatch, start: ArmCode, scratch: str) -> ArmCode:
        mirror = self.repository.mirror
        tree = scratch if patch.scratch else self._build_tree(start)
        texts, after = mirror.read_texts(tree), dict[str, str]()
        if patch.scratch:
            if patch.edits:
                raise SourceTreeError("patches: with `scratch`, give no edits")
            base = mirror.read_texts(self.code.tree)
            for path, text in texts.items():
                if base.get(path) != text:
                    self._check_file(path, text)
        for edit in patch.edits:
            path = _check_inside(edit.path)
            after[path] = apply_edit(after.get(path, texts.get(path)), edit)
        for path, text in after.items():
            self._check_file(path, text)
        made = mirror.replace_files(tree, after) if after else tree
        return ArmCode(
            words=start.words if patch.words is None else patch.words, patch=mirror.build_diff(self.code.tree, made)
        )

    def _check_file(self, path: str, text: str) -> None:
        base = self.repository.mirror.read_texts(self.code.tree)
        if pattern := next((one for one in self.repository.settings.frozen if fnmatch(path, one)), ""):
            raise SourceTreeError(f"{path} is frozen ({pattern}) and may not change")
        metrics = [parse_metric(one) for one in (self.code.command.metric, self.code.test_metric) if one]
        if path in [one.place.partition(":")[0] for one in metrics]:
            raise SourceTreeError(f"{path} contains the result, which only the program may write")
        if text != base.get(path) and (why := find_tampering(path, base.get(path, ""), text, METRIC_NAME)):
            raise SourceTreeError(why)
        keys = "|".join(re.escape(one.name.rpartition(".")[2]) for one in metrics if one.kind in ("json", "table"))
        writes = re.compile(rf"[\"'](?:{keys})[\"']") if keys else None
        kept = {line.strip() for line in text.splitlines()}
        lines = (line.strip() for line in base.get(path, "").splitlines() if writes is not None and writes.search(line))
        lost = [line for line in lines if line not in kept]
        if lost and path.endswith(".py"):
            raise SourceTreeError(
                f"{path}: changes a line that writes the result, `{lost[0][:120]}`: leave it unchanged"
            )

    def _check_distinct(self, arms: Mapping[str, ArmCode], added: Sequence[str]) -> None:
        """Refuse arms that equal the unmodified repository or another arm."""
        roles = {arm.name: arm.role for arm in self.plan.arms}
        required = [arm for arm in (*list_main_arms(self.plan), *added) if roles.get(arm) != "baseline"]
        seen = {made: name for name, made in arms.items() if roles.get(name) == "baseline"}
        for arm in dict.fromkeys(required):
            made = arms.get(arm, ArmCode())
            if (other := seen.get(made)) is not None:
                raise SourceTreeError(f"arm {arm} is the same as {other}: it has no command words and no patch")
            seen[made] = arm


def _build_inputs(context: RunContext, decided: DecisionMade) -> PatchingInputs:
    """Build the inputs for an author of patches that expands a node."""
    action, plan = decided.action, context.plan
    assert isinstance(action, ExpandTree)
    made: dict[str, ArmCode] = {}
    if action.parent is not None:
        source, parent = read_source(context.folder.get_source_path(action.parent)), context.state.nodes[action.parent]
        made = {name: parse_arm_code(source, name) for name in list_arms(parent, plan)}
    method = next(arm.name for arm in plan.arms if arm.role == "method")
    repository = show_repository(context.studied, context.state.repository.baseline, metric=plan.primary_metric.name)
    return PatchingInputs(
        **{name: value for name, value in build_code_inputs(context, decided) if name in AuthorInputs.model_fields},
        repository=repository,
        start=method if method in made else "",
        made=made,
    )


async def show_studied_repository(context: RunContext) -> ShownRepository | None:
    """Return the view of the repository that the run studies; None if it studies none."""
    of = context.repository
    if of is None:
        return None
    checked = context.state.repository.baseline
    return await to_thread(show_repository, of, checked, metric=context.plan.primary_metric.name)


def show_repository(
    repository: StudyRepository, checked: BaselineChecked | None, *, metric: str = "", first_files: Iterable[str] = ()
) -> ShownRepository:
    """Build the view of the unmodified repository, starting with `first_files`; `metric` is the name of its metric."""
    code = repository.program
    predictions = code.command.predictions
    read = f"{predictions}, predictions scored by the program" if predictions else code.command.metric
    as_it_is = ""
    if checked is not None and checked.mean is not None and checked.seconds is not None:
        spread = (
            f"over three seeds (sample deviation {checked.spread:.2g})"
            if checked.spread is not None
            else "with one seed"
        )
        value = f"{metric or read} {checked.mean:.6g}"
        as_it_is = f"{value} {spread}, in {checked.seconds:.3g} s per run"
    return ShownRepository(
        **dict(show_code(repository.mirror.read_texts(code.tree), code.command.argv, first_files)),
        as_it_is=as_it_is,
        command=format_command_line(code.command.argv),
        metric=read + (f" ({metric})" if metric else ""),
        scored=bool(predictions),
        test_metric=bool(code.test_metric),
        frozen=repository.settings.frozen,
    )


def _check_inside(path: str) -> str:
    """Return the path of a new file. Raises `SourceTreeError` if it is not a path inside the repository."""
    parts = PurePosixPath(path).parts
    is_plain = path.isprintable() and "\\" not in path and not path.startswith("/") and not path.endswith("/")
    if not parts or not is_plain or ".." in parts or ".git" in parts:
        raise SourceTreeError(f"edits: {path!r} is not a path of a file in the repository")
    return path


# --- planning --------------------------------------------------------------------------------------------------------


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

    repository: StudyRepository
    data: str
    """Name of the repository's data in a plan."""

    def build_inputs(self, shared: PlanningInputs, checked: BaselineChecked | None) -> RepositoryPlanInputs:
        texts, command = (
            self.repository.mirror.read_texts(self.repository.program.tree),
            self.repository.program.command,
        )
        code = index_code(texts)
        end = "" if takes_overrides(command.argv, code) else ": no command word sets it"
        return RepositoryPlanInputs(
            **{name: getattr(shared, name) for name in PlanningInputs.model_fields},
            dataset=self.data,
            direction=command.direction,
            space=self.repository.settings.space,
            repository=show_repository(self.repository, checked, first_files=find_documents(texts)[:3]),
            options=tuple(map(str, list_options(command.argv, code))),
            keys=tuple(f"{one}{end}" for one in find_keys(command.argv, code)),
        )

    def fit_plan(self, plan: DataPlan) -> tuple[DataPlan, tuple[str, ...]]:
        """Return the plan with the user's settings applied, and its faults."""
        plan, faults = apply_space(plan, self.repository.settings.space)
        plan = add_tuning_reasons(plan)
        if not self.repository.settings.predictions:  # there are no values per example
            hypotheses = tuple(one.model_copy(update={"unit": "seeds", "cluster": ""}) for one in plan.hypotheses)
            plan = plan.model_copy(update={"hypotheses": hypotheses})
        code = index_code(self.repository.mirror.read_texts(self.repository.program.tree))
        return plan, (
            *faults,
            *find_repository_faults(plan, self.data, self.repository.program.command, code),
            *_find_planner_faults(plan, scored=bool(self.repository.settings.predictions)),
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
