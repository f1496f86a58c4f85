"""Topics on scikit-learn: calibration, label noise, feature selection, clustering, regression, forests, outliers."""
from __future__ import annotations

from lib import Paper, Parts, code, mean, para, pm, sd, sem, table

# ---------------------------------------------------------------- calibration (one script, logging, results.json)

CALIB = code('''
    """Calibration of small classifiers on the bundled breast cancer data."""
    import json
    import logging
    import warnings

    import numpy as np
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.preprocessing import StandardScaler

    warnings.filterwarnings("ignore")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(message)s", datefmt="%H:%M:%S")
    SEEDS = [@SEEDLIST@]
    TEST = @TEST@


    def ece(p, y, bins=10):
        idx = np.minimum((p * bins).astype(int), bins - 1)
        return float(sum(abs(y[idx == b].mean() - p[idx == b].mean()) * np.mean(idx == b)
                         for b in range(bins) if np.any(idx == b)))


    def models():
        return {"logreg": LogisticRegression(max_iter=200), "naive_bayes": GaussianNB(),
                "knn": KNeighborsClassifier(@KNN@)}


    def temperature(p, y):
        """Temperature that minimises the log loss on held-out probabilities, by a grid."""
        z = np.log(np.clip(p, 1e-6, 1 - 1e-6) / np.clip(1 - p, 1e-6, 1))
        grid = np.exp(np.linspace(-1.5, 3.0, 46))
        q = [np.clip(1 / (1 + np.exp(-z / t)), 1e-9, 1 - 1e-9) for t in grid]
        return float(grid[np.argmin([-np.mean(y * np.log(a) + (1 - y) * np.log(1 - a)) for a in q])])


    def scale(p, t):
        z = np.log(np.clip(p, 1e-6, 1 - 1e-6) / np.clip(1 - p, 1e-6, 1))
        return 1 / (1 + np.exp(-z / t))


    def one(seed):
        X, y = load_breast_cancer(return_X_y=True)
        X, Xt, y, yt = train_test_split(X, y, test_size=TEST, random_state=seed, stratify=y)
        X, Xv, y, yv = train_test_split(X, y, test_size=100, random_state=seed, stratify=y)
        sc = StandardScaler().fit(X)
        out = {}
        for name, m in models().items():
            m.fit(sc.transform(X), y)
            pv, pt = m.predict_proba(sc.transform(Xv))[:, 1], m.predict_proba(sc.transform(Xt))[:, 1]
            t = temperature(pv, yv)
            for tag, p in (("raw", pt), ("scaled", scale(pt, t))):
                out[name + "/" + tag] = {"acc": float(np.mean((p > 0.5) == yt)), "ece": ece(p, yt),
                                         "brier": float(np.mean((p - yt) ** 2))}
            logging.info("seed %d %-11s T=%.2f acc=%.4f ece raw=%.4f scaled=%.4f", seed, name, t,
                         out[name + "/raw"]["acc"], out[name + "/raw"]["ece"], out[name + "/scaled"]["ece"])
        return out


    def main():
        runs = {}
        for seed in SEEDS:
            runs[str(seed)] = one(seed)
        with open("results/results.json", "w") as f:
            json.dump(runs, f, indent=1)
        logging.info("saved results for %d seeds", len(runs))


    if __name__ == "__main__":
        main()
''')


def calib_code(p: Paper) -> dict[str, str]:
    seeds = ", ".join(str(p.seed % 30 + i) for i in range(p.cfg["seeds"]))
    text = CALIB.replace("@SEEDLIST@", seeds).replace("@TEST@", str(p.cfg["test"]))
    return {"code/calibration.py": text.replace("@KNN@", str(p.cfg["k"]))}


def calib_run(p: Paper) -> None:
    p.run("python code/calibration.py", "results/calibration.log")


def calib_paper(p: Paper) -> tuple[str, Parts]:
    c, r = p.cfg, p.js("results/results.json")
    runs = list(r.values())
    v = {k: {m: [x[k][m] for x in runs] for m in ("acc", "ece", "brier")} for k in runs[0]}
    body = [[k.split("/")[0], k.split("/")[1]] + [pm(v[k][m], 3) for m in ("acc", "ece", "brier")] for k in v]
    names = [k.split("/")[0] for k in v if k.endswith("raw")]
    drop = [[m, f"{mean(v[m + '/raw']['ece']):.4f}", f"{mean(v[m + '/scaled']['ece']):.4f}",
             f"{100 * (mean(v[m + '/scaled']['ece']) / mean(v[m + '/raw']['ece']) - 1):+.0f} %"] for m in names]
    worst = max(names, key=lambda m: mean(v[m + "/raw"]["ece"]))
    parts = {
        "Abstract": para(f"""We ask whether temperature scaling on 100 held-out cases is worth its price for three small
        classifiers on the breast cancer data. It helps {worst} most, whose expected calibration error goes from
        {mean(v[worst + '/raw']['ece']):.3f} to {mean(v[worst + '/scaled']['ece']):.3f}, and leaves accuracy where it
        was. Results are means over {len(runs)} seeds."""),
        "Background": para("""A classifier is calibrated if, among the cases to which it gives probability 0.8, about
        eighty in a hundred are positive. Temperature scaling divides the log-odds by one constant fitted on
        held-out cases (Guo et al., 2017). It was proposed for deep networks with much held-out data. With a few hundred
        cases in all, those hundred might be better spent on training."""),
        "Method": para("""For each model we take the probability of the positive class on validation cases, pick the
        temperature with the least log loss from a grid of 46 values between exp(-1.5) and exp(3), and apply it to the
        test probabilities. The models are logistic regression, Gaussian naive Bayes, and nearest neighbours. The
        calibration error uses ten equal bins."""),
        "Experimental setup": para(f"""The data are scikit-learn's breast cancer set (569 cases, 30 features). Each seed
        makes a stratified split with {c['test']} test cases and 100 validation cases; the rest trains. Features are
        standardised on training cases. We use {len(runs)} seeds and give means and standard deviations over them.""")
        + "\n\n" + table(["item", "value"], [["test cases", c["test"]], ["validation cases", 100], ["neighbours",
                                            c["k"]], ["bins", 10], ["seeds", len(runs)]]),
        "Results": table(["model", "probabilities", "accuracy", "ECE", "Brier"], body) + "\n\n"
        + para("Relative change of the mean calibration error:") + "\n\n"
        + table(["model", "raw", "scaled", "change"], drop) + "\n\n" + para(f"""The best mean accuracy is
        {max(mean(v[k]['acc']) for k in v):.3f}. Before scaling, {worst} is the worst calibrated of the three; its
        Brier score moves from {mean(v[worst + '/raw']['brier']):.3f} to {mean(v[worst + '/scaled']['brier']):.3f}."""),
        "Limitations": para(f"""One data set and {c['test']} test cases: a binned calibration error on so few cases is
        biased upward and noisy. A single temperature cannot repair a bent reliability curve."""),
        "Conclusion": para(f"""Scaling is worth its hundred cases for {worst}; for the others the gain, if any, is
        within the noise of the measurement."""),
    }
    return "Is temperature scaling worth a hundred cases?", parts


