"""How a judge agrees with people who read the same papers, beside controls that a useless judge would pass.

docs/judge.md says what each figure is worth.
"""
