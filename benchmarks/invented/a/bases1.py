"""Base projects: neural network regularisation, bandits, calibration, label noise, active learning."""
from common import Base

MLP = Base(
    title="Dropout or input noise? Regularising small networks on <<P['DATA'].replace('_', ' ')>>",
    run=["python code/train.py --epochs @EPOCHS@ --seeds @NSEEDS@"],
    params={"DATA": "digits", "EPOCHS": 30, "NSEEDS": 3, "HIDDEN": 64, "TEST": 0.3},
    files={"code/data.py": r'''
"""Loading and splitting."""
import numpy as np
from sklearn.datasets import load_@DATA@
from sklearn.model_selection import train_test_split


def get_split(seed: int, test_size: float = @TEST@):
    X, y = load_@DATA@(return_X_y=True)
    Xtr, Xte, ytr, yte = train_test_split(X, y, test_size=test_size, stratify=y, random_state=seed)
    mu, sd = Xtr.mean(axis=0), Xtr.std(axis=0) + 1e-8
    return (Xtr - mu) / sd, (Xte - mu) / sd, ytr, yte
''', "code/model.py": r'''
"""A one-hidden-layer network in numpy with inverted dropout and input noise."""
import numpy as np


class MLP:
    def __init__(self, d_in, d_hidden, d_out, dropout=0.0, input_noise=0.0, seed=0):
        self.rng = np.random.default_rng(seed)
        self.W1 = self.rng.normal(0, np.sqrt(2.0 / d_in), (d_in, d_hidden))
        self.b1 = np.zeros(d_hidden)
        self.W2 = self.rng.normal(0, np.sqrt(1.0 / d_hidden), (d_hidden, d_out))
        self.b2 = np.zeros(d_out)
        self.dropout, self.input_noise = dropout, input_noise

    def forward(self, X, train=False):
        if train and self.input_noise > 0:
            X = X + self.rng.normal(0, self.input_noise, X.shape)
        h = np.maximum(X @ self.W1 + self.b1, 0)
        if train and self.dropout > 0:
            mask = self.rng.uniform(size=h.shape) > self.dropout
            h = h * mask / (1 - self.dropout)
        z = h @ self.W2 + self.b2
        z = z - z.max(axis=1, keepdims=True)
        p = np.exp(z)
        return X, h, p / p.sum(axis=1, keepdims=True)

    def step(self, X, y, lr):
        X, h, p = self.forward(X, train=True)
        n = len(y)
        loss = -np.log(p[np.arange(n), y] + 1e-12).mean()
        g = p.copy()
        g[np.arange(n), y] -= 1
        g /= n
        gh = (g @ self.W2.T) * (h > 0)
        self.W2 -= lr * h.T @ g
        self.b2 -= lr * g.sum(axis=0)
        self.W1 -= lr * X.T @ gh
        self.b1 -= lr * gh.sum(axis=0)
        return loss

    def accuracy(self, X, y):
        return float((self.forward(X)[2].argmax(axis=1) == y).mean())
''', "code/train.py": r'''
"""Train the three variants over several seeds."""
import argparse
import json
import logging
import pathlib

import numpy as np

from data import get_split
from model import MLP

VARIANTS = {"plain": {}, "dropout": {"dropout": 0.3}, "input_noise": {"input_noise": 0.3}}
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
log = logging.getLogger("train")


def train_one(name, seed, epochs, lr, batch):
    Xtr, Xte, ytr, yte = get_split(seed)
    net = MLP(Xtr.shape[1], @HIDDEN@, len(set(ytr)), seed=seed, **VARIANTS[name])
    rng = np.random.default_rng(seed + 1000)
    history = []
    for epoch in range(1, epochs + 1):
        order = rng.permutation(len(ytr))
        losses = [net.step(Xtr[i], ytr[i], lr) for i in np.array_split(order, max(1, len(order) // batch))]
        history.append({"epoch": epoch, "loss": round(float(np.mean(losses)), 4),
                        "test_acc": round(net.accuracy(Xte, yte), 4)})
        if epoch % 10 == 0 or epoch == 1:
            log.info("%s seed=%d epoch=%d loss=%.4f test_acc=%.4f", name, seed, epoch,
                     history[-1]["loss"], history[-1]["test_acc"])
    return net.accuracy(Xtr, ytr), net.accuracy(Xte, yte), history, len(yte)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=@EPOCHS@)
    ap.add_argument("--seeds", type=int, default=@NSEEDS@)
    ap.add_argument("--lr", type=float, default=0.1)
    ap.add_argument("--batch", type=int, default=32)
    args = ap.parse_args()
    out = {"config": vars(args), "summary": {}, "runs": {}, "history": {}}
    for name in VARIANTS:
        runs = []
        for seed in range(args.seeds):
            tr, te, hist, n_test = train_one(name, seed, args.epochs, args.lr, args.batch)
            runs.append({"seed": seed, "train_acc": tr, "test_acc": te})
            out["history"].setdefault(name, []).append(hist)
        test = [r["test_acc"] for r in runs]
        out["runs"][name] = runs
        out["n_test"] = n_test
        out["summary"][name] = {"train": float(np.mean([r["train_acc"] for r in runs])),
                                "mean": float(np.mean(test)), "sd": float(np.std(test, ddof=1))}
        log.info("%s done: mean test_acc %.4f over %d seeds", name, np.mean(test), args.seeds)
    path = pathlib.Path("results") / "results.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(out, indent=1))
    log.info("wrote %s", path)


if __name__ == "__main__":
    main()
'''},
    paper="""
## Abstract
We compare two classic regularisers for small neural networks, dropout on the hidden layer and Gaussian noise on the
inputs, with an unregularised network of the same size. On <<DS[P['DATA']]>> and over <<P['NSEEDS']>> seeds the plain
network reaches a test accuracy of <<p1(R.summary.plain.mean)>>%, dropout <<p1(R.summary.dropout.mean)>>% and input
noise <<p1(R.summary.input_noise.mean)>>%. <<X_ABS>>

## Introduction
Regularisation by noise is one of the oldest ideas in neural network training. Adding noise to the inputs is, to
second order, a form of Tikhonov regularisation, and dropout can be read as noise on the hidden representation. Both
methods are mostly discussed for large networks. What they do for a network with <<P['HIDDEN']>> hidden units that is
trained for a second or two is less often reported, although such networks are still in use on small devices. We ask
whether either regulariser changes test accuracy by more than the spread between seeds.

## Related work
<<RELATED>>

## Method
The network has one hidden layer of <<P['HIDDEN']>> rectified units and a softmax output. It is written in numpy, with
gradients by hand. *Dropout* removes a hidden unit with probability 0.3 in each training step and rescales the others
by 1/0.7. *Input noise* adds independent Gaussian noise with standard deviation 0.3 to the standardised inputs in each
training step. Neither is active at test time. <<X_METHOD>>

## Experimental setup
We use <<DS[P['DATA']]>>, split at random into training and test parts with <<round(100 * P['TEST'])>>% for testing
(<<R.n_test>> samples), stratified by class. Features are standardised with training statistics. Every variant is
trained by plain minibatch gradient descent with learning rate <<R.config.lr>> and batches of about <<R.config.batch>>
samples for <<R.config.epochs>> epochs. Split, initialisation and batch order all depend on the seed; we use
<<P['NSEEDS']>> seeds and the same seeds for each variant. No setting was tuned: all were fixed before the first run.
<<X_SETUP>>

## Results
Table 1 gives accuracy on training and test data. We report the mean over seeds and, for the test data, the sample
standard deviation.

<<table('Variant|Train acc. (%)|Test acc. (%)', [[k.replace('_', ' '), p1(v.train), pms(v)] for k, v in
R.summary.items()])>>

The highest mean test accuracy belongs to <<top(R.summary).replace('_', ' ')>>. Dropout is <<cmp(R.summary.dropout.mean,
R.summary.plain.mean)>> the plain network (<<diff(R.summary.dropout.mean, R.summary.plain.mean, p1)>> points) and input
noise <<cmp(R.summary.input_noise.mean, R.summary.plain.mean)>> it (<<diff(R.summary.input_noise.mean,
R.summary.plain.mean, p1)>> points). These differences have to be read against standard deviations between
<<p1(min(v.sd for v in R.summary.values()))>> and <<p1(max(v.sd for v in R.summary.values()))>> points.

Training loss falls quickly in all variants. For the first seed of the plain network it goes from
<<f3(R.history.plain[0][0].loss)>> after the first epoch to <<f3(R.history.plain[0][-1].loss)>> after the last; with
dropout it ends at <<f3(R.history.dropout[0][-1].loss)>>, with input noise at
<<f3(R.history.input_noise[0][-1].loss)>>. The training accuracies show that the plain network can fit the training
data almost or fully. <<X_RES>>

## Limitations
One data set, one architecture and few seeds do not support general statements. The strength of both regularisers was
fixed and might be far from the best value. Test accuracy was logged during training, but it was not used to stop or to
choose anything. <<X_LIM>>

## Reproducibility
<<REPRO>>

## Ethics
<<ETHICS>>

## Conclusion
On this data set the regularisers move test accuracy by at most <<max(adiff(R.summary.dropout.mean,
R.summary.plain.mean, p1), adiff(R.summary.input_noise.mean, R.summary.plain.mean, p1))>> points against no
regularisation. Whoever trains a network this small should look first at the split and at the learning rate.
""")

