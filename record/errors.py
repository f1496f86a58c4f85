"""The two kinds of errors that the command line prints as a single line without a traceback, since the message is
sufficient.

UsageError    user error: a flag, setting, file or folder is wrong (exit 2)
UserError     expected failure: check, wait or resume (exit 1, no traceback)
  SandboxError        of untrusted code and its sandbox (`sandbox.job` has the others)
    SubmissionRefused   what code left cannot be used: becomes the failure of the attempt
"""


class UsageError(Exception):
    """A request cannot be fulfilled. The message gives the reason and the fix."""


class UserError(Exception):
    """An expected kind of failure. The message states what failed and how to continue."""


class SandboxError(UserError):
    """Base class of the errors of untrusted code and its sandbox."""


class SubmissionRefused(SandboxError):
    """What the code submitted or left cannot be used. The executor turns this into the failure of the attempt."""
