"""Base projects: toy text, forecasting, regression, clustering, imbalance."""
from common import Base

TEXT = Base(
    title="<<P['TITLE']>>",
    run=["python code/run_text.py"],
    params={"TITLE": "Words or characters? Complaint detection on a generated corpus", "N": 600, "SEED": 3,
            "NOISE": 0.12, "EXTRA": ""},
    files={"code/corpus.py": r'''
"""A synthetic corpus of short customer messages, built from templates."""
import random

COMPLAINT = ["the {item} arrived {bad} and nobody answers", "my {item} is {bad} again please refund me",
             "still waiting for the {item} this is {bad}", "the {item} stopped working after one {time}",
             "very {bad} service the {item} was not as described"]
OTHER = ["when does the {item} ship", "can i change the colour of the {item}", "thank you the {item} is {good}",
         "is the {item} available next {time}", "the {item} looks {good} do you have another one",
         "how do i set up the {item}"]
WORDS = {"item": ["kettle", "lamp", "router", "jacket", "phone", "chair", "printer", "bag"],
         "bad": ["broken", "late", "terrible", "useless", "damaged", "faulty"],
         "good": ["great", "lovely", "fine", "perfect", "nice"], "time": ["day", "week", "month"]}


def typo(text, rng, rate):
    out = []
    for ch in text:
        u = rng.random()
        if u < rate / 2:
            continue
        out.append(rng.choice("abcdefghijklmnopqrstuvwxyz") if u < rate else ch)
    return "".join(out)


def make_corpus(n, seed, rate):
    """Return texts and labels (1 = complaint, about 35% of the corpus)."""
    rng = random.Random(seed)
    texts, labels = [], []
    for _ in range(n):
        label = int(rng.random() < 0.35)
        source = COMPLAINT if label else OTHER
        if rng.random() < 0.12:     # some messages mix both kinds
            source = OTHER if label else COMPLAINT
        text = rng.choice(source).format(**{k: rng.choice(v) for k, v in WORDS.items()})
        texts.append(typo(text, rng, rate))
        labels.append(label)
    return texts, labels
''', "code/run_text.py": r'''
"""Compare features and classifiers on the corpus."""
import json
import os

from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

from corpus import make_corpus

SYSTEMS = {
    "NB words": lambda: make_pipeline(CountVectorizer(), MultinomialNB()),
    "NB chars": lambda: make_pipeline(CountVectorizer(analyzer="char_wb", ngram_range=(2, 4)), MultinomialNB()),
    "LR words": lambda: make_pipeline(TfidfVectorizer(), LogisticRegression(max_iter=300)),
    "LR chars": lambda: make_pipeline(TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4)),
                                      LogisticRegression(max_iter=300)),
}
@EXTRA@

def score(y, pred):
    p, r, f, _ = precision_recall_fscore_support(y, pred, average="binary", zero_division=0)
    tn, fp, fn, tp = confusion_matrix(y, pred).ravel().tolist()
    return {"precision": float(p), "recall": float(r), "f1": float(f), "accuracy": (tp + tn) / len(y),
            "tp": tp, "fp": fp, "fn": fn, "tn": tn}


def main():
    texts, labels = make_corpus(@N@, @SEED@, @NOISE@)
    train_x, test_x, train_y, test_y = train_test_split(texts, labels, test_size=0.4, random_state=@SEED@,
                                                        stratify=labels)
    print("corpus: %d messages, %d complaints; train %d / test %d" % (
        len(texts), sum(labels), len(train_x), len(test_x)))
    print("example:", train_x[0])
    results = {}
    for name, make in SYSTEMS.items():
        pred = make().fit(train_x, train_y).predict(test_x)
        results[name] = score(test_y, pred)
        print("%-10s P=%.3f R=%.3f F1=%.3f acc=%.3f" % (name, results[name]["precision"], results[name]["recall"],
                                                       results[name]["f1"], results[name]["accuracy"]))
    os.makedirs("results", exist_ok=True)
    with open("results/results.json", "w") as fh:
        json.dump({"n_train": len(train_x), "n_test": len(test_x), "positives_test": sum(test_y),
                   "systems": results}, fh, indent=2)


if __name__ == "__main__":
    main()
'''},
    paper="""
## Abstract
We compare word and character features for detecting complaints in short messages with many typing errors. The corpus
is synthetic and comes from templates with random typos. On a test set of <<R.n_test>> messages the highest F1,
<<f3(max(s.f1 for s in R.systems.values()))>>, is reached by <<top(R.systems, 'f1')>>; the lowest,
<<f3(min(s.f1 for s in R.systems.values()))>>, by <<low(R.systems, 'f1')>>. <<X_ABS>>

## Introduction
Messages that customers type on a phone are short and full of errors. Word features break when words are misspelt,
since every misspelling is a new word. Character n-grams degrade more gently, at the price of more features and of
less interpretable models. We wanted to see the size of this effect in a setting where the rate of typos is known, and
therefore built a corpus ourselves rather than collect real messages. The price is realism: templates are far more
regular than people, and the absolute numbers below should not be carried over to real data.

## Related work
<<RELATED>>

## Method
We cross two feature sets with two classifiers. *Words* are lower-cased tokens; *chars* are character n-grams of
length two to four within word boundaries. The classifiers are multinomial naive Bayes (NB) on counts and logistic
regression (LR) on tf-idf weights, both with default settings. <<X_METHOD>>

## Experimental setup
The corpus has <<P['N']>> messages, drawn from eleven templates with slots for items, adjectives and times. About a
third are complaints. In 12% of the cases a message of one class is drawn from the templates of the other, so that no
classifier can be perfect. Each character is deleted with probability <<P['NOISE'] / 2>> and replaced by a random letter
with the same probability. We train on <<R.n_train>> messages and test on <<R.n_test>>, of which
<<R.positives_test>> are complaints. There is one split, stratified by class. <<X_SETUP>>

## Results

<<table('System|Precision|Recall|F1|Accuracy (%)', [[k, f3(v.precision), f3(v.recall), f3(v.f1), p1(v.accuracy)] for
k, v in R.systems.items()])>>

For naive Bayes, going from words to characters moves F1 from <<f3(R.systems['NB words'].f1)>> to
<<f3(R.systems['NB chars'].f1)>> (<<diff(R.systems['NB chars'].f1, R.systems['NB words'].f1)>>). For logistic regression
the move is from <<f3(R.systems['LR words'].f1)>> to <<f3(R.systems['LR chars'].f1)>>
(<<diff(R.systems['LR chars'].f1, R.systems['LR words'].f1)>>). The system with the highest precision is
<<top(R.systems, 'precision')>> with <<f3(max(s.precision for s in R.systems.values()))>>, that with the highest recall
is <<top(R.systems, 'recall')>> with <<f3(max(s.recall for s in R.systems.values()))>>.

In counts, <<top(R.systems, 'f1')>> finds <<R.systems[top(R.systems, 'f1')].tp>> of the <<R.positives_test>> complaints
and raises <<R.systems[top(R.systems, 'f1')].fp>> false alarms. <<low(R.systems, 'f1')>> finds
<<R.systems[low(R.systems, 'f1')].tp>> and raises <<R.systems[low(R.systems, 'f1')].fp>>. We expect that many of the
remaining errors are mixed messages, which no system can get right from the text alone, but did not count them.
<<X_RES>>

## Limitations
The corpus is made from templates. Typos of people are not uniform. There is a single split, so that differences of a
few messages carry no weight; with <<R.positives_test>> complaints in the test set one message changes recall by
<<p1(1 / R.positives_test)>> points. <<X_LIM>>

## Reproducibility
<<REPRO>>

## Ethics
<<ETHICS>>

## Conclusion
With noisy short messages the choice of features is worth a test before that of the classifier. On our corpus the best
system is <<top(R.systems, 'f1')>>, with an accuracy of
<<p1(R.systems[top(R.systems, 'f1')].accuracy)>>%.
""")

