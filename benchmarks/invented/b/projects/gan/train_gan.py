import numpy as np

from util import CFG, bar, log, save
from net import Adam, backward, forward, init


def real_batch(n, rng):
    k = rng.integers(0, CFG["modes"], n)
    angle = 2 * np.pi * k / CFG["modes"]
    return np.stack([np.cos(angle), np.sin(angle)], 1) * 2 + rng.normal(0, CFG["spread"], (n, 2))


def sigmoid(x):
    return 1 / (1 + np.exp(-np.clip(x, -30, 30)))


def coverage(points):
    angle = 2 * np.pi * np.arange(CFG["modes"]) / CFG["modes"]
    centres = np.stack([np.cos(angle), np.sin(angle)], 1) * 2
    dist = np.linalg.norm(points[:, None] - centres[None], axis=2)
    near = dist.min(1) < 3 * CFG["spread"]
    counts = np.bincount(dist.argmin(1)[near], minlength=CFG["modes"])
    return int((counts >= 20).sum()), float(near.mean())


def train(kind, seed):
    rng = np.random.default_rng(seed)
    g, d = init([CFG["z"], CFG["hidden"], CFG["hidden"], 2], rng), init([2, CFG["hidden"], CFG["hidden"], 1], rng)
    opt_g, opt_d = Adam(g, CFG["lr"]), Adam(d, CFG["lr"])
    n = CFG["batch"]
    for step in range(1, CFG["steps"] + 1):
        noise = CFG["noise"] * (1 - step / CFG["steps"]) if kind == "noise" else 0.0
        real = real_batch(n, rng)
        fake = forward(g, rng.normal(size=(n, CFG["z"])))[-1]
        loss = {}
        total = None
        for name, x, label in (("real", real, 1.0), ("fake", fake, 0.0)):
            acts = forward(d, x + noise * rng.normal(size=x.shape))
            prob = sigmoid(acts[-1])
            loss[name] = float(-np.log(np.abs(1 - label - prob) + 1e-8).mean())
            grads, _ = backward(d, acts, (prob - label) / n)
            total = grads if total is None else [[a + b for a, b in zip(p, q)] for p, q in zip(total, grads)]
        opt_d.step(total)
        acts_g = forward(g, rng.normal(size=(n, CFG["z"])))
        acts_d = forward(d, acts_g[-1] + noise * rng.normal(size=(n, 2)))
        _, grad = backward(d, acts_d, (sigmoid(acts_d[-1]) - 1) / n)
        opt_g.step(backward(g, acts_g, grad)[0])
        if step % (CFG["steps"] // 4) == 0:
            log(f"{kind} step {step}", d_loss_real=loss["real"], d_loss_fake=loss["fake"])
    modes, hq = coverage(forward(g, rng.normal(size=(2000, CFG["z"])))[-1])
    return {"seed": seed, "modes": modes, "hq": hq}


def main():
    out = {}
    for kind in ("plain", "noise"):
        runs = []
        for seed in bar(CFG["seeds"], kind):
            runs.append(train(kind, seed))
            log(f"{kind} done", **runs[-1])
        out[kind] = runs
    save(out)


if __name__ == "__main__":
    main()
