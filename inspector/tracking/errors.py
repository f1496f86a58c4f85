"""What trackers refuse.

    TrackerError    the person who asked: the package is not installed, or the tracker cannot be written to
"""

from __future__ import annotations


class TrackerError(Exception):
    """A tracker could not be told. The message says why, and how to mend it."""