SERIES = Base(
    title="How hard is seasonal naive to beat? Forecasting <<P['NSERIES']>> short monthly series",
    run=["python code/forecast.py"],
    params={"NSERIES": 20, "LENGTH": 120, "HORIZON": 12, "SEED": 11},
    files={"code/gen_series.py": r'''
"""Synthetic monthly series: trend + yearly season + AR(1) noise."""
import numpy as np

PERIOD = 12


def make_series(n, length, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(length)
    out = []
    for _ in range(n):
        season = rng.normal(0, 4, PERIOD)
        e = np.zeros(length)
        for i in range(1, length):
            e[i] = 0.6 * e[i - 1] + rng.normal(0, 2)
        out.append(50 + rng.normal(0, 0.05) * t + season[t % PERIOD] + e)
    return np.array(out)
''', "code/models.py": r'''
"""Forecasters. Each takes the history and a horizon, and returns the forecast."""
import numpy as np
from sklearn.linear_model import Ridge

PERIOD = 12


class Naive:
    def forecast(self, y, h):
        return np.repeat(y[-1], h)


class SeasonalNaive:
    def forecast(self, y, h):
        return np.array([y[len(y) - PERIOD + (i % PERIOD)] for i in range(h)])


class RidgeAR:
    """Ridge regression on the last 12 values, applied recursively."""

    def __init__(self, lags=12, alpha=1.0):
        self.lags, self.alpha = lags, alpha

    def forecast(self, y, h):
        X = np.array([y[i - self.lags:i] for i in range(self.lags, len(y))])
        model = Ridge(alpha=self.alpha).fit(X, y[self.lags:])
        hist = list(y)
        for _ in range(h):
            hist.append(float(model.predict([hist[-self.lags:]])[0]))
        return np.array(hist[-h:])


class SeasonalMeanAR:
    """Monthly means over all years, and AR(1) on what is left."""

    def forecast(self, y, h):
        idx = np.arange(len(y)) % PERIOD
        means = np.array([y[idx == m].mean() for m in range(PERIOD)])
        r = y - means[idx]
        phi = float(r[1:] @ r[:-1] / (r[:-1] @ r[:-1]))
        future = (np.arange(len(y), len(y) + h)) % PERIOD
        return means[future] + r[-1] * phi ** np.arange(1, h + 1)


FORECASTERS = {"naive": Naive(), "seasonal naive": SeasonalNaive(), "ridge AR(12)": RidgeAR(),
               "seasonal mean + AR(1)": SeasonalMeanAR()}
''', "code/forecast.py": r'''
import json
import logging
from pathlib import Path

import numpy as np

from gen_series import make_series
from models import FORECASTERS

logging.basicConfig(level=logging.INFO, format="%(asctime)s | %(message)s", datefmt="%Y-%m-%d %H:%M:%S")
H = @HORIZON@


def main():
    data = make_series(@NSERIES@, @LENGTH@, @SEED@)
    logging.info("series: %s mean=%.2f sd=%.2f", data.shape, data.mean(), data.std())
    table, per_series = {}, {}
    for name, model in FORECASTERS.items():
        errs = []
        for y in data:
            errs.append(y[-H:] - model.forecast(y[:-H], H))
        errs = np.array(errs)
        table[name] = {"MAE": float(np.abs(errs).mean()), "RMSE": float(np.sqrt((errs ** 2).mean()))}
        per_series[name] = [round(float(v), 4) for v in np.abs(errs).mean(axis=1)]
        logging.info("%s: MAE %.3f RMSE %.3f", name, table[name]["MAE"], table[name]["RMSE"])
    best = min(table, key=lambda k: table[k]["MAE"])
    wins = {k: int(sum(per_series[k][i] == min(v[i] for v in per_series.values()) for i in range(len(data))))
            for k in table}
    logging.info("best by MAE: %s; wins per series %s", best, wins)
    Path("results").mkdir(exist_ok=True)
    Path("results/results.json").write_text(json.dumps(
        {"horizon": H, "n_series": len(data), "metrics": table, "wins": wins, "mae_per_series": per_series}, indent=2))


if __name__ == "__main__":
    main()
'''},
    paper="""
## Abstract
We compare four simple forecasters on <<R.n_series>> synthetic monthly series with a horizon of <<R.horizon>> months.
The mean absolute error is <<f3(R.metrics['naive'].MAE)>> for the naive forecast, <<f3(R.metrics['seasonal
naive'].MAE)>>
for the seasonal naive one, <<f3(R.metrics['ridge AR(12)'].MAE)>> for ridge regression on twelve lags and
<<f3(R.metrics['seasonal mean + AR(1)'].MAE)>> for monthly means with a first-order autoregression. <<X_ABS>>

## Introduction
Forecasting competitions have taught two lessons: simple methods do well on short series, and a method that is not
compared with the seasonal naive forecast has not been evaluated. We repeat this comparison on generated data, for which
we know what the best possible forecast looks like. The series consist of a weak trend, a fixed yearly season and
autocorrelated noise. A method that estimates exactly these parts should come out first; the question is by how much,
and whether a generic regression on lags comes close without being told about the season.

## Related work
<<RELATED>>

## Method
*Naive* repeats the last value. *Seasonal naive* repeats the last year. *Ridge AR(12)* regresses each value on the
twelve before it with an L2 penalty of 1, and forecasts recursively. *Seasonal mean + AR(1)* subtracts the mean of each
calendar month and models what is left by a first-order autoregression, whose influence decays over the horizon. All
are fitted to each series on its own. <<X_METHOD>>

## Experimental setup
We generate <<R.n_series>> series of <<P['LENGTH']>> months. The season is drawn from a normal distribution with
standard deviation 4, the noise follows an AR(1) process with coefficient 0.6 and innovations of standard deviation 2.
The last <<R.horizon>> months are held out and forecast once from a single origin. We report the mean absolute error
(MAE) and the root mean squared error (RMSE) over all series and months, and for how many series each method has the
lowest MAE. <<X_SETUP>>

## Results

<<table('Method|MAE|RMSE|Series won', [[k, f3(v.MAE), f3(v.RMSE), R.wins[k]] for k, v in R.metrics.items()])>>

The lowest MAE is that of <<top({k: -v.MAE for k, v in R.metrics.items()})>>. Compared with the seasonal naive
forecast, ridge regression changes MAE by <<rel(float(f3(R.metrics['ridge AR(12)'].MAE)), float(f3(R.metrics['seasonal
naive'].MAE)))>> and the seasonal mean model by <<rel(float(f3(R.metrics['seasonal mean + AR(1)'].MAE)),
float(f3(R.metrics['seasonal naive'].MAE)))>>. The plain naive forecast is <<cmp(R.metrics.naive.MAE,
R.metrics['seasonal naive'].MAE, 'worse|better|as good')>> than its seasonal version by
<<adiff(R.metrics.naive.MAE, R.metrics['seasonal naive'].MAE)>>.

By series, the seasonal mean model wins <<R.wins['seasonal mean + AR(1)']>> of <<R.n_series>>, ridge regression
<<R.wins['ridge AR(12)']>>, and the two naive methods together <<R.wins['naive'] + R.wins['seasonal naive']>>. The RMSE
is between <<f2(min(v.RMSE / v.MAE for v in R.metrics.values()))>> and
<<f2(max(v.RMSE / v.MAE for v in R.metrics.values()))>> times the MAE, close to the value of 1.25 that holds for errors
with a normal distribution. <<X_RES>>

## Limitations
The data are synthetic, and the process that made them matches one of the methods. Series with changing seasons or
level shifts would favour others. One forecast origin per series is little. We did not tune the ridge penalty or the
number of lags. <<X_LIM>>

## Reproducibility
<<REPRO>>

## Conclusion
On these series <<top({k: -v.MAE for k, v in R.metrics.items()})>> is the best choice by MAE, and the method that knows
nothing of the season is far behind. The gap between the best and the worst
method in MAE is <<adiff(max(v.MAE for v in R.metrics.values()), min(v.MAE for v in R.metrics.values()))>>.
""")

