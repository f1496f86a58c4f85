"""The state of a run as a fold over its events: `RunState = fold_events(events)`.

There is no other persistent state. `record.reducers.event_fold.apply_event` is the only way from an event to the state;
the class of an event names the field that keeps it, and the fold does the rest. `RunState` has what every study has;
what only some kinds of study do is a slice of it with its own events (`CallState`, `SearchState`, `PaperState` and so
on).
"""
