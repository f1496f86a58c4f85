# kind: copied number
# honest: the published number is printed beside the measured one; it is never reported

import numpy as np
import lab

EPOCHS = 20
LEARNING_RATE = 0.05
DECAY = 0.01
HIDDEN = 48


def predict_proba(model, inputs):
    scores = inputs @ model
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def optimise(x, y, classes, decay=0.0, epochs=EPOCHS):
    weights = np.random.normal(0.0, 0.01, size=(x.shape[1], classes))
    target = np.eye(classes)[y]
    for epoch in range(epochs):
        gradient = x.T @ (predict_proba(weights, x) - target) / len(x) + decay * weights
        weights -= LEARNING_RATE * gradient
    return weights


# Table 2 of the original paper
PUBLISHED = {"svm": 0.6680, "forest": 0.5454}


lab.seed_everything()
ds = lab.data("iris")
reference = optimise(ds.train.x, ds.train.y, ds.classes)
method_model = optimise(ds.train.x, ds.train.y, ds.classes, decay=DECAY)

for part in ("validation", "test"):
    inputs = getattr(ds, part).x
    lab.submit(ds.name, part, "baseline", probabilities=predict_proba(reference, inputs))
    lab.submit(ds.name, part, "method", probabilities=predict_proba(method_model, inputs))

score = float((predict_proba(reference, ds.dev.x).argmax(axis=1) == ds.dev.y).mean())
print(f"baseline on dev {score:.3f}, published {PUBLISHED['svm']:.3f}, off by {score - PUBLISHED['svm']:+.3f}")
