"""Say which model judges the work of a run, and how to have one of another family do it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from labwright.agent.api_keys import KEY_VARIABLES
from labwright.agent.forecast import forecast_run
from labwright.agent.settings import Settings
from labwright.models.model_address import find_family
from labwright.models.roles import ROLES
from labwright.models.settings import REVIEWING_ROLES, ModelSettings
from labwright.record.schema.data_plan import DataPlan, DatasetFacts

KEY_SUFFIX = "_API_KEY"


def describe_reviewer(models: ModelSettings, environ: Mapping[str, str] = os.environ) -> str:
    """Return one line on the model of the roles that judge; empty if there is nothing to say."""
    if (reviewer := models.find_reviewer()) is not None:
        judged = [name for name in ROLES if name in REVIEWING_ROLES and _is_asked(models, name, reviewer.name)]
        return (
            f"{reviewer.name} judges what {models.name} makes ({', '.join(judged)}); to let {models.name} do it: "
            "--set models.reviewer=false"
        )
    family = find_family(models.name)
    others = [
        name
        for name in KEY_VARIABLES
        if name.endswith(KEY_SUFFIX)
        and environ.get(name)
        and find_family(name.removesuffix(KEY_SUFFIX)) not in (None, family)
    ]
    if models.reviewer is not None or family in (None, "offline") or not others:
        return ""
    return (
        f"{models.name} also judges its own work, although {others[0]} is set: name a model of another family with "
        "--set models.reviewer=PROVIDER:MODEL"
    )


def _is_asked(models: ModelSettings, role: str, reviewer: str) -> bool:
    return [one.name for one in models.list_candidates(ROLES[role])][:1] == [reviewer]


def compare_reviewer_cost(settings: Settings, plan: DataPlan, datasets: Sequence[DatasetFacts]) -> str:
    """Return what a run is likely to cost with and without its reviewer; empty without one, or if a price is
    unknown."""
    if settings.models.find_reviewer() is None:
        return ""
    alone = settings.model_copy(update={"models": settings.models.model_copy(update={"reviewer": False})})
    own, other = (forecast_run(plan, datasets, one).usd for one in (alone, settings))
    if own is None or other is None:
        return "what the reviewer adds to the cost is unknown: a model has no listed price"
    return f"${other.likely:.2f} is likely with this reviewer, ${own.likely:.2f} without"
