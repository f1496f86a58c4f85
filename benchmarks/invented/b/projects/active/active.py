import os
import traceback

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from util import CFG, bar, log, save


def load(name):
    if name.endswith(".csv"):
        table = np.loadtxt(os.path.join("data", name), delimiter=",", skiprows=1)
        X, y = table[:, :-1], table[:, -1].astype(int)
    else:
        X, y = {"cancer": load_breast_cancer, "digits": load_digits, "wine": load_wine}[name](return_X_y=True)
        y = (y % 2).astype(int) if name == "digits" else (y == 1).astype(int)
    return StandardScaler().fit_transform(X), y


def learn(X, y, how, seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X))
    test, pool = order[:len(X) // 3], list(order[len(X) // 3:])
    known = [pool.pop() for _ in range(CFG["start"])]
    while True:
        model = LogisticRegression(max_iter=400).fit(X[known], y[known])
        if len(known) >= CFG["budget"]:
            return float(model.score(X[test], y[test]))
        if how == "random":
            pick = rng.choice(len(pool), CFG["step"], replace=False)
        else:
            pick = np.abs(model.predict_proba(X[pool])[:, 1] - 0.5).argsort()[:CFG["step"]]
        for i in sorted(pick, reverse=True):
            known.append(pool.pop(i))


def attempt(X, y, how, seed):
    """One run; a start without both classes makes the fit fail, then we try again with another draw."""
    for again in range(5):
        try:
            return learn(X, y, how, seed + 1000 * again), again
        except ValueError:
            log("run failed, will retry", how=how, seed=seed)
            log(traceback.format_exc().strip().splitlines()[-1])
    raise RuntimeError("five failures in a row")


def main():
    out = {}
    for name in CFG["sets"]:
        try:
            X, y = load(name)
        except OSError:
            log("could not load " + name)
            traceback.print_exc()
            out[name] = None
            continue
        out[name] = {"n": len(X), "retries": 0}
        for how in ("random", "uncertainty"):
            acc = []
            for seed in bar(CFG["seeds"], f"{name} {how}"):
                a, again = attempt(X, y, how, seed)
                acc.append(a)
                out[name]["retries"] += again
                log("run", data=name, how=how, seed=seed, acc=a)
            out[name][how] = acc
    save(out)


if __name__ == "__main__":
    main()
