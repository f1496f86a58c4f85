"""The end of a SLURM job is read as the scheduler tells it."""

from __future__ import annotations

from agent.slurm import job_end


def test_the_end_of_the_job_is_read() -> None:
    assert job_end({"SLURM_JOB_END_TIME": "1763700000"}) == 1763700000.0
    for without in ({}, {"SLURM_JOB_END_TIME": "UNLIMITED"}, {"SLURM_JOB_END_TIME": "0"}):
        assert job_end(without) is None
