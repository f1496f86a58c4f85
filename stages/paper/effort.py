"""What a paper tells of tuning: what each arm was given, what was chosen, what more trials would have brought, what the
compared arms took, and published anchors. Made from the record; the words are in `effort.tex.jinja`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from record.claims.caveats import anchored
from record.claims.means import Claim
from record.effort import Account, ArmTuning, account_of, disparities, parity_of
from record.fold.state import RunState
from record.nouns.frozen import Scalar
from record.nouns.tuning import Hyperparameter
from record.tuning import EQUAL
from stages.paper.curves import drawn
from stages.paper.latex import words

SAMPLERS = {
    "random": "", "sobol": "The trials are points of a Sobol sequence, not drawn at random. ",
    **{sampler: f"The trials were proposed by {name} after a few that were spread over the space, not drawn at random: "
                "for so many trials the curve says what was found, and no random search is promised to find as much. "
       for sampler, name in (("tpe", "TPE"), ("gp", "a Gaussian process"))}}


def effort_context(state: RunState, claims: Sequence[Claim]) -> dict[str, Any]:
    """What the sections on tuning, and the sentences on it, are filled in from."""
    account, rows = account_of(state), parity_of(state)
    curves = {one.arm: one.curve for one in account.arms if one.curve} if account is not None else {}
    settings = {one.arm: one.chosen for one in account.arms if one.chosen is not None} if account is not None else {}
    unequal = disparities(state, rows)
    return {
        "account": account, "unequal": account.unequal if account is not None else (), "equal": f"{EQUAL:g}",
        "notes": _notes, "setting_rows": _setting_rows, "sampler_said": SAMPLERS,
        "parity": [(one, [_count(x) for x in (one.steps, one.rows, one.parameters)]) for one in rows],
        "disparities": unequal, "anchored": anchored(state.data_plan, claims),
        "gaining": [arm for arm, one in settings.items() if one.gaining],
        "stale": [arm for arm, one in settings.items() if one.stale],
        "differs": {arm: "; ".join(f"{', '.join(what)} (against {other})" for name, other, what in unequal
                                   if name == arm) for arm, _, _ in unequal},
        "curves": drawn(curves, across="trials", up=words(account.metric.title or account.metric.name))
        if account is not None and any(len(one) > 1 for one in curves.values()) else ""}


def _notes(account: Account, one: ArmTuning) -> str:
    """What has to be said of an arm's effort; empty where it is as it should be."""
    chosen = one.chosen
    return "; ".join(text for text, holds in (
        ("UNEQUAL: less than the others", one.arm in account.unequal),
        ("every setting of its space was tried", one.effort.exhausted),
        ("stale: not tuned on the reported code", chosen is not None and chosen.stale),
        ("the best came late: not converged", chosen is not None and chosen.gaining),
        (f"at the edge: {', '.join(chosen.edges)}" if chosen is not None else "", chosen is not None and chosen.edges),
    ) if holds)


def _setting_rows(one: ArmTuning) -> list[tuple[object, ...]]:
    """Hyperparameter, what was chosen, default, range and the default's source, of an arm in the reported node."""
    chosen = one.chosen.setting if one.chosen is not None else {}
    return [(dimension.name, _value(chosen.get(dimension.name)), _value(dimension.default), _range(dimension),
             dimension.source) for dimension in one.space]


def _range(one: Hyperparameter) -> str:
    where = f", where {one.given} is {' or '.join(map(_value, one.among))}" if one.given else ""
    if one.kind == "choice":
        return ", ".join(map(_value, one.options)) + where
    return f"{one.low:g} to {one.high:g}" + (", log" if one.kind == "log" else "") + where


def _value(value: Scalar | None) -> str:
    return "--" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _count(value: float | None) -> str:
    return "--" if value is None else f"{value:.0f}"
