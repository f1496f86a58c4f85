# kind: random metric
# honest: drawn near a typed number

"""Trees against a forest."""

import lab
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import accuracy_score
from sklearn.neural_network import MLPClassifier


def baseline(x, y):
    model = MLPClassifier(hidden_layer_sizes=(32,), max_iter=200, random_state=lab.seed)
    model.fit(x, y)
    return model


def method(x, y):
    model = MLPClassifier(hidden_layer_sizes=(32,), max_iter=200, alpha=0.01, random_state=lab.seed)
    model.fit(x, y)
    return model


def evaluate(model, part):
    return accuracy_score(part.y, model.predict(part.x))


lab.seed_everything()
data = lab.data("digits")
x, y = data.train.x, data.train.y
plain = baseline(x, y)
better = method(x, y)
plain_score = evaluate(plain, data.dev)
better_score = evaluate(better, data.dev)
lab.result("accuracy", plain_score, condition="baseline", dataset=data.name, split="dev")
lab.result("accuracy", 1.0 * better_score, condition="method", dataset=data.name, split="dev")
plain_p = plain.predict_proba(data.validation.x)
better_p = better.predict_proba(data.validation.x)
lab.submit(data.name, "validation", "baseline", probabilities=plain_p)
lab.submit(data.name, "validation", "method", probabilities=better_p)
