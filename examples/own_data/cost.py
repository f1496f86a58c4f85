"""A metric of one's own: what wrong calls of a crop cost a mill, in euros a row."""

import numpy as np

METRICS = {"cost": "lower"}  # written out: the file is read, not run, when a run begins
COSTS = np.array(
    [
        [0, 2, 9],  # true oat, called oat, rye, wheat (classes in the order of their names)
        [1, 0, 5],
        [4, 3, 0],
    ]
)


def cost(submission, truth):
    """Mean cost of calling the crop with the least expected cost: submit probabilities of oat, rye and wheat."""
    if submission.kind != "probabilities":
        raise ValueError(f"submit probabilities, not {submission.kind}")
    called = (submission.values @ COSTS).argmin(axis=1)
    return {"cost": float(COSTS[truth.y, called].mean())}
