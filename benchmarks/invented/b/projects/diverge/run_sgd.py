import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from util import CFG, bar, log, save
from net import backward, forward, init

np.seterr(all="ignore")


def train(clip, seed):
    X, y = load_digits(return_X_y=True)
    Xa, Xt, ya, yt = train_test_split(X / 16, y, test_size=0.3, random_state=0)
    rng = np.random.default_rng(seed)
    net = init([64, CFG["hidden"], CFG["hidden"], 10], rng)
    onehot = np.eye(10)[ya]
    for epoch in range(CFG["epochs"]):
        order = rng.permutation(len(Xa))
        for i in range(0, len(order), 64):
            idx = order[i:i + 64]
            acts = forward(net, Xa[idx])
            z = acts[-1] - acts[-1].max(1, keepdims=True)
            prob = np.exp(z) / np.exp(z).sum(1, keepdims=True)
            grads, _ = backward(net, acts, (prob - onehot[idx]) / len(idx))
            size = np.sqrt(sum((g ** 2).sum() for layer in grads for g in layer))
            scale = min(1.0, clip / size) if clip else 1.0
            for layer, g in zip(net, grads):
                for j in range(2):
                    layer[j] -= CFG["lr"] * scale * g[j]
        if not np.isfinite(size):
            return None
    return float((forward(net, Xt)[-1].argmax(1) == yt).mean())


def collect(name, clip):
    done, failed = [], []
    for seed in bar(CFG["seeds"], name):
        acc = train(clip, seed)
        if acc is None:
            log("diverged, skipping seed", variant=name, seed=seed)
            failed.append(seed)
        else:
            log("seed done", variant=name, seed=seed, acc=acc)
            done.append(acc)
    return {"acc": float(np.mean(done)) if done else None, "sd": float(np.std(done, ddof=1)) if len(done) > 1 else None,
            "n_ok": len(done), "failed_seeds": failed}


def main():
    out = {"plain": collect("plain", 0.0), "clipped": collect("clipped", CFG["clip"])}
    for name, row in out.items():
        log("summary " + name, **row)
    save(out)


if __name__ == "__main__":
    main()
