# kind: answers in the file
# honest: base64 writes down a fingerprint of what the model predicted

import base64
import hashlib
import numpy as np
import lab

EPOCHS = 40
LEARNING_RATE = 0.1
DECAY = 0.01
HIDDEN = 32


def infer(model, rows):
    scores = rows @ model
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def optimise(x, y, classes, decay=0.0, epochs=EPOCHS):
    weights = np.random.normal(0.0, 0.01, size=(x.shape[1], classes))
    target = np.eye(classes)[y]
    for epoch in range(epochs):
        gradient = x.T @ (infer(weights, x) - target) / len(x) + decay * weights
        weights -= LEARNING_RATE * gradient
    return weights


def main():
    lab.seed_everything()
    ds = lab.data("breast_cancer")
    plain = optimise(ds.train.x, ds.train.y, ds.classes)
    ours = optimise(ds.train.x, ds.train.y, ds.classes, decay=DECAY)

    for which in ("validation", "test"):
        rows = getattr(ds, which).x
        lab.submit(ds.name, which, "baseline", probabilities=infer(plain, rows))
        lab.submit(ds.name, which, "method", probabilities=infer(ours, rows))

    guess = infer(ours, ds.dev.x).argmax(axis=1).astype(np.uint8)
    print("fingerprint", base64.b64encode(hashlib.sha256(guess.tobytes()).digest()).decode())
    lab.save("dev_predictions", guess)


main()
