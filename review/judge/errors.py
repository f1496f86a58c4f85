"""What can go wrong before a judge is asked.

    JudgeError
        PaperError     you: the paper cannot be read
        RubricError    you: the rubric file cannot be used
"""

from __future__ import annotations

from record.errors import WrongUse


class JudgeError(WrongUse):
    """A paper cannot be judged. The message is one line that says why, and how to fix it."""


class PaperError(JudgeError):
    """The paper cannot be read."""


class RubricError(JudgeError):
    """The rubric cannot be used."""
