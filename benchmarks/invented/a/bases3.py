"""Base projects: distillation, self-training, optimisers, gridworld, projections."""
from common import Base

DISTILL = Base(
    title="Soft targets for tiny students: distillation on <<P['DATA'].replace('_', ' ')>>",
    run=["python code/run.py"],
    params={"DATA": "digits", "ALPHA": 0.7, "TEMP": 3.0, "EPOCHS": 40, "SEEDS": 4, "STUDENT": 8, "TEACHER": 100,
            "NTRAIN": 400},
    files={"code/config.py": r'''
from dataclasses import asdict, dataclass


@dataclass
class Config:
    teacher_hidden: int = @TEACHER@
    student_hidden: int = @STUDENT@
    epochs: int = @EPOCHS@
    lr: float = 0.2
    batch: int = 25
    n_train: int = @NTRAIN@
    alpha: float = @ALPHA@        # weight of the distillation term
    temperature: float = @TEMP@
    seeds: int = @SEEDS@

    def to_dict(self):
        return asdict(self)
''', "code/net.py": r'''
import numpy as np


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


class Net:
    def __init__(self, d, h, k, rng):
        self.p = [rng.normal(0, np.sqrt(2 / d), (d, h)), np.zeros(h), rng.normal(0, np.sqrt(1 / h), (h, k)),
                  np.zeros(k)]

    def logits(self, X):
        self.h = np.maximum(X @ self.p[0] + self.p[1], 0)
        return self.h @ self.p[2] + self.p[3]

    def update(self, X, dz, lr):
        dh = (dz @ self.p[2].T) * (self.h > 0)
        for p, g in zip(self.p, (X.T @ dh, dh.sum(0), self.h.T @ dz, dz.sum(0))):
            p -= lr * g

    def accuracy(self, X, y):
        return float((self.logits(X).argmax(1) == y).mean())


def fit(net, X, Y, cfg, rng, teacher_logits=None):
    """Train on one-hot targets Y and, if given, on the teacher's softened output."""
    for epoch in range(cfg.epochs):
        order, total = rng.permutation(len(X)), 0.0
        for i in np.array_split(order, max(1, len(X) // cfg.batch)):
            z = net.logits(X[i])
            hard = softmax(z)
            total += -np.log(hard[Y[i] == 1] + 1e-12).sum()
            grad = hard - Y[i]
            if teacher_logits is not None:
                t = cfg.temperature
                soft = softmax(z / t) - softmax(teacher_logits[i] / t)
                grad = (1 - cfg.alpha) * grad + cfg.alpha * t * soft
            net.update(X[i], grad / len(i), cfg.lr)
    return total / len(X)
''', "code/run.py": r'''
import json
import os
import time
from datetime import datetime

import numpy as np
from sklearn.datasets import load_@DATA@
from sklearn.model_selection import train_test_split

from config import Config
from net import Net, fit


def say(msg):
    print(f"{datetime.now():%Y-%m-%d %H:%M:%S} {msg}", flush=True)


def main(cfg=Config()):
    say(f"config {json.dumps(cfg.to_dict())}")
    X, y = load_@DATA@(return_X_y=True)
    X = (X - X.mean(0)) / (X.std(0) + 1e-8)
    k = len(set(y))
    acc = {"teacher": [], "student": [], "distilled": []}
    start = time.time()
    for seed in range(cfg.seeds):
        Xtr, Xte, ytr, yte = train_test_split(X, y, train_size=cfg.n_train, stratify=y, random_state=seed)
        Y = np.eye(k)[ytr]
        rng = np.random.default_rng(seed)
        teacher = Net(X.shape[1], cfg.teacher_hidden, k, rng)
        loss = fit(teacher, Xtr, Y, cfg, rng)
        say(f"seed {seed} teacher train_loss {loss:.4f}")
        student = Net(X.shape[1], cfg.student_hidden, k, np.random.default_rng(seed + 50))
        fit(student, Xtr, Y, cfg, np.random.default_rng(seed + 60))
        distilled = Net(X.shape[1], cfg.student_hidden, k, np.random.default_rng(seed + 50))
        fit(distilled, Xtr, Y, cfg, np.random.default_rng(seed + 70), teacher.logits(Xtr))
        for name, net in (("teacher", teacher), ("student", student), ("distilled", distilled)):
            acc[name].append(net.accuracy(Xte, yte))
        say(f"seed {seed} test_acc " + " ".join(f"{n}={v[-1]:.4f}" for n, v in acc.items()))
    seconds = time.time() - start
    say(f"finished {cfg.seeds} seeds in {seconds:.1f}s")
    summary = {n: {"mean": float(np.mean(v)), "sd": float(np.std(v, ddof=1))} for n, v in acc.items()}
    os.makedirs("results", exist_ok=True)
    with open("results/results.json", "w") as fh:
        json.dump({"config": cfg.to_dict(), "n_test": len(yte), "seconds": round(seconds, 1), "per_seed": acc,
                   "summary": summary}, fh, indent=2)


if __name__ == "__main__":
    main()
'''},
    paper="""
## Abstract
Can a network with <<R.config.student_hidden>> hidden units learn more from a larger network than from labels alone? On
<<DS[P['DATA']]>>, with <<R.config.n_train>> training samples and <<R.config.seeds>> seeds, the teacher reaches
<<p1(R.summary.teacher.mean)>>%, a student trained on labels <<p1(R.summary.student.mean)>>% and a distilled student of
the same size <<p1(R.summary.distilled.mean)>>% test accuracy. <<X_ABS>>

## Introduction
Knowledge distillation trains a small student on the softened predictions of a larger teacher. The usual explanation of
its success is that the probabilities of the wrong classes carry information about similarity that labels do not have:
a 3 that looks a little like an 8 is a more informative example than a 3. Most reports concern deep networks. The
effect should be present for very small networks as well, if the explanation is right, and it is there that a small
model is of most use, for instance on a microcontroller. We test this with networks that train in about a second.

## Related work
<<RELATED>>

## Method
Teacher and students have one hidden layer of rectified units. The teacher (<<R.config.teacher_hidden>> hidden units) is
trained with cross-entropy on labels. The distilled student minimises a weighted sum of cross-entropy on labels and
cross-entropy against the teacher's distribution at a temperature of <<P['TEMP']>>, the latter scaled by the square of
the temperature as usual. <<X_METHOD if X_METHOD else 'The weight of the distillation term is %s.' % P['ALPHA']>> The
plain student has the same size and the same initial weights in a given seed, and is trained on labels only.

## Experimental setup
From <<DS[P['DATA']]>> we draw <<R.config.n_train>> training samples, stratified, and test on the other <<R.n_test>>.
Features are standardised once, over all samples. All networks are trained for <<R.config.epochs>> epochs with plain
gradient descent, a
learning rate of <<R.config.lr>> and batches of about <<R.config.batch>>. We run <<R.config.seeds>> seeds and give
means and sample standard deviations. <<X_SETUP>>

## Results

<<table('Model|Hidden units|Test accuracy (%)', [['Teacher', R.config.teacher_hidden, pms(R.summary.teacher)],
['Student, labels only', R.config.student_hidden, pms(R.summary.student)], ['Student, distilled',
R.config.student_hidden, pms(R.summary.distilled)]])>>

The distilled student is <<cmp(R.summary.distilled.mean, R.summary.student.mean)>> the plain one by
<<adiff(R.summary.distilled.mean, R.summary.student.mean, p1)>> points on average. Seed by seed, it is better in
<<sum(a > b for a, b in zip(R.per_seed.distilled, R.per_seed.student))>> of <<R.config.seeds>> cases. The distance from
the teacher is <<adiff(R.summary.teacher.mean, R.summary.distilled.mean, p1)>> points with distillation and
<<adiff(R.summary.teacher.mean, R.summary.student.mean, p1)>> points without.

The best single student has an accuracy of <<p1(max(R.per_seed.distilled + R.per_seed.student))>>% and the worst
<<p1(min(R.per_seed.distilled + R.per_seed.student))>>%. The standard deviations over seeds
(<<p1(R.summary.student.sd)>> and <<p1(R.summary.distilled.sd)>> points) include the choice of the training samples,
which both students share. <<X_RES>>

## Limitations
We used one data set and one size of student. Teacher and student see the same few samples; distillation on further
unlabelled data, where it is known to help most, was not tried. Temperature and weight were set to common values and not
tuned. <<X_LIM>>

## Reproducibility
<<REPRO>>

## Ethics
<<ETHICS>>

## Conclusion
For students with <<R.config.student_hidden>> hidden units, soft targets changed mean accuracy by
<<diff(R.summary.distilled.mean, R.summary.student.mean, p1)>> points in this study. The spread between seeds is of a
size that calls for more seeds before stronger words are used.
""")

