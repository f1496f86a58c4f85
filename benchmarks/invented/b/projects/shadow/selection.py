import numpy as np
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import LassoCV

from util import CFG, bar, log, save


def data(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(CFG["n"], CFG["p"]))
    X[:, 1::2] = 0.5 * X[:, ::2] + np.sqrt(0.75) * X[:, 1::2]
    beta = np.zeros(CFG["p"])
    beta[rng.choice(CFG["p"], CFG["relevant"], replace=False)] = rng.choice([-1, 1], CFG["relevant"]) * CFG["signal"]
    return X, X @ beta + rng.normal(0, 1, CFG["n"]), beta != 0, rng


def by_shadow(X, y, rng):
    """Keep features that beat the best fake (shuffled) feature in most rounds, as in Boruta."""
    beat = np.zeros(X.shape[1])
    for i in range(CFG["rounds"]):
        fake = rng.permuted(X, axis=0)
        trees = ExtraTreesRegressor(25, max_features=0.4, random_state=i).fit(np.hstack([X, fake]), y)
        imp = trees.feature_importances_
        beat += imp[:X.shape[1]] > imp[X.shape[1]:].max()
    return beat > CFG["rounds"] / 2


def rates(chosen, truth):
    return {"power": float((chosen & truth).sum() / truth.sum()), "fdp": float((chosen & ~truth).sum() / max(chosen.sum(), 1)),
            "chosen": int(chosen.sum())}


def main():
    out = {"shadow": [], "lasso": []}
    for seed in bar(CFG["seeds"], "seeds"):
        X, y, truth, rng = data(seed)
        for name, chosen in (("shadow", by_shadow(X, y, rng)), ("lasso", LassoCV(cv=4).fit(X, y).coef_ != 0)):
            out[name].append({"seed": seed, **rates(chosen, truth)})
            log(name, **out[name][-1])
    stats = {n: {k: {"mean": float(np.mean([r[k] for r in x])), "sd": float(np.std([r[k] for r in x], ddof=1))}
                 for k in ("power", "fdp")} for n, x in out.items()}
    for n, x in stats.items():
        log("summary " + n, power=x["power"]["mean"], power_sd=x["power"]["sd"], fdp=x["fdp"]["mean"], fdp_sd=x["fdp"]["sd"])
    save({"runs": out, "stats": stats})


if __name__ == "__main__":
    main()
