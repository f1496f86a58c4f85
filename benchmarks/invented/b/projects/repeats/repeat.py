import json
import os
import sys
import time

from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from util import CFG, log


def models(seed):
    return {"lda": LinearDiscriminantAnalysis(), "knn": KNeighborsClassifier(CFG["k"]),
            "forest": RandomForestClassifier(CFG["trees"], max_depth=6, random_state=seed)}


def run(seed):
    X, y = {"cancer": load_breast_cancer, "digits": load_digits, "wine": load_wine}[CFG["data"]](return_X_y=True)
    Xa, Xt, ya, yt = train_test_split(X, y, test_size=CFG["test"], stratify=y, random_state=CFG["split"])
    out = {"seed": seed, "n_test": len(yt), "acc": {}, "seconds": {}}
    for name, model in models(seed).items():
        start = time.perf_counter()
        out["acc"][name] = float(model.fit(Xa, ya).score(Xt, yt))
        out["seconds"][name] = round(time.perf_counter() - start, 6)
        log("fit", seed=seed, model=name, acc=out["acc"][name], seconds=out["seconds"][name])
    os.makedirs("results", exist_ok=True)
    with open(f"results/seed_{seed}.json", "w") as f:
        json.dump(out, f, indent=1)


if __name__ == "__main__":
    for seed in [int(x) for x in sys.argv[1:]] or CFG["seeds"]:
        run(seed)
