"""The nouns of a run: frozen values that events carry, prompts show and papers cite; a module a subject.

Every folder may import them; they import nothing else of ours. A noun never changes: a later fact about it is a later
event (`record.events`), and the state of a run is the fold of those (`record.reducers`).
"""
