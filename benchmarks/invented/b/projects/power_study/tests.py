import numpy as np
from power_tests import permutation_p


def test_identical_groups_do_not_reject():
    a = np.arange(10.0)
    assert permutation_p(a, a, 99, np.random.default_rng(0)) > 0.5
