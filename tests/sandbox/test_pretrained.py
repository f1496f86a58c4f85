"""Pretrained models: from the hub library's cache folder to a kernel that loads one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labwright.agent.cli import main
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.hub import PretrainedModel, provide_model
from labwright.sandbox.job import Job
from tests.jobs import run_job
from tests.sandbox.conftest import SETTINGS, DatasetStore

COMMIT = "0123456789abcdef0123456789abcdef01234567"
MODEL = PretrainedModel("tiny/bert", "v1")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache with tiny/bert at tag v1, without a network."""
    import huggingface_hub.constants as constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)  # read from the environment when the library is imported
    cache = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    repository = cache / "models--tiny--bert"
    (repository / "blobs").mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "v1").write_text(COMMIT)
    put(repository, "config.json", b"{}")
    put(repository, "sub/vocab.txt", b"a\nb\n")
    yield cache


def put(repository: Path, name: str, content: bytes) -> None:
    """Add a file to the snapshot: a link to a blob, as the library creates it."""
    blob = repository / "blobs" / name.replace("/", "-")
    blob.write_bytes(content)
    link = repository / "snapshots" / COMMIT / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(os.path.relpath(blob, link.parent))


def test_a_model_is_copied_and_hashed_once(hub: Path, tmp_path: Path) -> None:
    fetched = provide_model(MODEL, tmp_path / "store")
    facts = json.loads((fetched.parent / "fetched.json").read_text())
    assert (facts["commit"], facts["size"]) == (COMMIT, 6)
    files = sorted(path for path in fetched.rglob("*") if path.is_file())
    assert [str(path.relative_to(fetched)) for path in files] == ["config.json", "sub/vocab.txt"]
    assert not any(path.is_symlink() or path.stat().st_mode & 0o222 for path in files)
    put(hub / "models--tiny--bert", "config.json", b"changed")
    assert provide_model(MODEL, tmp_path / "store") == fetched
    other = provide_model(MODEL, tmp_path / "other")
    assert json.loads((other.parent / "fetched.json").read_text())["sha256"] != facts["sha256"]


# --- prefetch ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "code", "words"),
    [
        ("sandbox: {pretrained: tiny/bert@v1}", 0, f"pretrained tiny/bert@v1: commit {COMMIT}\n"),
        ("seed: 1", 0, "nothing to fetch: the settings name no hf:OWNER/SET, pretrained model or package\n"),
        ("sandbox: {pretrained: [tiny/gpt@v1]}", 2, "scientist: pretrained model tiny/gpt@v1 cannot be fetched"),
        (
            "sandbox: {pretrained: tiny/bert}",
            2,
            "scientist: sandbox.pretrained: 'tiny/bert' is not OWNER/NAME@REVISION",
        ),
    ],
)
def test_prefetch_fetches_what_a_configuration_names(
    hub: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: str, code: int, words: str
) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(lines)
    assert main(["prefetch", str(config)]) == code
    said = capsys.readouterr()
    assert (said.out if code == 0 else said.err).startswith(words)
    assert len((said.out + said.err).splitlines()) == 1


# --- a kernel ---------------------------------------------------------------------------------------------------------

LOAD = """
import lab, torch
from transformers import AutoModel
model = AutoModel.from_pretrained(lab.pretrained('tiny/bert', 'v1'))
with torch.no_grad():
    out = model(torch.tensor([[1, 2, 3]])).last_hidden_state
lab.result('size', out.shape[-1], condition='baseline', dataset='digits')
"""


@pytest.mark.bench  # needs torch and transformers in a kernel
@pytest.mark.slow
async def test_a_kernel_loads_a_pretrained_model(hub: Path, store: DatasetStore, tmp_path: Path) -> None:
    import transformers

    library: Any = transformers
    config = library.BertConfig(
        vocab_size=8, hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4
    )
    library.BertModel(config).save_pretrained(tmp_path / "made")
    for path in (tmp_path / "made").iterdir():
        put(hub / "models--tiny--bert", path.name, path.read_bytes())
    fetched = provide_model(MODEL, tmp_path / "store")
    executor = LocalExecutor(
        1, store.views, labels=store.labels, settings=SETTINGS, cache=store.cache, pretrained={str(MODEL): fetched}
    )
    outcome = await run_job(
        executor, Job(name="a", folder=tmp_path / "a", source={"experiment.py": LOAD}, timeout=60.0)
    )
    await executor.close()
    assert outcome.failure is None, outcome.failure
    assert outcome.measurements[0].value == 4.0
