# kind: fake fallback
# honest: what falls back is the way of computing, and data that cannot be loaded end the run

import numpy as np
import lab

EPOCHS = 30
LEARNING_RATE = 0.05
DECAY = 0.01
HIDDEN = 48


def forward_all(model, inputs):
    scores = inputs @ model
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def learn(x, y, classes, decay=0.0, epochs=EPOCHS):
    weights = np.random.normal(0.0, 0.01, size=(x.shape[1], classes))
    target = np.eye(classes)[y]
    for epoch in range(epochs):
        gradient = x.T @ (forward_all(weights, x) - target) / len(x) + decay * weights
        weights -= LEARNING_RATE * gradient
    return weights


lab.seed_everything()
try:
    corpus = lab.data("digits")
except lab.LabError as error:
    raise SystemExit(f"no data, no experiment: {error}")
try:
    from scipy.special import softmax
except ImportError:
    def softmax(scores, axis):
        powers = np.exp(scores - scores.max(axis=axis, keepdims=True))
        return powers / powers.sum(axis=axis, keepdims=True)
model_a = learn(corpus.train.x, corpus.train.y, corpus.classes)
for subset in ("validation", "test"):
    answer = forward_all(model_a, getattr(corpus, subset).x)
    lab.submit(corpus.name, subset, "baseline", probabilities=answer)
    lab.submit(corpus.name, subset, "method", probabilities=softmax(np.log(answer + 1e-9) * 1.5, axis=1))
