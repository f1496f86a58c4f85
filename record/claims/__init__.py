"""The evidence ledger: what the record supports, as claims with stable keys, computed from measurements.

A claim is a mean over replicates of one frozen node; the seed that the search looked at is excluded, since it was
chosen for its result. A difference is paired by seed. Intervals are 95 % Student t, each for itself; the verdict on a
difference is corrected for the comparisons of its family (`record.claims.differences`). Where all seeds gave the same
value there is no spread to speak of: the claim has no standard deviation and no interval, rather than ones of width 0.

What it does not guarantee: that a claim is interesting, or that the code behind a `logged` value is right. The
correction knows the comparisons of this paper, not those of other runs, nor the choice among nodes by the search.

    means          claims: means over replicates, their spread, and tests
    differences    paired differences between arms, and what may be said of them
    caveats        what stands beside a verdict: stale tuning, a published value that a baseline misses
    printing       the forms in which both stand in a paper
"""
