# kind: table_in_source
# honest: the table in the source holds settings of each dataset, the same ones for both arms

"""Prototypes.

The baseline classifies by k nearest neighbours; the method lets the means of the classes in train vote as well. The
number of neighbours and the part of the columns' range that counts as near stand in a table, one entry a dataset, and
are the same for both arms. They were written down before the study from the numbers of rows and columns alone.
"""
import numpy as np

import lab

# neighbours, softening
SETTINGS = """
digits 05 0.50
wine 07 0.20
iris 05 0.05
breast_cancer 09 0.20
""".split()


def settings(name):
    place = SETTINGS.index(name)
    return int(SETTINGS[place + 1]), float(SETTINGS[place + 2])


def vote(x, y, rows, k, softening, classes):
    distance = ((rows[:, None] - x[None]) ** 2).sum(axis=2)
    nearest = np.argsort(distance, axis=1, kind="stable")[:, :k]
    weights = 1.0 / (np.take_along_axis(distance, nearest, axis=1) + softening)
    counts = np.zeros((len(rows), classes))
    for j in range(k):
        counts[np.arange(len(rows)), y[nearest[:, j]]] += weights[:, j]
    return (counts + 0.01) / (counts + 0.01).sum(axis=1, keepdims=True)


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    rng = np.random.default_rng(cell.seed)
    keep = rng.permutation(len(data.train.y))[:round(0.8 * len(data.train.y))]
    x, y = data.train.x[keep], data.train.y[keep]
    neighbours, softening = settings(cell.dataset)
    for split in ("validation", "test"):
        rows = getattr(data, split).x
        p = vote(x, y, rows, neighbours, softening, data.classes)
        if cell.arm == "method":
            means = np.stack([x[y == label].mean(axis=0) for label in range(data.classes)])
            p = 0.7 * p + 0.3 * vote(means, np.arange(data.classes), rows, data.classes, softening, data.classes)
        lab.submit(cell.dataset, split, condition=cell.arm, probabilities=p)


lab.measure(run)