# ---------------------------------------------------------------- label noise (YAML settings, JSON lines, file a seed)

NOISE_YML = code("""
    # settings of the label noise study
    dataset: digits
    noise: @NOISE@
    epochs: @EPOCHS@
    batch: 64
    seeds: [@SEEDLIST@]
    methods:
      ce: {lr: 0.5, q: 0.0, lam: 0.0}
      gce: {lr: 1.0, q: 0.5, lam: 0.0}
      ce_ent: {lr: 0.5, q: 0.0, lam: @LAM@}
""")

NOISE = code('''
    """Softmax regression with noise-aware losses on digits; symmetric label noise on the training part."""
    import json
    import sys
    import time

    import numpy as np
    import yaml
    from sklearn.datasets import load_digits


    def log(**kw):
        print(json.dumps({"t": round(time.time() - T0, 2), **kw}))


    def corrupt(y, rate, rng):
        flip = rng.random(len(y)) < rate
        return np.where(flip, rng.integers(0, 10, len(y)), y), int(flip.sum())


    def softmax(z):
        e = np.exp(z - z.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)


    def gradient(p, y, q, lam):
        """Gradient by the logits: generalised cross entropy with power q, plus lam times an entropy term."""
        g = p.copy()
        g[np.arange(len(y)), y] -= 1
        g *= p[np.arange(len(y)), y][:, None] ** q
        logp = np.log(p + 1e-9)
        ent = -p * (logp - (p * logp).sum(1, keepdims=True))
        return (g + lam * ent) / len(y)


    def train(X, y, spec, cfg, rng):
        W, b = np.zeros((X.shape[1], 10)), np.zeros(10)
        for _ in range(cfg["epochs"]):
            order = rng.permutation(len(y))
            for i in range(0, len(y), cfg["batch"]):
                j = order[i:i + cfg["batch"]]
                g = gradient(softmax(X[j] @ W + b), y[j], spec["q"], spec["lam"])
                W -= spec["lr"] * X[j].T @ g
                b -= spec["lr"] * g.sum(0)
        return W, b


    def main(path):
        cfg = yaml.safe_load(open(path))
        X, y = load_digits(return_X_y=True)
        X = X / 16.0
        for seed in cfg["seeds"]:
            rng = np.random.default_rng(seed)
            idx = rng.permutation(len(y))
            tr, te = idx[:1197], idx[1197:]
            noisy, flips = corrupt(y[tr], cfg["noise"], rng)
            res = {"seed": seed, "n_test": len(te), "redrawn": flips, "accuracy": {}}
            for name, spec in cfg["methods"].items():
                W, b = train(X[tr], noisy, spec, cfg, np.random.default_rng(seed))
                acc = float(np.mean((X[te] @ W + b).argmax(1) == y[te]))
                res["accuracy"][name] = round(acc, 4)
                log(seed=seed, method=name, test_acc=round(acc, 4))
            with open(f"results/seed_{seed}.json", "w") as f:
                json.dump(res, f)


    T0 = time.time()
    if __name__ == "__main__":
        main(sys.argv[1])
''')


def noise_code(p: Paper) -> dict[str, str]:
    c, yml = p.cfg, NOISE_YML
    vals = {"@NOISE@": c["noise"], "@EPOCHS@": c["epochs"], "@LAM@": c.get("lam", 0.3),
            "@SEEDLIST@": ", ".join(str(p.seed % 60 + 7 * i) for i in range(c["seeds"]))}
    for key, val in vals.items():
        yml = yml.replace(key, str(val))
    return {"code/config.yaml": yml, "code/noisy.py": NOISE}


def noise_run(p: Paper) -> None:
    p.run("python code/noisy.py code/config.yaml", "results/events.jsonl")


def noise_load(p: Paper) -> list[dict]:
    paths = sorted((p.dir / "results").glob("seed_*.json"), key=lambda q: int(q.stem.split("_")[1]))
    return [p.js(f"results/{q.name}") for q in paths]


