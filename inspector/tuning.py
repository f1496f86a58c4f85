"""Tuning in words: the trials of one node, and what each arm was given so far."""

from __future__ import annotations

from inspector.text import duration, plain
from record.effort import Account, ArmTuning


def trials_text(account: Account, node: str) -> str:
    """The trials of a node in one line, with the best of them: `smooth: 4 trials, best 0.93`."""
    own = [one for one in account.trials if one.node == node]
    values = [one.values[account.dataset] for one in own if account.dataset in one.values]
    best = f", best {(max if account.metric.higher_is_better else min)(values):.4g}" if values else ""
    failed = sum(one.outcome == "failed" for one in own)
    share = f" at {own[0].share:g}" if own and own[0].share < 1 else ""
    return (f"{', '.join(dict.fromkeys(plain(one.arm) for one in own))}: {len(own)} trial{'s' * (len(own) != 1)}{share}"
            f"{best}{f', {failed} failed' if failed else ''}")


def tuning_text(account: Account) -> str:
    """What each arm was given of its budget, and the best that it came to, in one line."""
    return f"{'; '.join(_arm(account, one) for one in account.arms)} ({plain(account.metric.name)}, {account.dataset})"


def _arm(account: Account, one: ArmTuning) -> str:
    tuning, effort = account.tuning, one.effort
    given = (f"{duration(effort.seconds)} of {duration(tuning.budget)}" if tuning.currency == "seconds" else
             f"{effort.trials} trials + {effort.versions} of its code, of {tuning.budget:g}")
    notes = "" if one.chosen is None else ", stale" * one.chosen.stale + ", not converged" * one.chosen.gaining
    return f"{plain(one.arm)} {given}{f', best {one.best:.4g}' if one.best is not None else ''}{notes}"
