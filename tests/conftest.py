"""Shared fixtures. The suite is offline: any model request to the network is an error."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

import pytest
from hypothesis import settings

from tests.execution_cache import VARIABLE, reusing_executions_between_runs

MODELS = "pydantic_ai.models"
STORE = "SCIENTIST_SANDBOX__STORE"

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
    "tests/stages/test_whole_run",
    "tests/faults/test_kills",
    "tests/sandbox/test_isolation",
    "tests/sandbox/test_experiments",
    "tests/search/test_search",
    "tests/paper/test_paper",
)
"""The slowest test files."""

settings.register_profile("test", max_examples=20, deadline=None)
settings.register_profile("bench", max_examples=300, deadline=None)


def _skip_sync(_: object) -> None:
    """Stands for `os.fsync`: what a killed process wrote survives without it, and no test cuts the power."""


def pytest_configure(config: pytest.Config) -> None:
    os.fsync = os.fdatasync = _skip_sync
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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Use one more worker than cores for slow tests, which wait for kernels, servers and time limits."""
    return len(os.sched_getaffinity(0)) + ("not slow" not in str(config.getoption("markexpr")))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests marked `bench` unless `-m` names it, and order the slowest files first to keep all workers
    busy."""
    if "bench" not in str(config.getoption("markexpr")):
        left_out = [item for item in items if item.get_closest_marker("bench")]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if not item.get_closest_marker("bench")]
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (not item.nodeid.startswith(SLOWEST_FIRST), item.path not in slow))


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
