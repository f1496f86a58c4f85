"""How the study's paper calls networks, datasets and ablations."""

from __future__ import annotations

from collections.abc import Sequence

from models.offline.claims import listed
from models.offline.common.names import Words

NETWORKS = (
    ("class Encoder(nn.Module)", "a transformer encoder <citep:vaswani2017attention> with <s:code.ENCODER_LAYERS> "
                                 "layers of width <s:code.ENCODER_WIDTH> and random initial weights; its hidden states "
                                 "are the outputs of the upper layer"),
    ("nn.GRU", "a gated recurrent unit <citep:cho2014learning> with a state of <s:code.HIDDEN> units; the class is "
               "told from the last state"),
    ("num_layers=2", "an LSTM <citep:hochreiter1997long> with a lower and an upper layer of <s:code.HIDDEN> units; "
                     "hidden states are those of the upper layer, and the class is told from the last of them"),
    ("real.sum(dim=1))", "an LSTM <citep:hochreiter1997long> with <s:code.HIDDEN> units; hidden states are its "
                         "outputs, and the class is told from their mean"),
    ("nn.LSTM", "an LSTM <citep:hochreiter1997long> with <s:code.HIDDEN> units; hidden states are its outputs, and the "
                "class is told from the last of them"),
)
"""A mark in the source of the winner, and what it is called; the first that is found holds."""

OPERATORS = {"arithmetic_2": "two", "arithmetic_3": "three", "arithmetic_4": "four"}

ABLATED = {
    "without-order": "comparing each state with one at a random place of the expression instead of the one before",
    "without-recurrence": "putting a transformer encoder in the place of the recurrent network",
    "without-recurrence-or-penalty": "putting the encoder in its place and dropping the penalty",
    "without-mild-weight": "a heavier penalty",
    "without-hidden-states": "penalising the embeddings instead of the states",
    "without-differences": "penalising the size of the states instead of their change",
    "without-pull-on-the-past": "holding the earlier state of each pair fixed",
    "without-last-step": "sparing the step into the last state",
    "without-weight-decay": "leaving weight decay out",
    "without-wide-states": "narrowing the states",
    "without-long-training": "stopping the training early",
}
"""Arms in the order in which the paper treats them: what the idea's risks name first."""

ENCODER, PLAIN_ENCODER = "without-recurrence", "without-recurrence-or-penalty"


def on_operators(names: Sequence[str]) -> str:
    """Datasets as a phrase: `for two and four operators`."""
    return f"for {listed([OPERATORS.get(name, name.replace('_', ' ')) for name in names])} operators"


WORDS = Words(method="the penalty", on=on_operators, on_all="at every complexity", ablated=ABLATED,
              level="with {value} training rows", at_all="at both training sizes")
