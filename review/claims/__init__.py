"""Compare what a paper's sentences claim with what the record has (docs/evidence.md).

`sentences` numbers the sentences as printed, role `claim_reader` labels them, and `rules` compares the claims with
`comparisons` without a model.
"""
