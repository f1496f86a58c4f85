from panel import make_panel, synthetic_control
import numpy as np


def test_no_effect_is_near_zero():
    y = make_panel(np.random.default_rng(0), 10, 40, 28, 0.0)
    assert abs(synthetic_control(y, 0, 28)[0]) < 3
