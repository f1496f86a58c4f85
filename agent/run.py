"""One run from its idea to its end: makes the folder, holds the lock, hands it to `agent.process`.

`start` and `resume` return an exit code: 0 released, 1 ended by a fault of ours that three nodes met (resumable),
3 ended by a limit with a partial report, 4 no paper released, 130 interrupted and resumable. What makes a run
impossible is raised before anything is left behind.
"""

from __future__ import annotations

import asyncio
import errno
import json
import shutil
from contextlib import closing
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from labwright.agent.alerts import Alerts
from labwright.agent.budget import check_budget, check_priced
from labwright.agent.code import check_code, taken
from labwright.agent.data import pinned
from labwright.agent.environment import environment_text, machine_of, rate_of
from labwright.agent.process import Process, ending_of
from labwright.agent.settings import Settings, adapt
from labwright.models.errors import CatalogueError, ModelConfigError
from labwright.models.failover import open_backend
from labwright.models.replay import ReplayModel
from labwright.record import control
from labwright.record.campaign import is_campaign
from labwright.record.errors import WrongUse
from labwright.record.events import Event
from labwright.record.events.papers import Rewriting
from labwright.record.events.running import Ended, Resumed, Started
from labwright.record.fold.state import RunState
from labwright.record.folder import RunFolder, write_file
from labwright.record.lock import hold
from labwright.record.log import Listener, open_log
from labwright.record.network import on_network
from labwright.record.nouns.data import DataPlan
from labwright.record.nouns.idea import Idea
from labwright.record.reading import RecordError, read_state
from labwright.sandbox.isolation.probe import describe_isolation
from labwright.sandbox.isolation.processes import kill_orphans
from labwright.stages.documents import keep
from labwright.stages.paper import template


def start(
    idea: Idea, settings: Settings, *, runs: Path, name: str, listener: Listener, plan: DataPlan | None = None
) -> int:
    """Make a run of an idea, with a plan that was given, and bring it to its end; returns the exit code.

    Raises: `ModelConfigError`, `CatalogueError`, `IsolationError`, `DatasetError`, `WrongUse`, `RecordError`:
    nothing is left behind then.
    """
    open_backend(settings.models)  # refuses an impossible model before anything is created
    check_budget(settings)
    check_campaign(settings)
    isolation = describe_isolation(settings.sandbox)
    settings = pinned(settings)
    chosen = template.load(settings.paper.template)
    check_code(settings)
    root = runs / name
    if root.exists():
        raise WrongUse(f"{root} exists; choose another --name, or go on with it: scientist resume {root}")
    folder = RunFolder(root)
    folder.create()
    try:
        settings = taken(settings, folder)
    except BaseException:  # nothing was begun
        shutil.rmtree(root)
        raise
    try:
        write_file(root / "idea.json", idea.model_dump_json(by_alias=True, indent=1))
        write_file(root / "config.yaml", as_yaml(settings))
        write_file(root / "environment.txt", environment_text(settings.sandbox.python))
        if settings.context is not None:
            keep(settings.context, folder.context)
        if settings.paper.bib is not None:
            write_file(folder.library, settings.paper.bib.read_bytes())
        copied = template.keep(chosen, folder.templates)
        started = Started(
            idea=idea,
            settings=settings.model_dump(mode="json"),
            seed=settings.seed,
            version=version("labwright"),
            model=settings.models.called,
            isolation=isolation,
            machine=machine_of(settings.sandbox),
            template=copied,
            plan=plan,
            rate=rate_of(settings.sandbox, at_once=settings.search.num_workers),
        )
        return _drive(folder, settings, listener, first=started)
    except (ModelConfigError, CatalogueError):
        if read_state(root).data_plan is None:
            shutil.rmtree(root)
        raise


