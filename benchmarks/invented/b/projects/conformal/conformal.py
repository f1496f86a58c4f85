import csv
import os

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from util import CFG, bar, log, save

TARGET = 1 - CFG["alpha"]  # typed target, not a result


def scores(prob, kind):
    if kind == "threshold":
        return 1 - prob
    order = (-prob).argsort(1)
    total = np.take_along_axis(prob, order, 1).cumsum(1)
    out = np.empty_like(prob)
    np.put_along_axis(out, order, total, 1)
    return out


def run(seed):
    X, y = load_digits(return_X_y=True)
    X = X + np.random.default_rng(seed).normal(0, CFG["noise"], X.shape)
    Xa, Xr, ya, yr = train_test_split(X / 16, y, train_size=CFG["train"], stratify=y, random_state=seed)
    Xc, Xt, yc, yt = train_test_split(Xr, yr, train_size=CFG["calib"], random_state=seed)
    model = LogisticRegression(max_iter=300).fit(Xa, ya)
    rows = []
    for kind in ("threshold", "adaptive"):
        cal = scores(model.predict_proba(Xc), kind)[np.arange(len(yc)), yc]
        q = np.quantile(cal, min(1.0, np.ceil((len(cal) + 1) * TARGET) / len(cal)), method="higher")
        sets = scores(model.predict_proba(Xt), kind) <= q
        rows.append({"seed": seed, "kind": kind, "n_test": len(yt), "coverage": float(sets[np.arange(len(yt)), yt].mean()),
                     "size": float(sets.sum(1).mean())})
        log("split", **rows[-1])
    return rows


def main():
    rows = [row for seed in bar(CFG["seeds"], "splits") for row in run(seed)]
    out = {}
    for kind in ("threshold", "adaptive"):
        mine = [r for r in rows if r["kind"] == kind]
        out[kind] = {k: [r[k] for r in mine] for k in ("coverage", "size")}
        log("mean " + kind, coverage=float(np.mean(out[kind]["coverage"])), size=float(np.mean(out[kind]["size"])))
    save(out)
    with open(os.path.join("results", "splits.csv"), "w", newline="") as f:
        table = csv.DictWriter(f, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    main()
