import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from util import CFG, bar, log, save

warnings.filterwarnings("ignore")
X, y = {"wine": load_wine, "iris": load_iris, "cancer": load_breast_cancer}[CFG["data"]](return_X_y=True)


def score(model, size, seed):
    Xa, Xt, ya, yt = train_test_split(X, y, test_size=CFG["test"], stratify=y, random_state=seed)
    Xs, _, ys, _ = train_test_split(Xa, ya, train_size=size, stratify=ya, random_state=seed)
    clf = make_pipeline(StandardScaler(), LogisticRegression()) if model == "logreg" else DecisionTreeClassifier(random_state=seed)
    return float(clf.fit(Xs, ys).score(Xt, yt))


def main():
    out = {"sizes": CFG["sizes"]}
    for model in ("logreg", "tree"):
        out[model] = []
        for size in bar(CFG["sizes"], model):
            accs = [score(model, size, seed) for seed in range(CFG["repeats"])]
            out[model].append({"mean": float(np.mean(accs)), "sd": float(np.std(accs, ddof=1))})
            log("size", model=model, n=size, acc=out[model][-1]["mean"], sd=out[model][-1]["sd"])
    save(out)


if __name__ == "__main__":
    main()