def noise_paper(p: Paper) -> tuple[str, Parts]:
    c, runs = p.cfg, noise_load(p)
    a = {m: [r["accuracy"][m] for r in runs] for m in runs[0]["accuracy"]}
    body = [[m, pm(v, 2, "sd", 100), f"{100 * min(v):.2f}", f"{100 * max(v):.2f}",
             f"{100 * (mean(v) - mean(a['ce'])):+.2f}"] for m, v in a.items()]
    body[0][-1] = "-"
    best = max(a, key=lambda m: mean(a[m]))
    seeds = table(["seed"] + list(a), [[r["seed"]] + [f"{100 * x:.2f}" for x in r["accuracy"].values()] for r in runs])
    up = {m: sum(x > y for x, y in zip(a[m], a["ce"])) for m in a}
    parts = {
        "Abstract": para(f"""We train softmax regression on digits with {100 * c['noise']:.0f} % symmetric label
        noise, and compare cross entropy with two noise-aware losses. Mean test accuracy over {len(runs)} seeds is
        {100 * mean(a['ce']):.2f} % for cross entropy, {100 * mean(a['gce']):.2f} % for generalised cross entropy and
        {100 * mean(a['ce_ent']):.2f} % with an entropy term."""),
        "Introduction": para("""Robust losses are motivated by deep networks that can memorise wrong labels. A linear
        model cannot memorise much. Does it profit all the same? The question matters since linear heads
        on fixed features are a common way to use scarce labels, and such labels are often noisy."""),
        "Losses": para(f"""*ce* is cross entropy. *gce* is generalised cross entropy with power 0.5 (Zhang and Sabuncu,
        2018), whose gradient is that of cross entropy weighted by the predicted probability of the given label to
        that power. *ce_ent* adds {c.get('lam', 0.3)} times the entropy of the prediction to cross entropy, so that
        confident predictions are preferred. The learning rate of gce is doubled to compensate its smaller
        gradients."""),
        "Setup": para(f"""Scikit-learn's digits (1,797 images of 8 by 8) are split at random into 1,197 training and 600
        test images. Each training label is redrawn from all ten classes with probability {c['noise']}; test labels stay
        clean. Training takes {c['epochs']} epochs with batches of 64. The {len(runs)} seeds set split, noise and
        order of batches, shared by the three losses. Accuracies are percentages with standard deviations."""),
        "Results": table(["loss", "accuracy", "min", "max", "difference to ce"], body) + "\n\n" + para(f"""Single
        seeds:""") + "\n\n" + seeds + "\n\n" + para(f"""The highest mean belongs to {best}. Against cross entropy on the
        same seed, gce is better in {up['gce']} and ce_ent in {up['ce_ent']} of {len(runs)} seeds. With 600 test images
        an image is worth 0.17 points. On average {mean([r['redrawn'] for r in runs]):.0f} training labels were
        redrawn, a tenth of which keep their value by chance."""),
        "Limitations": para("""Symmetric noise is the easy case. The model is linear, the images are tiny, and learning
        rates were set once by hand. The same images occur in the test parts of several seeds, so that the seeds are
        not independent."""),
        "Conclusion": para(f"""In this setting {best} comes out first, by {100 * (mean(a[best]) - mean(a['ce'])):.2f}
        points over cross entropy. We would look at the split-to-split spread before reading more into it."""),
    }
    return f"Noise-aware losses for a linear model at {100 * c['noise']:.0f} % label noise", parts


# ---------------------------------------------------------------- feature selection (dataclass, key=value, csv)

FSEL = code('''
    """Stability and accuracy of feature selection. Log: key=value pairs."""
    import csv
    from dataclasses import asdict, dataclass, field
    from itertools import combinations

    import numpy as np
    from sklearn.datasets import load_breast_cancer, load_wine

    @dataclass
    class Settings:
        data: str = "@DATA@"
        keep: int = @KEEP@
        folds: int = @FOLDS@
        seed: int = @SEED@
        selectors: list = field(default_factory=lambda: ["all", "anova", "corr", "random"])

    def kv(**items):
        print(" ".join(f"{k}={v:.4f}" if isinstance(v, float) else f"{k}={v}" for k, v in items.items()))

    def anova(X, y):
        groups = [X[y == c] for c in np.unique(y)]
        between = sum(len(g) * (g.mean(0) - X.mean(0)) ** 2 for g in groups)
        return between / (sum(((g - g.mean(0)) ** 2).sum(0) for g in groups) + 1e-12)

    def corr(X, y):
        return np.abs(np.corrcoef(X.T, y)[-1, :-1])

    def select(name, X, y, keep, rng):
        if name == "all":
            return np.arange(X.shape[1])
        if name == "random":
            return rng.permutation(X.shape[1])[:keep]
        return np.argsort(-{"anova": anova, "corr": corr}[name](X, y), kind="stable")[:keep]

    def centroid_accuracy(X, y, Xt, yt):
        classes = np.unique(y)
        mu = np.stack([X[y == c].mean(0) for c in classes])
        return float(np.mean(classes[((Xt[:, None] - mu) ** 2).sum(2).argmin(1)] == yt))

    def jaccard(sets):
        return float(np.mean([len(a & b) / len(a | b) for a, b in combinations(sets, 2)]))

    def main():
        cfg = Settings()
        kv(event="start", **{k: v for k, v in asdict(cfg).items() if k != "selectors"})
        X, y = (load_wine if cfg.data == "wine" else load_breast_cancer)(return_X_y=True)
        rng = np.random.default_rng(cfg.seed)
        parts = np.array_split(rng.permutation(len(y)), cfg.folds)
        rows, stab = [], []
        for name in cfg.selectors:
            chosen = []
            for f, te in enumerate(parts):
                tr = np.concatenate([q for i, q in enumerate(parts) if i != f])
                mu, s = X[tr].mean(0), X[tr].std(0)
                A, B = (X[tr] - mu) / s, (X[te] - mu) / s
                cols = select(name, A, y[tr], cfg.keep, rng)
                acc = centroid_accuracy(A[:, cols], y[tr], B[:, cols], y[te])
                chosen.append(set(cols.tolist()))
                rows.append({"selector": name, "fold": f, "n_test": len(te), "accuracy": round(acc, 4)})
                kv(event="fold", selector=name, fold=f, acc=acc)
            stab.append({"selector": name, "jaccard": round(jaccard(chosen), 4)})
            kv(event="selector_done", selector=name, jaccard=stab[-1]["jaccard"])
        for path, data in (("results/folds.csv", rows), ("results/stability.csv", stab)):
            with open(path, "w", newline="") as fh:
                w = csv.DictWriter(fh, fieldnames=list(data[0]))
                w.writeheader()
                w.writerows(data)

    if __name__ == "__main__":
        main()
''')