BANDIT = Base(
    title="A simulation study of exploration rules for <<P['ARMS']>>-armed Bernoulli bandits",
    run=["python code/run.py"],
    params={"ARMS": 10, "HORIZON": 1000, "REPS": 40, "SEED": 7},
    files={"code/env.py": r'''
"""Simulated Bernoulli bandit."""
from dataclasses import dataclass

import numpy as np


@dataclass
class Bandit:
    probs: np.ndarray
    rng: np.random.Generator

    def pull(self, arm: int) -> int:
        return int(self.rng.random() < self.probs[arm])

    @property
    def best(self) -> float:
        return float(self.probs.max())


def make_bandit(k: int, seed: int) -> Bandit:
    rng = np.random.default_rng(seed)
    return Bandit(rng.uniform(0.1, 0.9, size=k), rng)
''', "code/policies.py": r'''
"""Exploration rules. Each keeps counts and sums and returns the next arm."""
import numpy as np


class Policy:
    name = "base"

    def __init__(self, k, rng):
        self.k, self.rng = k, rng
        self.n = np.zeros(k)
        self.s = np.zeros(k)

    def update(self, arm, reward):
        self.n[arm] += 1
        self.s[arm] += reward

    def means(self):
        return self.s / np.maximum(self.n, 1)


class EpsGreedy(Policy):
    name = "eps-greedy"

    def select(self, t):
        if self.rng.random() < 0.1:
            return int(self.rng.integers(self.k))
        return int(np.argmax(self.means()))


class UCB1(Policy):
    name = "UCB1"

    def select(self, t):
        if t < self.k:
            return t
        return int(np.argmax(self.means() + np.sqrt(2 * np.log(t + 1) / self.n)))


class Thompson(Policy):
    name = "Thompson"

    def select(self, t):
        return int(np.argmax(self.rng.beta(1 + self.s, 1 + self.n - self.s)))


class Uniform(Policy):
    name = "uniform"

    def select(self, t):
        return int(self.rng.integers(self.k))


POLICIES = [Uniform, EpsGreedy, UCB1, Thompson]
''', "code/run.py": r'''
"""Simulate all policies on freshly drawn bandits and store cumulative regret."""
import csv
import json
import os
import time
from dataclasses import asdict, dataclass

import numpy as np

from env import make_bandit
from policies import POLICIES


@dataclass
class Config:
    arms: int = @ARMS@
    horizon: int = @HORIZON@
    repetitions: int = @REPS@
    seed: int = @SEED@


def simulate(cls, cfg, rep):
    env = make_bandit(cfg.arms, cfg.seed * 1000 + rep)
    policy = cls(cfg.arms, np.random.default_rng(rep))
    regret, hits = 0.0, 0
    for t in range(cfg.horizon):
        arm = policy.select(t)
        policy.update(arm, env.pull(arm))
        regret += env.best - env.probs[arm]
        hits += int(env.probs[arm] == env.best)
    return regret, hits / cfg.horizon


def main():
    cfg = Config()
    print("config:", asdict(cfg))
    os.makedirs("results", exist_ok=True)
    rows, summary = [], {}
    for cls in POLICIES:
        t0 = time.time()
        pairs = [simulate(cls, cfg, r) for r in range(cfg.repetitions)]
        reg = np.array([p[0] for p in pairs])
        summary[cls.name] = {"mean": float(reg.mean()), "sd": float(reg.std(ddof=1)),
                             "best_arm_share": float(np.mean([p[1] for p in pairs]))}
        rows += [[cls.name, r, f"{p[0]:.3f}", f"{p[1]:.3f}"] for r, p in enumerate(pairs)]
        print(f"[{cls.name}] simulated {cfg.repetitions} bandits in {time.time() - t0:.2f}s "
              f"regret {reg.mean():.2f} +- {reg.std(ddof=1):.2f}")
    with open("results/regret.csv", "w", newline="") as fh:
        csv.writer(fh).writerows([["policy", "rep", "regret", "best_arm_share"]] + rows)
    with open("results/results.json", "w") as fh:
        json.dump({"config": asdict(cfg), "summary": summary}, fh, indent=2)
    print("done")


if __name__ == "__main__":
    main()
'''},
    paper="""
## Abstract
We simulate four exploration rules on Bernoulli bandits with <<P['ARMS']>> arms and a horizon of <<P['HORIZON']>>
pulls. Over <<P['REPS']>> randomly drawn problems the mean cumulative regret is <<f2(R.summary.Thompson.mean)>> for
Thompson sampling, <<f2(R.summary['eps-greedy'].mean)>> for epsilon-greedy with a fixed rate of 0.1 and
<<f2(R.summary.UCB1.mean)>> for UCB1; uniform play costs <<f2(R.summary.uniform.mean)>>. <<X_ABS>>

## Introduction
The multi-armed bandit is the simplest setting in which a learner has to weigh exploration against exploitation. The
theory is complete enough that we know the optimal asymptotic rate, but practitioners work at short horizons where
constants matter more than rates. In that regime UCB1, which has a guarantee, is known to explore a lot, and simple
heuristics can look better than they should. We wanted to see how large the differences are at a horizon where an
ordinary A/B test would be stopped. All data in this paper are simulated; there is no log of real users behind it.

## Related work
<<RELATED>>

## Method
We compare *uniform* play, *epsilon-greedy* with a rate of 0.1, *UCB1* with the usual bonus, the root of 2 log t over
the number of pulls of the arm, and *Thompson sampling* with a uniform Beta prior. Regret is computed from the true
means (pseudo-regret), so that it has no noise from the rewards themselves. The second measure is the share of pulls
that go to the best arm. <<X_METHOD>>

## Experimental setup
For each repetition the success probabilities of the <<P['ARMS']>> arms are drawn independently and uniformly from 0.1
to 0.9. All policies see the same <<R.config.repetitions>> problems. The horizon is <<R.config.horizon>>. Policies have
their own random stream, seeded by the number of the repetition. We report mean and sample standard deviation over
repetitions. Nothing was tuned, and epsilon is the value most often seen in tutorials. <<X_SETUP>>

## Results

<<table('Policy|Regret (mean ± sd)|Best arm share (%)', [[k, ms(v, f2), p1(v.best_arm_share)] for k, v in
R.summary.items()])>>

The lowest mean regret is reached by <<low(R.summary)>>. Against uniform play, UCB1 changes regret by
<<rel(float(f2(R.summary.UCB1.mean)), float(f2(R.summary.uniform.mean)))>>, epsilon-greedy by
<<rel(float(f2(R.summary['eps-greedy'].mean)), float(f2(R.summary.uniform.mean)))>> and Thompson sampling by
<<rel(float(f2(R.summary.Thompson.mean)), float(f2(R.summary.uniform.mean)))>>. The share of pulls of the best arm is
<<p1(R.summary.UCB1.best_arm_share)>>% under UCB1 and <<p1(R.summary.Thompson.best_arm_share)>>% under Thompson
sampling.

The spread between problems is of interest too. Epsilon-greedy has a standard deviation of
<<f2(R.summary['eps-greedy'].sd)>>, compared with <<f2(R.summary.UCB1.sd)>> for UCB1: it does well on easy problems and
can lock on to a second-best arm on hard ones, whereas the cost of UCB1 is nearly the same everywhere. Thompson
sampling has a standard deviation of <<f2(R.summary.Thompson.sd)>>. <<X_RES>>

## Limitations
Simulated Bernoulli rewards are the friendliest case for Thompson sampling with a Beta prior, whose model is then
correct. Uniformly drawn means give large gaps between arms; with smaller gaps all numbers would change. We looked at
one horizon only. <<X_LIM>>

## Reproducibility
<<REPRO>>

## Conclusion
At short horizons the choice of the rule matters more than its guarantee. In our simulations <<low(R.summary)>> has the
lowest regret and should be the first thing to try when rewards are binary; UCB1 with its textbook constant explores
too much for <<P['HORIZON']>> pulls.
""")