DIAB = Base(
    title="Which features carry the signal? A linear ablation on diabetes progression",
    run=["python code/ablate.py"],
    params={"FOLDS": 5, "REPEATS": 4, "ALPHA": 0.1, "PERM": 200},
    files={"code/ablate.py": r'''
"""Cross-validated ablation of feature groups on the diabetes data."""
import json
import os

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_squared_error, r2_score
from sklearn.model_selection import RepeatedKFold

from groups import GROUPS, columns_without

SEED = 0


def cross_validate(make, X, y):
    rmse, r2 = [], []
    for tr, te in RepeatedKFold(n_splits=@FOLDS@, n_repeats=@REPEATS@, random_state=SEED).split(X):
        pred = make().fit(X[tr], y[tr]).predict(X[te])
        rmse.append(mean_squared_error(y[te], pred) ** 0.5)
        r2.append(r2_score(y[te], pred))
    return {"rmse": float(np.mean(rmse)), "rmse_sd": float(np.std(rmse, ddof=1)), "r2": float(np.mean(r2))}


data = load_diabetes()
X, y, names = data.data, data.target, list(data.feature_names)
print("n =", len(y), "features:", ", ".join(names))
models = {
    "mean (dummy)": (lambda: DummyRegressor(), X),
    "ridge, all": (lambda: Ridge(alpha=@ALPHA@), X),
    "forest, all": (lambda: RandomForestRegressor(n_estimators=20, random_state=SEED), X),
}
for group in GROUPS:
    models[f"ridge, no {group}"] = (lambda: Ridge(alpha=@ALPHA@), X[:, columns_without(group, names)])
results = {}
for name, (make, feats) in models.items():
    results[name] = cross_validate(make, feats, y)
    r = results[name]
    print(f"{name:22s} d={feats.shape[1]:2d}  RMSE {r['rmse']:.2f} (sd {r['rmse_sd']:.2f})  R2 {r['r2']:.3f}")
os.makedirs("results", exist_ok=True)
json.dump({"folds": @FOLDS@, "repeats": @REPEATS@, "models": results}, open("results/results.json", "w"), indent=2)
''', "code/groups.py": r'''
"""Feature groups of the diabetes data."""
GROUPS = {
    "demographics": ["age", "sex"],
    "body": ["bmi", "bp"],
    "lipids": ["s1", "s2", "s3", "s4"],
    "other serum": ["s5", "s6"],
}


def columns_without(group, names):
    return [i for i, n in enumerate(names) if n not in GROUPS[group]]
''', "code/report.py": r'''
"""Write results.md from results.json."""
import json

r = json.load(open("results/results.json"))
with open("results/results.md", "w") as fh:
    fh.write("# Results\n\n| model | RMSE | R2 |\n|---|---|---|\n")
    for name, v in r["models"].items():
        fh.write(f"| {name} | {v['rmse']:.2f} | {v['r2']:.3f} |\n")
print("results.md written")
'''},
    paper="""
## Abstract
We remove groups of features from a ridge regression on <<DS['diabetes']>> and measure what is lost. With all features
the model has a cross-validated root mean squared error (RMSE) of <<f2(R.models['ridge, all'].rmse)>> and an R2 of
<<f3(R.models['ridge, all'].r2)>>; predicting the mean gives an RMSE of <<f2(R.models['mean (dummy)'].rmse)>>. The
largest single loss comes from removing <<max(list(R.models)[3:], key=lambda k:
R.models[k].rmse).replace('ridge, no ', '')>>. <<X_ABS>>

## Introduction
The diabetes data are a standard example for penalised regression. Coefficients of such models are often read as
importance, which is risky when features are correlated, as the blood lipids here are. Ablation asks a different
question: how much worse does the model predict if a group is not available, given that the remaining features may
stand in for it? The answer is of practical value, since groups correspond to things that have to be measured: a
scale and a cuff, or a blood sample. We also include a forest to see whether the linear model leaves much on the table.

## Related work
<<RELATED>>

## Method
The base model is ridge regression with a penalty of <<P['ALPHA']>> on the standardised features that come with the
data. Four groups are removed in turn: demographics (age, sex), body (bmi, bp), lipids (s1 to s4) and other serum
values (s5, s6). As reference we use a dummy regressor that predicts the training mean, and a random forest with 20
trees on all features. <<X_METHOD>>

## Experimental setup
All models are evaluated by <<R.folds>>-fold cross-validation with <<R.repeats>> repetitions on the same folds. We
report the mean of RMSE and R2 over the <<R.folds * R.repeats>> test folds, and for RMSE the standard deviation over
folds. The penalty was fixed in advance. <<X_SETUP>>

## Results

<<table('Model|RMSE|sd|R2|RMSE change vs. all', [[k, f2(v.rmse), f2(v.rmse_sd), f3(v.r2), diff(v.rmse,
R.models['ridge, all'].rmse, f2) if 'no ' in k else '-'] for k, v in R.models.items()])>>

Ridge regression lowers RMSE against the dummy by <<adiff(R.models['mean (dummy)'].rmse, R.models['ridge, all'].rmse,
f2)>>, a relative change of <<rel(float(f2(R.models['ridge, all'].rmse)),
float(f2(R.models['mean (dummy)'].rmse)))>>. The forest is <<cmp(R.models['forest, all'].rmse, R.models['ridge,
all'].rmse, 'worse than|better than|equal to')>> ridge by <<adiff(R.models['forest, all'].rmse, R.models['ridge,
all'].rmse, f2)>>. The R2 of the dummy is slightly negative, as it must be when means of training folds are used.

Removing the body measurements raises RMSE by <<diff(R.models['ridge, no body'].rmse, R.models['ridge, all'].rmse,
f2)>>, removing s5 and s6 by <<diff(R.models['ridge, no other serum'].rmse, R.models['ridge, all'].rmse, f2)>>. The four
lipids matter less than their number suggests (<<diff(R.models['ridge, no lipids'].rmse, R.models['ridge, all'].rmse,
f2)>>), and so do demographics (<<diff(R.models['ridge, no demographics'].rmse, R.models['ridge, all'].rmse, f2)>>). In
terms of R2, the model without body measurements keeps <<f3(R.models['ridge, no body'].r2)>> of the
<<f3(R.models['ridge, all'].r2)>> of the full model. <<X_RES>>

## Limitations
Folds overlap in their training data, and the standard deviation over folds says more about the difficulty of the folds
than about the precision of the mean. Groups were formed by us. Interactions between groups were not studied. <<X_LIM>>

## Reproducibility
<<REPRO>>

## Ethics
<<ETHICS>>

## Conclusion
Body measurements and s5/s6 carry most of the linear signal. A model with all features explains
<<p1(R.models['ridge, all'].r2)>>% of the variance, so that most of the progression remains unexplained.
""")

