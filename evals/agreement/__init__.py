"""Agreement of a judge with humans who read the same papers, with controls that a useless judge would pass.

docs/judge.md explains how to interpret each number.
"""