def fsel_code(p: Paper) -> dict[str, str]:
    c, t = p.cfg, FSEL
    for key in ("data", "keep", "folds"):
        t = t.replace(f"@{key.upper()}@", str(c[key]))
    return {"code/select_features.py": t.replace("@SEED@", str(p.seed % 80))}


def fsel_run(p: Paper) -> None:
    p.run("python code/select_features.py | tee results/select.log")


def fsel_paper(p: Paper) -> tuple[str, Parts]:
    c, rows = p.cfg, p.rows("results/folds.csv")
    stab = {r["selector"]: float(r["jaccard"]) for r in p.rows("results/stability.csv")}
    acc = {s: [float(r["accuracy"]) for r in rows if r["selector"] == s] for s in stab}
    total, cases = (13, 178) if c["data"] == "wine" else (30, 569)
    order = sorted(acc, key=lambda s: -mean(acc[s]))
    body = [[s, total if s == "all" else c["keep"], pm(acc[s], 3, "se"), f"{stab[s]:.2f}",
             f"{100 * mean(acc[s]) / mean(acc['all']):.1f}"] for s in acc]
    label = "wine" if c["data"] == "wine" else "breast cancer"
    parts = {
        "Abstract": para(f"""We study four ways to choose {c['keep']} of {total} features on the {label} data, with a
        nearest centroid classifier and {c['folds']}-fold cross-validation. Keeping all features gives an accuracy of
        {mean(acc['all']):.3f}; selection by analysis of variance gives {mean(acc['anova']):.3f} with a stability of
        {stab['anova']:.2f}; random selection gives {mean(acc['random']):.3f}."""),
        "Introduction": para("""Selected features are read as explanations, and an explanation that changes with every
        resampling explains little. Accuracy and stability should hence be reported together. We do this for simple
        filters, with random selection as the floor and no selection as the reference."""),
        "Method": para("""*anova* ranks features by the ratio of variance between to variance within classes. *corr*
        ranks by the absolute correlation of the feature with the class number (which is questionable for more than two
        classes, and done all the same in practice). *random* draws features anew in every fold. *all* keeps
        everything. Stability is the mean Jaccard overlap of the chosen sets over all pairs of folds, so that *all* has
        stability one by definition."""),
        "Setup": para(f"""The {label} data come with scikit-learn ({cases} cases, {total} features). Features are
        standardised on the training folds and the selection sees the training folds only. There are {c['folds']}
        folds from one random permutation. We report the mean over folds and its standard error."""),
        "Results": table(["selector", "features", "accuracy (± se)", "stability", "% of all"], body) + "\n\n"
        + para(f"""By mean accuracy the order is {', '.join(order)}. The lowest single fold is
        {min(min(v) for v in acc.values()):.3f} and the highest {max(max(v) for v in acc.values()):.3f}. The last column
        divides by the accuracy with all features. The random floor has a stability of {stab['random']:.2f}; the two
        filters reach {stab['anova']:.2f} and {stab['corr']:.2f}, and differ in accuracy by
        {100 * abs(mean(acc['anova']) - mean(acc['corr'])):.1f} points. The standard error of the difference is not
        computed, as the folds are paired and few."""),
        "Limitations": para("""A nearest centroid classifier is forgiving of redundant features. Folds overlap in their
        training parts, which raises every figure of stability. Only one number of features was tried."""),
        "Conclusion": para(f"""On these data filters are stable enough to be read, and {order[0]} is the most accurate
        choice. The random floor is a useful reminder of how much redundancy the features hold."""),
    }
    return f"Stability beside accuracy: choosing {c['keep']} of {total} features on {label} data", parts


# ---------------------------------------------------------------- clustering (notebook export, markdown by script)

CLUS = code('''
    #!/usr/bin/env python
    # coding: utf-8

    # # Starting points for k-means

    # In[1]:


    import json

    import numpy as np
    from sklearn.datasets import load_digits, load_iris, load_wine

    RUNS = @RUNS@
    BASE = @BASE@


    # In[2]:


    def data(name):
        X, y = {"iris": load_iris, "wine": load_wine, "digits": load_digits}[name](return_X_y=True)
        s = X.std(0)
        return (X - X.mean(0)) / np.where(s > 0, s, 1), y


    def sq(X, C):
        return np.maximum((X ** 2).sum(1)[:, None] - 2 * X @ C.T + (C ** 2).sum(1), 0)


    # In[3]:


    def start(how, X, k, rng):
        if how == "random":
            return X[rng.choice(len(X), k, replace=False)]
        if how == "maximin":          # deterministic: begins at the point nearest the mean
            idx = [int(((X - X.mean(0)) ** 2).sum(1).argmin())]
            while len(idx) < k:
                idx.append(int(sq(X, X[idx]).min(1).argmax()))
            return X[idx]
        idx = [int(rng.integers(len(X)))]
        while len(idx) < k:
            d = sq(X, X[idx]).min(1)
            idx.append(int(rng.choice(len(X), p=d / d.sum())))
        return X[idx]


    def lloyd(X, C, iters=60):
        for it in range(iters):
            lab = sq(X, C).argmin(1)
            new = np.stack([X[lab == j].mean(0) if np.any(lab == j) else C[j] for j in range(len(C))])
            if np.allclose(new, C):
                break
            C = new
        return lab, float(sq(X, C).min(1).sum()), it + 1


    # In[4]:


    def adjusted_rand(a, b):
        t = np.histogram2d(a, b, bins=(a.max() + 1, b.max() + 1))[0]
        c2 = lambda x: (x * (x - 1) / 2).sum()
        s, ra, rb, n = c2(t), c2(t.sum(1)), c2(t.sum(0)), c2(np.array([t.sum()]))
        return float((s - ra * rb / n) / ((ra + rb) / 2 - ra * rb / n))


    # In[5]:


    out = {}
    for name in @DATASETS@:
        X, y = data(name)
        k = len(set(y.tolist()))
        out[name] = {}
        for how in ["random", "maximin", "kmeans++"]:
            recs = []
            for r in range(RUNS):
                lab, inertia, iters = lloyd(X, start(how, X, k, np.random.default_rng(BASE + r)))
                recs.append({"inertia": round(inertia, 2), "ari": round(adjusted_rand(y, lab), 4), "iters": iters})
            out[name][how] = recs
            print("{:<7} {:<9} ARI {:.3f} inertia {:.1f} iterations {:.1f}".format(
                name, how, *(np.mean([q[m] for q in recs]) for m in ("ari", "inertia", "iters"))))


    # In[6]:


    json.dump(out, open("results/kmeans.json", "w"), indent=0)
    with open("results/summary.md", "w") as f:
        f.write("| data | start | ARI | inertia |\\n|---|---|---|---|\\n")
        for name, d in out.items():
            for how, recs in d.items():
                f.write("| {} | {} | {:.3f} | {:.1f} |\\n".format(
                    name, how, np.mean([q["ari"] for q in recs]), np.mean([q["inertia"] for q in recs])))
''')


