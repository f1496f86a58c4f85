"""The real hub clients with a local hub: lookup, download and offline use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.hub_server import COMMIT, Hub, running_hub

pytestmark = pytest.mark.slow

QUESTIONS = "question,answer\n" + "".join(f"what is {i} and {i}?,{'odd' if i % 2 else 'even'}\n" for i in range(400))
CONFIG = """
data: [{name: qa, hub: tiny/qa, revision: main, target: answer}]
sandbox: {pretrained: [tiny/net@v1]}
"""
LOOK = """
from pathlib import Path
from labwright.sandbox.data.user_dataset import UserDataset
from labwright.sandbox.data.spec import parse_spec
from labwright.sandbox.job import PretrainedError
from labwright.sandbox.hub import HubOffers
from labwright.sandbox.settings import SandboxSettings
try:
    allowed = ["model:tiny/net@v1", "data:qa=hf:tiny/qa,target=answer"]
    for one in HubOffers(SandboxSettings(allowed=allowed)).offers:
        print(one)
except PretrainedError as error:
    print(error)
"""

COMMANDS = """
import json
import sys
from labwright.agent.cli import main
print([main(words) for words in json.loads(sys.argv[1])])
"""
"""Runs several commands in one process and prints their exit codes."""

MARK = """
import contextlib
import os
import urllib.error
import urllib.request
with contextlib.suppress(urllib.error.HTTPError):
    urllib.request.urlopen(os.environ["HF_ENDPOINT"] + "/mark")
"""
"""Leaves a mark between the requests to the hub."""

PLAN = f"""
import sys
from pathlib import Path
import yaml
from labwright.agent.cli import main
out, other, *run = sys.argv[1:]
codes = [main([*run, "--out", out])]
{MARK}
text = Path(out).read_text()
text = text.replace(yaml.safe_load(text)["datasets"][0]["name"], "qa") + "pretrained: [tiny/net@v1]\\n"
Path(out).write_text(text)
Path(other).write_text(text.replace("tiny/net@v1", "tiny/other@v1"))
print([*codes, *(main([*run, "--plan", one]) for one in (out, other))])
"""
"""Writes a plan, names a dataset and a model of the hub in it, and one that is not there, and takes both plans."""


@pytest.fixture
def hub() -> Iterator[Hub]:
    with running_hub(
        Hub(
            {
                "models/tiny/net": {
                    "config.json": b"{}",
                    "model.safetensors": b"\0" * 1_500_000,
                    "tf_model.h5": b"unused",
                },
                "datasets/tiny/qa": {"train.csv": QUESTIONS.encode(), "README.md": b"---\nlicense: mit\n---\n"},
            }
        )
    ) as hub:
        yield hub


def program(hub: Hub, home: Path, *words: str, network: bool = True) -> subprocess.CompletedProcess[str]:
    """Run Python in a separate process, because the libraries read the hub's address on import."""
    address = {"HF_ENDPOINT": hub.address} if network else {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=os.environ | address | {"HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1"},
    )


def before_mark(hub: Hub) -> list[str]:
    return hub.requests[: hub.requests.index("GET /mark")]


def test_what_the_hub_tells_is_fetched_once_and_is_there_without_a_network(hub: Hub, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(CONFIG)
    before = program(hub, tmp_path / "hf", "-c", LOOK, network=False)
    assert before.stdout.startswith("sandbox.allowed: model tiny/net@v1 is neither on the hub nor")
    prefetch = ("prefetch", str(config))
    first = program(hub, tmp_path / "hf", "-c", LOOK + MARK + COMMANDS, json.dumps([prefetch]))
    fetched = ["data qa: hf:tiny/qa, 400 examples", f"pretrained tiny/net@v1: commit {COMMIT}", "[0]"]
    assert first.stdout.splitlines() == [
        f"tiny/net@v1: tiny/net at {COMMIT[:12]}, 1.5 MB, licence mit",
        f"qa: tiny/qa at {COMMIT[:12]}, 0.0 MB, licence mit",
        *fetched,
    ], first
    assert before_mark(hub) and not any("resolve" in one for one in before_mark(hub))  # a lookup downloads nothing
    assert any(one.startswith("GET /large/models/tiny/net") for one in hub.requests)
    assert not any("tf_model.h5" in one for one in hub.requests)
    again = program(hub, tmp_path / "hf", "-c", COMMANDS + LOOK, json.dumps([prefetch]), network=False)
    assert again.returncode == 0, again
    assert again.stdout.splitlines() == [
        *fetched,
        f"tiny/net@v1: tiny/net at {COMMIT[:12]}, 1.5 MB, licence unknown",
        "qa: tiny/qa at main, size unknown, licence unknown",
    ], again


def test_a_plan_takes_of_the_hub_what_is_offered(hub: Hub, tmp_path: Path) -> None:
    config, out = tmp_path / "c.yaml", tmp_path / "plan.yaml"
    idea = Path(__file__).parents[2] / "examples" / "ideas" / "label_noise_calibration.json"
    config.write_text("sandbox: {allowed: ['model:tiny/net@v1', 'data:qa=hf:tiny/qa,revision=main,target=answer']}\n")
    run = ("run", "--idea", str(idea), "--config", str(config), "--dry-run", "--runs", str(tmp_path))
    taken = program(hub, tmp_path / "hf", "-c", PLAN, str(out), str(tmp_path / "other.yaml"), *run)
    assert taken.stdout.endswith("[0, 0, 2]\n"), taken
    assert before_mark(hub) and not any("resolve" in one for one in before_mark(hub)), taken
    assert f"tiny/net@v1: tiny/net at {COMMIT[:12]}, 1.5 MB, licence mit" in " ".join(taken.stdout.split())
    assert any(one.startswith("GET /large/models/tiny/net") for one in hub.requests)
    assert "unknown pretrained model 'tiny/other@v1'" in taken.stderr
