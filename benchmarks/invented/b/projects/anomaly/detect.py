import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors
from sklearn.preprocessing import StandardScaler

from util import CFG, bar, log, save


def with_anomalies(name, seed):
    """Real points plus injected anomalies: features of normal points, shuffled column by column."""
    X = {"cancer": load_breast_cancer, "digits": load_digits, "wine": load_wine}[name](return_X_y=True)[0]
    X = StandardScaler().fit_transform(X)
    rng = np.random.default_rng(seed)
    n = int(CFG["share"] * len(X))
    bad = np.stack([rng.permutation(X[:, j])[:n] for j in range(X.shape[1])], 1)
    keep = rng.random(bad.shape) < CFG["mix"]
    bad = np.where(keep, X[rng.integers(0, len(X), n)], bad)
    return np.vstack([X, bad]), np.r_[np.zeros(len(X)), np.ones(n)]


def detect(X, seed):
    dist, _ = NearestNeighbors(n_neighbors=CFG["k"] + 1).fit(X).kneighbors(X)
    lof = LocalOutlierFactor(n_neighbors=CFG["k"]).fit(X)
    cov = np.cov(X.T) + 0.1 * np.eye(X.shape[1])
    maha = (X @ np.linalg.inv(cov) * X).sum(1)
    return {"iforest": -IsolationForest(n_estimators=60, random_state=seed).fit(X).score_samples(X), "knn": dist[:, -1],
            "lof": -lof.negative_outlier_factor_, "mahalanobis": maha}


def main():
    out = {}
    for name in CFG["sets"]:
        out[name] = {}
        for seed in bar(CFG["seeds"], name):
            X, y = with_anomalies(name, seed)
            for m, s in detect(X, seed).items():
                auc = float(roc_auc_score(y, s))
                out[name].setdefault(m, []).append(auc)
                log("scored", data=name, seed=seed, method=m, anomalies=int(y.sum()), auc=auc)
    save(out)


if __name__ == "__main__":
    main()
