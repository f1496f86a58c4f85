"""What ablations and questions do alike with a repository: import its code, build its environment, run its commands."""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from labwright.agent.settings import Settings
from labwright.record.errors import UsageError
from labwright.record.event_log import EventLog
from labwright.record.events.repository_events import EnvironmentBuilt, RepositoryImported
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.factory import open_executor
from labwright.sandbox.isolation.probe import describe_isolation
from labwright.sandbox.isolation.processes import kill_orphans
from labwright.sandbox.repository.environment import RepositoryEnvironment, build_environment
from labwright.sandbox.repository.git_mirror import GitMirror, ImportedTree


@dataclass
class RepositorySession:
    """One process that works on a study of a repository. The folder of the log is the study's folder."""

    settings: Settings
    log: EventLog

    def __post_init__(self) -> None:
        self.folder = self.log.path.parent.absolute()
        self.mirror = GitMirror(self.folder / "mirror")
        kill_orphans(self.folder / "cache")

    def import_code(
        self,
        repository: str,
        terms: dict[str, Any],
        *,
        dirty: bool,
        later_terms: Iterable[str] = (),
        find_faults: Callable[[ImportedTree], tuple[str, ...]] = lambda taken: taken.faults,
    ) -> RepositoryImported:
        """Import the code unless the log has it. `later_terms` may differ when the study is continued.

        Raises: `UsageError` if the folder was created with other terms.
        """
        known = self.log.state.repository_state.imported
        if known is None:
            taken = self.mirror.import_head(Path(repository), dirty=dirty)
            known = RepositoryImported(
                repository=repository,
                commit=taken.commit,
                tree=taken.tree,
                snapshot=taken.is_snapshot,
                files=taken.files,
                bytes=taken.bytes,
                faults=find_faults(taken),
                settings=terms,
                version=version("labwright"),
                model=self.settings.models.model_names,
                isolation=describe_isolation(self.settings.sandbox),
            )
            self.log.append(known)
        elif known.settings | {name: terms[name] for name in later_terms} != terms:
            raise UsageError(f"{self.log.path.parent} was created with different options: choose another folder")
        return known

    def build_environment(
        self, texts: dict[str, str], *, python: str = "", mounts: Mapping[str, Path] | None = None
    ) -> RepositoryEnvironment:
        """Build the environment of the repository's commands, with the packages recorded before."""
        built = self.log.state.repository_state.environment
        found = build_environment(
            texts,
            self.settings.sandbox,
            python=python,
            mounts=mounts,
            installed_before=built.packages if built is not None else {},
        )
        if built is None:
            self.log.append(
                EnvironmentBuilt(
                    how=found.how,
                    python=found.version,
                    packages=dict(found.packages),
                    folders=found.command_environment.import_folders,
                    deviations=found.deviations,
                    mounts=dict(found.mounts),
                    device=self.settings.sandbox.device,
                )
            )
        return found

    @asynccontextmanager
    async def open_executor(self) -> AsyncGenerator[LocalExecutor]:
        """Open the executor of the commands; at the end its folders and the checkouts are removed."""
        executor = open_executor(
            self.settings.search.num_workers,
            self.folder / "views",
            labels=self.folder / "labels",
            cache=self.folder / "cache",
            settings=self.settings.sandbox.model_copy(update={"pool": 0}),
        )
        try:
            yield executor
        finally:
            await executor.close()
            self.mirror.forget_checkouts()
            for left in ("work", "cache", "views"):
                shutil.rmtree(self.folder / left, ignore_errors=True)