CALIB = Base(
    title="Does temperature scaling repair <<P['MODEL_NAME']>>? Calibration on <<P['DATA'].replace('_', ' ')>>",
    run=["python code/main.py"],
    params={"DATA": "breast_cancer", "MODEL": "GaussianNB()", "MODEL_NAME": "naive Bayes",
            "IMPORT": "from sklearn.naive_bayes import GaussianNB", "REPS": 10, "BINS": 10},
    files={"code/calibration.py": r'''
"""Expected calibration error and temperature scaling."""
import numpy as np


def ece(probs: np.ndarray, y: np.ndarray, bins: int = @BINS@) -> float:
    """Expected calibration error with equal-width bins of the top probability."""
    conf, pred = probs.max(axis=1), probs.argmax(axis=1)
    edges = np.linspace(0, 1, bins + 1)
    total = 0.0
    for lo, hi in zip(edges[:-1], edges[1:]):
        sel = (conf > lo) & (conf <= hi)
        if sel.any():
            total += sel.mean() * abs((pred[sel] == y[sel]).mean() - conf[sel].mean())
    return float(total)


def nll(probs: np.ndarray, y: np.ndarray) -> float:
    return float(-np.log(np.clip(probs[np.arange(len(y)), y], 1e-12, 1)).mean())


def apply_temperature(probs: np.ndarray, t: float) -> np.ndarray:
    z = np.log(np.clip(probs, 1e-12, 1)) / t
    z -= z.max(axis=1, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=1, keepdims=True)


def fit_temperature(probs: np.ndarray, y: np.ndarray) -> float:
    grid = np.exp(np.linspace(np.log(0.25), np.log(20), 120))
    return float(min(grid, key=lambda t: nll(apply_temperature(probs, t), y)))
''', "code/main.py": r'''
import json
from pathlib import Path

import numpy as np
from sklearn.datasets import load_@DATA@
@IMPORT@
from sklearn.model_selection import train_test_split

from calibration import apply_temperature, ece, fit_temperature, nll

OUT = Path(__file__).resolve().parents[1] / "results"


def one_repetition(seed):
    X, y = load_@DATA@(return_X_y=True)
    X_rest, X_te, y_rest, y_te = train_test_split(X, y, test_size=0.3, random_state=seed, stratify=y)
    X_tr, X_val, y_tr, y_val = train_test_split(X_rest, y_rest, test_size=0.3, random_state=seed, stratify=y_rest)
    model = @MODEL@.fit(X_tr, y_tr)
    raw = model.predict_proba(X_te)
    t = fit_temperature(model.predict_proba(X_val), y_val)
    scaled = apply_temperature(raw, t)
    return {"seed": seed, "n_test": len(y_te), "temperature": t, "accuracy": float((raw.argmax(1) == y_te).mean()),
            "ece_raw": ece(raw, y_te), "ece_scaled": ece(scaled, y_te),
            "nll_raw": nll(raw, y_te), "nll_scaled": nll(scaled, y_te)}


def main():
    runs = []
    for seed in range(@REPS@):
        r = one_repetition(seed)
        runs.append(r)
        print("rep %2d | T=%.3f | acc %.3f | ECE %.4f -> %.4f | NLL %.4f -> %.4f" % (
            seed, r["temperature"], r["accuracy"], r["ece_raw"], r["ece_scaled"], r["nll_raw"], r["nll_scaled"]))
    keys = [k for k in runs[0] if k not in ("seed", "n_test")]
    summary = {k: {"mean": float(np.mean([r[k] for r in runs])), "sd": float(np.std([r[k] for r in runs], ddof=1))}
               for k in keys}
    wins = sum(r["ece_scaled"] < r["ece_raw"] for r in runs)
    OUT.mkdir(exist_ok=True)
    (OUT / "results.json").write_text(json.dumps({"runs": runs, "summary": summary, "wins": wins}, indent=2))
    print("mean over %d repetitions: ECE %.4f -> %.4f, lower in %d" % (
        len(runs), summary["ece_raw"]["mean"], summary["ece_scaled"]["mean"], wins))


if __name__ == "__main__":
    main()
'''},
    paper="""
## Abstract
Probabilities from <<P['MODEL_NAME']>> are often said to be poorly calibrated. We apply temperature scaling, a repair
with a single parameter, on <<DS[P['DATA']]>>. Over <<P['REPS']>> random splits the expected calibration error (ECE)
goes from <<f3(R.summary.ece_raw.mean)>> to <<f3(R.summary.ece_scaled.mean)>>, and the negative log-likelihood from
<<f3(R.summary.nll_raw.mean)>> to <<f3(R.summary.nll_scaled.mean)>>. Accuracy is not affected by construction.
<<X_ABS>>

## Introduction
A classifier that says 0.9 should be right nine times out of ten. Many are not, and the remedy most often used with
neural networks is temperature scaling: dividing the log-probabilities by one number that is fitted on held-out data.
The method is cheap, it cannot change the predicted class, and nothing about it is specific to neural networks. We ask
how far one parameter gets with <<P['MODEL_NAME']>> on a small data set, where the held-out part that is needed to fit
the temperature is also small and the estimate of the temperature itself is noisy.

## Related work
<<RELATED>>

## Method
Let p be the vector of predicted probabilities. The scaled prediction is the softmax of log p / T. We choose T from a
logarithmic grid of 120 values between 0.25 and 20 to minimise the negative log-likelihood (NLL) on a validation
split. A value above one makes predictions less confident. The ECE is computed with <<P['BINS']>> bins of equal width
over the top probability, weighted by the number of samples in the bin. <<X_METHOD>>

## Experimental setup
In each of <<len(R.runs)>> repetitions we draw a stratified test split of 30% (<<R.runs[0].n_test>> samples), and take
30% of the remainder as validation split for the temperature. The base model is <<P['MODEL_NAME']>> with the default
settings of scikit-learn unless the code says otherwise. Seeds are 0 to <<len(R.runs) - 1>>. We report means and sample
standard deviations over repetitions; since splits overlap, the latter should not be read as standard errors of
independent runs. <<X_SETUP>>

## Results

<<table('Measure|Uncalibrated|Temperature scaled|Change', [['ECE', ms(R.summary.ece_raw), ms(R.summary.ece_scaled),
diff(R.summary.ece_scaled.mean, R.summary.ece_raw.mean)], ['NLL', ms(R.summary.nll_raw), ms(R.summary.nll_scaled),
diff(R.summary.nll_scaled.mean, R.summary.nll_raw.mean)]])>>

The mean accuracy is <<f3(R.summary.accuracy.mean)>> with and without scaling. The fitted temperature is
<<f2(R.summary.temperature.mean)>> on average, with values from <<f2(min(r.temperature for r in R.runs))>> to
<<f2(max(r.temperature for r in R.runs))>>. The model is thus <<cmp(R.summary.temperature.mean, 1,
'overconfident|underconfident|well calibrated')>> on average before scaling. The ECE is lower after scaling in
<<R.wins>> of <<len(R.runs)>> repetitions.

The largest ECE before scaling is <<f3(max(r.ece_raw for r in R.runs))>>, the largest after it
<<f3(max(r.ece_scaled for r in R.runs))>>. The change in NLL is <<cmp(abs(R.summary.nll_scaled.mean /
R.summary.nll_raw.mean - 1), abs(R.summary.ece_scaled.mean / R.summary.ece_raw.mean - 1), 'larger|smaller|equal')>> in
relative terms than the change in ECE. T is chosen to minimise NLL, and ECE follows only indirectly. <<X_RES>>

## Limitations
ECE with equal-width bins is a biased estimate with test sets as small as ours. A single temperature cannot mend errors
that differ between classes. We did not compare with isotonic regression or Platt scaling. <<X_LIM>>

## Reproducibility
<<REPRO>>

## Ethics
<<ETHICS>>

## Conclusion
With <<P['MODEL_NAME']>> on this data set, temperature scaling <<cmp(R.summary.ece_scaled.mean, R.summary.ece_raw.mean,
'does not lower|lowers|does not change')>> the calibration error on average. The fitting costs next to nothing, but the
held-out data that it needs are not free.
""")