def clus_code(p: Paper) -> dict[str, str]:
    t = CLUS.replace("@RUNS@", str(p.cfg["runs"])).replace("@BASE@", str(p.seed % 50))
    return {"code/kmeans_notebook.py": t.replace("@DATASETS@", repr(p.cfg["data"]))}


def clus_run(p: Paper) -> None:
    p.run("python code/kmeans_notebook.py", "results/notebook_output.txt")


def clus_paper(p: Paper) -> tuple[str, Parts]:
    c, r = p.cfg, p.js("results/kmeans.json")
    get = {(d, h): {m: [x[m] for x in v] for m in ("ari", "inertia", "iters")} for d in r for h, v in r[d].items()}
    body = [[d, h, pm(v["ari"]), f"{mean(v['inertia']):.1f}", f"{min(v['inertia']):.1f}", f"{mean(v['iters']):.1f}"]
            for (d, h), v in get.items()]
    last = c["data"][-1]
    gain = 100 * (1 - mean(get[last, "kmeans++"]["inertia"]) / mean(get[last, "random"]["inertia"]))
    wins = {d: min(r[d], key=lambda h: mean(get[d, h]["inertia"])) for d in r}
    parts = {
        "Abstract": para(f"""We compare random, maximin and k-means++ starting points for Lloyd's algorithm on
        {len(r)} labelled data set{'s' if len(r) > 1 else ''}, with {c['runs']} runs each. On {last}, k-means++
        changes the mean inertia by {-gain:+.2f} % against random starts, and the mean adjusted Rand index is
        {mean(get[last, 'kmeans++']['ari']):.3f} against {mean(get[last, 'random']['ari']):.3f}."""),
        "Introduction": para("""Lloyd's algorithm ends in a local optimum that depends on where it begins. The
        literature on starting points argues in terms of inertia. Users, however, care for the clusters, and a lower
        inertia does not have to mean clusters closer to a known classification. We look at both on small data."""),
        "Method": para("""*random* takes distinct data points. *maximin* begins at the point nearest the grand mean, and
        adds the point farthest from those already chosen; it has no randomness, therefore its runs are all alike and
        their standard deviation is zero. *kmeans++* samples with probability proportional to squared distance (Arthur
        and Vassilvitskii, 2007). Iteration stops when the centres no longer move, or after 60 rounds."""),
        "Setup": para(f"""The data come with scikit-learn: {', '.join(c['data'])}, standardised. The number of
        clusters is the number of classes. Each start is repeated {c['runs']} times with its own seed. We report the
        adjusted Rand index (mean ± standard deviation), mean and least inertia, and the mean number of rounds. The
        code is a notebook exported as a script."""),
        "Results": table(["data", "start", "ARI", "inertia, mean", "inertia, least", "rounds"], body) + "\n\n"
        + para(f"""The lowest mean inertia is reached by {'; '.join(f'{h} on {d}' for d, h in wins.items())}. """
               + " ".join(f"""On {d} the best mean Rand index is {max(mean(get[d, h]['ari']) for h in r[d]):.3f}, and
        the range over all single runs is {min(min(get[d, h]['ari']) for h in r[d]):.3f} to
        {max(max(get[d, h]['ari']) for h in r[d]):.3f}.""" for d in r) + """ Rounds differ little, so the cost of a
        better start is mostly that of computing it."""),
        "Limitations": para("""Class labels are one of many sensible groupings. Standardising is known to hurt on
        digits, where border pixels are nearly constant. A practitioner would restart several times and keep the least
        inertia, which narrows the differences shown here."""),
        "Conclusion": para("""Starting points matter for inertia more than for agreement with classes. A
        deterministic start is attractive for its repeatability, though not always good."""),
    }
    return "Where should k-means begin? Inertia and agreement on small data", parts


# ---------------------------------------------------------------- regression (percent prints, published numbers, csv)

