"""The evidence ledger: what the record supports, as claims with stable keys, computed from measurements.

A claim is a mean over replicates of one frozen node; the seed that the search looked at is excluded, since it was
chosen for its result. A difference is paired by seed. Intervals are 95 % Student t, each for itself; the verdict on a
difference is corrected for the comparisons of its family (`record.claims.differences`). Where all seeds gave the same
value there is no spread to speak of: the claim has no standard deviation and no interval, rather than ones of width 0.

What it does not guarantee: that a claim is interesting, or that the code behind a `logged` value is right. The
correction knows the comparisons of this paper, not those of other runs, nor the choice among nodes by the search.
"""

from __future__ import annotations

from record.claims.differences import FAMILIES, Called, Difference, Family, differences
from record.claims.means import (
    GRADES,
    LEVEL,
    MINIMUM_REPLICATES,
    POWER,
    Claim,
    ablation_claims,
    ablation_conditions,
    ablations,
    claims_on_test,
    detectable,
    holm,
    ignores_seed,
    interval,
    p_value,
    paper_claims,
    replicates_of,
    same_values,
    seedless,
    trusted_replicates,
    validation_claims,
    weakest,
    winner,
)
from record.claims.printing import MOST_DIGITS, decimals, printed, setups

__all__ = [
    "FAMILIES", "GRADES", "LEVEL", "MINIMUM_REPLICATES", "MOST_DIGITS", "POWER", "Called", "Claim", "Difference",
    "Family", "ablation_claims", "ablation_conditions", "ablations", "claims_on_test", "decimals", "detectable",
    "differences", "holm", "ignores_seed", "interval", "p_value", "paper_claims", "printed", "replicates_of",
    "same_values", "seedless", "setups", "trusted_replicates", "validation_claims", "weakest", "winner",
]
