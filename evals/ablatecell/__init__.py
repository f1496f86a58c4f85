"""Comparisons with AblateCell: worked cases (`golden`), published numbers (`published_numbers`), and `recovery`."""