REG = code('''
    """Cross-validated regression on the diabetes data; one csv row for each model and fold."""
    import csv
    import time

    import numpy as np
    from sklearn.datasets import load_diabetes

    FOLDS, SEED = @FOLDS@, @SEED@


    def ridge(X, y, Z, lam=1.0):
        A = np.c_[np.ones(len(X)), X]
        P = lam * np.eye(A.shape[1])
        P[0, 0] = 0
        return np.c_[np.ones(len(Z)), Z] @ np.linalg.solve(A.T @ A + P, A.T @ y)


    def kernel(X, y, Z, gamma=0.02, lam=1.0):
        K = lambda a, b: np.exp(-gamma * ((a[:, None] - b[None]) ** 2).sum(2))
        return y.mean() + K(Z, X) @ np.linalg.solve(K(X, X) + lam * np.eye(len(X)), y - y.mean())


    def neighbours(X, y, Z, k=15):
        d = ((Z[:, None] - X[None]) ** 2).sum(2)
        return y[np.argsort(d, axis=1)[:, :k]].mean(1)


    def constant(X, y, Z):
        return np.full(len(Z), y.mean())


    MODELS = {"constant": constant, "ridge": ridge, "kernel": kernel, "knn": neighbours}


    def main():
        X, y = load_diabetes(return_X_y=True)
        idx = np.random.default_rng(SEED).permutation(len(y))
        rows, start = [], time.time()
        for name, fit_predict in MODELS.items():
            for f, te in enumerate(np.array_split(idx, FOLDS)):
                tr = np.setdiff1d(idx, te)
                mu, s = X[tr].mean(0), X[tr].std(0)
                pred = fit_predict((X[tr] - mu) / s, y[tr], (X[te] - mu) / s)
                err = y[te] - pred
                r2 = 1 - (err ** 2).sum() / ((y[te] - y[te].mean()) ** 2).sum()
                rows.append([name, f, len(te), round(float(np.sqrt((err ** 2).mean())), 3),
                             round(float(np.abs(err).mean()), 3), round(float(r2), 4)])
                print("[%6.2fs] %-9s fold %2d/%d  n=%d  rmse %.3f  mae %.3f  r2 %.4f"
                      % (time.time() - start, name, f + 1, FOLDS, *rows[-1][2:]))
        with open("results/cv.csv", "w", newline="") as fh:
            csv.writer(fh).writerows([["model", "fold", "n", "rmse", "mae", "r2"]] + rows)


    if __name__ == "__main__":
        main()
''')


def reg_code(p: Paper) -> dict[str, str]:
    return {"code/cv.py": REG.replace("@FOLDS@", str(p.cfg["folds"])).replace("@SEED@", str(p.seed % 65))}


def reg_run(p: Paper) -> None:
    p.run("python code/cv.py 2>&1 | tee results/cv.log")


def reg_paper(p: Paper) -> tuple[str, Parts]:
    c, rows = p.cfg, p.rows("results/cv.csv")
    v = {m: {k: [float(r[k]) for r in rows if r["model"] == m] for k in ("rmse", "mae", "r2")}
         for m in dict.fromkeys(r["model"] for r in rows)}
    order = sorted(v, key=lambda m: mean(v[m]["rmse"]))
    body = [[m, pm(v[m]["rmse"], 2), pm(v[m]["mae"], 2), f"{mean(v[m]['r2']):.3f}", order.index(m) + 1,
             f"{100 * (mean(v[m]['rmse']) / mean(v['constant']['rmse']) - 1):+.1f} %"] for m in v]
    first, second = order[:2]
    wins = sum(a < b for a, b in zip(v[first]["rmse"], v[second]["rmse"]))
    parts = {
        "Abstract": para(f"""We compare three untuned regressors and a constant on the diabetes data by
        {c['folds']}-fold cross-validation. The lowest root mean squared error is that of {first}
        ({mean(v[first]['rmse']):.2f}), ahead of {second} by {mean(v[second]['rmse']) - mean(v[first]['rmse']):.2f}. No
        model explains much more than half of the variance (best mean R² {max(mean(v[m]['r2']) for m in v):.3f})."""),
        "Introduction": para("""The diabetes data of Efron et al. (2004) are small, noisy and widely used to show off
        new regressors. Since the noise is large, differences between sensible models are small compared with
        differences between folds, and a single split can crown anyone. We report fold-wise errors, and a constant
        prediction as the yardstick."""),
        "Models": para("""*constant* predicts the mean of the training targets. *ridge* is linear with penalty 1 on the
        standardised features and none on the intercept. *kernel* is kernel ridge regression with a Gaussian kernel
        (gamma 0.02, penalty 1). *knn* averages 15 neighbours. None of these settings was tuned."""),
        "Setup": para(f"""The data (442 patients, 10 features) come with scikit-learn. Folds are cut from one random
        permutation; all models see the same {c['folds']} folds. Features are standardised on the training part. We give
        mean and standard deviation over folds of the root mean squared error and the mean absolute error, and the
        mean R² on the held-out fold."""),
        "Results": table(["model", "RMSE", "MAE", "R²", "rank", "RMSE against constant"], body) + "\n\n"
        + para(f"""The order by RMSE is {', '.join(order)}. {first} has a lower error than {second} in {wins} of
        {c['folds']} folds. Relative to the constant, {first} reduces the error by
        {100 * (1 - mean(v[first]['rmse']) / mean(v['constant']['rmse'])):.1f} %. Errors between folds differ more
        than errors between models: for {first} they run from {min(v[first]['rmse']):.1f} to
        {max(v[first]['rmse']):.1f}. The R² of the constant is slightly negative since it uses the training mean."""),
        "Limitations": para("""One data set, one permutation into folds, fixed settings. A tuned kernel would do
        somewhat better. The standard deviation over folds is no measure of uncertainty of the mean, as folds share
        training cases."""),
        "Conclusion": para(f"""On such noisy data simple models are hard to beat by a margin that would matter;
        {first} ranks first here. Fold-wise errors should accompany any claim on these data."""),
    }
    return f"Four plain predictors on the diabetes data, {c['folds']} folds", parts


# ---------------------------------------------------------------- forests (framed table, argparse, several sizes)

