"""Roles that write code: `code` (drafts, and changes of a parent's source, which accumulate), `plot` and `figures`.

Some programs contain a real mistake, by their ordinal and their study's table of faults; the repairs see only the
failure.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import replace

from labwright.models.errors import CatalogueError
from labwright.models.offline.study import (
    MAX_LINE_CHARACTERS,
    AblationSpec,
    AgendaAddition,
    OfflineStudy,
    Scripts,
    add_entry,
    apply_edits,
    find_study_by_idea,
    is_applicable,
    is_repository_study,
    is_scored,
    load_study,
    make_program,
    read_constant,
    render_template,
    scale_constants,
)
from labwright.models.offline.table_study import is_table_study, write_table_plots, write_table_program
from labwright.models.roles.experiment_code import CodeInputs, NodeBrief, Program
from labwright.models.roles.figures import FigurePart, FigureScript, FiguresInputs, PlotInputs, Plots
from labwright.record.schema.data_plan import parse_arm

# --- repairs: by the class of the failure and a pattern in the source, one failure at a time --------------------------


def repair_parent(study: OfflineStudy, parent: NodeBrief, fallback: Scripts) -> Program:
    """Return the parent's program without its reported failure; a sound draft if no repair is known for it.

    Nothing here knows which mistakes were planted.
    """
    failure = parent.node.failure
    kind = failure.kind if failure else "other"
    scripts, title = Scripts(parent.experiment, parent.plots), f"Repaired: {kind}"
    if kind == "figure":
        says = "The figures were refused, so they are redrawn."
        scripts = replace(scripts, plots=repair_plots(study, parent.plots) or fallback.plots)
    elif known := next((one for one in study.repairs if one.failure == kind and one.matches(parent.experiment)), None):
        says = known.says
        scripts = replace(scripts, experiment=known.apply(parent.experiment))
    else:
        title, says, scripts = (
            "Written anew",
            "The failure has no small repair, so the experiment is rewritten.",
            fallback,
        )
    return make_program(scripts, title=title, plan=f"{says} {parent.node.plan}".strip(), varies=title.lower())


def repair_plots(study: OfflineStudy, plots: str) -> str:
    """Return the script with every known repair of figures; empty if there is none."""
    repaired = plots
    for known in study.repairs:
        repaired = known.apply(repaired) if known.failure == "figure" else repaired
    return repaired if repaired != plots else ""


def answer_code(inputs: CodeInputs) -> Program:
    """Return the program that a decision asks for. Raises `CatalogueError` for an unknown idea or kind."""
    if is_table_study(inputs.data_plan):
        return write_table_program(inputs)
    study = find_study_by_idea(inputs.idea)
    if inputs.kind == "draft":
        return write_draft(study, inputs)
    if inputs.parent is None:
        raise CatalogueError(f"the offline model cannot {inputs.kind} without a parent; only a draft has none")
    if inputs.kind == "debug":
        return repair_parent(study, inputs.parent, write_sound_draft(study, inputs))
    if inputs.kind == "ablate" or inputs.stage == "ablation":
        return ablate_parent(study, inputs, inputs.parent)
    return extend_parent(study, inputs, inputs.parent)


# --- stage 1 --------------------------------------------------------------------------------------------------------


def _choose_variant(inputs: CodeInputs) -> int:
    """Choose one of several variants: branches of a run use different ones."""
    return inputs.ordinal + inputs.variation


def write_draft(study: OfflineStudy, inputs: CodeInputs) -> Program:
    """Write the draft of this ordinal, with the faults that its entry lists."""
    spec = study.drafts[_choose_variant(inputs) % len(study.drafts)]
    faulty = apply_edits(write_sound_draft(study, inputs), (study.find_fault(name) for name in spec.faults))
    hidden = read_constant(faulty.experiment, "HIDDEN")
    varies = spec.network + (f", HIDDEN={hidden}" if inputs.ordinal >= len(study.drafts) else "")
    return make_program(faulty, title=spec.title, plan=spec.plan, varies=varies)


def write_sound_draft(study: OfflineStudy, inputs: CodeInputs) -> Scripts:
    """Write the draft of this ordinal without mistakes; each later round of drafts is twice as wide."""
    turn = inputs.ordinal // len(study.drafts)
    spec = study.drafts[_choose_variant(inputs) % len(study.drafts)]
    values = study.draft_defaults | spec.set
    hidden = int(values["hidden"]) * 2**turn
    experiment = render_template(
        "experiment.py.jinja",
        title=spec.title,
        plan=textwrap.fill(spec.plan, MAX_LINE_CHARACTERS),
        **values | {"hidden": hidden},
    )
    return Scripts(experiment, render_template("plots.py.jinja"))


# --- stage 3 --------------------------------------------------------------------------------------------------------


def extend_parent(study: OfflineStudy, inputs: CodeInputs, parent: NodeBrief) -> Program:
    """Add an agenda item to the parent, on all datasets of the plan."""
    scripts = Scripts(parent.experiment, parent.plots)
    addition = _choose_addition(study, inputs, scripts)
    scripts = apply_edits(scripts, addition.edits)
    scripts = Scripts(scale_constants(scripts.experiment, addition.scale), scripts.plots)
    slip = study.agenda_faults.get(inputs.ordinal % 4)
    if slip:
        scripts = apply_edits(scripts, (study.find_fault(slip),))
    return make_program(scripts, title=addition.title, plan=addition.plan, varies=inputs.item or addition.name)


def _choose_addition(study: OfflineStudy, inputs: CodeInputs, scripts: Scripts) -> AgendaAddition:
    """Choose the addition that an item asks for; if the parent has it already, the next one that it lacks."""
    item = inputs.item.lower()
    hits = [sum(word in item for word in addition.keywords) for addition in study.agenda]
    start = hits.index(max(hits)) if any(hits) else _choose_variant(inputs) % len(study.agenda)
    turned = (*study.agenda[start:], *study.agenda[:start])
    if not turned[0].edits or is_applicable(scripts, turned[0].edits):
        return turned[0]
    lacking = [addition for addition in turned if addition.edits and is_applicable(scripts, addition.edits)]
    return lacking[0] if lacking else next(addition for addition in turned if addition.scale or not addition.edits)


# --- stage 4 --------------------------------------------------------------------------------------------------------


def ablate_parent(study: OfflineStudy, inputs: CodeInputs, parent: NodeBrief) -> Program:
    """Add one arm to the parent, the method without a part: with an equal seed it gets the labels, weights and batches
    of the whole method, so that the two are paired."""
    part = _choose_part(study, inputs)
    experiment = scale_constants(parent.experiment, part.scale)
    experiment = add_entry(experiment, "ARMS = {", f'    "{part.condition}": {part.arm},')
    scripts = Scripts(experiment, parent.plots)
    made = make_program(scripts, title=part.title, plan=part.plan, varies=part.condition)
    return made.model_copy(update={"arms": (part.condition,)})


def _choose_part(study: OfflineStudy, inputs: CodeInputs) -> AblationSpec:
    """Choose the part to remove: the planned one, or one that the item names if new, or the next."""
    if inputs.ablation is not None:
        planned = [part for part in study.ablations if part.condition == inputs.ablation.name]
        if planned:
            return planned[0]
    tried = {sibling.varies for sibling in inputs.siblings}
    item = inputs.item.lower()
    named = [part for part in study.ablations if item and any(word in item for word in part.keywords)]
    own = study.ablations[_choose_variant(inputs) % len(study.ablations)]
    return next((part for part in (*named, own, *study.ablations) if part.condition not in tried), own)


# --- roles `plot`, `figures` and `figure_review` ----------------------------------------------------------------------

MAX_ABLATIONS = 5


def answer_plot(inputs: PlotInputs) -> Plots:
    """Return the plots of an aggregate, or refused plots repaired according to the complaints."""
    if is_table_study(inputs.data_plan):
        return Plots(plots=write_table_plots(inputs.data_plan))
    sound = render_template("aggregate.py.jinja" if inputs.purpose == "aggregate" else "plots.py.jinja")
    repaired = repair_plots(load_study(), inputs.plots) if inputs.complaints else ""
    return Plots(plots=repaired or sound)


def answer_figures(inputs: FiguresInputs) -> FigureScript:
    """Return the final figures by what was recorded: one of all arms, or those of the study on label noise."""
    plan = inputs.data_plan
    primary = plan.primary_metric
    title = primary.title or primary.name
    measured = {parse_arm(one.condition) for one in inputs.statistics if one.name == primary.name}
    is_plain = is_repository_study(inputs) or is_table_study(plan)
    method = next(arm.name for arm in plan.arms if arm.role == "method")
    if is_plain:
        datasets = (plan.datasets[0].name,)
        others = [arm.name for arm in plan.arms if arm.name != method and arm.name in measured]
        graded = is_scored(inputs) or is_table_study(plan)
        figures = (
            FigurePart(
                name="arms",
                code='ablation("arms")',
                datasets=datasets,
                description=f"The {title} of each arm: mean over seeds with the confidence interval of the mean. "
                f"{'Higher' if primary.higher_is_better else 'Lower'} is better; "
                + (
                    "the program scored the predictions."
                    if graded
                    else "the values are those that the repository's own code reports."
                ),
            ),
        )
    else:
        drawn = {statistic.dataset for statistic in inputs.statistics}
        datasets = tuple(use.name for use in plan.datasets if use.name in drawn)[:3] or (plan.datasets[0].name,)
        ablated = dict.fromkeys(parse_arm(condition) for condition in inputs.ablations)
        others = [arm for arm in ablated if arm in measured][:MAX_ABLATIONS]
        every = tuple(_choose_figures(inputs, datasets, ablated=bool(others)))
        figures = tuple(one for one in every if one.name not in inputs.keep) or every
    script = render_template(
        "figures.py.jinja",
        datasets=list(datasets),
        ablations=others,
        factor=plan.factor or "dataset",
        method=method,
        method_label=(plan.name_arm(method) if is_plain else "whole method"),
        split="test" if any(one.key.startswith("test/") for one in inputs.statistics) else "validation",
        arms={arm.name: arm.title or arm.name for arm in plan.arms if is_plain or arm.role != "ablation"},
        levels={level.name: level.title or level.name for level in plan.levels},
        values={level.name: level.value for level in plan.levels},
        primary=primary.name,
        primary_title=title,
    )
    return FigureScript(script=script, figures=figures)


def _choose_figures(inputs: FiguresInputs, datasets: tuple[str, ...], *, ablated: bool) -> Iterator[FigurePart]:
    """Yield the figures of the study on label noise that can be drawn, with the calls that draw them."""
    plan = inputs.data_plan
    words = {
        "primary": plan.primary_metric.name,
        "title": plan.primary_metric.title or plan.primary_metric.name,
        "main": plan.datasets[0].name.replace("_", " "),
        "better": "Higher" if plan.primary_metric.higher_is_better else "Lower",
    }
    memorised = any("fitted__" in array.path for array in inputs.arrays)
    chosen = {"primary-by-noise", f"reliability-and-{'memorisation' if memorised else 'training'}"}
    if ablated or any(metric.name == "ece" for metric in plan.metrics):
        chosen.add("ablation" if ablated else "ece-by-noise")
    for spec in find_study_by_idea(inputs.idea).figures:
        if spec.name in chosen:
            yield FigurePart(
                name=spec.name,
                description=spec.description.format(**words),
                code=spec.call.format(**words),
                panels=spec.panels or len(datasets),
                datasets=datasets[:1] if spec.panels else datasets,
            )