def resume(run: Path, overrides: dict[str, Any], *, listener: Listener) -> int:
    """Take a run up where it was left; returns the exit code.

    Raises: `RecordError`, `RunLockedError`, `SettingsError`, `IsolationError`, `ModelError`.
    """
    state = read_state(run)
    if state.started is None:
        raise RecordError(f"{run} was cut off before it began; start it again with 'scientist run'")
    if state.phase == "done" and state.ended is not None:  # nothing is left to do, and so nothing is written
        return ending_of(state)[0]
    settings, _ = adapt(state, overrides, RunFolder(run))
    check_priced(settings)
    check_campaign(settings)
    first = Resumed(
        settings=overrides,
        model=settings.models.called,
        isolation=describe_isolation(settings.sandbox),
        machine=machine_of(settings.sandbox),
        template=_renamed(RunFolder(run), settings, overrides),
        rate=rate_of(settings.sandbox, at_once=settings.search.num_workers, known=state.rate),
    )
    return _drive(RunFolder(run), settings, listener, first=first)


def rewrite(run: Path, overrides: dict[str, Any], *, listener: Listener) -> int:
    """Write the paper of a finished run again, beside the one that is there; returns the exit code.

    Experiments and figures stay as they are. Raises: what `resume` raises.
    """
    state = read_state(run)
    if state.started is None or state.phase != "done":
        raise RecordError(f"{run} is not finished: finish it first with scientist resume {run}")
    settings, _ = adapt(state, overrides, RunFolder(run))
    open_backend(settings.models)
    first = Rewriting(
        version=state.version + 1,
        settings=overrides,
        model=settings.models.called,
        template=_renamed(RunFolder(run), settings, overrides),
    )
    return _drive(RunFolder(run), settings, listener, first=first)


def _renamed(folder: RunFolder, settings: Settings, overrides: dict[str, Any]) -> str:
    """The hash of the run's copy of a template that was named anew; empty where none was."""
    if "paper.template" not in overrides:
        return ""
    return template.keep(template.load(settings.paper.template), folder.templates)


def _drive(folder: RunFolder, settings: Settings, listener: Listener, *, first: Started | Resumed | Rewriting) -> int:
    network = on_network(folder.root) if settings.network_folder is None else settings.network_folder
    left = control.names(folder.root)
    alerts = Alerts(settings.alerts, folder.root)

    def tell(event: Event, state: RunState) -> None:
        listener(event, state)
        alerts(event, state)

    with hold(folder.root, network=network), closing(open_log(folder.root, network=network, listener=tell)) as log:
        try:
            if isinstance(first, Rewriting) and log.state.phase != "done":  # another process was faster
                raise RecordError(f"{folder.root} is being written again already: scientist resume {folder.root}")
            if isinstance(first, Resumed):
                if log.state.phase == "done":  # a kill may have come before its end was recorded
                    code, reason = ending_of(log.state)
                    if log.state.ended is None:
                        log.append(Ended(exit_code=code, reason=reason))
                    return code
                first = first.model_copy(update={"reaped": len(kill_orphans(folder.cache))})
                folder.forget_live()
            log.append(first)
            backend = open_backend(settings.models)
            if isinstance(backend, ReplayModel):
                backend.go_on(key.role for key in log.state.answers)
            process = Process(replace(folder, version=log.state.version), settings, log, left, backend)
            return asyncio.run(process.run())
        except OSError as error:
            alerts.send("failure", str(error), log.state)
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
                raise RecordError(
                    f"cannot write to {folder.root}: {error.strerror}; free disk space (or repair "
                    "the mount), then resume"
                ) from error
            raise
        except Exception as error:
            alerts.send("failure", f"{type(error).__name__}: {error}", log.state)
            raise
        finally:
            alerts.close()


def check_campaign(settings: Settings) -> None:
    """Refuse a run whose campaign is gone. Raises `WrongUse`."""
    if settings.campaign is not None and not is_campaign(settings.campaign):
        raise WrongUse(
            f"the run is one of a campaign, and there is none at {settings.campaign}: put it back there, or "
            "go on without: --set campaign=null"
        )


def as_yaml(settings: Settings) -> str:
    """Settings as the run's configuration file has them."""
    return yaml.safe_dump(json.loads(settings.model_dump_json()), sort_keys=False)
