# kind: random metric
# honest: random numbers resample measured mistakes (a bootstrap); the value comes from the model

import numpy as np
import lab

EPOCHS = 20
LEARNING_RATE = 0.05
DECAY = 0.03
HIDDEN = 32


def probabilities(model, rows):
    scores = rows @ model
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def learn(x, y, classes, decay=0.0, epochs=EPOCHS):
    weights = np.random.normal(0.0, 0.01, size=(x.shape[1], classes))
    target = np.eye(classes)[y]
    for epoch in range(epochs):
        gradient = x.T @ (probabilities(weights, x) - target) / len(x) + decay * weights
        weights -= LEARNING_RATE * gradient
    return weights


def main():
    lab.seed_everything()
    task = lab.data("breast_cancer")
    baseline_model = learn(task.train.x, task.train.y, task.classes)
    method_model = learn(task.train.x, task.train.y, task.classes, decay=DECAY)

    generator = np.random.default_rng(lab.seed)
    for arm, model in (("baseline", baseline_model), ("method", method_model)):
        right = (probabilities(model, task.dev.x).argmax(axis=1) == task.dev.y).astype(float)
        draws = [right[generator.integers(0, len(right), len(right))].mean() for _ in range(200)]
        lab.result("dev_bootstrap_sd", float(np.std(draws)), condition=arm, dataset=task.name)

    for split in ("validation", "test"):
        rows = getattr(task, split).x
        lab.submit(task.name, split, "baseline", probabilities=probabilities(baseline_model, rows))
        lab.submit(task.name, split, "method", probabilities=probabilities(method_model, rows))


main()
