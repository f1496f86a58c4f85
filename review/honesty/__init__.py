"""Check whether a node's code is honest: facts of its run, probes of winners, and a model that reads the code.

docs/honesty.md lists what is detected, what is not, and how this was measured.
"""
