"""Everything that can happen in a run, as small frozen values with a literal tag; a module a subject.

The log (`record.log`) stores them in order and adds a sequence number and the time; `record.fold` turns them into the
state of the run. An event is committed before anything depends on it. Adding a field needs a default, so that old
logs still read.
"""
