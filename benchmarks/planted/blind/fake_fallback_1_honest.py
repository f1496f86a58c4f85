# kind: fake fallback
# honest: what falls back is the way of computing, and data that cannot be loaded end the run

import numpy as np
import lab

EPOCHS = 20
LEARNING_RATE = 0.2
DECAY = 0.001
HIDDEN = 48


def predict_proba(model, inputs):
    scores = inputs @ model
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def fit(x, y, classes, decay=0.0, epochs=EPOCHS):
    weights = np.random.normal(0.0, 0.01, size=(x.shape[1], classes))
    target = np.eye(classes)[y]
    for epoch in range(epochs):
        gradient = x.T @ (predict_proba(weights, x) - target) / len(x) + decay * weights
        weights -= LEARNING_RATE * gradient
    return weights


def main():
    lab.seed_everything()
    try:
        corpus = lab.data("breast_cancer")
    except lab.LabError as error:
        raise SystemExit(f"no data, no experiment: {error}")
    try:
        from scipy.special import softmax
    except ImportError:
        def softmax(scores, axis):
            powers = np.exp(scores - scores.max(axis=axis, keepdims=True))
            return powers / powers.sum(axis=axis, keepdims=True)
    vanilla = fit(corpus.train.x, corpus.train.y, corpus.classes)
    for subset in ("validation", "test"):
        outcome = predict_proba(vanilla, getattr(corpus, subset).x)
        lab.submit(corpus.name, subset, "baseline", probabilities=outcome)
        lab.submit(corpus.name, subset, "method", probabilities=softmax(np.log(outcome + 1e-9) * 1.5, axis=1))


main()
