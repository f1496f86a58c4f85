"""A small study on a Ray cluster, up to the end of tuning: the same tree and numbers as with local slots."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from labwright.record.event_log import read_state
from tests.faults.http_study import make_study_script
from tests.faults.run_comparison import comparable_tree
from tests.faults.run_killer import LIMIT_SECONDS, ROOT
from tests.models.openai_server import OpenAIServer
from tests.ray_cluster import start_cluster
from tests.stages.cell_study import make_cell_model

pytestmark = [
    pytest.mark.slow,
    pytest.mark.bench,
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray (make setup installs it)"),
]


def test_a_study_on_a_cluster_measures_what_it_does_on_one_machine(tmp_path: Path) -> None:
    cluster = start_cluster(2)
    noted, on_ray = tmp_path / "noted", cluster.variables | {"STUDY_ON_RAY": cluster.address}
    try:
        with OpenAIServer(make_study_script(noted, model=make_cell_model)) as server:
            for name, variables in (("local", {}), ("ray", on_ray)):
                command = [sys.executable, "-m", "tests.faults.run_killer", tmp_path / name, server.url, noted]
                environment = os.environ | variables | {"STUDY_UNTIL": "tuning"}
                ran = subprocess.run(command, cwd=ROOT, env=environment, timeout=LIMIT_SECONDS, check=False)
                assert ran.returncode == 130, "stopped after tuning"
    finally:
        cluster.end()
    local, ray = read_state(tmp_path / "local"), read_state(tmp_path / "ray")
    assert comparable_tree(local) == comparable_tree(ray)
    assert len(ray.nodes) > 4
