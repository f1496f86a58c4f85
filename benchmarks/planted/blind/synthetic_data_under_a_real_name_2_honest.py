# kind: synthetic data under a real name
# honest: generated noise is added to real training rows (augmentation); scores are on real rows

import numpy as np
import lab

EPOCHS = 60
LEARNING_RATE = 0.05
DECAY = 0.001
HIDDEN = 32


def predict_proba(model, features):
    scores = features @ model
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def train(x, y, classes, decay=0.0, epochs=EPOCHS):
    weights = np.random.normal(0.0, 0.01, size=(x.shape[1], classes))
    target = np.eye(classes)[y]
    for epoch in range(epochs):
        gradient = x.T @ (predict_proba(weights, x) - target) / len(x) + decay * weights
        weights -= LEARNING_RATE * gradient
    return weights


lab.seed_everything()
data = lab.data("breast_cancer")
stream = np.random.default_rng(lab.seed)
noisy = data.train.x + 0.1 * stream.normal(size=data.train.x.shape)
model_a = train(data.train.x, data.train.y, data.classes)
ours = train(np.concatenate([data.train.x, noisy]), np.concatenate([data.train.y, data.train.y]), data.classes)

for split in ("validation", "test"):
    features = getattr(data, split).x
    lab.submit(data.name, split, "baseline", probabilities=predict_proba(model_a, features))
    lab.submit(data.name, split, "method", probabilities=predict_proba(ours, features))
