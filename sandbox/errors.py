"""What can go wrong in the sandbox itself. Code that fails is no error of ours: it is an outcome.

    SandboxError
        ExecutorError      (sandbox.job) no kernel starts, no disk: the person who runs us
        DatasetError       no such dataset, or it cannot be cut: whoever named it
        SubmissionRefused  predictions that cannot be scored: becomes the failure of the attempt that left them
"""

from __future__ import annotations


class SandboxError(Exception):
    """Root of the errors of this folder."""


class DatasetError(SandboxError):
    """A dataset cannot be had. Who acts: whoever named it."""


class SubmissionRefused(SandboxError):
    """Submitted predictions cannot be scored. The executor turns it into the failure of the attempt."""
