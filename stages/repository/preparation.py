"""The first step of an ablation or a question: record the repository and the environment of its commands."""

from __future__ import annotations

from labwright.record.events.repository_events import EnvironmentBuilt, RepositoryImported
from labwright.record.schema.data_plan import DatasetFacts
from labwright.sandbox.repository.predictions import read_truth, write_labels
from labwright.stages.run_context import RunContext

LARGE_REPOSITORY_GB = 2.0
"""Checkouts larger than this (GB) get a warning: large files are linked instead of copied for each run."""


async def prepare_repository(context: RunContext) -> None:
    """Record the imported repository and its environment, and store the labels of its predictions out of its reach."""
    code, repository, known = context.code, context.repository, context.state.repository
    assert code.repository is not None and repository is not None and repository.environment is not None
    if code.truth is not None:
        truth = read_truth(code.truth).without_splits
        facts = DatasetFacts(
            name=next(iter(context.sources)),
            source=str(code.truth),
            features=0,
            classes=0,
            sizes={},
            fingerprint="",
            seed=0,
        )
        write_labels(truth, truth.add_facts(facts), context.folder.labels)
    if known.imported is None:
        taken = repository.mirror.describe_import(code.commit, code.tree)
        size = taken.bytes / 1e9
        large = f"the checkout has {size:.1f} GB: its large files are linked, not copied"
        context.recorder.append(
            RepositoryImported(
                repository=str(code.repository),
                commit=taken.commit,
                tree=taken.tree,
                snapshot=taken.is_snapshot,
                files=taken.files,
                bytes=taken.bytes,
                faults=(*taken.faults, *([large] if size > LARGE_REPOSITORY_GB else [])),
            )
        )
    if known.environment is None:
        found = repository.environment
        context.recorder.append(
            EnvironmentBuilt(
                how=found.how,
                python=found.version,
                packages=dict(found.packages),
                folders=found.command_environment.import_folders,
                deviations=found.deviations,
                mounts=dict(found.mounts),
                device=context.sandbox.device,
            )
        )
