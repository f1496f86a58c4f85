"""What can go wrong in the sandbox itself. Code that fails is no error of ours: it is an outcome.

SandboxError
    ExecutorError      no kernel starts, no disk: the person who runs us
        ClusterDown      the cluster went away: whoever keeps it; the run can be resumed
        PlaceLost        a machine of it, or one of its processes, went away: the cell begins again elsewhere
    ClusterError       a cluster that cannot be used as asked: the person who runs us
    IsolationError     code cannot be isolated here, and must be: the person who runs us
    GpuError           no such GPU, or none at all: the person who runs us
    PretrainedError    a model cannot be fetched: whoever named it
    PackageError       a package cannot be had: whoever named it
    RepositoryError    a user's repository cannot be taken in, or run: whoever named it
    DatasetError       no such dataset, or it cannot be cut: whoever named it
    SubmissionRefused  predictions that cannot be scored: becomes the failure of the attempt that left them
        BadFile          (sandbox.safe_io) a file that cannot be read; likewise
"""

from __future__ import annotations

from labwright.record.errors import UsageError, UserError


class SandboxError(UserError):
    """Root of the errors of this folder."""


class ExecutorError(SandboxError):
    """The executor itself could not run a job (no kernel starts, no disk). Who acts: the person who runs us."""


class ClusterDown(ExecutorError):
    """The cluster that ran experiments went away. Who acts: whoever keeps it; then the run is resumed."""


class WorkerLost(ExecutorError):
    """A place on another machine went away with what ran there. Who acts: we do, elsewhere."""


class ClusterError(SandboxError, UsageError):
    """A cluster cannot be used as it is. Who acts: the person who runs us."""


class DatasetError(SandboxError, UsageError):
    """A dataset cannot be had. Who acts: whoever named it."""


class IsolationError(SandboxError, UsageError):
    """Code cannot be isolated on this machine, and the settings want it to be. Who acts: the person who runs us."""


class GpuError(SandboxError, UsageError):
    """A GPU that was asked for cannot be had. Who acts: the person who runs us."""


class PretrainedError(SandboxError, UsageError):
    """A pretrained model cannot be had. Who acts: whoever named it."""


class PackageError(SandboxError, UsageError):
    """A package cannot be had. Who acts: whoever named it."""


class RepositoryError(SandboxError, UsageError):
    """A user's repository cannot be taken in or run as it was asked. Who acts: whoever named it."""


class SubmissionRefused(SandboxError):
    """Submitted predictions cannot be scored. The executor turns it into the failure of the attempt."""
