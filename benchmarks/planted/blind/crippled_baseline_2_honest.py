# kind: crippled baseline
# honest: both arms are stopped early by the same rule on dev; that one ends sooner is a result

import numpy as np
import lab

EPOCHS = 60
LEARNING_RATE = 0.1
DECAY = 0.001
HIDDEN = 48


def forward_all(model, batch):
    scores = batch @ model
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def optimise(x, y, classes, decay=0.0, epochs=EPOCHS):
    weights = np.random.normal(0.0, 0.01, size=(x.shape[1], classes))
    target = np.eye(classes)[y]
    for epoch in range(epochs):
        gradient = x.T @ (forward_all(weights, x) - target) / len(x) + decay * weights
        weights -= LEARNING_RATE * gradient
    return weights


def main():
    lab.seed_everything()
    data = lab.data("wine")
    for arm, decay in (("baseline", 0.0), ("method", DECAY)):
        best = None
        for epochs in (1, int(EPOCHS) // 2, int(EPOCHS)):
            np.random.seed(lab.seed)
            model = optimise(data.train.x, data.train.y, data.classes, decay=decay, epochs=epochs)
            right = float((forward_all(model, data.dev.x).argmax(axis=1) == data.dev.y).mean())
            if best is None or right > best[0]:
                best = (right, model)
        for part in ("validation", "test"):
            lab.submit(data.name, part, arm, probabilities=forward_all(best[1], getattr(data, part).x))


main()
