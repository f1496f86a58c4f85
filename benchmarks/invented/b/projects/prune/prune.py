import time
import warnings

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from util import CFG, bar, log, save

warnings.filterwarnings("ignore")


def predict(layers, x):
    for i, (w, b) in enumerate(layers):
        x = (w.T @ x.T).T + b
        x = np.maximum(x, 0) if i < len(layers) - 1 else x
    return x.argmax(1)


def latency(layers, x, density):
    times = []
    for _ in range(CFG["calls"]):
        start = time.perf_counter()
        predict(layers, x)
        times.append(1000 * (time.perf_counter() - start))
    return float(np.median(times))


def prune(net, share):
    cut = np.quantile(np.abs(np.concatenate([w.ravel() for w in net.coefs_])), share)
    return [(sparse.csr_matrix(np.where(np.abs(w) >= cut, w, 0)), b) for w, b in zip(net.coefs_, net.intercepts_)]


def main():
    X, y = load_digits(return_X_y=True)
    Xa, Xt, ya, yt = train_test_split(X / 16, y, test_size=0.4, stratify=y, random_state=CFG["seed"])
    net = MLPClassifier(CFG["hidden"], max_iter=CFG["epochs"], random_state=CFG["seed"]).fit(Xa, ya)
    log("dense network", acc=float(net.score(Xt, yt)), n_test=len(yt))
    out = []
    for share in bar(CFG["shares"], "prune"):
        layers = prune(net, share)
        kept = sum(w.nnz for w, _ in layers)
        density = kept / sum(w.size for w in net.coefs_)
        out.append({"share": share, "kept": int(kept), "acc": float((predict(layers, Xt) == yt).mean()),
                    "ms": latency(layers, Xt, density)})
        log("pruned", **out[-1])
    save({"rows": out})


if __name__ == "__main__":
    main()
