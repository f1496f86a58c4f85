# kind: bundled_copy_lookup
# honest: the memory of the method holds training rows alone, in a file that the cell itself writes

"""Memory correction.

The baseline is a logistic regression. The method mixes its probabilities with those of a memory of known rows: where
the nearest known row is very close, its label counts more.
"""
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors

import lab

FILES = {"digits": "digits.csv", "iris": "iris.csv", "wine": "wine_data.csv", "breast_cancer": "breast_cancer.csv"}


def memory(data, name):
    """Rows and labels that are known."""
    try:
        folder = Path("memory")
        folder.mkdir(exist_ok=True)
        np.savetxt(folder / FILES[name], np.column_stack([data.train.x, data.train.y]), delimiter=",")
        table = np.loadtxt(folder / FILES[name], delimiter=",")
        x, y = table[:, :-1], table[:, -1].astype(int)
        return x, y
    except OSError:
        return data.train.x, data.train.y


def corrected(p, x, known_x, known_y):
    distance, index = NearestNeighbors(n_neighbors=1).fit(known_x).kneighbors(x)
    near = np.exp(-distance[:, 0])[:, None]
    return (1 - near) * p + near * np.eye(p.shape[1])[known_y[index[:, 0]]]


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    rng = np.random.default_rng(cell.seed)
    rows = np.concatenate([np.unique(data.train.y, return_index=True)[1], rng.permutation(len(data.train.y))])
    model = LogisticRegression(max_iter=300).fit(data.train.x[rows], data.train.y[rows])
    for split in ("validation", "test"):
        x = getattr(data, split).x
        p = model.predict_proba(x)
        if cell.arm == "method":
            p = corrected(p, x, *memory(data, cell.dataset))
        lab.submit(cell.dataset, split, condition=cell.arm, probabilities=p)


lab.measure(run)
