"""Hypotheses for test plans: one arm is better than another."""

from __future__ import annotations

from labwright.record.schema.hypotheses import Effect, Hypothesis, PossibleOutcomes, RivalExplanation


def make_hypotheses(
    better: str, worse: str, *, higher: bool, smallest: float = 0.02, level: str = ""
) -> tuple[Hypothesis, ...]:
    """Build a confirmatory hypothesis: `better` beats `worse` at a level, in a metric to maximise or minimise."""
    at = f"@{level}" if level else ""
    first, second = (better, worse) if higher else (worse, better)
    return (
        Hypothesis(
            id="gain",
            statement=f"{better} is better than {worse}",
            reason="less is noise",
            effects=(Effect(estimand=f"{first}{at} - {second}{at}", smallest=smallest),),
            outcomes=PossibleOutcomes(
                supported=f"Use {better}.", refuted=f"Keep {worse}.", open="The seeds decide nothing yet."
            ),
            rival=RivalExplanation(
                statement="the seeds differ", estimand=f"{worse}{at}", ours="above zero", theirs="near zero"
            ),
        ),
    )
