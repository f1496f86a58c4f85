"""Role `plan`: an idea becomes the data plan of its study."""

from __future__ import annotations

from models.errors import CatalogueError
from models.offline.study import study_of_idea
from models.roles.planning import PlanInputs
from record.nouns.data import DataPlan


def plan(inputs: PlanInputs) -> DataPlan:
    """The study's data plan, narrowed to the datasets and metrics that can be had and that the idea names.

    Raises:
        CatalogueError: the idea is not the study's, none of its datasets can be had, or there are own data.
    """
    study = study_of_idea(inputs.idea)
    own = [entry.name for entry in inputs.catalogue if entry.own]
    if own:
        yours = ", ".join(own)
        raise CatalogueError(f"the offline model plans its own study only, not with data of yours ({yours}): choose "
                             "another model with --model, or leave --data out")
    have = {entry.name for entry in inputs.catalogue}
    datasets = tuple(use for use in study.plan.datasets if use.name in have)
    if not datasets:
        wanted = ", ".join(use.name for use in study.plan.datasets)
        raise CatalogueError(f"the study {study.name} needs one of the datasets {wanted}; have {sorted(have)!r}")
    named = " ".join(inputs.idea.datasets).lower().replace(" ", "_")
    asked = tuple(use for use in datasets if use.name in named)
    metrics = tuple(metric for metric in study.plan.metrics if metric.name in inputs.metrics)
    return study.plan.model_copy(update={"datasets": asked or datasets, "metrics": metrics or study.plan.metrics[:1]})
