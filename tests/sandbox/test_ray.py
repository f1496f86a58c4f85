"""The contract of `Executor` over a real Ray cluster of two node processes, and what a cluster adds to it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from sandbox.cluster.engine import forget
from sandbox.cluster.executor import RayExecutor
from sandbox.job import Executor
from sandbox.settings import SandboxSettings
from tests.ray_cluster import RayCluster, started
from tests.sandbox.conftest import SETTINGS, Store
from tests.sandbox.contract import ExecutorContract

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default"), pytest.mark.skipif(
    find_spec("ray") is None, reason="needs Ray (make setup installs it)")]  # not imported before its variables are set


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    made = started(2)
    yield made
    forget()
    made.end()


def settings_for(cluster: RayCluster, store: Store) -> SandboxSettings:
    return SETTINGS.model_copy(update={"executor": "ray", "ray": cluster.address, "store": store.cache / "store"})


class TestRay(ExecutorContract):
    patience = 60.0

    @pytest.fixture(autouse=True)
    def of_cluster(self, cluster: RayCluster) -> None:
        self.cluster = cluster

    def make(self, slots: int, store: Store) -> Executor:
        return RayExecutor(slots, store.views, labels=store.labels, settings=settings_for(self.cluster, store),
                           cache=store.cache)

