"""The two kinds of errors that the command line prints as a single line without a traceback, since the message is
sufficient.

UsageError    user error: a flag, setting, file or folder is wrong (exit 2)
UserError     expected failure: check, wait or resume (exit 1, no traceback)
"""


class UsageError(Exception):
    """A request cannot be fulfilled. The message gives the reason and the fix."""


class UserError(Exception):
    """An expected kind of failure. The message states what failed and how to continue."""
