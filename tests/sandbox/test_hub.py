"""The real hub clients with a local hub: lookup, plan, download and offline use."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.hub_server import COMMIT, Hub, running_hub

pytestmark = pytest.mark.slow

QUESTIONS = "question,answer\n" + "".join(f"what is {i} and {i}?,{'odd' if i % 2 else 'even'}\n" for i in range(400))
ALLOWED = "sandbox: {allowed: ['model:tiny/net@v1', 'data:qa=hf:tiny/qa,revision=main,target=answer']}\n"
NAMED = """
data: [{name: qa, hub: tiny/qa, revision: main, target: answer}]
sandbox: {pretrained: [tiny/net@v1]}
"""
LOOK = """
from labwright.sandbox.hub import HubOffers
from labwright.sandbox.job import PretrainedError
from labwright.sandbox.settings import SandboxSettings
for allowed in (["model:tiny/net@v1", "data:qa=hf:tiny/qa,target=answer"], ["model:tiny/absent@v1"]):
    try:
        for one in HubOffers(SandboxSettings(allowed=allowed)).offers:
            print(one)
    except PretrainedError as error:
        print(error)
"""
ABSENT = (
    "sandbox.allowed: model tiny/absent@v1 is neither on the hub nor in the local cache: check the name, or run "
    "scientist prefetch with a network"
)
PREFETCH = """
import sys
from labwright.agent.cli import main
print([main(["prefetch", sys.argv[1]])])
"""
PLAN = """
import contextlib
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
import yaml
from labwright.agent.cli import main
named, out, other, *run = sys.argv[1:]
codes = [main([*run, "--out", out])]
with contextlib.suppress(urllib.error.HTTPError):
    urllib.request.urlopen(os.environ["HF_ENDPOINT"] + "/mark")
text = Path(out).read_text()
text = text.replace(yaml.safe_load(text)["datasets"][0]["name"], "qa") + "pretrained: [tiny/net@v1]\\n"
Path(out).write_text(text)
Path(other).write_text(text.replace("tiny/net@v1", "tiny/other@v1"))
codes += [main([*run, "--plan", one]) for one in (out, other)]
print([*codes, main(["prefetch", named])])
"""
"""Writes a plan, leaves a mark between the requests to the hub, names a dataset and a model of the hub in the plan, and
in another one a model that is not there, takes both plans, and fetches what a configuration names."""


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


def test_what_the_hub_offers_is_fetched_once_and_is_there_without_a_network(hub: Hub, tmp_path: Path) -> None:
    allowed, named, out = tmp_path / "allowed.yaml", tmp_path / "named.yaml", tmp_path / "plan.yaml"
    allowed.write_text(ALLOWED)
    named.write_text(NAMED)
    idea = Path(__file__).parents[2] / "examples" / "ideas" / "label_noise_calibration.json"
    run = ("run", "--idea", str(idea), "--config", str(allowed), "--dry-run", "--runs", str(tmp_path))
    places = (str(named), str(out), str(tmp_path / "other.yaml"))
    first = program(hub, tmp_path / "hf", "-c", LOOK + PLAN, *places, *run)
    offers = [f"tiny/net@v1: tiny/net at {COMMIT[:12]}, 1.5 MB, licence mit"]
    assert first.stdout.splitlines()[:3] == [*offers, f"qa: tiny/qa at {COMMIT[:12]}, 0.0 MB, licence mit", ABSENT]
    fetched = ["data qa: hf:tiny/qa, 400 examples", f"pretrained tiny/net@v1: commit {COMMIT}"]
    assert first.stdout.splitlines()[-3:] == [*fetched, "[0, 0, 2, 0]"], first
    assert offers[0] in " ".join("\n".join(first.stdout.splitlines()[3:]).split()), "and the plan says what it uses"
    assert "unknown pretrained model 'tiny/other@v1'" in first.stderr
    before, after = hub.requests[: hub.requests.index("GET /mark")], hub.requests[hub.requests.index("GET /mark") :]
    assert before and not any("resolve" in one for one in before), "a lookup downloads nothing"
    assert sum(one.startswith("GET /large/models/tiny/net") for one in after) == 1
    assert not any("tf_model.h5" in one for one in hub.requests)
    again = program(hub, tmp_path / "hf", "-c", PREFETCH + LOOK, str(named), network=False)
    assert again.returncode == 0, again
    assert again.stdout.splitlines() == [
        *fetched,
        "[0]",
        f"tiny/net@v1: tiny/net at {COMMIT[:12]}, 1.5 MB, licence unknown",
        "qa: tiny/qa at main, size unknown, licence unknown",
        ABSENT,
    ], again