NOISE = Base(
    title="How much label noise can simple classifiers stand? A study on <<P['DATA'].replace('_', ' ')>>",
    run=["python code/experiment.py --dataset @DATA@ --repeats @REPS@"],
    params={"DATA": "wine", "REPS": 5, "TEST": 0.4},
    files={"code/noise.py": r'''
"""Symmetric label noise."""
import numpy as np


def flip_labels(y, rate, rng):
    """Replace a share `rate` of the labels by another class drawn uniformly."""
    y = y.copy()
    classes = np.unique(y)
    idx = rng.choice(len(y), size=int(round(rate * len(y))), replace=False)
    for i in idx:
        y[i] = rng.choice(classes[classes != y[i]])
    return y
''', "code/models.py": r'''
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def build(name, seed):
    if name == "logreg":
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    if name == "knn":
        return make_pipeline(StandardScaler(), KNeighborsClassifier(n_neighbors=5))
    if name == "forest":
        return RandomForestClassifier(n_estimators=30, random_state=seed)
    raise ValueError(f"unknown model {name}")
''', "code/experiment.py": r'''
import argparse
import csv
import json
import os

import numpy as np
from sklearn import datasets
from sklearn.model_selection import train_test_split

from models import build
from noise import flip_labels

MODELS = ["logreg", "knn", "forest"]
RATES = [0.0, 0.1, 0.2, 0.4]


def evaluate(X, y, model, rate, rep):
    Xtr, Xte, ytr, yte = train_test_split(X, y, test_size=@TEST@, stratify=y, random_state=rep)
    noisy = flip_labels(ytr, rate, np.random.default_rng(100 + rep))
    clf = build(model, rep).fit(Xtr, noisy)
    return float(clf.score(Xte, yte)), len(yte)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="@DATA@", choices=["wine", "iris", "breast_cancer", "digits"])
    parser.add_argument("--repeats", type=int, default=@REPS@)
    args = parser.parse_args()
    X, y = getattr(datasets, "load_" + args.dataset)(return_X_y=True)
    print(f"loaded {args.dataset}: X={X.shape} classes={len(set(y))}")
    acc, rows = {}, []
    for model in MODELS:
        acc[model] = {}
        for rate in RATES:
            scores = []
            for rep in range(args.repeats):
                score, n_test = evaluate(X, y, model, rate, rep)
                scores.append(score)
                rows.append([model, rate, rep, n_test, round(score, 4)])
                print(f"{model:7s} noise={rate:.1f} rep={rep} n_test={n_test} acc={score:.4f}")
            acc[model][str(rate)] = float(np.mean(scores))
    os.makedirs("results", exist_ok=True)
    with open("results/runs.csv", "w", newline="") as fh:
        w = csv.writer(fh)
        w.writerow(["model", "noise", "rep", "n_test", "accuracy"])
        w.writerows(rows)
    with open("results/results.json", "w") as fh:
        json.dump({"dataset": args.dataset, "repeats": args.repeats, "n_test": n_test, "accuracy": acc}, fh, indent=2)
    print("saved results/results.json and results/runs.csv")


if __name__ == "__main__":
    main()
'''},
    paper="""
## Abstract
We flip a share of the training labels at random and measure what is lost on clean test data. Three classifiers are
compared on <<DS[P['DATA']]>>: logistic regression, five nearest neighbours and a random forest. Without noise they
reach <<p1(R.accuracy.logreg['0.0'])>>%, <<p1(R.accuracy.knn['0.0'])>>% and <<p1(R.accuracy.forest['0.0'])>>%; with 40%
of the labels wrong, <<p1(R.accuracy.logreg['0.4'])>>%, <<p1(R.accuracy.knn['0.4'])>>% and
<<p1(R.accuracy.forest['0.4'])>>%. <<X_ABS>>

## Introduction
Labels in practice are wrong now and then. Crowd workers tire, forms are filled in carelessly, and rules that produce
labels automatically have gaps. Methods that deal with label noise explicitly exist in number, but the first question
of a practitioner is a simpler one: how bad is it if I do nothing? For classifiers with a strong bias, such as linear
ones, symmetric noise moves the boundary little as long as the majority of labels in each region is right. For local
methods the same noise hits each prediction directly. Averaging, as in forests, should lie in between. We measure
where these expectations hold on a small data set.

## Related work
<<RELATED>>

## Method
*Noise.* For a noise rate r we choose exactly a share r of the training labels without replacement, and replace each by
one of the other classes, drawn uniformly. Test labels stay clean. *Models.* Logistic regression and nearest neighbours
(k = 5) work on standardised features. The forest has 30 trees of unlimited depth. All other settings are the defaults
of scikit-learn. The models are not told that there is noise. <<X_METHOD>>

## Experimental setup
The data are <<DS[P['DATA']]>>. We hold out <<round(100 * P['TEST'])>>% of them, stratified, as test set
(<<R.n_test>> samples). Noise rates are 0, 10, 20 and 40 percent. <<'Each cell is the mean over %d repetitions with
different splits and different flips.' % R.repeats if R.repeats > 1 else 'There is one split and one draw of the noise
for each cell, so that each cell is the accuracy on these %d test samples.' % R.n_test>> Splits and flips are shared
between models. <<X_SETUP>>

## Results
Table 1 shows test accuracy in percent. The last column is the loss between no noise and 40% noise in points.

<<table('Model|0%|10%|20%|40%|Loss', [[m] + [p1(a[r]) for r in ('0.0', '0.1', '0.2', '0.4')] + [diff(a['0.0'],
a['0.4'], p1).lstrip('+')] for m, a in R.accuracy.items()])>>

At 10% noise logistic regression moves by
<<diff(R.accuracy.logreg['0.1'], R.accuracy.logreg['0.0'], p1)>> points, nearest neighbours by
<<diff(R.accuracy.knn['0.1'], R.accuracy.knn['0.0'], p1)>> and the forest by
<<diff(R.accuracy.forest['0.1'], R.accuracy.forest['0.0'], p1)>>. At 20% the best model is
<<top({m: a['0.2'] for m, a in R.accuracy.items()})>> with <<p1(max(a['0.2'] for a in R.accuracy.values()))>>%. At 40%
it
is <<top({m: a['0.4'] for m, a in R.accuracy.items()})>>, and the weakest is <<low({m: a['0.4'] for m, a in
R.accuracy.items()})>>. In relative terms the forest's accuracy changes by
<<rel(float(p1(R.accuracy.forest['0.4'])), float(p1(R.accuracy.forest['0.0'])))>> from no noise to 40% noise, that of
nearest neighbours by <<rel(float(p1(R.accuracy.knn['0.4'])), float(p1(R.accuracy.knn['0.0'])))>>.

The best model without noise, <<top({m: a['0.0'] for m, a in R.accuracy.items()})>>, is <<'also' if top({m: a['0.0'] for
m, a in R.accuracy.items()}) == top({m: a['0.4'] for m, a in R.accuracy.items()}) else 'not'>> the best at 40%.
<<X_RES>>

## Limitations
Symmetric noise is the easy case; real errors concentrate between similar classes. The test sets are small, so that
differences of a point or two are not meaningful. We did not tune the number of neighbours or the depth of the trees,
both of which would trade accuracy on clean data against robustness. <<X_LIM>>

## Reproducibility
<<REPRO>>

## Conclusion
A tenth of wrong labels moves accuracy by <<p1_range([float(p1(a['0.1'])) - float(p1(a['0.0'])) for a in
R.accuracy.values()])>> points here if nothing is done about it. With 40% wrong labels the choice of the model
matters, and
the gap between the best and the weakest is <<adiff(max(a['0.4'] for a in R.accuracy.values()), min(a['0.4'] for a
in R.accuracy.values()), p1)>> points.
""")

