"""What can go wrong before agreement is measured.

    AgreementError
        TableError       you: a file of scores cannot be used
        NoPairsError     you: the two files share no paper, or no paper has two reviews
"""

from __future__ import annotations


class AgreementError(Exception):
    """Agreement cannot be measured. The message is one line that says why, and how to mend it."""


class TableError(AgreementError):
    """A file of scores cannot be used."""


class NoPairsError(AgreementError):
    """There is nothing to compare."""