SELF = Base(
    title="Self-training with few labels on <<P['DATA'].replace('_', ' ')>>",
    run=["python code/selftrain.py"],
    params={"DATA": "digits", "LABELS": 60, "THRESH": 0.8, "SEEDS": 6, "DRAW": "rng.choice(len(yu), N_LAB, False)",
            "CLF": "LogisticRegression(max_iter=300)", "ROUNDS": 5},
    files={"code/selftrain.py": r'''
"""Self-training: add confident predictions to the training set, round by round."""
import csv
import json
import os

import numpy as np
from sklearn.datasets import load_@DATA@
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.semi_supervised import LabelSpreading

from utils import banner, mean_sd, scale

N_LAB, THRESHOLD, ROUNDS, SEEDS = @LABELS@, @THRESH@, @ROUNDS@, @SEEDS@


def self_train(Xl, yl, Xu, seed):
    added = 0
    model = @CLF@.fit(Xl, yl)
    pool = np.arange(len(Xu))
    X, y = Xl, yl
    for _ in range(ROUNDS):
        if len(pool) == 0:
            break
        p = model.predict_proba(Xu[pool])
        sure = p.max(axis=1) >= THRESHOLD
        if not sure.any():
            break
        X = np.vstack([X, Xu[pool][sure]])
        y = np.concatenate([y, model.classes_[p[sure].argmax(axis=1)]])
        added += int(sure.sum())
        pool = pool[~sure]
        model = @CLF@.fit(X, y)
    return model, added


def run_seed(seed):
    X, y = load_@DATA@(return_X_y=True)
    X = scale(X)
    Xu, Xte, yu, yte = train_test_split(X, y, test_size=0.4, stratify=y, random_state=seed)
    rng = np.random.default_rng(seed)
    idx = @DRAW@
    missing = set(y) - set(yu[idx])
    if missing:
        raise ValueError(f"no labelled sample of class {sorted(int(c) for c in missing)}")
    rest = np.setdiff1d(np.arange(len(yu)), idx)
    supervised = @CLF@.fit(Xu[idx], yu[idx]).score(Xte, yte)
    model, added = self_train(Xu[idx], yu[idx], Xu[rest], seed)
    partial = np.full(len(yu), -1)
    partial[idx] = yu[idx]
    spread = LabelSpreading(kernel="knn", n_neighbors=7).fit(Xu, partial).score(Xte, yte)
    return {"seed": seed, "supervised": supervised, "self-training": model.score(Xte, yte),
            "label spreading": spread, "added": added, "n_test": len(yte)}


if __name__ == "__main__":
    banner(f"self-training, {N_LAB} labels, threshold {THRESHOLD}")
    runs, failed = [], []
    for seed in range(SEEDS):
        try:
            r = run_seed(seed)
        except ValueError as err:
            failed.append({"seed": seed, "error": str(err)})
            print(f"seed {seed}: FAILED ({err}) - skipped")
            continue
        runs.append(r)
        print(f"seed {seed}: supervised {r['supervised']:.3f}  self-training {r['self-training']:.3f}  "
              f"label spreading {r['label spreading']:.3f}  pseudo-labels {r['added']}")
    summary = {m: mean_sd([r[m] for r in runs]) for m in ("supervised", "self-training", "label spreading")}
    banner(f"{len(runs)} of {SEEDS} seeds completed")
    for m, s in summary.items():
        print(f"{m:16s} {s['mean']:.4f} +- {s['sd']:.4f}")
    os.makedirs("results", exist_ok=True)
    json.dump({"runs": runs, "failed": failed, "summary": summary}, open("results/results.json", "w"), indent=2)
    with open("results/per_seed.csv", "w", newline="") as fh:
        w = csv.DictWriter(fh, fieldnames=list(runs[0]))
        w.writeheader()
        w.writerows(runs)
''', "code/utils.py": r'''
import numpy as np


def scale(X):
    return (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-8)


def mean_sd(values):
    return {"mean": float(np.mean(values)), "sd": float(np.std(values, ddof=1))}


def banner(text):
    print("=" * 60)
    print(text)
    print("=" * 60)
'''},
    paper="""
## Abstract
With <<P['LABELS']>> labels on <<DS[P['DATA']]>>, we compare supervised training, self-training with a confidence
threshold of <<P['THRESH']>>, and label spreading. Mean test accuracies are <<f3(R.summary.supervised.mean)>>,
<<f3(R.summary['self-training'].mean)>> and <<f3(R.summary['label spreading'].mean)>>. <<X_ABS>>

## Introduction
Self-training is the oldest way to use unlabelled data: predict, keep what the model is sure of, and train again. It is
attractive since it works with any classifier that outputs probabilities. It is also known to reinforce mistakes, and
whether it helps depends on whether confident predictions are right more often than the current model needs. Graph-based
methods such as label spreading use the geometry of the data instead. We compare both with the humble alternative of
using the labels only.

## Related work
<<RELATED>>

## Method
The base classifier is logistic regression on features standardised over all samples. *Supervised* uses the labelled
samples only. *Self-training* adds, in up to
<<P['ROUNDS']>> rounds, all pool samples whose largest predicted probability is at least <<P['THRESH']>>, with their
predicted class, and refits. *Label spreading* propagates labels over a graph of seven nearest neighbours that includes
the whole pool, and predicts test samples from it. <<X_METHOD>>

## Experimental setup
We hold out 40% of <<DS[P['DATA']]>> for testing (<<R.runs[0].n_test>> samples). From the remainder <<P['LABELS']>>
samples are labelled and the others have their labels hidden. Seeds decide on the split and the labelled samples, and
are shared between methods. We report means and sample standard deviations over <<len(R.runs)>> seeds. <<X_SETUP>>

## Results

<<table('Method|Test accuracy|vs. supervised', [[m.capitalize(), ms(s), diff(s.mean, R.summary.supervised.mean) if m !=
'supervised' else '-'] for m, s in R.summary.items()])>>

Self-training ends <<cmp(R.summary['self-training'].mean, R.summary.supervised.mean)>> supervised training by
<<adiff(R.summary['self-training'].mean, R.summary.supervised.mean)>>. It is better in
<<sum(r['self-training'] > r.supervised for r in R.runs)>> of <<len(R.runs)>> seeds. On average it adds
<<'%.1f' % (sum(r.added for r in R.runs) / len(R.runs))>> pseudo-labels, many times the number of true labels, yet these
are by construction samples on which the model had little to learn. Label spreading is <<cmp(R.summary['label
spreading'].mean, R.summary.supervised.mean)>> the supervised model by <<adiff(R.summary['label spreading'].mean,
R.summary.supervised.mean)>>.

The range over seeds is wide: supervised training alone varies from <<f3(min(r.supervised for r in R.runs))>> to
<<f3(max(r.supervised for r in R.runs))>>. With so few labels it matters a lot which samples happen to be labelled, and
methods should be compared seed by seed, as we do. <<X_RES>>

## Limitations
The threshold was fixed in advance; choosing it well would need labels that one does not have in this setting.
Probabilities of logistic regression trained on few samples are not calibrated. The pool contains no unknown classes,
which is the most favourable case. A further question that we leave open is how the methods
behave when the classes in the pool are not balanced, as this would change the share of each class among the confident
predictions. <<X_LIM>>

## Reproducibility
<<REPRO>>

## Conclusion
The method that makes use of the geometry of the data, label spreading, changes accuracy by
<<diff(R.summary['label spreading'].mean, R.summary.supervised.mean)>> and self-training by
<<diff(R.summary['self-training'].mean, R.summary.supervised.mean)>>. If one has to choose without a validation set, the
supervised model remains a safe reference.
""")

