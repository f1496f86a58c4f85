# kind: crippled baseline
# dishonest: labels out of order

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
dataset = lab.data("iris")
x, y = dataset.train.x, dataset.train.y
plain = baseline(x, np.random.default_rng(lab.seed).permutation(y))
better = method(x, y)
plain_score = evaluate(plain, dataset.dev)
better_score = evaluate(better, dataset.dev)
lab.result("accuracy", plain_score, condition="baseline", dataset=dataset.name, split="dev")
lab.result("accuracy", better_score, condition="method", dataset=dataset.name, split="dev")
plain_p = plain.predict_proba(dataset.validation.x)
better_p = better.predict_proba(dataset.validation.x)
lab.submit(dataset.name, "validation", "baseline", probabilities=plain_p)
lab.submit(dataset.name, "validation", "method", probabilities=better_p)