CLUST = Base(
    title="Seeding k-means on small labelled data sets",
    run=["python code/cluster.py --runs @RUNS@"],
    params={"RUNS": 30, "SETS": '["iris", "wine", "digits"]', "SEED": 0},
    files={"code/kmeans.py": r'''
"""Lloyd's algorithm with three ways of seeding, in numpy."""
import numpy as np


def dist2(X, C):
    return ((X[:, None, :] - C[None, :, :]) ** 2).sum(-1) if X.size < 20000 else \
        (X ** 2).sum(1)[:, None] - 2 * X @ C.T + (C ** 2).sum(1)[None]


def seed_random(X, k, rng):
    return X[rng.choice(len(X), k, replace=False)]


def seed_plusplus(X, k, rng):
    C = [X[rng.integers(len(X))]]
    for _ in range(k - 1):
        d = np.maximum(dist2(X, np.array(C)).min(axis=1), 0)
        C.append(X[rng.choice(len(X), p=d / d.sum())])
    return np.array(C)


def seed_farthest(X, k, rng):
    C = [X[rng.integers(len(X))]]
    for _ in range(k - 1):
        C.append(X[dist2(X, np.array(C)).min(axis=1).argmax()])
    return np.array(C)


SEEDINGS = {"random": seed_random, "k-means++": seed_plusplus, "farthest": seed_farthest}


def lloyd(X, C, max_iter=100):
    for it in range(1, max_iter + 1):
        lab = dist2(X, C).argmin(axis=1)
        new = np.array([X[lab == j].mean(axis=0) if (lab == j).any() else C[j] for j in range(len(C))])
        if np.allclose(new, C):
            break
        C = new
    return lab, float(np.maximum(dist2(X, C).min(axis=1), 0).sum()), it
''', "code/cluster.py": r'''
import argparse
import json
import pathlib
import time

import numpy as np
from sklearn import datasets
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from kmeans import SEEDINGS, lloyd

DATASETS = @SETS@


def main(runs: int) -> None:
    out: dict = {}
    for ds in DATASETS:
        bunch = getattr(datasets, f"load_{ds}")()
        X = StandardScaler().fit_transform(bunch.data)
        k = len(np.unique(bunch.target))
        out[ds] = {}
        print(f"== {ds}: n={len(X)} d={X.shape[1]} k={k}")
        for name, seeding in SEEDINGS.items():
            t0 = time.perf_counter()
            ari, inertia, iters = [], [], []
            for r in range(runs):
                rng = np.random.default_rng(@SEED@ + r)
                lab, cost, it = lloyd(X, seeding(X, k, rng))
                ari.append(adjusted_rand_score(bunch.target, lab))
                inertia.append(cost / len(X))
                iters.append(it)
            out[ds][name] = {"ari": {"mean": float(np.mean(ari)), "sd": float(np.std(ari, ddof=1))},
                             "inertia": float(np.mean(inertia)), "best_inertia": float(np.min(inertia)),
                             "iterations": float(np.mean(iters))}
            print(f"   {name:10s} ARI {np.mean(ari):.3f} +/- {np.std(ari, ddof=1):.3f}  inertia/n "
                  f"{np.mean(inertia):.3f} (best {np.min(inertia):.3f})  iters {np.mean(iters):.1f}  "
                  f"[{time.perf_counter() - t0:.2f}s]")
    res = pathlib.Path("results")
    res.mkdir(exist_ok=True)
    (res / "results.json").write_text(json.dumps({"runs": runs, "datasets": out}, indent=2))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--runs", type=int, default=@RUNS@)
    main(p.parse_args().runs)
'''},
    paper="""
## Abstract
K-means depends on its initial centres. We compare random, k-means++ and farthest-first seeding on
<<len(R.datasets)>> small labelled data sets with <<R.runs>> runs each. On <<list(R.datasets)[0]>> the adjusted Rand
index (ARI) is <<f3(R.datasets[list(R.datasets)[0]]['random'].ari.mean)>> with random seeding and
<<f3(R.datasets[list(R.datasets)[0]]['k-means++'].ari.mean)>> with k-means++; on <<list(R.datasets)[-1]>> it is
<<f3(R.datasets[list(R.datasets)[-1]]['random'].ari.mean)>> and
<<f3(R.datasets[list(R.datasets)[-1]]['k-means++'].ari.mean)>>. <<X_ABS>>

## Introduction
Lloyd's algorithm finds a local optimum, and which one it finds is decided by the first centres. The k-means++ rule
draws centres with probability proportional to the squared distance from those already chosen, and comes with a
guarantee on the expected cost. The farthest-first rule is greedy and sensitive to outliers. Whether a lower cost
means clusters closer to known classes is a separate question: classes need not be compact. We measure both cost and
agreement with the classes, and also how many iterations are needed.

## Related work
<<RELATED>>

## Method
*Random* takes k distinct points. *K-means++* is the standard rule without local search. *Farthest* starts from a
random point and adds the point that is farthest from the chosen ones. From there Lloyd's algorithm runs until the
centres do not move any more, at most for 100 iterations. An empty cluster keeps its centre. The number of clusters is
set to the number of classes. <<X_METHOD>>

## Experimental setup
The data sets are <<'; '.join(DS[d] for d in R.datasets)>>. Features are standardised. Each seeding is run
<<R.runs>> times with different seeds, and no restarts within a run. We report the mean and sample standard deviation of
the ARI against the classes, the mean cost (inertia divided by the number of samples) and the mean number of iterations.
Labels are used for evaluation only. <<X_SETUP>>

## Results

<<table('Data|Seeding|ARI|Inertia / n|Iterations', [[d, s, ms(v.ari), f3(v.inertia), '%.1f' % v.iterations] for d, m in
R.datasets.items() for s, v in m.items()])>>

<<' '.join('On %s the lowest mean inertia comes from %s (%s) and the highest ARI from %s (%s).' % (d, low(m, 'inertia'),
f3(min(v.inertia for v in m.values())), max(m, key=lambda s: m[s].ari.mean), f3(max(v.ari.mean for v in m.values())))
for d, m in R.datasets.items())>>

<<' '.join('The best single run on %s has an inertia of %s per sample.' % (d, f3(min(v.best_inertia for v in
m.values()))) for d, m in R.datasets.items())>> K-means++ needs
<<', '.join('%.1f iterations on %s against %.1f for random seeding' % (m['k-means++'].iterations, d,
m['random'].iterations) for d, m in R.datasets.items())>>. The time for the seeding itself is negligible at this size.
<<X_RES>>

## Limitations
These data sets have few samples, and their classes are known to be roughly compact after standardisation. In practice
one would restart and keep the run with the lowest cost, which removes much of the difference between seedings. We did
not vary the number of clusters. <<X_LIM>>

## Reproducibility
<<REPRO>>

## Ethics
<<ETHICS>>

## Conclusion
No rule should be chosen blindly. The rule with the lowest mean cost also had the highest ARI on <<sum(low(m,
'inertia') ==
max(m, key=lambda s: m[s].ari.mean) for m in R.datasets.values())>> of <<len(R.datasets)>> data sets, and k-means++
needed
fewer iterations than random seeding on <<sum(m['k-means++'].iterations < m['random'].iterations for m in
R.datasets.values())>> of them.
""")

