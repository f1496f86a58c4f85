"""Kind `debug` and purpose `replot`: repair failures from their messages and the source that failed.

Nothing here knows which mistakes were planted: a repair is chosen by the class of the failure and a pattern in the
source. One failure is repaired at a time, since a program stops at its first.
"""

from __future__ import annotations

import re

from labwright.models.offline.scripts import Scripts, make_program, scale_constants
from labwright.models.offline.study import OfflineStudy
from labwright.models.roles.experiment_code import NodeBrief, Program
from labwright.record.schema.nodes import ErrorClass

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
