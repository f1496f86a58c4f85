"""Role `code`: drafts, and changes of a parent's source. A change edits the parent's text, so changes accumulate.

Some programs contain a real mistake, by their ordinal and their study's table of faults; the repairing role sees only
the failure (`models.offline.experiment_code`).
"""

from __future__ import annotations

import itertools
import re
import textwrap

from labwright.models.errors import CatalogueError
from labwright.models.offline.edits import (
    MAX_LINE_CHARACTERS,
    Scripts,
    add_entry,
    apply_edits,
    is_applicable,
    make_program,
    read_constant,
    render_template,
    scale_constants,
)
from labwright.models.offline.study import AblationSpec, AgendaAddition, OfflineStudy, find_study_by_idea
from labwright.models.offline.table_study import is_table_study, write_table_program
from labwright.models.roles.experiment_code import CodeInputs, NodeBrief, Program
from labwright.record.schema.nodes import ErrorClass

# Kind `debug` and purpose `replot`: repair failures from their messages and the source that failed. Nothing here
# knows which mistakes were planted: a repair is chosen by the class of the failure and a pattern in the source. One
# failure is repaired at a time, since a program stops at its first.

SHRUNK_CONSTANTS: dict[ErrorClass, tuple[str, str]] = {
    "timeout": ("EPOCHS", "ran out of time"),
    "memory": ("BATCH", "ran out of memory"),
}
"""The constant that is halved after a failure, and the description of the failure."""


def repair_parent(study: OfflineStudy, parent: NodeBrief, fallback: Scripts) -> Program:
    """Return the parent's program without its reported failure; a sound draft if no repair is known for it."""
    kind, message = (parent.failure.kind, parent.failure.message) if parent.failure else ("other", "")
    if kind == "figure":
        line = " ".join(message.split())
        refused = line[:160].rstrip(".") + "." if line else ""
        return _build_program(
            parent,
            "Repaired figures",
            f"The figures were refused: {refused} They are redrawn.",
            plots=add_labels(study, parent.plots, message, fallback.plots),
        )
    for known in study.repairs:
        if known.failure == kind and re.search(known.pattern, parent.experiment):
            fixed = re.sub(known.pattern, known.replacement, parent.experiment, count=1)
            return _build_program(parent, f"Repaired: {kind}", known.says, experiment=fixed)
    name, words = SHRUNK_CONSTANTS.get(kind, ("", ""))
    if name and re.search(rf"(?m)^{name} = ", parent.experiment):
        says = f"The experiment {words}, so {name.lower()} is halved."
        return _build_program(
            parent, f"Repaired: {kind}", says, experiment=scale_constants(parent.experiment, {name: 0.5})
        )
    says = "The failure has no small repair, so the experiment is rewritten."
    return _build_program(parent, "Written anew", says, experiment=fallback.experiment, plots=fallback.plots)


def repair_common_failure(parent: NodeBrief) -> Program:
    """Return a working program unchanged: its children's failures are their own mistakes, which no child repeats."""
    return _build_program(parent, "Kept", "Its children failed because of their own mistakes; nothing is changed.")


def _build_program(parent: NodeBrief, title: str, says: str, *, experiment: str = "", plots: str = "") -> Program:
    scripts = Scripts(experiment or parent.experiment, plots or parent.plots)
    return make_program(parent, scripts, title=title, plan=f"{says} {parent.plan}".strip(), varies=title.lower())


# --- figures --------------------------------------------------------------------------------------------------------

DRAW_FUNCTION = re.compile(r"(?ms)^def (draw_\w+)\(.*?(?=^\S)")


def add_labels(study: OfflineStudy, plots: str, complaints: str, sound: str) -> str:
    """Return the script with a label on every axis, if the complaints are about these; otherwise `sound`."""
    if not re.search(r"\blabel\b", complaints, flags=re.IGNORECASE):
        return sound
    fixed = DRAW_FUNCTION.sub(lambda match: _label_function(match[0], study.labels.get(match[1], ("", ""))), plots)
    return fixed if fixed != plots else sound


