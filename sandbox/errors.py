"""Errors of the sandbox itself. Failures of experiment code are results, not exceptions.

SandboxError
    ExecutorError      no kernel starts, no disk space: user
        ClusterDown      the cluster became unavailable: its operator; the run can be resumed
        WorkerLost       a machine or process of the cluster was lost: the cell is restarted elsewhere
    ClusterError       the cluster cannot be used as configured: user
    IsolationError     isolation is required but not possible here: user
    GpuError           the requested GPU is not available: user
    PretrainedError    a model cannot be fetched: whoever requested it
    PackageError       a package cannot be installed: whoever requested it
    RepositoryError    a repository cannot be imported or run: whoever requested it
    DatasetError       a dataset is missing or cannot be split: whoever requested it
    SubmissionRefused  predictions cannot be scored: becomes the failure of the attempt
        BadFile          (record.untrusted_files) a file cannot be read: likewise
"""

from __future__ import annotations

from labwright.record.errors import SandboxError as SandboxError
from labwright.record.errors import SubmissionRefused as SubmissionRefused
from labwright.record.errors import UsageError


class ExecutorError(SandboxError):
    """The executor could not run a job (no kernel starts, no disk space). To be fixed by the user."""


class ClusterDown(ExecutorError):
    """The cluster that ran experiments became unavailable. To be fixed by its operator; the run can then be resumed."""


class WorkerLost(ExecutorError):
    """A worker on another machine was lost with the cell that it ran. The cell is restarted elsewhere."""


class ClusterError(SandboxError, UsageError):
    """A cluster cannot be used as configured. To be fixed by the user."""


class DatasetError(SandboxError, UsageError):
    """A dataset is not available. To be fixed by the requester."""


class IsolationError(SandboxError, UsageError):
    """Code cannot be isolated on this machine, but the settings require it. To be fixed by the user."""


class GpuError(SandboxError, UsageError):
    """A requested GPU is not available. To be fixed by the user."""


class PretrainedError(SandboxError, UsageError):
    """A pretrained model is not available. To be fixed by the requester."""


class PackageError(SandboxError, UsageError):
    """A package cannot be installed. To be fixed by the requester."""


class RepositoryError(SandboxError, UsageError):
    """A user's repository cannot be imported or run as requested. To be fixed by the requester."""
