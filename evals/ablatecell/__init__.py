"""Comparisons with AblateCell: worked cases (`golden`), its policy as printed (`published_policy`), published numbers
(`published_numbers`), and `recovery`."""
