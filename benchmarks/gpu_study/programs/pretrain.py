"""Make the data and the checkpoint of the study: `pretrain.py FOLDER HUB DEVICE SECONDS`.

Sequences of Markov sources: sources of one class share a transition matrix up to noise, and the classes differ in a few
transitions, so a few labels do not reveal them all. The checkpoint is a small BERT that predicts masked tokens of
unlabelled sequences for SECONDS; it is stored in HUB in the layout of the hub library's cache.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from transformers import BertConfig, BertForMaskedLM

TOKENS, LENGTH, CLASSES, MASK = 20, 32, 4, 1
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def sources(rng: np.random.Generator) -> np.ndarray:
    """Transition matrices, shape (classes, tokens, tokens); tokens 0 (padding) and 1 (mask) never occur."""
    common = rng.dirichlet(np.full(TOKENS - 2, 0.15), size=TOKENS - 2)
    made = np.zeros((CLASSES, TOKENS, TOKENS))
    for number in range(CLASSES):
        own = rng.dirichlet(np.full(TOKENS - 2, 0.15), size=TOKENS - 2)
        made[number, 2:, 2:] = 0.3 * common + 0.7 * own
    return made


def draw(matrices: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Sequences of these classes, shape (n, length)."""
    cumulative = matrices[:, 2:, :].cumsum(-1)
    x = np.empty((len(labels), LENGTH), np.int64)
    x[:, 0] = rng.integers(2, TOKENS, len(labels))
    for step in range(1, LENGTH):
        rows = cumulative[labels, x[:, step - 1] - 2]
        x[:, step] = np.minimum((rows < rng.random((len(labels), 1))).sum(-1), TOKENS - 1)
    return np.maximum(x, 2)


def main(folder: Path, hub: Path, device: str, seconds: float) -> None:
    rng = np.random.default_rng(7)
    matrices = sources(rng)
    labels = rng.integers(0, CLASSES, 900)
    np.savez(folder / "sequences.npz", x=draw(matrices, labels, rng), y=labels)
    torch.manual_seed(7)
    width = 256 if device == "cuda" else 64
    config = BertConfig(vocab_size=TOKENS, hidden_size=width, num_hidden_layers=4 if device == "cuda" else 2,
                        num_attention_heads=4, intermediate_size=4 * width, max_position_embeddings=LENGTH,
                        pad_token_id=0)
    model = BertForMaskedLM(config).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    steps, until, losses = 0, time.monotonic() + seconds, []
    pool = torch.from_numpy(draw(matrices, rng.integers(0, CLASSES, 60_000 if device == "cuda" else 6000), rng)).to(device)
    generator = torch.Generator(device).manual_seed(7)
    while time.monotonic() < until:
        batch = pool[torch.randint(len(pool), (256 if device == "cuda" else 32,), generator=generator, device=device)]
        hidden = torch.rand(batch.shape, generator=generator, device=device) < 0.15
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            loss = model(input_ids=batch.masked_fill(hidden, MASK), labels=batch.masked_fill(~hidden, -100)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps += 1
        if steps % 20 == 1:
            losses.append(float(loss.detach()))
    snapshot = hub / "models--check--sequences" / "snapshots" / COMMIT
    snapshot.mkdir(parents=True, exist_ok=True)
    model.float().cpu().save_pretrained(snapshot)
    (snapshot.parents[1] / "refs").mkdir(exist_ok=True)
    (snapshot.parents[1] / "refs" / "v1").write_text(COMMIT)
    print(json.dumps({"steps": steps, "first_loss": losses[0], "last_loss": losses[-1]}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], float(sys.argv[4]))
