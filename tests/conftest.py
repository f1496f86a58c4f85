"""Shared fixtures. The suite is offline: any model request to the network is an error."""

from __future__ import annotations

import gc
import os
import shutil
import ssl
import sys
import tempfile
from collections.abc import Generator, Iterator
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest
from hypothesis import settings

from tests.execution_cache import VARIABLE, reusing_executions_between_runs

MODELS = "pydantic_ai.models"
STORE = "SCIENTIST_SANDBOX__STORE"

gc.set_threshold(50_000)  # as `scientist` does: looking for garbage would take a tenth of the time

# The suite starts hundreds of kernels and commands: without .pyc files each would compile all sources again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


class _RequestForbiddingFinder(MetaPathFinder):
    """Forbids model requests the moment pydantic-ai is imported; importing it for every test costs 1.7 s."""

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != MODELS:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _RequestForbiddingLoader(spec.loader)
        return spec


class _RequestForbiddingLoader(Loader):
    """Loads a module with another loader, then forbids requests in it."""

    def __init__(self, inner: Loader) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        vars(module)["ALLOW_MODEL_REQUESTS"] = False


SLOWEST_FIRST = (
    "tests/sandbox/test_ray.py",
    "tests/faults/test_gate_kills.py",
    "tests/agent/test_repository_study.py",
    "tests/agent/test_campaign.py",
    "tests/sandbox/test_isolation.py",
    "tests/evals/test_expbench.py",
    "tests/agent/test_authored_ablation.py",
    "tests/agent/test_ablate.py",
    "tests/paper/test_paper.py",
    "tests/paper/test_templates.py",
    "tests/agent/test_question.py",
    "tests/stages/test_whole_run.py",
    "tests/sandbox/test_cells.py",
    "tests/sandbox/test_cell_isolation.py",
    "tests/agent/test_ablation_commands.py",
    "tests/sandbox/test_hostile_mix.py",
    "tests/inspector/browser/test_views.py",
    "tests/agent/test_predictions.py",
    "tests/agent/test_patches.py",
    "tests/test_first_day.py",
    "tests/sandbox/test_lab_state.py",
    "tests/sandbox/test_experiments.py",
    "tests/sandbox/test_llm_gateway.py",
    "tests/agent/test_doctor_gpu.py",
    "tests/agent/test_ablation_statistics.py",
    "tests/agent/test_moved.py",
    "tests/faults/test_external_faults.py",
    "tests/sandbox/test_hub.py",
    "tests/agent/test_branch.py",
    "tests/sandbox/test_host_file_access.py",
    "tests/sandbox/test_packages.py",
    "tests/agent/test_coding_agent_study.py",
    "tests/agent/test_cli.py",
    "tests/agent/test_cli_hostile.py",
    "tests/agent/test_dry_run.py",
    "tests/test_recorded_run.py",
    "tests/search/test_search.py",
)
"""The slowest test files, slowest first: a worker that starts one of them last would work alone at the end."""

settings.register_profile("test", max_examples=20, deadline=None)
settings.register_profile("bench", max_examples=300, deadline=None)


def _skip_sync(fd: object) -> None:
    """Stands for `os.fsync`: what a killed process wrote survives without it, and no test cuts the power."""


def pytest_configure(config: pytest.Config) -> None:
    os.fsync = os.fdatasync = _skip_sync
    ssl.create_default_context = cache(
        ssl.create_default_context
    )  # each of hundreds of clients would read certificates
    if config.getoption("--hypothesis-profile") is None:
        settings.load_profile("test")
    if VARIABLE not in os.environ:  # workers inherit it
        os.environ[VARIABLE] = tempfile.mkdtemp(prefix="kept-executions-")
        config.add_cleanup(lambda: shutil.rmtree(os.environ.pop(VARIABLE)))
        os.environ[STORE] = tempfile.mkdtemp(
            prefix="store-"
        )  # not the user's store, and on the file system of the runs
        config.add_cleanup(lambda: shutil.rmtree(os.environ.pop(STORE), ignore_errors=True))
    if MODELS in sys.modules:
        vars(sys.modules[MODELS])["ALLOW_MODEL_REQUESTS"] = False
    else:
        sys.meta_path.insert(0, _RequestForbiddingFinder())


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Disable garbage collection during collection, because importing all tests creates many objects but no garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_sessionfinish() -> None:
    """Look for garbage once; pytest does so five times, through the objects that are left then."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Use two and a half times as many workers as cores for slow tests, which wait for kernels, servers and time
    limits, if each can have 2 GB of memory."""
    cores = len(os.sched_getaffinity(0))
    if "not slow" in str(config.getoption("markexpr")):
        return cores
    return max(cores, min(5 * cores // 2, int(psutil.virtual_memory().available / 2e9)))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests marked `bench` unless `-m` names it, and order files by `SLOWEST_FIRST`, then other files with
    slow tests first."""
    if "bench" not in str(config.getoption("markexpr")):
        left_out = [item for item in items if item.get_closest_marker("bench")]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if not item.get_closest_marker("bench")]
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    order = {path: place for place, path in enumerate(SLOWEST_FIRST)}
    items.sort(key=lambda item: (order.get(item.nodeid.partition("::")[0], len(order)), item.path not in slow))


@pytest.fixture(scope="module")
def reusing_executions() -> Iterator[None]:
    """Reuse executions of other runs in the suite (tests/execution_cache.py)."""
    with reusing_executions_between_runs():
        yield


@pytest.fixture(autouse=True)
def isolated_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove keys, proxies and settings of the user's environment. Code is isolated only if the machine supports it, so
    the suite also runs elsewhere (tests/sandbox/test_isolation.py checks)."""
    for name in list(os.environ):
        if (name.startswith("SCIENTIST_") and name != STORE) or name.endswith(("_API_KEY", "_BASE_URL")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("SCIENTIST_SANDBOX__ISOLATION", "auto")


@pytest.fixture
def placeholder_pdf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write and check the LaTeX sources, but put a placeholder in the place of the PDF, for tests that do not look at
    it; audits do not read it either. Without any PDF, no paper could be released, whatever it says."""
    from labwright.agent import audit
    from labwright.review.evidence import Violation
    from labwright.stages.paper import typesetting
    from labwright.stages.paper.typesetting import PaperAssessment

    async def compile_nothing(work: Path, *_: object) -> PaperAssessment:
        for name in ("paper.pdf", "paper.log"):
            (work / name).write_bytes(b"")
        return PaperAssessment(work / "paper.pdf", 4.0)

    async def find_nothing(*_: object, **__: object) -> tuple[Violation, ...]:
        return ()

    monkeypatch.setattr(typesetting, "_compile", compile_nothing)
    for module in (typesetting, audit):
        monkeypatch.setattr(module, "check_pdf", find_nothing)