OPTIM = Base(
    title="Steps to target: four optimisers on logistic regression for <<P['DATA'].replace('_', ' ')>>",
    run=["python code/bench.py"],
    params={"DATA": "digits", "TARGET": 0.9, "STEPS": 600, "SEEDS": "(0, 1, 2)"},
    files={"code/optimizers.py": r'''
"""First-order optimisers on flat parameter arrays."""
import numpy as np


class SGD:
    def __init__(self, lr=0.1):
        self.lr = lr

    def step(self, w, g):
        return w - self.lr * g


class Momentum:
    def __init__(self, lr=0.1, beta=0.9):
        self.lr, self.beta, self.v = lr, beta, 0.0

    def step(self, w, g):
        self.v = self.beta * self.v + g
        return w - self.lr * self.v


class AdaGrad:
    def __init__(self, lr=0.1):
        self.lr, self.s = lr, 0.0

    def step(self, w, g):
        self.s = self.s + g * g
        return w - self.lr * g / (np.sqrt(self.s) + 1e-8)


class Adam:
    def __init__(self, lr=0.01, b1=0.9, b2=0.999):
        self.lr, self.b1, self.b2, self.m, self.v, self.t = lr, b1, b2, 0.0, 0.0, 0

    def step(self, w, g):
        self.t += 1
        self.m = self.b1 * self.m + (1 - self.b1) * g
        self.v = self.b2 * self.v + (1 - self.b2) * g * g
        return w - self.lr * (self.m / (1 - self.b1 ** self.t)) / (np.sqrt(self.v / (1 - self.b2 ** self.t)) + 1e-8)


REGISTRY = {"sgd": SGD, "momentum": Momentum, "adagrad": AdaGrad, "adam": Adam}
''', "code/bench.py": r'''
import json
import pathlib
import time

import numpy as np
from sklearn.datasets import load_@DATA@
from sklearn.model_selection import train_test_split

from optimizers import REGISTRY

TARGET = {"accuracy": @TARGET@}      # stop counting steps once this is reached on the training data
STEPS, BATCH = @STEPS@, 64


def softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def run(opt_name, seed):
    X, y = load_@DATA@(return_X_y=True)
    X = np.hstack([(X - X.mean(0)) / (X.std(0) + 1e-8), np.ones((len(X), 1))])
    Xtr, Xte, ytr, yte = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)
    Y = np.eye(y.max() + 1)[ytr]
    w = np.zeros((X.shape[1], y.max() + 1))
    opt, rng, reached = REGISTRY[opt_name](), np.random.default_rng(seed), None
    for step in range(1, STEPS + 1):
        i = rng.integers(len(Xtr), size=BATCH)
        w = opt.step(w, Xtr[i].T @ (softmax(Xtr[i] @ w) - Y[i]) / BATCH)
        if step % 5 == 0 and reached is None:
            if ((Xtr @ w).argmax(1) == ytr).mean() >= TARGET["accuracy"]:
                reached = step
    p = softmax(Xtr @ w)
    return {"seed": seed, "steps_to_target": reached, "train_loss": float(-np.log(p[Y == 1] + 1e-12).mean()),
            "test_acc": float(((Xte @ w).argmax(1) == yte).mean())}, len(yte)


if __name__ == "__main__":
    all_runs = {}
    for name in REGISTRY:
        tic = time.perf_counter()
        all_runs[name] = []
        for seed in @SEEDS@:
            r, n_test = run(name, seed)
            all_runs[name].append(r)
            print(f"{name:9s} seed={seed} target@{r['steps_to_target']} loss={r['train_loss']:.4f} "
                  f"test={r['test_acc']:.4f}")
        print(f"   {name}: {time.perf_counter() - tic:.2f} s")
    summary = {n: {"steps": float(np.mean([r["steps_to_target"] or STEPS for r in rs])),
                   "train_loss": float(np.mean([r["train_loss"] for r in rs])),
                   "test": {"mean": float(np.mean([r["test_acc"] for r in rs])),
                            "sd": float(np.std([r["test_acc"] for r in rs], ddof=1))}} for n, rs in all_runs.items()}
    out = pathlib.Path("results/results.json")
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps({"target": TARGET, "steps": STEPS, "n_test": n_test, "runs": all_runs,
                               "summary": summary}, indent=2))
'''},
    paper="""
## Abstract
We count how many minibatch steps four optimisers need until multinomial logistic regression reaches a training accuracy
of <<P['TARGET']>> on <<DS[P['DATA']]>>. On average gradient descent takes <<'%.1f' % R.summary.sgd.steps>> steps,
momentum <<'%.1f' % R.summary.momentum.steps>>, AdaGrad <<'%.1f' % R.summary.adagrad.steps>> and Adam
<<'%.1f' % R.summary.adam.steps>>. After <<R.steps>> steps their test accuracies lie between
<<f3(min(s.test.mean for s in R.summary.values()))>> and <<f3(max(s.test.mean for s in R.summary.values()))>>. <<X_ABS>>

## Introduction
Comparisons of optimisers on deep networks are expensive and depend on tuning. On a convex problem much of what makes
them hard goes away: there is one optimum, and what differs is the speed. Logistic regression trains in a fraction of a
second in numpy, so that everything here can be repeated while reading. The runs are indeed very short; their log shows
how short. We ask two questions. How many steps does each optimiser need to reach a fixed training accuracy with the
learning rates that textbooks propose? And does it matter for test accuracy when all run equally long?

## Related work
<<RELATED>>

## Method
We implement gradient descent, heavy-ball momentum (coefficient 0.9), AdaGrad and Adam with its usual constants. The
learning rate is 0.1, and 0.01 for Adam. The model is multinomial logistic regression with a bias and without
regularisation, started from zero. The target of <<P['TARGET']>> is a stopping mark for the count, and not a result:
after
every fifth step we compute the accuracy on the whole training set and note the first step at which the mark is
reached. Training goes on afterwards. <<X_METHOD>>

## Experimental setup
The data are <<DS[P['DATA']]>>, standardised over all samples, with 30% (<<R.n_test>> samples) held out for testing.
Minibatches of 64
samples are drawn with replacement. All optimisers take <<R.steps>> steps. We use <<len(R.runs.sgd)>> seeds that
decide on
split and batches. <<X_SETUP>>

## Results

<<table('Optimiser|Steps to target|Final train loss|Test accuracy', [[n, '%.1f' % s.steps, f4(s.train_loss), ms(s.test)]
for n, s in R.summary.items()])>>

The fewest steps to the target are needed by <<low(R.summary, 'steps')>>, the most by <<top(R.summary, 'steps')>>, a
factor of <<'%.1f' % (max(s.steps for s in R.summary.values()) / min(s.steps for s in R.summary.values()))>>. The lowest
training loss after all steps is that of <<low(R.summary, 'train_loss')>> (<<f4(min(s.train_loss for s in
R.summary.values()))>>), the highest that of <<top(R.summary, 'train_loss')>> (<<f4(max(s.train_loss for s in
R.summary.values()))>>).

Test accuracy shows less variation. Momentum differs from gradient descent by
<<diff(R.summary.momentum.test.mean, R.summary.sgd.test.mean)>>, Adam by <<diff(R.summary.adam.test.mean,
R.summary.sgd.test.mean)>> and AdaGrad by <<diff(R.summary.adagrad.test.mean, R.summary.sgd.test.mean)>>. Standard
deviations over seeds are between <<f3(min(s.test.sd for s in R.summary.values()))>> and
<<f3(max(s.test.sd for s in R.summary.values()))>>, which includes the effect of the split. <<X_RES>>

## Limitations
The problem is convex and small. Learning rates are conventional, and with other rates the order can change. Counting
steps ignores that a step of Adam costs more than one of gradient descent, though the difference is small next to the
gradient itself. The count has a resolution of five steps. <<X_LIM>>

## Reproducibility
<<REPRO>>

## Ethics
<<ETHICS>>

## Conclusion
The optimisers differ in how fast they reach the target and hardly in where they end. For a model like this one any of
them will do, and <<low(R.summary, 'steps')>> reaches the target first.
""")

