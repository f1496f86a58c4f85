"""The state of a run as the fold of its events: `RunState = fold(events)`.

Nothing else holds state. `record.reducers.event_fold.apply` is the only way from an event to the state: it hands the
event to the module of its group (`process`, `search`, `nodes`, `calls`, `papers`), which nobody else imports.
"""
