import itertools

from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.model_selection import StratifiedKFold, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from util import CFG


def main():
    for name in CFG["sets"]:
        X, y = {"cancer": load_breast_cancer, "iris": load_iris, "wine": load_wine}[name](return_X_y=True)
        Xa, Xt, ya, yt = train_test_split(X, y, test_size=0.35, stratify=y, random_state=CFG["seed"])
        folds = StratifiedKFold(CFG["folds"], shuffle=True, random_state=CFG["seed"])
        best = (-1.0, None)
        for c, g in itertools.product(CFG["C"], CFG["gamma"]):
            model = make_pipeline(StandardScaler(), SVC(C=c, gamma=g))
            cv = float(cross_val_score(model, Xa, ya, cv=folds).mean())
            print(f"{name} C={c} gamma={g} cv={cv:.4f}", flush=True)
            best = max(best, (cv, (c, g)))
        cv, (c, g) = best
        tuned = make_pipeline(StandardScaler(), SVC(C=c, gamma=g)).fit(Xa, ya).score(Xt, yt)
        default = make_pipeline(StandardScaler(), SVC()).fit(Xa, ya).score(Xt, yt)
        print(f"FINAL {name} C={c} gamma={g} cv={cv:.4f} tuned={tuned:.4f} default={default:.4f} n={len(yt)}", flush=True)


if __name__ == "__main__":
    main()
