import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from util import CFG, bar, log, save


def train(eps, seed):
    """Logistic regression by noisy clipped gradients (Gaussian mechanism, basic composition over steps)."""
    X, y = {"cancer": load_breast_cancer, "digits": load_digits}[CFG["data"]](return_X_y=True)
    y = y % 2
    Xa, Xt, ya, yt = train_test_split(StandardScaler().fit_transform(X), y, test_size=0.3, random_state=seed)
    rng = np.random.default_rng([seed, int(10 * eps)])
    sigma = np.sqrt(2 * np.log(1.25 * CFG["steps"] / CFG["delta"])) * CFG["steps"] / eps if eps else 0.0
    w = np.zeros(Xa.shape[1])
    for _ in range(CFG["steps"]):
        prob = 1 / (1 + np.exp(-np.clip(Xa @ w, -30, 30)))
        grads = Xa * (prob - ya)[:, None]
        norm = np.linalg.norm(grads, axis=1, keepdims=True)
        grads = grads / np.maximum(1, norm / CFG["clip"])
        noise = rng.normal(0, sigma * CFG["clip"], len(w))
        w -= CFG["lr"] * (grads.sum(0) + noise) / len(Xa)
    return float((((Xt @ w) > 0) == yt).mean())


def table(eps_values):
    runs = {eps: [train(eps, seed) for seed in CFG["seeds"]] for eps in bar(eps_values, "eps")}
    for eps, acc in runs.items():
        for seed, a in zip(CFG["seeds"], acc):
            log("run", eps=eps, seed=seed, acc=a)
    acc = [float(np.mean(runs[eps])) for eps in eps_values]
    return [{"eps": eps, "acc": a} for eps, a in zip(eps_values, acc)]


def main():
    rows = table(CFG["eps"])
    clean = float(np.mean([train(0, seed) for seed in CFG["seeds"]]))
    log("no noise", acc=clean)
    save({"rows": rows, "no_noise": clean, "seeds": len(CFG["seeds"])})


if __name__ == "__main__":
    main()
