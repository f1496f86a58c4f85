import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPRegressor

from util import CFG, bar, log, save
from augment import jitter, mix

warnings.filterwarnings("ignore")


def run(kind, seed):
    X, y = load_digits(return_X_y=True)
    Xa, Xt, ya, yt = train_test_split(X / 16, y, train_size=CFG["train"], stratify=y, random_state=seed)
    rng = np.random.default_rng(seed)
    net = MLPRegressor(hidden_layer_sizes=(CFG["hidden"],), learning_rate_init=0.003, batch_size=32, random_state=seed)
    target = np.eye(10)[ya]
    for _ in range(CFG["epochs"]):
        if kind == "jitter":
            net.partial_fit(jitter(Xa, CFG["sigma"], rng), target)
        elif kind == "mixup":
            net.partial_fit(*mix(Xa, target, CFG["beta"], rng))
        else:
            net.partial_fit(Xa, target)
    return float((net.predict(Xt).argmax(1) == yt).mean())


def main():
    out = {}
    for kind in ("none", "jitter", "mixup"):
        out[kind] = []
        for seed in bar(CFG["seeds"], kind):
            acc = run(kind, seed)
            out[kind].append(acc)
            log("trained", kind=kind, seed=seed, test_acc=acc)
    save(out)


if __name__ == "__main__":
    main()
