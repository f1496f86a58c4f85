from score import prf


def test_prf():
    assert prf(1, 1, 1) == (0.5, 0.5, 0.5)
    assert prf(0, 0, 3)[2] == 0.0
