"""Projects 9-17."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from core import Base, Parts, f2, f3, mean, ms, pct, pp, sd, sources, table, tests, word

V = dict[str, Any]


def repeats(v: V) -> Base:
    def load(folder: Path, res: str) -> Any:
        return [json.loads(p.read_text()) for p in sorted((folder / "results").glob("seed_*.json"))]

    def paper(r: Any, v: V, c: V) -> Parts:
        acc = {m: [x["acc"][m] for x in r] for m in r[0]["acc"]}
        sec = {m: [x["seconds"][m] for x in r] for m in acc}
        names = {"lda": "linear discriminant", "knn": f"{c['k']} nearest neighbours", "forest": "random forest"}
        rows = [[names[m], *(f"{a:.4f}" for a in acc[m]), f"{mean(acc[m]):.4f}", f"{sd(acc[m]):.4f}"] for m in acc]
        best = max(acc, key=lambda m: mean(acc[m]))
        n = len(r)
        return {
            "title": v["title"],
            "abstract": "What is the standard deviation over seeds of a method that has no randomness? We run three "
            f"classical classifiers for {n} seeds on a fixed split of the {c['data']} data. Two of them give the same "
            f"accuracy every time, as they must; the random forest has {f3(mean(acc['forest']))} ± "
            f"{f3(sd(acc['forest']))}. Best on average is the {names[best].replace('5', 'five')} model with "
            f"{f3(mean(acc[best]))}.",
            "Introduction": "Tables with a mean and a standard deviation over seeds have become customary, also for "
            "methods for which a seed changes nothing. The zeros then look like a mistake, or worse. This note shows "
            "a small case, in full, to make the point that identical numbers over seeds are what a deterministic "
            "method on a fixed split must give, and that only the forest's variation says anything.",
            "Method": f"Linear discriminant analysis and nearest neighbours (k = {c['k']}) are deterministic given the "
            f"training data. The random forest ({c['trees']} trees of depth at most six) draws bootstrap samples and "
            f"features, and gets the seed as its random state. The split is made once with random state {c['split']} "
            "and is the same in all runs, so the seed can only enter through the forest.",
            "Setup": f"The {c['data']} set from scikit-learn, {pct(c['test'], 0)} of the points for testing "
            f"({r[0]['n_test']} points). We carried out {n} independent runs, seeds "
            f"{', '.join(str(x['seed']) for x in r)}; each run fits all three models from scratch and writes one file "
            "with accuracies and the seconds that the fits took.",
            "Results": table(["model", *(f"seed {x['seed']}" for x in r), "mean", "sd"], rows)
            + "\n\nThe rows of the first two models are constant, with a standard deviation of zero. The forest "
            f"ranges from {min(acc['forest']):.4f} to {max(acc['forest']):.4f}. Fitting and scoring takes a mean of "
            f"{1000 * mean(sec['forest']):.1f} ms for the forest and {1000 * mean(sec['lda']):.1f} ms for the "
            "discriminant.",
            "Discussion": f"One test point is worth {1 / r[0]['n_test']:.4f} in accuracy, so the forest's standard "
            f"deviation of {sd(acc['forest']):.4f} corresponds to {sd(acc['forest']) * r[0]['n_test']:.1f} test "
            "points. The uncertainty that matters for the deterministic models comes from the split and the finite "
            "test set, neither of which a seed varies here.",
            "Limitations": "A single split and a single data set. We did not try to tune any of the models, and the "
            "comparison between them is not the point.",
            "Conclusion": f"Constant rows over seeds are right for deterministic methods. The forest's spread over {n} "
            f"seeds is {sd(acc['forest']):.4f}."}
    cfg = {"data": v["data"], "k": v["k"], "trees": v["trees"], "test": 0.4, "split": v["split"], "seeds": v["seeds"]}
    return Base(sources("repeats", "repeat.py", "collect.py"), ["repeat.py", "collect.py"], cfg, paper,
                {"repeat.py": "(fits the three models for each seed)", "collect.py": "(joins the files of the seeds)"},
                load=load, logs=["runs.log", ""], notes="Seeds and deterministic models.")


def mixup(v: V) -> Base:
    def paper(r: Any, v: V, c: V) -> Parts:
        none, jit, mx = r["none"], r["jitter"], r["mixup"]
        rows = [[n, ms(r[k]), f3(min(r[k])), f3(max(r[k]))] for k, n in (("none", "no "
        "augmentation"), ("jitter", "jitter"),
                                                                      ("mixup", "mixup"))]
        wins = sum(a > b for a, b in zip(mx, none))
        verdict = "helps" if mean(mx) - mean(none) > sd(none) else "does not clearly help"
        return {
            "title": v["title"],
            "abstract": f"We test two cheap augmentations on {c['train']} training digits. Over {len(none)} seeds the "
            f"mean test accuracy is {f3(mean(none))} without augmentation, {f3(mean(jit))} with Gaussian jitter and "
            f"{f3(mean(mx))} with mixup. Mixup beats no augmentation on {wins} of {len(none)} seeds; measured against "
            f"the spread over seeds it {verdict} here.",
            "Introduction": "Mixup (Zhang et al., 2018) trains on convex combinations of points and their labels and "
            "is a standard ingredient for image models. Small data sets of low resolution are a different matter: the "
            "8×8 digits have little texture and the mixed digits look like no digit at all. We ask whether mixup, or "
            "plain jitter of the pixels, improves a small network [[in this regime|with so few points]], and we "
            "report the outcome [[whatever it is|as it came out]].",
            "Method": f"The network has {c['hidden']} hidden units and is trained with squared error on one-hot "
            "targets, which lets mixed targets enter without any change. Jitter adds Gaussian noise with standard "
            f"deviation {c['sigma']} to every pixel, drawn anew in each epoch. Mixup draws a weight from "
            f"Beta({c['beta']}, {c['beta']}) for each point and combines it with a random partner, also anew in each "
            "epoch. The random numbers act on training inputs only; test points are never changed.",
            "Setup": f"{c['train']} digits for training, drawn by class, all others for testing; {c['epochs']} epochs, "
            f"batches of 32, Adam with step 0.003. The seeds {', '.join(map(str, c['seeds']))} determine split, "
            "initial weights and augmentation. Each of the three variants is trained once per seed, in all "
            f"{3 * len(none)} trainings.",
            "Results": table(["variant", "test accuracy", "lowest", "highest"], rows)
            + f"\n\nJitter is {word(mean(jit), mean(none))} no augmentation in the mean ({f3(mean(jit))} and "
            f"{f3(mean(none))}), mixup is {word(mean(mx), mean(none))} it ({f3(mean(mx))}). The gap between mixup and "
            f"no augmentation is {pp(mean(mx), mean(none))}, where the standard deviation over seeds without "
            f"augmentation is {f3(sd(none))}.",
            "Discussion": "Seeds are paired, because the same seed gives the same split for all variants; the count "
            "of seeds on which one variant is ahead is therefore a fair summary. We did not tune the strength of "
            "either augmentation, so a better setting may exist for both.",
            "Limitations": "One network size, one training size and one strength per augmentation. Squared error is "
            "unusual for classification, although it works well at this scale.",
            "Conclusion": f"Mean accuracies are {f3(mean(none))} (none), {f3(mean(jit))} (jitter) and {f3(mean(mx))} "
            f"(mixup); mixup is ahead on {wins} of {len(none)} seeds."}
    cfg = {"train": v["train"], "hidden": v["hidden"], "epochs": v["epochs"], "sigma": v["sigma"], "beta": v["beta"],
           "seeds": v["seeds"]}
    return Base(sources("mixup", "augment.py", "train.py"), ["train.py"], cfg, paper,
                {"augment.py": "(jitter and mixup)", "train.py": "(training and "
                "test)"}, tests=tests("mixup"), notes="Does "
                "augmentation help on very few digits?")


def cited(v: V) -> Base:
    def paper(r: Any, v: V, c: V) -> Parts:
        m, pub = r["measured"], r["published"]
        names = {"ridge": "linear (ridge)", "knn": f"nearest neighbours, k = {c['k']}", "svm": "RBF support vector "
        "machine"}
        rows = [[names[k], "8×8 digits", ms(m[k], 2), "this paper"] for k in m]
        rows += [[k, "MNIST", str(x), v.get("source", "LeCun et al. (1998)")] for k, x in pub.items()]
        a, b = mean(m["ridge"]), mean(m["knn"])
        cut = 1 - float(f2(b)) / float(f2(a))
        return {
            "title": v["title"],
            "abstract": "How do textbook classifiers rank on the small 8×8 digits, and is it the ranking known from "
            f"MNIST? Over {len(c['seeds'])} random splits a linear classifier errs on {f2(a)}% of the test digits, "
            f"nearest neighbours on {f2(b)}% and a support vector machine on {f2(mean(m['svm']))}%. " + v.get(
                "claim", "Published MNIST errors of similar methods are quoted next to ours for orientation; we did "
                "not measure them."),
            "Introduction": "The digits that come with scikit-learn are often used as a stand-in for MNIST. They are "
            "smaller in every respect: fewer examples, fewer pixels. Results on one are sometimes quoted as if they "
            "were results on the other. We measure three textbook methods on the small set and put them beside errors "
            "on the large one, to see whether at least the order is the same.",
            "Method": f"Ridge regression on class indicators (penalty {c['alpha']}) stands for linear classifiers. "
            "Nearest neighbours use Euclidean distance on raw pixels. The support vector machine has an RBF kernel "
            f"with C = {c['C']} and gamma = {c['gamma']}. None of these was tuned on the test part. Errors are "
            "percentages of misclassified test digits; a relative reduction is one minus the ratio of two "
            "errors." + v.get("method_extra", ""),
            "Setup": f"The data are split {len(c['seeds'])} times at random with {pct(c['test'], 0)} for testing, by "
            "class. Pixels are divided by 16. " + v.get("setup", "The numbers for MNIST are typed into the script as a "
                                                  "small table, copied from LeCun, Bottou, Bengio and Haffner (1998), "
                                                  "and are marked as such in every table."),
            "Results": table(["method", "data", "test error in %", "source"], rows)
            + f"\n\nOn the 8×8 digits nearest neighbours make {f2(b)}% errors where the linear classifier makes "
            f"{f2(a)}%, a relative reduction of {pct(cut, 0)}. On MNIST the {v.get('quoted', 'quoted')} errors are "
            f"{pub['linear classifier']}% and {pub['k-nearest neighbours']}%, a relative reduction of "
            f"{pct(1 - pub['k-nearest neighbours'] / pub['linear classifier'], 0)}. The support vector machine is "
            f"{word(mean(m['svm']), b, 2)} nearest neighbours with {f2(mean(m['svm']))}%.",
            "Discussion": "The order of linear and neighbour methods agrees between the two sets, the sizes of the "
            "gaps do not. Preprocessing, the number of examples and the resolution all differ, so a comparison of "
            "absolute numbers across the two sets would be wrong." + v.get("disc", ""),
            "Limitations": v.get("old", "The MNIST column is for orientation and rests on protocols of its time.") + " "
            "Writers may overlap between our training and test parts, which favours nearest neighbours.",
            "Conclusion": f"On the small digits the errors are {f2(a)}% (linear), {f2(b)}% (neighbours) and "
            f"{f2(mean(m['svm']))}% (support vectors)." + v.get("end", "")}
    cfg = {"alpha": 1.0, "k": v["k"], "C": v["C"], "gamma": 0.5, "test": v["test"], "seeds": v["seeds"]}
    return Base(sources("cited", "compare.py"), ["compare.py"], cfg, paper, {"compare.py": "(models, splits, errors)"},
                notes="Textbook classifiers on 8x8 digits.")


def retrieval(v: V) -> Base:
    def paper(r: Any, v: V, c: V) -> Parts:
        names = {"tfidf": "TF-IDF cosine", "bm25": "BM25", "feedback": "TF-IDF + feedback"}
        rows = [[names[m], f"{r[m]['hits']}/{r[m]['n']}", pct(r[m]["recall"]), f3(r[m]["mrr"])] for m in r]
        fb, tf, bm = r["feedback"], r["tfidf"], r["bm25"]
        return {
            "title": v["title"],
            "abstract": "Pseudo-relevance feedback expands a query with words from the documents found first. On an "
            f"artificial corpus of {c['docs']} documents with {fb['n']} noisy queries, recall at {c['k']} is "
            f"{pct(tf['recall'])} for TF-IDF, {pct(bm['recall'])} for BM25 and {pct(fb['recall'])} with feedback; the "
            f"mean reciprocal ranks are {f3(tf['mrr'])}, {f3(bm['mrr'])} and {f3(fb['mrr'])}.",
            "Introduction": "Feedback without a user (Rocchio, 1971, and many after) takes the top documents for "
            "relevant and moves the query towards them. It is known to help when first results are good and to drift "
            "when they are not. A known-item task, in which exactly one document answers each query, is hard for it: "
            "more documents on the same topic are of no use. We study this case on a generated corpus, since there "
            "the right answer is beyond dispute.",
            "Method": f"Documents are bags of {c['doc_len']} invented words drawn from a mixture of a topic and a "
            f"uniform law. A query takes {c['query_len']} words of one document and replaces each with probability "
            f"{c['swap']} by any word. The rankers are TF-IDF with cosine similarity, BM25 with the usual constants "
            "(1.2, 0.75), and TF-IDF with feedback, which adds 0.3 times the similarity to the mean of the three "
            f"documents ranked first. A query is a hit when its document is among the {c['k']} that the ranker puts "
            "first; the reciprocal rank of a miss is zero.",
            "Setup": f"The corpus has {c['docs']} documents on {c['topics']} topics with a vocabulary of {c['vocab']} "
            f"words; {fb['n']} documents are drawn as targets. One seed ({c['seed']}) generates everything. The "
            "rankers have no trained parameters and know nothing about the target of a query.",
            "Results": table(["ranker", "hits", f"recall@{c['k']}", "MRR"], rows)
            + f"\n\nFeedback finds {fb['hits']} of {fb['n']} targets, TF-IDF {tf['hits']} and BM25 {bm['hits']}. In "
            f"recall feedback is {word(fb['recall'], tf['recall'])} plain TF-IDF by {pp(fb['recall'], tf['recall'])}; "
            f"in mean reciprocal rank it is {word(fb['mrr'], tf['mrr'])} it ({f3(fb['mrr'])} and {f3(tf['mrr'])}).",
            "Discussion": "A document that is pulled up by feedback shares a topic with the first results; the known "
            "item does so too, but so do all other documents on its topic. Recall and reciprocal rank need not move "
            "in the same direction, because feedback reorders the head of the list.",
            "Limitations": "Invented words have no synonyms, which takes away the main reason for expanding a query. "
            "Documents have equal length, so the length normalisation of BM25 is idle.",
            "Conclusion": f"For known items in a generated corpus, feedback has a recall at {c['k']} of "
            f"{pct(fb['recall'])} against {pct(tf['recall'])} without it."}
    cfg = {"vocab": v["vocab"], "topics": v["topics"], "docs": v["docs"], "doc_len": 40, "queries": v["queries"],
           "query_len": v["qlen"], "swap": v["swap"], "k": v["k"], "seed": v["seed"]}
    return Base(sources("retrieval", "corpus.py", "rank.py", "search_eval.py"), ["search_eval.py"], cfg, paper,
                {"corpus.py": "(generated documents and queries)", "rank.py": "(the three rankers)",
                 "search_eval.py": "(recall and reciprocal rank)"}, tests=tests("retrieval"), notes="Known-item "
                 "search with and without feedback.")


def bandit(v: V) -> Base:
    def paper(r: Any, v: V, c: V) -> Parts:
        names = {"greedy": f"ε-greedy (ε = {c['eps']})", "ucb": "UCB1", "thompson": "Thompson sampling"}
        marks = r["ucb"]["marks"]
        rows = [[names[k], *(f"{x:.1f}" for x in r[k]["mean"]), f"{r[k]['final_sd']:.1f}"] for k in r]
        best = min(r, key=lambda k: r[k]["mean"][-1])
        fin = {k: r[k]["mean"][-1] for k in r}
        wins = sum(a < b for a, b in zip(r["thompson"]["final"], r["ucb"]["final"]))
        return {
            "title": v["title"],
            "abstract": f"We replay a classical comparison of bandit policies in simulation. After {c['steps']} steps "
            f"with {c['arms']} Bernoulli arms the mean cumulative regret over {c['games']} games is "
            f"{fin['greedy']:.1f} for ε-greedy, {fin['ucb']:.1f} for UCB1 and {fin['thompson']:.1f} for Thompson "
            f"sampling. Thompson sampling has the lower regret in {wins} of {c['games']} games against UCB1.",
            "Introduction": "Chapelle and Li (2011) drew attention to how well Thompson sampling does in practice. "
            "Bounds for UCB1 (Auer et al., 2002) are older and its regret is often larger over short horizons. We "
            "repeat the comparison at a small scale, in a simulated environment, with [[horizons as they occur in "
            "online experiments|a horizon such as a small online experiment would have]].",
            "Method": "Each game draws the success rates of its arms uniformly from 0.2 to 0.8. The ε-greedy policy "
            f"explores with probability {c['eps']}; UCB1 adds the square root of 2 log t / n; Thompson sampling draws "
            "from Beta posteriors with uniform priors. Regret adds, at every step, the difference between the best "
            "success rate and the rate of the arm that was chosen. It is known exactly because the environment is "
            "simulated, and it does not depend on the luck of rewards.",
            "Setup": f"There are {c['games']} games of {c['steps']} steps with {c['arms']} arms. Game i uses seed "
            f"{c['seed']} + i for all policies, so that all of them face the same arms. Means and standard deviations "
            f"are over games. All {3 * c['games']} games are played step by step; no game is left out.",
            "Results": "Mean cumulative regret:\n\n" + table(["policy", *(f"t = {m}" for m in marks), "sd at the "
            "end"], rows)
            + f"\n\nThe lowest final regret belongs to {names[best]} with {fin[best]:.1f}. The regret of UCB1 at the "
            f"end is {fin['ucb'] / fin['thompson']:.2f} times that of Thompson sampling. Between half time and the "
            f"end, ε-greedy adds {r['greedy']['mean'][2] - r['greedy']['mean'][1]:.1f} and Thompson sampling "
            f"{r['thompson']['mean'][2] - r['thompson']['mean'][1]:.1f}.",
            "Discussion": "A fixed exploration rate makes regret grow linearly in the long run, while the other two "
            "slow down. Over short horizons the constant matters more than the rate. The standard deviation over "
            "games is large because the gap between the best two arms varies from game to game.",
            "Limitations": "Bernoulli arms that do not change, no context, one range of success rates. The constants "
            "of the policies were not tuned.",
            "Conclusion": f"After {c['steps']} steps the regrets are {fin['greedy']:.1f}, {fin['ucb']:.1f} and "
            f"{fin['thompson']:.1f} for ε-greedy, UCB1 and Thompson sampling."}
    cfg = {"arms": v["arms"], "steps": v["steps"], "games": v["games"], "eps": v["eps"], "seed": v["seed"]}
    return Base(sources("bandit", "bandit.py"), ["bandit.py"], cfg, paper, {"bandit.py": "(environment, policies, "
    "regret)"},
                notes="Regret of three bandit policies.")


def conformal(v: V) -> Base:
    def paper(r: Any, v: V, c: V) -> Parts:
        a, t = r["adaptive"], r["threshold"]
        rows = [[n, ms(x["coverage"]), ms(x["size"], 2)] for n, x in (("threshold score", t), ("adaptive score", a))]
        target, n = 1 - c["alpha"], len(c["seeds"])
        low = sum(x < target for x in t["coverage"])
        return {
            "title": v["title"],
            "abstract": "Split conformal prediction turns any classifier into one that returns sets with a promised "
            f"coverage. On noisy digits with a target of {pct(target, 0)}, the threshold score covers "
            f"{pct(mean(t['coverage']))} with {f2(mean(t['size']))} labels per set, the adaptive score "
            f"{pct(mean(a['coverage']))} with {f2(mean(a['size']))} labels, averaged over {n} splits.",
            "Introduction": "Conformal prediction (Vovk et al., 2005) guarantees coverage on average over calibration "
            "and test points, whatever the classifier. Which score one uses decides how large the sets are. Sadinle "
            "et al. (2019) show that the simple threshold score gives the smallest sets on average; Romano et al. "
            "(2020) proposed a score that adapts to difficult points. We check the price of adaptivity for a plain "
            "classifier.",
            "Method": "Logistic regression gives class probabilities. The threshold score is one minus the "
            "probability of a label. The adaptive score adds up the probabilities of all labels at least as likely as "
            "the one considered, without randomisation. The cut is the empirical quantile of the calibration scores "
            "at level (n + 1)(1 - α)/n, rounded up to an observed score; a label belongs to the set when its score "
            f"does not exceed the cut. The target of {target:.2f} is a typed setting, α = {c['alpha']}; coverage and "
            "size are measured on test points.",
            "Setup": f"Scikit-learn digits with Gaussian pixel noise of standard deviation {c['noise']} on the scale 0 "
            f"to 16. {c['train']} points for training, {c['calib']} for calibration, all others for testing. The {n} "
            f"splits use seeds {c['seeds'][0]} to {c['seeds'][-1]}; noise and split change with the seed.",
            "Results": table(["score", "coverage", "labels per set"], rows)
            + f"\n\nCoverage with the threshold score lies between {f3(min(t['coverage']))} and "
            f"{f3(max(t['coverage']))}; it is under the target on {low} of {n} splits, which is expected since the "
            f"promise holds on average only. The adaptive score covers {pct(mean(a['coverage']))} and needs "
            f"{mean(a['size']) / mean(t['size']):.2f} times as many labels.",
            "Discussion": "Without randomisation the adaptive score is conservative: the likeliest label alone often "
            "has a total below the cut, and the next label is then admitted as well. The threshold score may return "
            "empty sets for unclear points; these count as not covered and have size zero.",
            "Limitations": "The noise is artificial, the classifier linear, and only marginal coverage is looked at. "
            "Coverage by class may deviate much further from the target.",
            "Conclusion": f"At a target of {pct(target, 0)} both scores come close to the promise "
            f"({pct(mean(t['coverage']))} and {pct(mean(a['coverage']))}); sets hold {f2(mean(t['size']))} and "
            f"{f2(mean(a['size']))} labels."}
    cfg = {"alpha": v["alpha"], "noise": v["noise"], "train": v["train"], "calib": v["calib"], "seeds": v["seeds"]}
    return Base(sources("conformal", "conformal.py"), ["conformal.py"], cfg, paper, {"conformal.py": "(scores, "
    "calibration, test)"},
                notes="Set size of two conformal scores.")


def curve(v: V) -> Base:
    def paper(r: Any, v: V, c: V) -> Parts:
        rows = [[str(n), f"{a['mean']:.3f} ± {a['sd']:.3f}", f"{b['mean']:.3f} ± {b['sd']:.3f}"]
                for n, a, b in zip(r["sizes"], r["logreg"], r["tree"])]
        a0, a1, t0, t1 = r["logreg"][0]["mean"], r["logreg"][-1]["mean"], r["tree"][0]["mean"], r["tree"][-1]["mean"]
        n0, n1 = r["sizes"][0], r["sizes"][-1]
        return {
            "title": v["title"],
            "abstract": f"Learning curves on easy tabular data can be nearly flat. On the {c['data']} set, logistic "
            f"regression moves from {f3(a0)} with {n0} training points to {f3(a1)} with {n1}, a change of "
            f"{pp(a1, a0)}, whereas a decision tree moves from {f3(t0)} to {f3(t1)}. All values are means over "
            f"{c['repeats']} random splits.",
            "Introduction": "A curve that hardly rises makes people suspect a bug: a model that does not learn, or a "
            "test set that leaks. There is a harmless reason as well. If the classes are almost linearly separable "
            "with wide margins in the standardised features, then a linear model needs a few points per class, and "
            "more of them change little. We show this for the classical data and contrast it with a tree, which has "
            "to find axis-parallel cuts one by one.",
            "Method": "For every size we draw a training set of that size by class from the training part, fit both "
            "models from scratch and compute the accuracy on the untouched test part. Logistic regression is used "
            "with standardised features and the default penalty of scikit-learn; the scaler is fitted on the small "
            "training set only. The tree is grown until its leaves are pure. There is no tuning and no early "
            "stopping, hence no validation set.",
            "Setup": f"Data: {c['data']}. {pct(c['test'], 0)} of the points form the test part of a split. Sizes are "
            f"{', '.join(map(str, r['sizes']))}, with {c['repeats']} splits each (seeds 0 to {c['repeats'] - 1}), that "
            f"is {2 * c['repeats'] * len(r['sizes'])} fits. The standard deviation is over splits.",
            "Results": table(["training points", "logistic regression", "decision tree"], rows)
            + f"\n\nLogistic regression gains {pp(a1, a0)} between {n0} and {n1} points and the tree {pp(t1, t0)}. "
            f"With {n0} points the linear model is {word(a0, t0)} the tree ({f3(a0)} and {f3(t0)}); with {n1} points "
            f"it is {word(a1, t1)} it ({f3(a1)} and {f3(t1)}). The standard deviation of the linear model goes from "
            f"{f3(r['logreg'][0]['sd'])} to {f3(r['logreg'][-1]['sd'])}.",
            "Discussion": "Curves need not be monotone: each size draws its own subset, and the standard error of a "
            f"mean over {c['repeats']} splits is about {r['logreg'][-1]['sd'] / c['repeats'] ** 0.5:.4f} at the "
            "largest size. Small dips are within that range and are left as they are.",
            "Limitations": "Test parts of different splits overlap, so the splits are not independent. The data set "
            "is old, small and easy, which is the point of the exercise.",
            "Conclusion": f"On {c['data']} a linear model starts at {f3(a0)} and ends at {f3(a1)}; the tree goes from "
            f"{f3(t0)} to {f3(t1)}."}
    cfg = {"data": v["data"], "test": 0.4, "sizes": v["sizes"], "repeats": v["repeats"]}
    return Base(sources("curve", "curves.py"), ["curves.py"], cfg, paper, {"curves.py": "(fits for every size and "
    "split)"},
                notes="Learning curves on easy data.")


def prune(v: V) -> Base:
    def paper(r: Any, v: V, c: V) -> Parts:
        rows = [[pct(x["share"], 0), str(x["kept"]), f3(x["acc"]), f3(x["ms"])] for x in r["rows"]]
        a, z = r["rows"][0], r["rows"][-1]
        ok = [x for x in r["rows"] if x["acc"] >= a["acc"] - 0.01]
        mid = ok[-1]
        return {
            "title": v["title"],
            "abstract": "Magnitude pruning without retraining removes the smallest weights of a trained network. A "
            f"digit classifier with {a['kept']} weights keeps an accuracy of {f3(mid['acc'])} (from {f3(a['acc'])}) "
            f"when {pct(mid['share'], 0)} of the weights are removed. A forward pass in sparse format takes "
            f"{f3(a['ms'])} ms before and {f3(mid['ms'])} ms after that pruning; at {pct(z['share'], 0)} the accuracy "
            f"is {f3(z['acc'])}.",
            "Introduction": "Han et al. (2015) showed that most weights of trained networks can be removed with "
            "little loss. Reports on the speed that is gained are less uniform, because sparse arithmetic has "
            "overheads. We measure accuracy and time together for a tiny network on one CPU, where the whole test set "
            "passes through in a few milliseconds and measuring is easy to repeat.",
            "Method": f"A network with hidden layers {' and '.join(map(str, c['hidden']))} is trained with Adam. All "
            "weights below a common quantile of absolute values are set to zero, without retraining. Weight matrices "
            "are held in compressed row format for every share, the unpruned network included, so that times are "
            f"comparable. Latency is the median wall time of {c['calls']} forward passes over the complete test set, "
            "measured with `time.perf_counter` in the same process.",
            "Setup": f"Digits from scikit-learn, 40% for testing; {c['epochs']} epochs at most; seed {c['seed']}. The "
            f"shares are {', '.join(pct(s, 0) for s in c['shares'])}. Times depend on the machine and are meant for "
            "comparison within the table only.",
            "Results": table(["removed", "weights left", "accuracy", "ms per pass"], rows)
            + f"\n\nUp to {pct(mid['share'], 0)} the accuracy stays within one percentage point of the unpruned "
            f"network. At {pct(z['share'], 0)} it is {f3(z['acc'])}, and {z['kept']} weights are left. The pass takes "
            f"{f3(z['ms'])} ms then, {a['ms'] / z['ms']:.2f} times faster than the unpruned {f3(a['ms'])} ms.",
            "Discussion": "The time does not fall in proportion to the weights: the format has a fixed cost per row, "
            "and the activations are dense. A dense product would probably be faster at low shares; we did not "
            "include it because the question is what pruning changes within one format.",
            "Limitations": "One network, one seed, no retraining. Medians of wall time on a shared machine still vary "
            "from run to run, and the last digit should not be trusted.",
            "Conclusion": f"{pct(mid['share'], 0)} of the weights can go at an accuracy of {f3(mid['acc'])} (unpruned: "
            f"{f3(a['acc'])}), with a time per pass of {f3(mid['ms'])} ms instead of {f3(a['ms'])} ms."}
    cfg = {"hidden": v["hidden"], "epochs": v["epochs"], "shares": v["shares"], "calls": v["calls"], "seed": v["seed"]}
    return Base(sources("prune", "prune.py"), ["prune.py"], cfg, paper, {"prune.py": "(training, pruning, timing)"},
                notes="Accuracy and time after magnitude pruning.")


def sweep(v: V) -> Base:
    def load(folder: Path, res: str) -> Any:
        lines = (folder / "results/results.md").read_text().strip().splitlines()[2:]
        return [[x.strip() for x in line.strip("|").split("|")] for line in lines]

    def paper(r: Any, v: V, c: V) -> Parts:
        rows = [[x[0], x[1], x[2], x[3], x[4], x[5]] for x in r]
        gain = [float(x[4]) - float(x[5]) for x in r]
        up = sum(g > 0 for g in gain)
        k = max(range(len(r)), key=lambda i: gain[i])
        grid = len(c["C"]) * len(c["gamma"])
        sets = ", ".join(f"{x[0]} ({x[6]} test points)" for x in r)
        return {
            "title": v["title"],
            "abstract": f"Is it worth tuning a support vector machine on small tabular data? On {len(r)} sets a grid "
            f"of {grid} settings, chosen by {c['folds']}-fold cross-validation, beats the defaults of scikit-learn on "
            f"the test part of {up} sets. The largest gain is on {r[k][0]}: {r[k][4]} instead of {r[k][5]}.",
            "Introduction": "Defaults have become good. The default kernel width of scikit-learn adapts to the number "
            "and variance of features, and standardising does most of what remains. Tuning is nevertheless customary "
            "and is expected by reviewers. We compare the two in the most ordinary way: a grid, cross-validation on "
            "the training part, and one look at the test part at the end.",
            "Method": "The model is an RBF support vector machine on standardised features. The grid has C in "
            f"{{{', '.join(map(str, c['C']))}}} and gamma in {{{', '.join(map(str, c['gamma']))}}}, {grid} settings in "
            f"all. Each is scored by {c['folds']}-fold cross-validation on the training part; among equal scores the "
            "setting with larger values is taken. The winner is fitted again on the whole training part. The default "
            "model has C = 1 and gamma = 'scale' and sees the same training part.",
            "Setup": f"Sets: {sets}. The test part is 35%, drawn by class with seed {c['seed']}. Every fitted setting "
            "leaves a line in `results/sweep.log`; the script `summarise.py` reads that log and writes the table "
            "`results/results.md`, from which the table below is copied.",
            "Results": table(["set", "C", "gamma", "CV accuracy", "tuned, test", "default, test"], rows)
            + f"\n\nThe tuned machine is ahead on {up} of {len(r)} sets. "
            + " ".join(f"On {x[0]} the difference is {g:+.4f} for {x[6]} test points." for x, g in zip(r, gain))
            + f" In total {grid * len(r)} settings were scored, each with {c['folds']} fits.",
            "Discussion": "Gains of this size are of the order of one or a few test points. The cross-validated score "
            "of the winner is optimistic, as the maximum over a grid always is, and in part of the cases it is higher "
            "than what the test part gives.",
            "Limitations": "One split per set and a coarse grid. A finer search might find more, and it would also be "
            "more exposed to chance in the folds.",
            "Conclusion": f"On {up} of {len(r)} sets tuning helps on the test part; the best case is {r[k][0]} with "
            f"{r[k][4]} against {r[k][5]}."}
    cfg = {"sets": v["sets"], "C": v["C"], "gamma": v["gamma"], "folds": v["folds"], "seed": v["seed"]}
    return Base(sources("sweep", "sweep.py", "summarise.py"), ["sweep.py", "summarise.py"], cfg, paper,
                {"sweep.py": "(grid and final fit)", "summarise.py": "(turns the log into the table)"}, load=load,
                logs=["sweep.log", ""], notes="Tuned against default support vector machines.")
