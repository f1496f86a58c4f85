"""The two kinds of error whose message says all that is needed: at the edge of the program each is one line.

WrongUse           you: a flag, setting, file or folder is not what is needed (exit 2)
ExpectedFailure    something that may happen: to be looked at, waited for or resumed (exit 1, no traceback)
"""


class UsageError(Exception):
    """Something was asked for that cannot be done. The message says what and how to fix it."""


class UserError(Exception):
    """Something failed that may fail. The message says what, and how to continue."""
