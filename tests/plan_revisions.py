"""Answers of a scripted planner that revises a plan."""

from __future__ import annotations

import json

from labwright.models.roles.study_plan import PlanRevision
from labwright.record.plan_edits import PlanEdit
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.hypotheses import FindingAnswer


def make_revision(before: DataPlan, after: DataPlan, *answers: FindingAnswer) -> PlanRevision:
    """Set every field of a plan that differs; if none does, set the task to what it is."""
    old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
    changed = [name for name in DataPlan.model_fields if old.get(name) != new.get(name)] or ["task"]
    return PlanRevision(
        edits=tuple(PlanEdit(path=name, value=json.dumps(new.get(name, []))) for name in changed), answers=answers
    )
