import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.preprocessing import StandardScaler

from util import CFG, bar, log, save

warnings.filterwarnings("ignore")
PLACEHOLDER = -999.0  # stands for a missing value in the files, replaced by nan before any model sees it


def hide(X, rate, rng):
    holed = X.copy()
    mask = rng.random(X.shape) < rate
    holed[mask] = PLACEHOLDER
    return holed, mask


def error(X, filled, mask):
    return float(np.sqrt(((X - filled)[mask] ** 2).mean()))


def run(rate, seed):
    X = {"wine": load_wine, "diabetes": load_diabetes, "cancer": load_breast_cancer}[CFG["data"]](return_X_y=True)[0]
    X = StandardScaler().fit_transform(X)[:CFG["rows"]]
    holed, mask = hide(X, rate, np.random.default_rng(seed))
    holed[holed == PLACEHOLDER] = np.nan
    knn = KNNImputer(n_neighbors=CFG["k"]).fit_transform(holed)
    reg = IterativeImputer(max_iter=4, random_state=seed).fit_transform(holed)
    err = {"mean": error(X, SimpleImputer().fit_transform(holed), mask), "knn": error(X, knn, mask),
           "regression": error(X, reg, mask)}
    err["blend"] = error(X, CFG["weight"] * knn + (1 - CFG["weight"]) * reg, mask)
    return err


def main():
    out = {}
    for rate in CFG["rates"]:
        rows = [run(rate, seed) for seed in bar(CFG["seeds"], f"rate {rate}")]
        out[str(rate)] = {m: [r[m] for r in rows] for m in rows[0]}
        log("rate", rate=rate, **{m: float(np.mean(x)) for m, x in out[str(rate)].items()})
    save(out)


if __name__ == "__main__":
    main()
