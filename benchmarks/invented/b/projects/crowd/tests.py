import numpy as np
from aggregate import majority


def test_majority():
    assert majority(np.array([[0, 0, 1], [2, 2, -1]]), 3)[0].tolist() == [0, 2]