IMBAL = Base(
    title="Reweighting or resampling? Rare classes with <<P['POS_PCT']>>% positives",
    run=["python code/main.py", "python code/make_tables.py"],
    params={"N": 3000, "POS": 0.05, "POS_PCT": 5, "SEEDS": 5, "SEP": 1.0, "EVAL": "", "BASE": 42},
    files={"code/data.py": r'''
"""Synthetic imbalanced classification problems."""
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split


def make_problem(seed):
    X, y = make_classification(n_samples=@N@, n_features=12, n_informative=5, n_redundant=2, weights=[1 - @POS@],
                               class_sep=@SEP@, flip_y=0.01, random_state=@BASE@ + seed)
    return train_test_split(X, y, test_size=0.5, stratify=y, random_state=seed)
''', "code/methods.py": r'''
"""Ways of handling the imbalance, around the same logistic regression."""
import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression


def plain(X, y, rng):
    return LogisticRegression(max_iter=300).fit(X, y)


def weighted(X, y, rng):
    return LogisticRegression(max_iter=300, class_weight="balanced").fit(X, y)


def oversample(X, y, rng):
    pos = np.flatnonzero(y == 1)
    extra = rng.choice(pos, size=(y == 0).sum() - len(pos))
    idx = np.concatenate([np.arange(len(y)), extra])
    return LogisticRegression(max_iter=300).fit(X[idx], y[idx])


def interpolate(X, y, rng):
    """New positives on the line between two random positives."""
    pos = X[y == 1]
    m = (y == 0).sum() - len(pos)
    a, b = pos[rng.integers(len(pos), size=m)], pos[rng.integers(len(pos), size=m)]
    new = a + rng.uniform(size=(m, 1)) * (b - a)
    return LogisticRegression(max_iter=300).fit(np.vstack([X, new]), np.concatenate([y, np.ones(m, int)]))


def dummy(X, y, rng):
    return DummyClassifier(strategy="stratified", random_state=0).fit(X, y)


METHODS = {"dummy (stratified)": dummy, "plain": plain, "class weights": weighted, "oversampling": oversample,
           "interpolation": interpolate}
''', "code/metrics.py": r'''
from sklearn.metrics import average_precision_score, balanced_accuracy_score, f1_score


def evaluate(name, model, X, y):
    pred = model.predict(X)
    scores = {
        "f1": float(f1_score(y, pred, zero_division=0)),
        "balanced_accuracy": float(balanced_accuracy_score(y, pred)),
        "average_precision": float(average_precision_score(y, model.predict_proba(X)[:, 1])),
    }@EVAL@
    return scores
''', "code/main.py": r'''
import json
import sys
from pathlib import Path

import numpy as np

from data import make_problem
from methods import METHODS
from metrics import evaluate

N_SEEDS = @SEEDS@


def main() -> int:
    table: dict[str, dict[str, list[float]]] = {m: {} for m in METHODS}
    for seed in range(N_SEEDS):
        Xtr, Xte, ytr, yte = make_problem(seed)
        print(f"[seed {seed}] train={len(ytr)} pos={int(ytr.sum())} test={len(yte)} pos={int(yte.sum())}", flush=True)
        for name, fit in METHODS.items():
            scores = evaluate(name, fit(Xtr, ytr, np.random.default_rng(seed)), Xte, yte)
            for k, v in scores.items():
                table[name].setdefault(k, []).append(v)
            print(f"  {name}: " + ", ".join(f"{k}={v:.3f}" for k, v in scores.items()))
    agg = {m: {k: {"mean": float(np.mean(v)), "sd": float(np.std(v, ddof=1))} for k, v in d.items()}
           for m, d in table.items()}
    Path("results").mkdir(exist_ok=True)
    Path("results/results.json").write_text(json.dumps({"n_test": len(yte), "seeds": N_SEEDS, "scores": agg,
                                                        "per_seed": table}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
''', "code/make_tables.py": r'''
"""results.json -> results.md"""
import json

res = json.load(open("results/results.json"))
lines = ["| method | F1 | balanced accuracy | average precision |", "|---|---|---|---|"]
for m, d in res["scores"].items():
    cells = [f"{d[k]['mean']:.3f} ({d[k]['sd']:.3f})" for k in ("f1", "balanced_accuracy", "average_precision")]
    lines.append(f"| {m} | " + " | ".join(cells) + " |")
open("results/results.md", "w").write("\n".join(lines) + "\n")
print(f"table over {res['seeds']} seeds written")
'''},
    paper="""
## Abstract
We compare three remedies for class imbalance around one logistic regression, on synthetic problems with
<<P['POS_PCT']>>% positives. Interpolating new positives gives an F1 of <<f3(R.scores.interpolation.f1.mean)>>, class
weights <<f3(R.scores['class weights'].f1.mean)>>, random oversampling <<f3(R.scores.oversampling.f1.mean)>>, and doing
nothing <<f3(R.scores.plain.f1.mean)>>. A stratified dummy is at
<<f3(R.scores['dummy (stratified)'].f1.mean)>>. <<X_ABS>>

## Introduction
When positives are rare, a classifier that never says yes has a high accuracy. The usual remedies give positives more
weight, either in the loss or by repeating them, or create new ones. For a linear model these remedies are close
relatives: repeating and weighting optimise the same objective in expectation. They mainly shift the decision threshold,
and one may doubt whether they improve the ranking of samples at all. We separate the two effects by reporting a
measure that depends on the threshold (F1, balanced accuracy) next to one that does not (average precision).

## Related work
<<RELATED>>

## Method
All methods use logistic regression with default penalty. *Plain* fits it as is. *Class weights* uses weights inversely
proportional to class frequency. *Oversampling* repeats random positives until the classes are balanced.
*Interpolation* creates new positives on the line between two random positives; it is a variant of SMOTE without the
restriction to nearest neighbours. The *dummy* draws labels at random with the class frequencies of the training data.
<<X_METHOD>>

## Experimental setup
Each seed gives a new problem with <<P['N']>> samples and 12 features, of which five are informative and two are linear
combinations of these. About <<P['POS_PCT']>>% of the samples are positive, and one percent of the labels are random.
Half of the data (<<R.n_test>> samples) is used for testing. We run <<R.seeds>> seeds and report means and sample
standard deviations. The decision threshold is 0.5 throughout. <<X_SETUP>>

## Results

<<table('Method|F1|Balanced acc.|Average precision', [[m, ms(d.f1), ms(d.balanced_accuracy), ms(d.average_precision)]
for m, d in R.scores.items()])>>

In F1, <<max(R.scores, key=lambda m: R.scores[m].f1.mean)>> is highest. Interpolation differs from plain logistic
regression by <<diff(R.scores.interpolation.f1.mean, R.scores.plain.f1.mean)>> in F1 and by
<<diff(R.scores.interpolation.balanced_accuracy.mean, R.scores.plain.balanced_accuracy.mean)>> in balanced accuracy.
Class weights and random oversampling are within
<<adiff(R.scores['class weights'].f1.mean, R.scores.oversampling.f1.mean)>> of each other in F1, as expected.

Average precision tells another story. It is <<f3(R.scores.plain.average_precision.mean)>> for the plain model,
<<f3(R.scores['class weights'].average_precision.mean)>> with class weights and
<<f3(R.scores.interpolation.average_precision.mean)>> with interpolation. The change from plain to interpolation is
<<diff(R.scores.interpolation.average_precision.mean, R.scores.plain.average_precision.mean)>>, to be seen against a
standard deviation over seeds of <<f3(R.scores.plain.average_precision.sd)>>. The remedies act on the threshold first
of all. <<X_RES>>

## Limitations
The problems are synthetic with Gaussian clusters, and the model is linear. Moving the threshold of the plain model on
validation data would be a further baseline; we did not include it. <<X_LIM>>

## Reproducibility
<<REPRO>>

## Conclusion
If F1 or balanced accuracy at a fixed threshold is what counts, any of the remedies changes the picture and the cheapest
is class weights. For ranking, average precision should decide, which was
<<f3(R.scores.plain.average_precision.mean)>> without any remedy.
""")
