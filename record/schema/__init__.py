"""Frozen values that events contain, prompts show and papers cite; one module per subject.

Every package may import them; they import no other part of this program. A value never changes: a later fact is a later
event (`record.events`), and the state of a run is the fold of its events (`record.reducers`).
"""
