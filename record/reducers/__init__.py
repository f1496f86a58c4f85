"""The state of a run as a fold over its events: `RunState = fold_events(events)`.

There is no other persistent state. `record.reducers.event_fold.apply_event` is the only way from an event to the state;
it dispatches to the reducer of the event's group.
"""
