"""The end of the batch job that a run is in, as SLURM tells it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from record.nouns.frozen import Frozen


class JobSettings(Frozen):
    """What happens before the end of a SLURM job. Outside one these have no effect."""

    at_end: Literal["stop", "report"] = Field(
        default="stop", description="stop: the run ends with exit code 130 and can be resumed by the next job; "
        "report: the search ends as at the time limit, and the paper is written")
    margin_timeout: float = Field(
        default=600.0, ge=0, description="seconds before the job's end; more for 'report', which writes a paper then")


def job_end(environment: Mapping[str, str]) -> float | None:
    """When the SLURM job ends, in seconds since the epoch; None outside a job, and in one without an end.

    Source: sbatch(1), output environment variables, SLURM_JOB_END_TIME.
    """
    text = environment.get("SLURM_JOB_END_TIME", "")
    return float(text) if text.isdigit() and int(text) > 0 else None
