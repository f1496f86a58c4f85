import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from util import CFG, bar, log, save
from net import Adam, backward, forward, init


def softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def weight(epoch):
    """The distillation term is switched on linearly."""
    return CFG["alpha"] * min(1.0, max(0.0, (epoch - CFG["warmup"]) / CFG["ramp"]))


def student(Xa, ya, soft, seed, distil):
    rng = np.random.default_rng([seed, int(distil)])
    net = init([64, CFG["hidden"], 10], rng)
    opt = Adam(net, CFG["lr"], b1=0.9)
    hard = np.eye(10)[ya]
    for epoch in range(CFG["epochs"]):
        a = weight(epoch) if distil else 0.0
        order = rng.permutation(len(Xa))
        for i in range(0, len(order), 32):
            idx = order[i:i + 32]
            acts = forward(net, Xa[idx])
            grad = (1 - a) * (softmax(acts[-1]) - hard[idx])
            if a > 0:
                grad += a * CFG["temp"] * (softmax(acts[-1] / CFG["temp"]) - soft[idx])
            opt.step(backward(net, acts, grad / len(idx))[0])
    return net


def run(seed):
    X, y = load_digits(return_X_y=True)
    Xa, Xt, ya, yt = train_test_split(X / 16, y, train_size=CFG["train"], stratify=y, random_state=seed)
    teacher = SVC(C=10, gamma=0.5).fit(Xa, ya)
    soft = softmax(teacher.decision_function(Xa) / CFG["temp"])
    row = {"seed": seed, "teacher": float(teacher.score(Xt, yt)), "n_test": len(yt)}
    for name, on in (("plain", False), ("distilled", True)):
        row[name] = float((forward(student(Xa, ya, soft, seed, on), Xt)[-1].argmax(1) == yt).mean())
    log("seed finished", **row)
    return row


def main():
    rows = [run(seed) for seed in bar(CFG["seeds"], "seeds")]
    save({"rows": rows, **{k: float(np.mean([r[k] for r in rows])) for k in ("teacher", "plain", "distilled")}})


if __name__ == "__main__":
    main()