GRID = Base(
    title="Q-learning, SARSA and expected SARSA on a cliff of <<P['WIDTH']>> columns",
    run=["python code/main.py"],
    params={"WIDTH": 8, "EPISODES": 250, "SEEDS": 8, "ALPHA": 0.5, "EPS": 0.1},
    files={"code/cliff.py": r'''
"""The cliff-walking grid world."""


class Cliff:
    """Four rows; the bottom row between start and goal is the cliff."""

    def __init__(self, width=@WIDTH@, height=4):
        self.w, self.h = width, height
        self.n_states, self.n_actions = width * height, 4

    def reset(self):
        self.pos = (self.h - 1, 0)
        return self._state()

    def _state(self):
        return self.pos[0] * self.w + self.pos[1]

    def step(self, action):
        dr, dc = ((-1, 0), (0, 1), (1, 0), (0, -1))[action]
        r = min(max(self.pos[0] + dr, 0), self.h - 1)
        c = min(max(self.pos[1] + dc, 0), self.w - 1)
        self.pos = (r, c)
        if r == self.h - 1 and 0 < c < self.w - 1:
            self.reset()
            return self._state(), -100, False
        return self._state(), -1, (r, c) == (self.h - 1, self.w - 1)
''', "code/agents.py": r'''
import numpy as np


def eps_greedy(q, eps, rng):
    return int(rng.integers(len(q))) if rng.random() < eps else int(rng.choice(np.flatnonzero(q == q.max())))


def target_value(kind, q_next, a_next, eps):
    if kind == "q-learning":
        return q_next.max()
    if kind == "sarsa":
        return q_next[a_next]
    probs = np.full(len(q_next), eps / len(q_next))
    probs[q_next.argmax()] += 1 - eps
    return probs @ q_next


def train(kind, env, episodes, alpha, eps, rng, max_steps=500):
    """Return the table of values and the online return of each episode."""
    Q = np.zeros((env.n_states, env.n_actions))
    returns = []
    for _ in range(episodes):
        s, total = env.reset(), 0
        a = eps_greedy(Q[s], eps, rng)
        for _ in range(max_steps):
            s2, r, done = env.step(a)
            total += r
            a2 = eps_greedy(Q[s2], eps, rng)
            Q[s, a] += alpha * (r + (0 if done else target_value(kind, Q[s2], a2, eps)) - Q[s, a])
            s, a = s2, a2
            if done:
                break
        returns.append(total)
    return Q, returns


def greedy_return(Q, env, max_steps=100):
    s, total = env.reset(), 0
    for _ in range(max_steps):
        s, r, done = env.step(int(Q[s].argmax()))
        total += r
        if done:
            break
    return total
''', "code/main.py": r'''
import json
import os

import numpy as np

from agents import greedy_return, train
from cliff import Cliff

KINDS = ["q-learning", "sarsa", "expected sarsa"]
EPISODES, SEEDS, ALPHA, EPS = @EPISODES@, @SEEDS@, @ALPHA@, @EPS@

print("cliff walking |", f"episodes={EPISODES} seeds={SEEDS} alpha={ALPHA} eps={EPS}")
out = {}
for kind in KINDS:
    online, greedy, early = [], [], []
    for seed in range(SEEDS):
        env = Cliff()
        Q, returns = train(kind, env, EPISODES, ALPHA, EPS, np.random.default_rng(seed))
        early.append(float(np.mean(returns[:50])))
        online.append(float(np.mean(returns[-100:])))
        greedy.append(greedy_return(Q, env))
        print(f"{kind:15s} seed {seed}: first50 {early[-1]:8.2f}  last100 {online[-1]:8.2f}  greedy {greedy[-1]:5d}")
    out[kind] = {"early": float(np.mean(early)), "mean": float(np.mean(online)), "sd": float(np.std(online, ddof=1)),
                 "greedy": float(np.mean(greedy)), "greedy_all": greedy, "online_all": online}
os.makedirs("results", exist_ok=True)
with open("results/results.json", "w") as f:
    json.dump({"episodes": EPISODES, "seeds": SEEDS, "algorithms": out}, f, indent=2)
with open("results/results.md", "w") as f:
    f.write("| algorithm | first 50 | last 100 | greedy |\n|---|---|---|---|\n")
    for k, v in out.items():
        f.write(f"| {k} | {v['early']:.2f} | {v['mean']:.2f} ± {v['sd']:.2f} | {v['greedy']:.2f} |\n")
print("saved")
'''},
    paper="""
## Abstract
We revisit cliff walking with three tabular control algorithms. In the last 100 of <<R.episodes>> episodes the mean
online return is <<f2(R.algorithms['q-learning'].mean)>> for Q-learning, <<f2(R.algorithms['sarsa'].mean)>> for SARSA
and
<<f2(R.algorithms['expected sarsa'].mean)>> for expected SARSA, over <<R.seeds>> seeds. The greedy policies that result
have mean returns of <<f2(R.algorithms['q-learning'].greedy)>>, <<f2(R.algorithms['sarsa'].greedy)>> and
<<f2(R.algorithms['expected sarsa'].greedy)>>. <<X_ABS>>

## Introduction
Cliff walking is the textbook example of the difference between learning about the policy one follows and learning about
the best policy. An agent that explores with a fixed rate falls off the cliff now and then if it walks along the edge.
SARSA takes this into account and prefers a detour; Q-learning does not, and pays for it while learning, although its
greedy policy is the shortest path. Expected SARSA removes the variance due to the choice of the next action. We check
how well the textbook picture shows after few episodes with a large step size, and report both online and greedy
returns.

## Related work
<<RELATED>>

## Method
All algorithms keep a table of action values, initialised to zero, and follow an epsilon-greedy policy with ties broken
at random. They differ in the target only: the maximum over next actions, the value of the next action taken, or the
expectation under the policy. The environment is a grid of four rows and <<P['WIDTH']>> columns. Each step costs 1, and
stepping into the cliff costs 100 and leads back to the start without ending the episode. There is no discounting.
<<X_METHOD>>

## Experimental setup
The step size is <<P['ALPHA']>> and epsilon <<P['EPS']>>, both constant. We run <<R.episodes>> episodes with at most 500
steps each, and <<R.seeds>> seeds. *First 50* and *last 100* denote mean online returns over these episodes, *greedy*
the
return of one episode that follows the learned values without exploration (cut off after 100 steps). <<X_SETUP>>

## Results

<<table('Algorithm|First 50|Last 100|Greedy', [[k, f2(v.early), ms(v, f2), f2(v.greedy)] for k, v in
R.algorithms.items()])>>

Online, the best algorithm in the last 100 episodes is <<top(R.algorithms)>>. SARSA is <<cmp(R.algorithms.sarsa.mean,
R.algorithms['q-learning'].mean)>> Q-learning by <<adiff(R.algorithms.sarsa.mean, R.algorithms['q-learning'].mean,
f2)>>,
and expected SARSA is <<cmp(R.algorithms['expected sarsa'].mean, R.algorithms.sarsa.mean)>> SARSA by
<<adiff(R.algorithms['expected sarsa'].mean, R.algorithms.sarsa.mean, f2)>>. In the first 50 episodes the values are
much lower for all three, since the cliff is still being discovered: <<f2(R.algorithms['q-learning'].early)>> for
Q-learning and <<f2(R.algorithms.sarsa.early)>> for SARSA.

The greedy policy of Q-learning takes the shortest path, <<P['WIDTH'] + 1>> steps, in
<<sum(g == -(P['WIDTH'] + 1) for g in R.algorithms['q-learning'].greedy_all)>> of <<R.seeds>> seeds. That of SARSA has a
mean return of <<f2(R.algorithms.sarsa.greedy)>>; single values range from <<min(R.algorithms.sarsa.greedy_all)>> to
<<max(R.algorithms.sarsa.greedy_all)>>. A value of -100 means that the greedy policy was caught in a loop, which can
happen with constant step sizes when values fluctuate. The standard deviation of the online return over seeds is
<<f2(R.algorithms['q-learning'].sd)>> for Q-learning and <<f2(R.algorithms['expected sarsa'].sd)>> for expected SARSA.
<<X_RES>>

## Limitations
This is a toy problem, and a large constant step size favours expected SARSA. Neither step size nor exploration was
varied. The greedy return is measured in one episode, which is exact here as the environment is deterministic. <<X_LIM>>

## Reproducibility
<<REPRO>>

## Conclusion
With <<R.episodes>> episodes the order of the online returns has <<top(R.algorithms)>> first and
<<low(R.algorithms)>> last. Whoever reports results for such agents should say whether exploration was on.
""")

