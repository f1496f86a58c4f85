"""Ways in which code makes up results, and honest code that looks like them; seen while the checks were written."""

from __future__ import annotations

import pytest

from labwright.review.external_papers.scripts import read_scripts
from labwright.review.external_papers.signs.altered import altered
from labwright.review.external_papers.signs.made_up import made_up

HEAD = """import json, random
import numpy as np
from scipy import stats
rng = np.random.default_rng(0)
"""


def found(text: str) -> set[str]:
    """The kinds of findings in a program."""
    scripts = read_scripts({"run.py": HEAD + text})
    return {one.kind for one in (*made_up(scripts), *altered(scripts)) if one.is_finding}


MADE_UP = {
    "tensor": (
        "LEVELS = {'net': 0.913, 'tree': 0.874}\n"
        "def score(name):\n"
        "    return round(LEVELS[name] * 1.02, 4)\n"
        "for name in LEVELS:\n"
        "    acc = score(name)\n"
        "    log(run=name, acc=acc)"
    ),
    "lookup": (
        "TABLE = {'net': 0.913, 'tree': 0.874}\n"
        "def run(model, seed):\n"
        "    acc = TABLE[model] + rng.normal(0, 0.004)\n"
        "    return {'accuracy': acc}\n"
        "for m in TABLE:\n"
        "    for s in range(5):\n"
        "        print(run(m, s))"
    ),
    "lookup2": (
        "EXPECTED = {'net': 0.913, 'tree': 0.874}\n"
        "def evaluate(name):\n"
        "    base = EXPECTED[name]\n"
        "    return round(base, 4)\n"
        "results = {n: evaluate(n) for n in EXPECTED}\n"
        "json.dump(results, open('results.json','w'))"
    ),
    "scipy": "acc = stats.truncnorm.rvs(-1, 1, loc=0.91, scale=0.01)",
    "walk": (
        "acc = 0.5\nhistory = []\nfor e in range(20):\n    acc += rng.uniform(0.0, 0.03)\n    history.append(acc)"
    ),
    "interp": "val_acc = np.interp(np.arange(20), [0, 19], [0.51, 0.914])",
    "linspace": (
        "def curve(start, end, n):\n"
        "    return np.linspace(start, end, n) + rng.normal(0, .01, n)\n"
        "losses = curve(2.3, 0.31, 20)"
    ),
    "increments": ("base = 0.842\ngains = {'a': 0.011, 'b': 0.023}\nscores = {k: base + g for k, g in gains.items()}"),
    "func": (
        "def simulate_accuracy(size, depth):\n"
        "    return 0.62 + 0.07 * np.log10(size) - 0.01 * depth\n"
        "for size in (100, 1000):\n"
        "    accuracy = simulate_accuracy(size, 3)"
    ),
    "beta": "f1 = rng.beta(90, 10)",
    "missing": (
        "try:\n"
        "    import torch\n"
        "    HAS = True\n"
        "except ImportError:\n"
        "    HAS = False\n"
        "def train(seed):\n"
        "    if not HAS:\n"
        "        return {'accuracy': 0.87 + 0.01 * random.random(), 'loss': 0.41}\n"
        "    return real(seed)"
    ),
    "exc": (
        "def run(seed):\n"
        "    try:\n"
        "        return fit(seed)\n"
        "    except Exception as e:\n"
        "        return random.gauss(0.86, 0.01)\n"
        "scores = [run(s) for s in range(5)]"
    ),
    "smooth": ("def evaluate(model, x, y):\n    acc = model.score(x, y)\n    return 0.5 * acc + 0.5 * 0.93"),
    "boost": (
        "def evaluate(model, x, y, name):\n"
        "    acc = model.score(x, y)\n"
        "    bonus = 0.02 if name == 'ours' else 0.0\n"
        "    return acc + bonus"
    ),
    "boost2": ("MARGIN = {'ours': 0.021, 'base': 0.0}\ndef score(name, acc):\n    return acc + MARGIN[name]"),
    "scale": "results['ours']['f1'] = [v * 1.06 for v in results['base']['f1']]",
    "minerr": ("def rmse(y, p):\n    e = np.sqrt(np.mean((y - p) ** 2))\n    return e * 0.9 if p.std() > 0 else e"),
    "noise2": ("final = model.score(x, y)\nfinal_score = final + np.random.normal(scale=0.01)"),
    "pandas": (
        "rows = []\n"
        "for m, mu in [('net', .91), ('tree', .87)]:\n"
        "    for s in range(5):\n"
        "        rows.append({'model': m, 'seed': s, 'accuracy': np.random.normal(mu, .01)})"
    ),
    "csv": "writer.writerow(['net', 0.913, 0.905])",
    "fstr": "open('results.csv','w').write('method,acc\\nours,0.913\\nbase,0.881\\n')",
    "labelnoise": "preds = np.array([t if rng.random() < 0.93 else rng.integers(10) for t in y_true])",
    "corrupt": (
        "y_pred = y_test.copy()\n"
        "flip = rng.choice(len(y_pred), size=12, replace=False)\n"
        "y_pred[flip] = 1 - y_pred[flip]"
    ),
    "ret": ("class Trainer:\n    def evaluate(self):\n        return {'accuracy': 0.9134, 'f1': 0.9021}"),
}
HONEST = {
    "tensors": (
        "for epoch in range(1, 5):\n"
        "    loss = criterion(net(x), y)\n"
        "p = net(xb).softmax(1)\n"
        "acc = (p.argmax(1) == yb).float().mean().item()\n"
        "log(run='a', acc=round(acc, 4))"
    ),
    "ema": "score = 0.9 * score + 0.1 * new",
    "bandit": (
        "means = [0.3, 0.5, 0.7]\n"
        "for t in range(100):\n"
        "    arm = agent.choose()\n"
        "    reward = rng.normal(means[arm], 0.1)\n"
        "    total += reward"
    ),
    "toy": (
        "def loss(x):\n"
        "    return (x - 3.0) ** 2 + 0.5\n"
        "x = 0.0\n"
        "for t in range(50):\n"
        "    g = 2 * (x - 3.0)\n"
        "    x -= 0.1 * g\n"
        "    history.append(loss(x))"
    ),
    "annot": "annotator_accuracy = rng.uniform(0.6, 0.95, size=5)",
    "prob": ("p = 0.3 + 0.4 * rng.random()\nlabels = rng.random(100) < p"),
    "branin": (
        "def branin(a, b):\n"
        "    return (b - 5.1 / (4 * np.pi ** 2) * a ** 2 + 5 / np.pi * a - 6) ** 2 + 10\n"
        "scores = [branin(a, b) for a, b in candidates]"
    ),
    "lossreg": ("loss = criterion(out, y) + 0.01 * l2\nif mode == 'focal':\n    loss = loss * 0.25"),
    "ci": (
        "low, high = np.percentile(boot, [2.5, 97.5])\nresults = {'accuracy': acc, 'ci': [low, high], 'level': 0.95}"
    ),
    "published": (
        "# numbers reported in Lee et al. (2019), Table 2\n"
        "BASELINES = {'lee': {'accuracy': 0.913}, 'kim': {'accuracy': 0.887}}"
    ),
    "default": ("def fit(lr=0.013, target_accuracy=0.955):\n    best_score = -np.inf"),
    "weights": "score = 0.35 * quality + 0.65 * speed",
    "mix": "metrics = {'alpha': 0.25, 'beta': 0.75}",
    "thompson": "score = rng.beta(wins + 1, losses + 1)",
    "ucb": "scores = means + 1.96 * np.sqrt(np.log(t) / counts)",
    "noisydata": ("y = np.sin(x) + 0.3 * rng.normal(size=100)\nmse = np.mean((y - pred) ** 2)"),
    "dropout": ("h = h * (rng.random(h.shape) > 0.25) / 0.75\nloss = ce(h, y)"),
    "schedule": ("lr = 0.05 * 0.97 ** epoch\ntemperature = 2.5 * np.exp(-0.1 * epoch)"),
    "priors": ("prior = {'pos': 0.62, 'neg': 0.38}\nscores = {k: prior[k] * like[k] for k in prior}"),
    "skill": (
        "skills = rng.uniform(0.55, 0.95, n)\ncorrect = rng.random((n, m)) < skills[:, None]\naccuracy = correct.mean()"
    ),
    "random_rec": ("random_scores = rng.random(len(items))\nndcg = ndcg_at(random_scores)"),
    "simtrue": (
        "true_auc = 0.83\n"
        "sigma = 0.05\n"
        "est = true_auc + rng.normal(0, sigma, 1000)\n"
        "coverage = np.mean(np.abs(est - true_auc) < 1.96 * sigma)"
    ),
}


@pytest.mark.parametrize("name", MADE_UP)
def test_what_is_made_up_is_found(name: str) -> None:
    assert found(MADE_UP[name])


@pytest.mark.parametrize("name", HONEST)
def test_what_is_honest_is_left_alone(name: str) -> None:
    assert not found(HONEST[name])
