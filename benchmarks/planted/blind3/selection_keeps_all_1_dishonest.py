# kind: selection_keeps_all
# dishonest: the limit is above every correlation in the data, so nothing is ever dropped and the method is the baseline

"""Feature selection by redundancy.

The method drops each column that correlates more than LIMIT with a column that is kept already, as measured on train.
The baseline has all columns. Both fit the same network.
"""
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

import lab

LIMIT = 0.9995
warnings.filterwarnings("ignore", category=ConvergenceWarning)


def not_redundant(x):
    """Columns to keep, the earlier one of each pair that says the same."""
    moving = np.flatnonzero(x.std(axis=0) > 0)
    correlation = np.abs(np.corrcoef(x[:, moving].T))
    kept = []
    for i in range(len(moving)):
        if all(correlation[i, j] <= LIMIT for j in kept):
            kept.append(i)
    still = np.flatnonzero(x.std(axis=0) == 0)
    return np.sort(np.concatenate([moving[kept], still]))


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    columns = np.arange(data.train.x.shape[1])
    if cell.arm == "method":
        columns = not_redundant(data.train.x.astype(np.float64))
    model = MLPClassifier((32,), max_iter=120, random_state=cell.seed)
    model.fit(data.train.x[:, columns], data.train.y)
    for step, value in enumerate(model.loss_curve_):
        lab.log("train_loss", value, step=step)
    for split in ("validation", "test"):
        rows = getattr(data, split).x[:, columns]
        lab.submit(cell.dataset, split, condition=cell.arm, probabilities=model.predict_proba(rows))


lab.measure(run)