def _label_function(function: str, words: tuple[str, str]) -> str:
    """Return a drawing function with the axis labels that it lacks, set after its title."""
    lacking = [
        f'axis.set_{side}label("{word}")'
        for side, word in zip("xy", words, strict=True)
        if word and f"set_{side}label(" not in function
    ]
    title = re.search(r"(?m)^( +)axis\.set_title\(.*\n", function)
    if not lacking or title is None:
        return function
    lines = "".join(f"{title[1]}{line}\n" for line in lacking)
    return function[: title.end()] + lines + function[title.end() :]


Parts = tuple[AblationSpec, ...]


def answer_code(inputs: CodeInputs) -> Program:
    """Return the program that a decision asks for. Raises `CatalogueError` for an unknown idea or kind."""
    if is_table_study(inputs.data_plan):
        return write_table_program(inputs)
    study = find_study_by_idea(inputs.idea)
    if inputs.kind == "draft":
        return write_draft(study, inputs)
    if inputs.parent is None:
        raise CatalogueError(f"the offline model cannot {inputs.kind} without a parent; only a draft has none")
    if inputs.kind == "debug" and inputs.common is not None:
        return repair_common_failure(inputs.parent)
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
    """Write the draft of this ordinal, with the faults that its entry lists; the first one without them, if an earlier
    run of the study recorded its failures."""
    spec = study.drafts[_choose_variant(inputs) % len(study.drafts)]
    failed = [one.id for one in inputs.studies if one.name == study.name and one.failures and inputs.ordinal == 0]
    faults = () if failed else spec.faults
    faulty = apply_edits(write_sound_draft(study, inputs), (study.find_fault(name) for name in faults))
    hidden = read_constant(faulty.experiment, "HIDDEN")
    varies = spec.network + (f", HIDDEN={hidden}" if inputs.ordinal >= len(study.drafts) else "")
    learned = f" It avoids what failed in an earlier run (record {failed[0]})." if failed else ""
    return make_program(None, faulty, title=spec.title, plan=spec.plan + learned, varies=varies)


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
    return make_program(parent, scripts, title=addition.title, plan=addition.plan, varies=inputs.item or addition.name)


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
    parts = _choose_parts(study, inputs)
    experiment = parent.experiment
    for part in parts:
        experiment = scale_constants(experiment, part.scale)
    arm = next((part.arm for part in parts if not part.scale), parts[0].arm)
    experiment = add_entry(experiment, "ARMS = {", f'    "{_condition_name(parts)}": {arm},')
    plan = " ".join(part.plan for part in parts)
    title = ", and ".join(part.title for part in parts)
    made = make_program(
        parent, Scripts(experiment, parent.plots), title=title, plan=plan, varies=_condition_name(parts)
    )
    return made.model_copy(update={"arms": (_condition_name(parts),)})


def _condition_name(parts: Parts) -> str:
    """Return the name of the ablated arm: `without-smoothing`, `without-smoothing-and-weight-decay`."""
    return "without-" + "-and-".join(part.condition.removeprefix("without-") for part in parts)


def _choose_parts(study: OfflineStudy, inputs: CodeInputs) -> Parts:
    """Choose the part or parts to remove: the planned ones, or those that the item names if new, or the next."""
    tried = {sibling.varies for sibling in inputs.siblings} | set(inputs.rest.tried if inputs.rest else ())
    singles = study.ablations
    # Two removals can be combined if at most one of them changes the arm itself.
    pairs = (pair for pair in itertools.combinations(singles, 2) if any(part.scale for part in pair))
    planned = [(part,) for part in singles if inputs.ablation is not None and part.condition == inputs.ablation.name]
    if planned:
        return planned[0]
    choices: list[Parts] = [*((part,) for part in singles), *pairs]
    own = choices[_choose_variant(inputs) % len(choices)]
    item = inputs.item.lower()
    named: list[Parts] = [(part,) for part in singles if item and any(word in item for word in part.keywords)]
    return next((parts for parts in (*named, own, *choices) if _condition_name(parts) not in tried), own)