ACTIVE = Base(
    title="Uncertainty sampling against random sampling for labelling <<P['DATA'].replace('_', ' ')>>",
    run=["python code/run_active.py"],
    params={"DATA": "digits", "START": 20, "BATCH": 20, "ROUNDS": 8, "SEEDS": "[0, 1, 2, 3]", "N": 1797},
    files={"code/pool.py": r'''
"""Pool-based active learning loop."""
import numpy as np
from sklearn.linear_model import LogisticRegression


def margin_query(model, X, idx, k, rng):
    p = np.sort(model.predict_proba(X[idx]), axis=1)
    return idx[np.argsort(p[:, -1] - p[:, -2])[:k]]


def random_query(model, X, idx, k, rng):
    return rng.choice(idx, size=k, replace=False)


STRATEGIES = {"random": random_query, "margin": margin_query}


def run_loop(strategy, X, y, Xte, yte, start, batch, rounds, seed):
    """Return a list of (number of labels, test accuracy)."""
    rng = np.random.default_rng(seed)
    first = [rng.choice(np.flatnonzero(y == c)) for c in np.unique(y)]
    rest = np.setdiff1d(np.arange(len(y)), first)
    labelled = np.concatenate([first, rng.choice(rest, size=start - len(first), replace=False)])
    curve = []
    for r in range(rounds + 1):
        model = LogisticRegression(max_iter=300).fit(X[labelled], y[labelled])
        curve.append((len(labelled), float(model.score(Xte, yte))))
        if r < rounds:
            pool = np.setdiff1d(np.arange(len(y)), labelled)
            labelled = np.concatenate([labelled, STRATEGIES[strategy](model, X, pool, batch, rng)])
    return curve
''', "code/run_active.py": r'''
import json
import logging
import os
import sys

import numpy as np
from sklearn.datasets import load_@DATA@
from sklearn.model_selection import train_test_split

from pool import STRATEGIES, run_loop

CFG = dict(start=@START@, batch=@BATCH@, rounds=@ROUNDS@, seeds=@SEEDS@)

logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="[%(asctime)s] %(name)s: %(message)s",
                    datefmt="%H:%M:%S")
log = logging.getLogger("active")

if __name__ == "__main__":
    X, y = load_@DATA@(return_X_y=True)
    X = (X - X.min(axis=0)) / (np.ptp(X, axis=0) + 1e-9)
    curves = {s: [] for s in STRATEGIES}
    for seed in CFG["seeds"]:
        Xp, Xte, yp, yte = train_test_split(X, y, test_size=0.4, stratify=y, random_state=seed)
        for s in STRATEGIES:
            c = run_loop(s, Xp, yp, Xte, yte, CFG["start"], CFG["batch"], CFG["rounds"], seed)
            curves[s].append([a for _, a in c])
            log.info("seed %d %-7s %s", seed, s, " ".join(f"{n}:{a:.3f}" for n, a in c))
    labels = [n for n, _ in c]
    res = {"config": CFG, "labels": labels, "n_test": len(yte), "curve": {}, "area": {}, "final": {}}
    for s, arr in curves.items():
        arr = np.array(arr)
        res["curve"][s] = arr.mean(axis=0).tolist()
        res["area"][s] = {"mean": float(arr.mean()), "sd": float(arr.mean(axis=1).std(ddof=1))}
        res["final"][s] = {"mean": float(arr[:, -1].mean()), "sd": float(arr[:, -1].std(ddof=1))}
        log.info("%s: mean accuracy along the curve %.4f, final %.4f", s, res["area"][s]["mean"],
                 res["final"][s]["mean"])
    os.makedirs("results", exist_ok=True)
    json.dump(res, open("results/results.json", "w"), indent=1)
'''},
    paper="""
## Abstract
Active learning promises to save labels. We compare margin-based uncertainty sampling with random sampling for logistic
regression on <<DS[P['DATA']]>>, starting from <<P['START']>> labels. With <<R.labels[-1]>> labels, margin sampling
reaches <<f3(R.final.margin.mean)>> and random sampling <<f3(R.final.random.mean)>> test accuracy; averaged along the
whole learning curve the values are <<f3(R.area.margin.mean)>> and <<f3(R.area.random.mean)>>. <<X_ABS>>

## Introduction
When labels are the expensive part, it is tempting to let the model choose which samples to label. The simplest rule
asks for the samples on which the current model is least sure. The rule has known weaknesses. Early on, the model is
bad, and so is its idea of what it does not know. In batches, the chosen samples resemble each other. And the data set
that results is no longer a random sample. Papers on active learning report gains more often than users do. We run the
most basic comparison that one can think of and look at the whole curve, not just at its end.

## Related work
<<RELATED>>

## Method
The learner is multinomial logistic regression with the default L2 penalty of scikit-learn. *Margin sampling* queries
the samples with the smallest difference between the two largest predicted probabilities. *Random sampling* draws from
the pool uniformly. Both start from the same labels in a given seed: one of each class and further ones at random, up
to <<P['START']>>. In each round <<P['BATCH']>> labels are bought and the model is fitted from scratch. <<X_METHOD>>

## Experimental setup
We scale each feature to the unit interval, over all samples. Of <<DS[P['DATA']]>>, 40% (<<R.n_test>> samples) serve
as test set and the
rest as pool. There are <<P['ROUNDS']>> rounds, hence <<len(R.labels)>> points on the curve, from <<R.labels[0]>> to
<<R.labels[-1]>> labels. We use <<len(R.config.seeds)>> seeds, which control the split, the initial labels and the
random queries. As summary of a curve we take the mean accuracy over its points, which is proportional to the area
below it. <<X_SETUP>>

## Results
Table 1 shows mean test accuracy at selected label counts.

<<table('Labels|Random|Margin|Difference', [[n, f3(R.curve.random[i]), f3(R.curve.margin[i]), diff(R.curve.margin[i],
R.curve.random[i])] for i, n in enumerate(R.labels) if i % 2 == 0])>>

Table 2 summarises the curves over seeds.

<<table('Strategy|Mean along curve|Final accuracy', [[s, ms(R.area[s]), ms(R.final[s])] for s in ('random',
'margin')])>>

Along the curve margin sampling is <<cmp(R.area.margin.mean, R.area.random.mean)>> random sampling, by
<<adiff(R.area.margin.mean, R.area.random.mean)>>; at the end it is <<cmp(R.final.margin.mean, R.final.random.mean)>>
it, by <<adiff(R.final.margin.mean, R.final.random.mean)>>. Margin sampling has the higher mean accuracy at
<<sum(a > b for a, b in zip(R.curve.margin, R.curve.random))>> of the <<len(R.labels)>> label counts. The point at which
both start is the same by design (<<f3(R.curve.random[0])>>). <<X_RES>>

## Limitations
The model is linear and the pool small. Choosing the number of labels per round differently changes the picture. With
<<len(R.config.seeds)>> seeds we can see large effects only. We looked at no other query rule, such as entropy,
committees or rules that take diversity into account. <<X_LIM>>

## Reproducibility
<<REPRO>>

## Ethics
<<ETHICS>>

## Conclusion
On this data set the difference between margin and random sampling at the end of the budget is
<<diff(R.final.margin.mean, R.final.random.mean)>> in accuracy. Whether this pays depends on the price of a label and on
the effort of keeping a model in the labelling loop.
""")
