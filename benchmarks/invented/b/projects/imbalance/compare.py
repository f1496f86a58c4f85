import numpy as np
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from util import CFG, bar, log, save
from score import best_threshold, counts, prf

MODELS = {
    "dummy": lambda s: DummyClassifier(strategy="stratified", random_state=s),
    "logreg": lambda s: LogisticRegression(max_iter=500),
    "logreg_balanced": lambda s: LogisticRegression(max_iter=500, class_weight="balanced"),
    "forest": lambda s: RandomForestClassifier(60, random_state=s),
}


def main():
    pooled = {name: np.zeros(3, int) for name in [*MODELS, "logreg_threshold"]}
    for seed in bar(CFG["seeds"], "seeds"):
        X, y = make_classification(CFG["n"], 20, n_informative=6, weights=[1 - CFG["minority"]], class_sep=CFG["sep"],
                                   flip_y=0.01, random_state=seed)
        Xa, Xt, ya, yt = train_test_split(X, y, test_size=0.4, stratify=y, random_state=seed)
        for name, make in MODELS.items():
            pooled[name] += counts(yt, make(seed).fit(Xa, ya).predict(Xt))
        Xf, Xv, yf, yv = train_test_split(Xa, ya, test_size=0.3, stratify=ya, random_state=seed)
        model = MODELS["logreg"](seed).fit(Xf, yf)
        cut = best_threshold(yv, model.predict_proba(Xv)[:, 1])
        pooled["logreg_threshold"] += counts(yt, (model.predict_proba(Xt)[:, 1] >= cut).astype(int))
        log("seed finished", seed=seed, positives=int(yt.sum()), n_test=len(yt), cut=float(cut))
    out = {}
    for name, (tp, fp, fn) in pooled.items():
        p, r, f = prf(tp, fp, fn)
        out[name] = {"tp": int(tp), "fp": int(fp), "fn": int(fn), "precision": p, "recall": r, "f1": f}
        log("pooled " + name, **out[name])
    save(out)


if __name__ == "__main__":
    main()
