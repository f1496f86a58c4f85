"""EXP-Bench: research questions on real repositories, scored step by step (the paper of 2025 and its harness).

"Anchor" is what that harness does. Where it is unclear or wrong ours differs, and both are shown.
"""
