"""Temporal consistency of hidden states on arithmetic expressions, after AI-Scientist-v2's paper (appendix C.1)."""
