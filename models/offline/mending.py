"""Kind `debug` and purpose `replot`: mending what failed, from the failure's words and the source that failed.

Nothing here knows which mistakes were planted: a repair is chosen by the class of the failure and a pattern in the
source. One failure is mended at a time, since a program stops at its first.
"""

from __future__ import annotations

import re

from models.offline.scripts import scaled, with_constant
from models.offline.study import Study
from models.roles.coding import ParentBrief, Program
from models.roles.figures import PlotInputs, Plots
from record.nouns.nodes import ErrorClass

SHRINKS: dict[ErrorClass, tuple[str, str]] = {
    "timeout": ("EPOCHS", "ran out of time"), "memory": ("BATCH", "ran out of memory")}
"""The constant that is halved after a failure, and how the failure is called."""


def mend(study: Study, parent: ParentBrief, fallback: Program) -> Program:
    """The parent's program without its reported failure; a sound draft where no repair is known for it."""
    kind = parent.failure.kind if parent.failure else "other"
    if kind == "figure":
        words = parent.failure.message if parent.failure else ""
        return _program(parent, "Mended figures", f"The figures were refused: {_short(words)} They are drawn anew.",
                        plots=relabelled(study, parent.plots, words, fallback.plots))
    for repair in study.repairs:
        if repair.failure == kind and re.search(repair.pattern, parent.experiment):
            fixed = re.sub(repair.pattern, repair.replacement, parent.experiment, count=1)
            return _program(parent, f"Mended: {kind}", repair.says, experiment=fixed)
    return _mend_by_rule(parent, fallback)


def _mend_by_rule(parent: ParentBrief, fallback: Program) -> Program:
    """Smaller where it was too slow or too large; else the draft's code with the datasets of the parent."""
    kind = parent.failure.kind if parent.failure else "other"
    name, words = SHRINKS.get(kind, ("", ""))
    if name and re.search(rf"(?m)^{name} = ", parent.experiment):
        says = f"The experiment {words}, so {name.lower()} is halved."
        return _program(parent, f"Mended: {kind}", says, experiment=scaled(parent.experiment, {name: 0.5}))
    datasets = re.search(r"(?m)^DATASETS = \[(.+)\]$", parent.experiment)
    names = re.findall(r"[\"']([^\"']+)[\"']", datasets[1]) if datasets else []
    sound = with_constant(fallback.experiment, "DATASETS", names) if names else fallback.experiment
    says = "The failure has no small repair, so the experiment is written anew."
    return _program(parent, "Written anew", says, experiment=sound, plots=fallback.plots)


def _program(parent: ParentBrief, title: str, says: str, *, experiment: str = "", plots: str = "") -> Program:
    return Program(title=title, plan=f"{says} {parent.plan}".strip(), varies=title.lower(),
                   experiment=experiment or parent.experiment, plots=plots or parent.plots)


def _short(words: str) -> str:
    line = " ".join(words.split())
    return line[:160].rstrip(".") + "." if line else ""


# --- figures --------------------------------------------------------------------------------------------------------

FUNCTION = re.compile(r"(?ms)^def (draw_\w+)\(.*?(?=^\S)")


def replot(study: Study, inputs: PlotInputs, sound: str) -> Plots:
    """The refused script with what the complaints ask for; `sound` where the complaints are of another sort."""
    return Plots(plots=relabelled(study, inputs.plots, " ".join(inputs.complaints), sound))


def relabelled(study: Study, plots: str, complaints: str, sound: str) -> str:
    """The script with a label on every axis, where the complaints are of these; else `sound`."""
    if not re.search(r"\blabel\b", complaints, flags=re.IGNORECASE):
        return sound
    fixed = FUNCTION.sub(lambda match: _labelled(match[0], study.labels.get(match[1], ("", ""))), plots)
    return fixed if fixed != plots else sound


def _labelled(function: str, words: tuple[str, str]) -> str:
    """A drawing function with the axis labels that it lacks, set after its title."""
    lacking = [f'axis.set_{side}label("{word}")' for side, word in zip("xy", words, strict=True)
               if word and f"set_{side}label(" not in function]
    title = re.search(r"(?m)^( +)axis\.set_title\(.*\n", function)
    if not lacking or title is None:
        return function
    lines = "".join(f"{title[1]}{line}\n" for line in lacking)
    return function[: title.end()] + lines + function[title.end() :]