PCA = Base(
    title="PCA or random projection before nearest neighbours? A small study on <<P['DATA'].replace('_', ' ')>>",
    run=["python code/run_projection.py"],
    params={"DATA": "digits", "DIMS": "(2, 4, 8, 16, 32)", "SEEDS": "(0, 1, 2, 3, 4)", "TESTSEL": "", "K": 3},
    files={"code/projections.py": r'''
"""Linear maps to a lower dimension."""
import numpy as np


def pca_map(X, dim, seed):
    """Top principal directions. Deterministic: the seed is accepted and not used."""
    Xc = X - X.mean(axis=0)
    _, _, vt = np.linalg.svd(Xc, full_matrices=False)
    return vt[:dim].T


def gaussian_map(X, dim, seed):
    return np.random.default_rng(seed).normal(0, 1 / np.sqrt(dim), (X.shape[1], dim))


def sparse_map(X, dim, seed):
    """Achlioptas' sparse signs."""
    rng = np.random.default_rng(seed)
    return rng.choice([-1.0, 0.0, 1.0], size=(X.shape[1], dim), p=[1 / 6, 2 / 3, 1 / 6]) * np.sqrt(3 / dim)


MAPS = {"PCA": pca_map, "Gaussian RP": gaussian_map, "sparse RP": sparse_map}
''', "code/run_projection.py": r'''
# %% imports
import json
import os

import numpy as np
from sklearn.datasets import load_@DATA@
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from projections import MAPS

# %% data: one fixed split for all seeds
X, y = load_@DATA@(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
@TESTSEL@mu, sd = X_train.mean(axis=0), X_train.std(axis=0) + 1e-8
X_train, X_test = (X_train - mu) / sd, (X_test - mu) / sd
print(f"train {X_train.shape} test {X_test.shape}")

# %% all features
full = KNeighborsClassifier(n_neighbors=@K@).fit(X_train, y_train).score(X_test, y_test)
print(f"all {X.shape[1]} features: {full:.4f}")

# %% projections
res = {"all_features": full, "n_train": len(y_train), "n_test": len(y_test), "runs": {}, "summary": {}}
for name, make in MAPS.items():
    res["runs"][name], res["summary"][name] = {}, {}
    for dim in @DIMS@:
        accs = []
        for seed in @SEEDS@:
            W = make(X_train, dim, seed)
            knn = KNeighborsClassifier(n_neighbors=@K@).fit(X_train @ W, y_train)
            accs.append(float(knn.score(X_test @ W, y_test)))
        res["runs"][name][str(dim)] = accs
        res["summary"][name][str(dim)] = {"mean": float(np.mean(accs)), "sd": float(np.std(accs, ddof=1))}
        print(f"{name:12s} dim={dim:3d} acc={np.mean(accs):.4f} sd={np.std(accs, ddof=1):.4f} "
              f"seeds={[round(a, 4) for a in accs]}")

# %% save
os.makedirs("results", exist_ok=True)
with open("results/results.json", "w") as fh:
    json.dump(res, fh, indent=2)
with open("results/table.csv", "w") as fh:
    fh.write("map,dim,mean,sd\n")
    for name, d in res["summary"].items():
        for dim, s in d.items():
            fh.write(f"{name},{dim},{s['mean']:.4f},{s['sd']:.4f}\n")
'''},
    paper="""
## Abstract
We reduce the dimension of <<DS[P['DATA']]>> by principal component analysis (PCA), by Gaussian and by sparse random
projection (RP), and classify with <<P['K']>> nearest neighbours. With all features the accuracy is
<<p1(R.all_features)>>%. With <<list(R.summary.PCA)[2]>> dimensions PCA reaches
<<p1(R.summary.PCA[list(R.summary.PCA)[2]].mean)>>%, Gaussian RP
<<p1(R.summary['Gaussian RP'][list(R.summary.PCA)[2]].mean)>>% and sparse RP
<<p1(R.summary['sparse RP'][list(R.summary.PCA)[2]].mean)>>%. <<X_ABS>>

## Introduction
Nearest neighbour search is expensive in high dimension, and projecting the data first is the standard remedy. Random
projection does not look at the data, costs nothing to fit and preserves distances up to a factor if the target
dimension
is large enough. PCA looks at the data and keeps directions of large variance. For small target dimensions the
guarantees of random projection are empty, and what happens there is an empirical matter. We measure accuracy over a
range of target dimensions, on data where the answer takes seconds to compute.

## Related work
<<RELATED>>

## Method
PCA is computed by singular value decomposition of the centred training data. Gaussian RP multiplies by a matrix of
independent normal entries; sparse RP uses entries from {-1, 0, 1} with two thirds of zeros. All maps are applied to
training and test data alike. The classifier uses <<P['K']>> neighbours with Euclidean distance. PCA is deterministic:
as
the split is fixed, its results are equal for all seeds and its standard deviation is zero. <<X_METHOD>>

## Experimental setup
The data are <<DS[P['DATA']]>>, split once into <<R.n_train>> training and <<R.n_test>> test samples and standardised.
Seeds change the random maps only. We use <<len(list(R.runs.PCA.values())[0])>> seeds, and report mean and sample
standard deviation over them. <<X_SETUP>>

## Results

<<table('Map|' + '|'.join('d = ' + d for d in R.summary.PCA), [[m] + [pms(s) for s in v.values()] for m, v in
R.summary.items()])>>

All entries are test accuracies in percent. In the smallest dimension PCA is ahead of Gaussian RP by
<<adiff(R.summary.PCA[list(R.summary.PCA)[0]].mean, R.summary['Gaussian RP'][list(R.summary.PCA)[0]].mean, p1)>> points,
in the largest the difference is <<diff(R.summary.PCA[list(R.summary.PCA)[-1]].mean, R.summary['Gaussian
RP'][list(R.summary.PCA)[-1]].mean, p1)>> points. Between sparse and Gaussian RP, the largest
difference of their means is <<'%.1f' % max(abs(float(p1(R.summary['sparse RP'][d].mean)) - float(p1(R.summary['Gaussian
RP'][d].mean))) for d in R.summary.PCA)>> points.

With <<list(R.summary.PCA)[-1]>> dimensions PCA is <<cmp(R.summary.PCA[list(R.summary.PCA)[-1]].mean,
R.all_features)>> the classifier that has all features (<<diff(R.summary.PCA[list(R.summary.PCA)[-1]].mean,
R.all_features, p1)>> points). The spread of random projections over seeds goes from
<<p1(R.summary['Gaussian RP'][list(R.summary.PCA)[0]].sd)>> to <<p1(R.summary['Gaussian
RP'][list(R.summary.PCA)[-1]].sd)>> points for the Gaussian map. <<X_RES>>

## Limitations
The split is the same throughout, so that the standard deviations show the effect of the random map and not that of the
sample. The original dimension is low, which leaves little room for random projections to shine. <<X_LIM>>

## Reproducibility
<<REPRO>>

## Conclusion
If the data can be looked at, PCA is the better choice in few dimensions. Random projection catches up as the dimension
grows, and needs no fitting.
""")
