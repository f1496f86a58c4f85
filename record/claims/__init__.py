"""The evidence ledger: claims with stable keys, computed from the measurements in the record.

A claim is a mean over replicates of one frozen node; the search seed is excluded, since the node was selected on it.
Differences are paired by seed. Intervals are individual 95 % intervals. Only registered hypotheses have verdicts, which
are corrected for each other; other differences are exploratory. If all seeds gave the same value,
the spread is unknown: the claim has no standard deviation or interval, rather than ones of width 0.

Limits: a claim may be uninteresting, and the code behind a `logged` value may be wrong. The correction covers the
hypotheses of this paper, but not those of other runs or the search's choice among nodes.

  estimates            claims: means over replicates, their spread, and tests
  differences          paired differences between arms, all exploratory; intervals over seeds and test examples
  floor                arms that are no better than a constant prediction
  planned_seeds        how many seeds a claim needs
  hypothesis_tests     decisions on the hypotheses of the plan
  requested_estimates  further estimates that a paper or an addendum asks for
  setting_controls     whether tuned settings may explain a difference; the tuning of all arms
  sentences            outcomes in words; caveats: fewer tuning trials, a published value that a baseline misses
  formatting           printed forms in a paper
  part_effects         effects of the parts of a repository
  question_results     what the experiment of a question measured
  open_questions       what a study leaves to a next one
"""