FOREST = code('''
    """How many trees are enough? Accuracy and time of forests by size, printed as a framed table."""
    import argparse
    import json
    import time
    from pathlib import Path

    import numpy as np
    from sklearn.datasets import load_digits
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

    KINDS = {"forest": RandomForestClassifier, "extra": ExtraTreesClassifier}

    def frame(rows, head):
        w = [max(len(str(r[i])) for r in rows + [head]) for i in range(len(head))]
        bar = "+" + "+".join("-" * (n + 2) for n in w) + "+"
        fmt = lambda r: "| " + " | ".join(str(c).ljust(n) for c, n in zip(r, w)) + " |"
        return "\\n".join([bar, fmt(head), bar] + [fmt(r) for r in rows] + [bar])

    def main():
        ap = argparse.ArgumentParser()
        ap.add_argument("--sizes", type=int, nargs="+", default=[1, 3, 10, 30])
        ap.add_argument("--seeds", type=int, default=3)
        ap.add_argument("--base", type=int, default=0)
        ap.add_argument("--train", type=int, default=600)
        ap.add_argument("--test", type=int, default=500)
        ap.add_argument("--out", type=Path, default=Path("results"))
        a = ap.parse_args()
        X, y = load_digits(return_X_y=True)
        records = []
        for kind, cls in KINDS.items():
            for size in a.sizes:
                for s in range(a.base, a.base + a.seeds):
                    idx = np.random.default_rng(s).permutation(len(y))
                    tr, te = idx[:a.train], idx[-a.test:]
                    t0 = time.perf_counter()
                    m = cls(n_estimators=size, random_state=s).fit(X[tr], y[tr])
                    acc = float((m.predict(X[te]) == y[te]).mean())
                    nodes = int(sum(t.tree_.node_count for t in m.estimators_))
                    records.append({"kind": kind, "trees": size, "seed": s, "acc": acc, "nodes": nodes,
                                    "ms": round(1e3 * (time.perf_counter() - t0), 1)})
        a.out.mkdir(exist_ok=True)
        (a.out / "sizes.json").write_text(json.dumps(records, indent=1))
        print(f"train={a.train} test={a.test} seeds={a.seeds}")
        print(frame([(r["kind"], r["trees"], r["seed"], f"{r['acc']:.3f}", r["nodes"], r["ms"]) for r in records],
                    ("kind", "trees", "seed", "acc", "nodes", "ms")))

    if __name__ == "__main__":
        main()
''')


def forest_code(p: Paper) -> dict[str, str]:
    c = p.cfg
    cmd = (f"python code/sizes.py --sizes {' '.join(map(str, c['sizes']))} --seeds {c['seeds']} --train {c['train']} "
           f"--test {c['test']} --base {p.seed % 40} | tee results/sizes.txt")
    return {"code/sizes.py": FOREST, "code/run.sh": f"#!/bin/sh\n# the runs of the paper\n{cmd}\n"}


def forest_run(p: Paper) -> None:
    p.run("sh code/run.sh")


def forest_paper(p: Paper) -> tuple[str, Parts]:
    c, rec = p.cfg, p.js("results/sizes.json")
    sizes = c["sizes"]
    g = {(k, n): [r for r in rec if r["kind"] == k and r["trees"] == n] for k in ("forest", "extra") for n in sizes}
    acc = {key: [r["acc"] for r in v] for key, v in g.items()}
    body = [[k, n, pm(acc[k, n], 3), f"{mean([r['nodes'] for r in v]):,.0f}", f"{mean([r['ms'] for r in v]):.0f}",
             "-" if n == sizes[0] else f"{100 * (mean(acc[k, n]) - mean(acc[k, sizes[sizes.index(n) - 1]])):+.1f}"]
            for (k, n), v in g.items()]
    big, prev = sizes[-1], sizes[-2]
    ratio = mean([r["nodes"] for r in g["extra", big]]) / mean([r["nodes"] for r in g["forest", big]])
    parts = {
        "Abstract": para(f"""How many trees are enough when the model must be small? On digits with {c['train']}
        training images a forest of {prev} trees reaches {100 * mean(acc['forest', prev]):.1f} % and one of {big} trees
        {100 * mean(acc['forest', big]):.1f} %; extremely randomised trees reach {100 * mean(acc['extra', prev]):.1f}
        % and {100 * mean(acc['extra', big]):.1f} % at the same sizes, with {ratio:.2f} times the nodes at the
        largest size."""),
        "Introduction": para("""More trees never hurt a forest on average, but each costs memory and time at prediction.
        On microcontrollers the number of nodes decides whether a model fits. Rules of thumb mention hundreds of
        trees. We want to know how steep the curve is at the lower end, and whether more randomisation in the
        splits moves it."""),
        "Method": para("""We train random forests (Breiman, 2001) and extremely randomised trees (Geurts et al.,
        2006) with the defaults of scikit-learn and vary only the number of trees. The number of nodes is summed over
        trees; it is a proxy of memory. Time covers training and prediction of the whole test part."""),
        "Setup": para(f"""Scikit-learn's digits are permuted by the seed; the first {c['train']} images train, and
        the last {c['test']} test. The sizes are {', '.join(map(str, sizes))}. There are {c['seeds']} seeds, each
        used for the permutation and the trees. We report mean and standard deviation of the accuracy as a
        fraction."""),
        "Results": table(["kind", "trees", "accuracy", "nodes", "time (ms)", "points gained"], body) + "\n\n"
        + para(f"""The last column gives the gain in mean accuracy over the next smaller size, in points. From {prev} to
        {big} trees the gain is {100 * (mean(acc['forest', big]) - mean(acc['forest', prev])):.1f} points for the
        forest and {100 * (mean(acc['extra', big]) - mean(acc['extra', prev])):.1f} for the randomised trees. The
        highest accuracy of a single run is {max(max(v) for v in acc.values()):.3f}. All {len(rec)} models together took
        {sum(r['ms'] for r in rec) / 1000:.1f} seconds."""),
        "Limitations": para("""Times are those of one run on a shared machine, and should be read to one digit. Depth
        was not limited, which a small device would ask for. Images of 8 by 8 pixels are easy."""),
        "Conclusion": para(f"""Most of the accuracy is there at {prev} trees. The randomised trees need more nodes
        for what they gain."""),
    }
    return f"The lower end of the forest: accuracy with up to {big} trees", parts


# ---------------------------------------------------------------- outliers (silent code, n = 50, generated data)

