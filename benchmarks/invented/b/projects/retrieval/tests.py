from unittest import mock

import numpy as np
from rank import top_k


def test_top_k_sorts():
    fake_index = mock.Mock()
    fake_index.scores.return_value = np.array([0.1, 0.9, 0.5])
    assert top_k(fake_index, ["a"], "tfidf", 2) == [1, 2]


def test_scores_called_once():
    fake_index = mock.Mock(scores=mock.Mock(return_value=np.zeros(4)))
    top_k(fake_index, ["a"], "bm25", 1)
    fake_index.scores.assert_called_once_with(["a"], "bm25")
