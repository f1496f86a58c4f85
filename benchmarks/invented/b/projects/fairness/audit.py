import numpy as np
from sklearn.linear_model import LogisticRegression

from util import CFG, bar, log, save
from credit import applicants


def approve(method, train, X, g):
    Xa, ga, ya = train
    weight = None
    if method == "reweighed":
        weight = np.zeros(len(ya))
        for a in (0, 1):
            for b in (0, 1):
                cell = (ga == a) & (ya == b)
                weight[cell] = (ga == a).mean() * (ya == b).mean() / max(cell.mean(), 1e-9)
    model = LogisticRegression().fit(Xa, ya, sample_weight=weight)
    prob = model.predict_proba(X)[:, 1]
    if method != "group cut":
        return prob >= 0.5
    pa = model.predict_proba(Xa)[:, 1]
    cut = [np.quantile(pa[(ga == a) & (ya == 1)], 1 - CFG["target"]) for a in (0, 1)]
    return prob >= np.where(g == 1, cut[1], cut[0])


def main():
    out = {}
    for method in bar(["plain", "reweighed", "group cut"], "methods"):
        pool = np.zeros((2, 4), int)  # group by (qualified, qualified and approved, correct, all)
        for seed in CFG["seeds"]:
            rng = np.random.default_rng(seed)
            Xa, ga, ya = applicants(CFG["n"], CFG["share_b"], CFG["shift"], rng)
            X, g, y = applicants(CFG["n"], CFG["share_b"], CFG["shift"], rng)
            ok = approve(method, (Xa, ga, ya), X, g)
            for a in (0, 1):
                m = g == a
                pool[a] += [(y[m] == 1).sum(), (ok[m] & (y[m] == 1)).sum(), (ok[m] == y[m]).sum(), m.sum()]
        out[method] = {"A": pool[0].tolist(), "B": pool[1].tolist(), "acc": float(pool[:, 2].sum() / pool[:, 3].sum()),
                       "tpr_A": float(pool[0, 1] / pool[0, 0]), "tpr_B": float(pool[1, 1] / pool[1, 0])}
        log(method, **out[method])
    save(out)


if __name__ == "__main__":
    main()
