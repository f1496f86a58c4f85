import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from util import CFG, bar, log, save

SETS = {"cancer": load_breast_cancer, "digits": load_digits, "wine": load_wine, "iris": load_iris}


def hits(name):
    X, y = SETS[name](return_X_y=True)
    X = X + np.random.default_rng(1).normal(0, CFG["noise"], X.shape) * X.std(0)
    Xa, Xt, ya, yt = train_test_split(X, y, test_size=0.5, stratify=y, random_state=CFG["seed"])
    a = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(Xa, ya)
    b = ExtraTreesClassifier(120, random_state=CFG["seed"]).fit(Xa, ya)
    vote = (a.predict_proba(Xt) + b.predict_proba(Xt)) / 2
    return {"linear": a.predict(Xt) == yt, "trees": b.predict(Xt) == yt, "blend": a.classes_[vote.argmax(1)] == yt}


def main():
    rng = np.random.default_rng(CFG["seed"])
    out = {}
    for name in bar(CFG["sets"], "sets"):
        h = hits(name)
        n = len(h["blend"])
        draws = rng.choice(n, (CFG["resamples"], n))  # resampling test points with replacement
        row = {"n_test": n}
        for m, ok in h.items():
            row[m] = float(ok.mean())
        diff = (h["blend"][draws].mean(1) - h["linear"][draws].mean(1))
        row["diff"] = row["blend"] - row["linear"]
        row["lo"], row["hi"] = (float(x) for x in np.quantile(diff, [0.025, 0.975]))
        out[name] = row
        log(name, **row)
    save(out)


if __name__ == "__main__":
    main()