OUTL = code('''
    """Finds planted outliers in generated data; writes results only."""
    import json
    import pathlib

    import numpy as np

    SEEDS, N_IN, N_OUT = [@SEEDLIST@], @NIN@, @NOUT@
    DIM, SHIFT = 6, @SHIFT@


    def generate(seed):
        rng = np.random.default_rng(seed)
        A = rng.normal(size=(DIM, DIM)) / DIM ** 0.5 + np.eye(DIM)
        train, inl = rng.normal(size=(200, DIM)) @ A, rng.normal(size=(N_IN, DIM)) @ A
        u = rng.normal(size=(N_OUT, DIM))
        out = (rng.normal(size=(N_OUT, DIM)) + SHIFT * u / np.linalg.norm(u, axis=1, keepdims=True)) @ A
        return train, np.vstack([inl, out]), np.r_[np.zeros(N_IN, int), np.ones(N_OUT, int)]


    def mahalanobis(T, Z):
        d = Z - T.mean(0)
        return np.einsum("ij,jk,ik->i", d, np.linalg.inv(np.cov(T.T)), d)


    def knn(T, Z, k=5):
        return np.sort(((Z[:, None] - T[None]) ** 2).sum(2), axis=1)[:, k - 1]


    def zmax(T, Z):
        return np.abs((Z - T.mean(0)) / T.std(0)).max(1)


    def coin(T, Z):
        return np.random.default_rng(int(1e6 * abs(Z[0, 0]))).random(len(Z))


    def auroc(s, y):
        return float(((s[y == 1][:, None] > s[y == 0]) + 0.5 * (s[y == 1][:, None] == s[y == 0])).mean())


    def main():
        out = {}
        for name, f in {"coin": coin, "zmax": zmax, "knn": knn, "mahalanobis": mahalanobis}.items():
            recs = []
            for seed in SEEDS:
                T, Z, y = generate(seed)
                s = f(T, Z)
                top = np.argsort(-s, kind="stable")[:N_OUT]
                recs.append({"seed": seed, "auroc": round(auroc(s, y), 4), "hits": int(y[top].sum()), "of": N_OUT})
            out[name] = recs
        for name, recs in out.items():
            pathlib.Path(f"results/{name}.json").write_text(json.dumps(recs))


    if __name__ == "__main__":
        main()
''')


def outl_code(p: Paper) -> dict[str, str]:
    c, t = p.cfg, OUTL
    for key, val in {"@SEEDLIST@": ", ".join(str(p.seed % 55 + i) for i in range(c["seeds"])), "@NIN@": c["nin"],
                     "@NOUT@": c["nout"], "@SHIFT@": c["shift"]}.items():
        t = t.replace(key, str(val))
    return {"code/outliers.py": t}


def outl_run(p: Paper) -> None:
    p.run("python code/outliers.py")


def outl_load(p: Paper) -> dict[str, list[dict]]:
    return {m: p.js(f"results/{m}.json") for m in ("coin", "zmax", "knn", "mahalanobis")}


def outl_paper(p: Paper) -> tuple[str, Parts]:
    c, r = p.cfg, outl_load(p)
    k, n = len(r["coin"]), c["nout"]
    au = {m: [x["auroc"] for x in v] for m, v in r.items()}
    hits = {m: [x["hits"] for x in v] for m, v in r.items()}
    body = [[m, pm(au[m], 3, "se"), f"{sum(hits[m])} / {n * k}", f"{100 * sum(hits[m]) / (n * k):.1f}",
             f"{(mean(au[m]) - 0.5) / (mean(au['mahalanobis']) - 0.5):.2f}"] for m in r]
    best = max(au, key=lambda m: mean(au[m]))
    parts = {
        "Abstract": para(f"""Planted outliers at distance {c['shift']} from a correlated Gaussian cloud are ranked by
        four scores. Over {k} generated data sets the mean area under the curve is {mean(au['mahalanobis']):.3f} for the
        Mahalanobis distance, {mean(au['knn']):.3f} for nearest neighbours and {mean(au['zmax']):.3f} for the largest
        standardised coordinate. A coin scores {mean(au['coin']):.3f}."""),
        "Introduction": para("""Outlier detection benchmarks mix many difficulties. Before comparing elaborate
        detectors, it helps to see what the oldest ones do where their assumptions hold. Correlation between features
        is the crux: a coordinate-wise rule is blind to a point that is odd only in combination."""),
        "Scores": para("""*mahalanobis* uses mean and covariance of the training part. *knn* is the squared distance
        to the fifth nearest training point. *zmax* is the largest absolute standardised coordinate. *coin* is a
        random score and serves as a dummy baseline: any figure near it is worthless."""),
        "Setup": para(f"""All data are generated. A seed draws a mixing matrix, 200 clean training points in 6
        dimensions, {c['nin']} clean test points and {n} outliers, which are clean points pushed by {c['shift']} in a
        random direction before mixing. Each score ranks the test points. We report the area under the curve with its
        standard error over the {k} seeds, and how many of the {n} top-ranked points are outliers. The program prints
        nothing; it writes one file for each score."""),
        "Results": table(["score", "AUROC (± se)", "hits", "hits (%)", "skill"], body) + "\n\n"
        + para(f"""Skill is the excess of the mean area over one half, relative to that of the Mahalanobis distance.
        The best score is {best}. Its hits on a single data set range from {min(hits[best])} to {max(hits[best])} of
        {n}, and its area has a standard deviation of {sd(au[best]):.3f}. The coordinate-wise rule lies
        {mean(au['mahalanobis']) - mean(au['zmax']):.3f} below the Mahalanobis distance. The standard error of the
        coin is {sem(au['coin']):.3f}."""),
        "Limitations": para("""The cloud is Gaussian, so the Mahalanobis distance is close to optimal by design. The
        training part holds no outliers, which is rarely so in practice."""),
        "Conclusion": para(f"""Where the cloud is Gaussian, the old distance is hard to beat ({best} leads here). Newer
        detectors should be required to come near it on such data before they claim more elsewhere."""),
    }
    return f"Old outlier scores on correlated Gaussian data, shift {c['shift']}", parts


TOPICS_B = {
    "calib": (calib_code, calib_run, calib_paper),
    "noise": (noise_code, noise_run, noise_paper),
    "fsel": (fsel_code, fsel_run, fsel_paper),
    "clus": (clus_code, clus_run, clus_paper),
    "reg": (reg_code, reg_run, reg_paper),
    "forest": (forest_code, forest_run, forest_paper),
    "outl": (outl_code, outl_run, outl_paper),
}
