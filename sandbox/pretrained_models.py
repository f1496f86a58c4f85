"""Fetch pretrained models pinned to a revision, hash them, and copy them to a folder that kernels can read.

The hub library's own cache is used, so models from `scientist prefetch` are available without a network. Kernels see a
copy in the run's folder: plain files that they cannot write to (without isolation, this is only a convention).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labwright.record.run_folder import hash_file
from labwright.sandbox.errors import PretrainedError

_SPEC_PATTERN = re.compile(r"(?P<id>[\w.-]+(/[\w.-]+)?)@(?P<revision>[\w./-]+)")
_UNUSED_FILES = "*.msgpack *.h5 *.ot *.onnx *.tflite onnx/* openvino/* coreml/* .gitattributes".split()
"""Weights for other frameworks, which `from_pretrained` of torch never reads."""
MAX_BYTES = 160 * 2**30
"""Size limit of one model: 80 billion parameters in 16 bits, more than the GPUs of one node can hold."""
_FACTS_FILE = "fetched.json"


@dataclass(frozen=True)
class PretrainedModel:
    """A model on the hub at a revision (a commit, a tag or a branch)."""

    id: str
    revision: str

    def __str__(self) -> str:
        return f"{self.id}@{self.revision}"


def parse_pretrained(words: Iterable[str]) -> tuple[PretrainedModel, ...]:
    """Parse the models in `sandbox.pretrained`. Raises `PretrainedError` for a model without a revision."""
    models: list[PretrainedModel] = []
    for word in words:
        match = _SPEC_PATTERN.fullmatch(word)
        if match is None:
            raise PretrainedError(
                f"sandbox.pretrained: {word!r} is not OWNER/NAME@REVISION; the revision is a commit, "
                "as shown on the hub under 'Files and versions', or a tag"
            )
        models.append(PretrainedModel(match["id"], match["revision"]))
    return tuple(models)


def fetch_model(model: PretrainedModel, *, hub: Path | None = None) -> Path:
    """Return the hub cache's folder of a model, named by the commit; without a network, only the cache is used.

    `hub` is the cache, by default the library's own. Raises `PretrainedError`.
    """
    import huggingface_hub
    from huggingface_hub.utils import disable_progress_bars

    library: Any = huggingface_hub  # its signatures are only partly typed
    disable_progress_bars()
    try:
        return Path(
            library.snapshot_download(model.id, revision=model.revision, cache_dir=hub, ignore_patterns=_UNUSED_FILES)
        )
    except Exception as error:  # noqa: BLE001  whatever the network and the library raise
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:240]}"
        raise PretrainedError(
            f"pretrained model {model} cannot be fetched and is not in the local cache: run scientist"
            f" prefetch with a network connection, or check the name ({reason})"
        ) from None


def provide_model(model: PretrainedModel, store: Path, *, hub: Path | None = None) -> Path:
    """Return the folder of a model for kernels, copied to `store` and hashed on first use.

    `fetched.json` next to it contains the commit of the revision, the sha256 over names and files, and the total size.
    Raises `PretrainedError`.
    """
    place = store / str(model).replace("/", "--")
    if not place.is_dir():
        _copy_snapshot(model, fetch_model(model, hub=hub), place)
    return place / "files"


def _copy_snapshot(model: PretrainedModel, snapshot: Path, place: Path) -> None:
    """Copy a snapshot, whose files are links into the cache, completely or not at all; the copies are read-only."""
    files = sorted(path for path in snapshot.rglob("*") if path.is_file())
    size = sum(path.stat().st_size for path in files)
    if not files or size > MAX_BYTES:
        raise PretrainedError(
            f"pretrained model {model} has {size} bytes in {len(files)} files; the limit is {MAX_BYTES}"
        )
    part = place.with_name(f".{place.name}.{os.getpid()}.part")
    shutil.rmtree(part, ignore_errors=True)
    digest = hashlib.sha256()
    for path in files:
        relative = path.relative_to(snapshot)
        target = part / "files" / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        target.chmod(0o444)
        digest.update(f"{relative}\0{hash_file(target)}\n".encode())
    facts = {"commit": snapshot.name, "sha256": digest.hexdigest(), "size": size}
    (part / _FACTS_FILE).write_text(json.dumps(facts))
    os.rename(part, place)
