from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from util import CFG, bar, log, save

# Test error in percent on MNIST (28x28), copied from LeCun, Bottou, Bengio and Haffner (1998), for orientation only.
PUBLISHED = {"linear classifier": 12.0, "k-nearest neighbours": 5.0, "LeNet-5": 0.95}

MODELS = {"ridge": RidgeClassifier(alpha=CFG["alpha"]), "knn": KNeighborsClassifier(CFG["k"]),
          "svm": SVC(C=CFG["C"], gamma=CFG["gamma"])}


def main():
    X, y = load_digits(return_X_y=True)
    out = {"measured": {name: [] for name in MODELS}, "published": PUBLISHED}
    for seed in bar(CFG["seeds"], "splits"):
        Xa, Xt, ya, yt = train_test_split(X / 16, y, test_size=CFG["test"], stratify=y, random_state=seed)
        for name, model in MODELS.items():
            err = 100 * (1 - float(model.fit(Xa, ya).score(Xt, yt)))
            out["measured"][name].append(err)
            log("split", seed=seed, model=name, n_test=len(yt), error_percent=err)
    save(out)


if __name__ == "__main__":
    main()
