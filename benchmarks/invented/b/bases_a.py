"""Projects 1-8: code, settings and the paper's text (numbers filled in from the result files)."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from core import Base, Parts, f2, f3, mean, ms, pct, pp, sd, sources, table, tests, word

V = dict[str, Any]

def gan(v: V) -> Base:
    def paper(r: Any, v: V, c: V) -> Parts:
        m = {k: [float(x["modes"]) for x in r[k]] for k in r}
        h = {k: [x["hq"] for x in r[k]] for k in r}
        rows = [[n, ms(m[k], 2), ms(h[k])] for k, n in (("plain", "plain GAN"), ("noise", "GAN + instance noise"))]
        per = [[str(a["seed"]), str(a["modes"]), f3(a["hq"]), str(b["modes"]), f3(b["hq"])]
               for a, b in zip(r["plain"], r["noise"])]
        n = len(c["seeds"])
        return {
            "title": v["title"],
            "abstract": "Generative adversarial networks tend to lose modes. We [[study|look at]] decaying instance "
            f"noise on a ring of {c['modes']} Gaussians, a toy problem on which lost modes can be counted exactly. "
            f"Over {n} seeds the plain GAN covers {f2(mean(m['plain']))} modes on average and the GAN with noise "
            f"{f2(mean(m['noise']))}; the share of samples close to a mode is {f3(mean(h['plain']))} against "
            f"{f3(mean(h['noise']))}. [[All data are synthetic.|The data are artificial throughout.]]",
            "Introduction": "Mode loss is easy to see in pictures and hard to measure on natural images. A ring of "
            "Gaussians takes the difficulty away: the modes are known, and a sample either lies near one of them or "
            "does not. Goodfellow et al. (2014) introduced the adversarial game; Sønderby et al. (2017) and Arjovsky "
            "and Bottou (2017) proposed noise on the inputs of the discriminator so that the two distributions "
            "overlap early in training. We [[ask a narrow question|ask one thing only]]: with everything else fixed, "
            "how much does linearly decaying instance noise change the number of modes that are found?",
            "Method": f"Generator and discriminator are fully connected nets with two hidden layers of {c['hidden']} "
            "leaky rectified units, written in numpy with hand-derived gradients. The discriminator loss has two "
            "parts, which the log calls `d_loss_real` and `d_loss_fake`: the cross entropy on true points and on "
            "generated points. The generator uses the non-saturating loss. With instance noise, Gaussian noise of "
            f"scale {c['noise']} × (1 - t/T) is added to every input of the discriminator, true or generated. A mode "
            "counts as covered when at least 20 of 2000 generated points lie within three standard deviations of its "
            "centre and nearest to it; the quality is the share of points that lie within three standard deviations "
            "of any centre.",
            "Setup": f"Both variants train for {c['steps']} steps with batches of {c['batch']} and Adam with step "
            f"{c['lr']}. We train {n} networks per variant, one for each of the seeds "
            f"{', '.join(map(str, c['seeds']))}; the seed sets the initial weights, the latent draws and the batches. "
            "Each row in the seed table is one complete training. No setting was tuned per seed, and the last weights "
            "are [[evaluated|scored]], not the best ones.",
            "Results": "The averages over seeds:\n\n" + table(["variant", "modes covered", "share near a mode"], rows)
            + "\n\nAnd every seed:\n\n" + table(["seed", "modes (plain)", "share (plain)", "modes (noise)", "share "
            "(noise)"], per)
            + f"\n\nOn mode coverage the noise variant is {word(mean(m['noise']), mean(m['plain']), 2)} the plain one "
            f"({f2(mean(m['noise']))} and {f2(mean(m['plain']))}); on the share of good points it is "
            f"{word(mean(h['noise']), mean(h['plain']))} it. The number of covered modes ranges from "
            f"{min(m['plain']):.0f} to {max(m['plain']):.0f} for the plain GAN and from {min(m['noise']):.0f} to "
            f"{max(m['noise']):.0f} with noise.",
            "Discussion": f"With {n} seeds the spread matters as much as the mean: the standard deviation of the share "
            f"is {f3(sd(h['plain']))} without and {f3(sd(h['noise']))} with noise. We therefore refrain from a test "
            "and show the single trainings instead. The discriminator losses in the log stay finite in all runs.",
            "Limitations": "A ring in the plane says little about images. We used one schedule of the noise and one "
            "architecture, and the threshold of 20 points for a covered mode is a convention.",
            "Conclusion": f"On this toy problem instance noise takes the covered modes from {f2(mean(m['plain']))} to "
            f"{f2(mean(m['noise']))} of {c['modes']}. The script [[repeats|reproduces]] every number in "
            "[[seconds|under a minute]]."}
    cfg = {"modes": v["modes"], "spread": 0.2, "z": 4, "hidden": 40, "steps": v["steps"], "batch": 96, "lr": 0.002,
           "noise": 0.5, "seeds": v["seeds"]}
    return Base(sources("gan", "net.py", "train_gan.py"), ["train_gan.py"], cfg, paper,
                {"net.py": "(layers, gradients, Adam)", "train_gan.py": "(game, coverage count, loop over seeds)"},
                notes="Mode coverage of a small GAN on a ring of Gaussians.")


def synth_control(v: V) -> Base:
    def paper(r: Any, v: V, c: V) -> Parts:
        rows = [[n, f3(r[k]["bias"]), f3(r[k]["rmse"])] for k, n in (("sc", "synthetic control"),
                                                                    ("did", "difference in differences"))]
        pre = [x["pre_rmspe"] for x in r["panels"]]
        better = sum(abs(x["sc"] - c["effect"]) < abs(x["did"] - c["effect"]) for x in r["panels"])
        k, n = r["rejected"], c["panels"]
        return {
            "title": v["title"],
            "abstract": "[[We compare|This note compares]] the synthetic control method with difference in "
            f"differences on {n} simulated panels with a known effect of {c['effect']}. The root mean squared error of "
            f"the estimated effect is {f3(r['sc']['rmse'])} for synthetic control and {f3(r['did']['rmse'])} for "
            f"difference in differences. A placebo test at level {c['level']} rejects in {k} of {n} panels "
            f"({pct(k / n)}). The panels are artificial, so the truth is known; no real policy is evaluated.",
            "Introduction": "The synthetic control method (Abadie, Diamond and Hainmueller, 2010) builds, for a "
            "treated unit, a weighted average of untreated donors that follows it before the treatment. The word "
            "*synthetic* refers to that weighted average and not to made-up data; in this note, however, the data are "
            "also simulated, because only then can an estimate be compared with the true effect. Difference in "
            "differences gives every donor the same weight, which is right when trends are parallel and wrong when "
            "units load differently on common shocks.",
            "Method": "A panel has two latent factors that follow random walks, unit loadings drawn from a uniform "
            "law, and independent noise with standard deviation 0.5. The treated unit loads close to the average "
            "donor. Synthetic control weights are non-negative, sum to one, and minimise the squared gap before "
            "treatment (non-negative least squares with a heavily weighted sum constraint). For inference we pretend "
            "that each donor in turn was treated (a *fake* treatment, or placebo), compute its ratio of post to pre "
            f"error, and rank the true unit among them; the p-value is the rank divided by {c['donors'] + 1}.",
            "Setup": f"Each panel has {c['donors']} donors and {c['periods']} periods; the treatment starts in period "
            f"{c['treat_at']}. Panel k uses seed {c['seed']} + k. The effect, the level and the sizes were fixed "
            f"before the runs. Bias and error are taken over all {n} panels without leaving any out.",
            "Results": table(["estimator", "bias", "RMSE"], rows)
            + f"\n\nSynthetic control has the smaller absolute error in {better} of {n} panels ({pct(better / n)}). "
            f"Its error is {word(r['sc']['rmse'], r['did']['rmse'])} that of difference in differences. Before the "
            f"treatment the gap between the unit and its synthetic twin has a mean RMSPE of {f3(mean(pre))} (smallest "
            f"{f3(min(pre))}, largest {f3(max(pre))}), close to the noise level. The placebo test rejects the absence "
            f"of an effect in {k} panels out of {n}, which is {pct(k / n)}. The smallest p-value that the test can "
            f"give is 1/{c['donors'] + 1} = {1 / (c['donors'] + 1):.3f}.",
            "Discussion": "The advantage of weights depends on how different the loadings are: when they are equal "
            "both estimators are unbiased, and the weights only add noise. In the simulated panels the loadings vary "
            "by a factor of up to five, which favours weighting.",
            "Limitations": "The simulation has two factors and stationary noise, and the treated unit lies inside the "
            "donors' range by construction. Outside that range the weights cannot fit, and the comparison would look "
            "different.",
            "Conclusion": f"With a known effect of {c['effect']}, synthetic control errs by {f3(r['sc']['rmse'])} and "
            f"difference in differences by {f3(r['did']['rmse'])} on average (root mean square)."}
    cfg = {"donors": v["donors"], "periods": 40, "treat_at": 28, "effect": v["effect"], "panels": v["panels"],
           "level": 0.1, "seed": v["seed"]}
    return Base(sources("synth_control", "panel.py", "simulate.py"), ["simulate.py"], cfg, paper,
                {"panel.py": "(the simulated panel and both estimators)", "simulate.py": "(the loop and the placebo "
                "test)"}, tests=tests("synth_control"), notes="Simulation "
                "of synthetic control against difference in differences.")


def imbalance(v: V) -> Base:
    def paper(r: Any, v: V, c: V) -> Parts:
        names = {"dummy": "DummyClassifier (stratified)", "logreg": "logistic regression",
                 "logreg_balanced": "+ balanced weights", "forest": "random forest", "logreg_threshold": "+ tuned "
                 "threshold"}
        rows = [[names[k], f3(r[k]["precision"]), f3(r[k]["recall"]), f3(r[k]["f1"])] for k in names]
        lr, th, ba, du = r["logreg"], r["logreg_threshold"], r["logreg_balanced"], r["dummy"]
        pos = lr["tp"] + lr["fn"]
        return {
            "title": v["title"],
            "abstract": f"On rare-event data with {pct(c['minority'], 0)} positives we compare reweighting with simply "
            f"moving the decision threshold. Pooled over {len(c['seeds'])} generated data sets, a tuned threshold "
            f"brings logistic regression from an F1 of {f3(lr['f1'])} to {f3(th['f1'])}, while balanced class weights "
            f"give {f3(ba['f1'])}. A DummyClassifier, kept as the floor, reaches {f3(du['f1'])}.",
            "Introduction": "Class weights are the first remedy most people try when positives are rare. They shift "
            "the decision boundary and change the fit at the same time, and it is often unclear which of the two "
            "matters. Elkan (2001) showed that, for calibrated scores, changing the costs is the same as moving the "
            "threshold. We check how far that carries on small problems where the scores are only roughly calibrated. "
            "[[We keep a dummy model as a floor|A dummy model gives the floor]] because F1 values on rare classes are "
            "hard to read without one.",
            "Method": "The threshold is chosen on a validation part of the training data: logistic regression is "
            "fitted on 70% of it, and the cut among 0.05, 0.10, ..., 0.95 with the best F1 on the other 30% is kept. "
            "The balanced variant multiplies the loss of each class by the inverse of its frequency. Forest and plain "
            "logistic regression use the default cut of one half. Precision, recall and F1 are computed from true "
            "positives, false positives and false negatives that are *summed over all test sets*, so that data sets "
            "with few positives do not dominate.",
            "Setup": f"Every seed generates {c['n']} points with 20 features, six of them informative (scikit-learn's "
            f"`make_classification`, class separation {c['sep']}, 1% label noise); 40% are held out. There are "
            f"{len(c['seeds'])} seeds and altogether {pos} positives in the test sets. The data are openly synthetic: "
            "the purpose is to have the class share under control.",
            "Results": table(["model", "precision", "recall", "F1"], rows)
            + f"\n\nOf {pos} positives, plain logistic regression finds {lr['tp']} and the tuned threshold {th['tp']}, "
            f"with {lr['fp']} and {th['fp']} false alarms. Balanced weights find {ba['tp']} at the cost of {ba['fp']} "
            f"false alarms, which is why their precision is {f3(ba['precision'])}. In F1 the tuned threshold is "
            f"{word(th['f1'], ba['f1'])} the balanced weights, and the forest with {f3(r['forest']['f1'])} is "
            f"{word(r['forest']['f1'], th['f1'])} the tuned threshold.",
            "Discussion": f"The recall of the balanced model ({f3(ba['recall'])}) shows that the boundary moved much "
            f"further than F1 would ask for. With a tuned threshold the recall is {f3(th['recall'])}. Whether that is "
            "the right operating point depends on costs that a synthetic study cannot know. The dummy's precision of "
            f"{f3(du['precision'])} is near the class share, as it must be.",
            "Limitations": "F1 weighs both kinds of error in one fixed way, label noise is symmetric here, and the "
            "features are Gaussian clusters. Pooling hides differences between seeds.",
            "Conclusion": f"Moving the threshold is cheap and gives an F1 of {f3(th['f1'])} against {f3(ba['f1'])} for "
            "class weights on this family of problems."}
    cfg = {"n": v["n"], "minority": v["minority"], "sep": v["sep"], "seeds": v["seeds"]}
    return Base(sources("imbalance", "score.py", "compare.py"), ["compare.py"], cfg, paper,
                {"score.py": "(pooled counts, F1, threshold search)", "compare.py": "(data, models, loop)"},
                tests=tests("imbalance"), notes="Thresholds "
                "against class weights for rare positives.")


def bootstrap(v: V) -> Base:
    def load(folder: Path, res: str) -> Any:
        lines = (folder / "results/table.csv").read_text().split()
        return {"raw": json.loads((folder / f"results/{res}.json").read_text()), "rows": [x.split(",") for x in lines]}

    def paper(r: Any, v: V, c: V) -> Parts:
        raw, rows = r["raw"], r["rows"]
        ci = [[k, str(x["n_test"]), f"[{x['lo']:+.3f}, {x['hi']:+.3f}]"] for k, x in raw.items()]
        clear = [k for k, x in raw.items() if x["lo"] > 0]
        worse = [k for k, x in raw.items() if x["hi"] < 0]
        blends = ", ".join(f"{x[3]} ({x[0]})" for x in rows[1:])
        return {
            "title": v["title"],
            "abstract": "Averaging the probabilities of a linear model and a forest of extremely randomised trees is "
            f"about the simplest ensemble there is. On {len(raw)} small data sets with added feature noise the blend "
            f"reaches accuracies of {blends}. Paired bootstrap intervals for its gain over the linear model exclude "
            f"zero from below on {len(clear)} of {len(raw)} sets, so the benefit is mostly within what resampling the "
            "test points would produce.",
            "Introduction": "Ensembles of unlike models are recommended everywhere, and reported gains are often "
            "smaller than the uncertainty of the test set. Efron's bootstrap offers a plain way to see this: resample "
            "the test points, recompute the difference, and look at the spread. We apply it to the blend of logistic "
            "regression with extremely randomised trees (Geurts et al., 2006). [[The point is the interval|We care "
            "about the interval]], not a new method.",
            "Method": "Both members are trained on the same half of the data. The blend is the average of their class "
            f"probabilities with equal weights; nothing is tuned. For the interval we draw {c['resamples']} bootstrap "
            "samples of the test points with replacement, use the *same* draw for both models, and report the 2.5% "
            "and 97.5% quantiles of the difference in accuracy. Drawing at random is the essence of the procedure; "
            "the random numbers select test points and produce no scores by themselves.",
            "Setup": f"The sets are {', '.join(raw)} from scikit-learn, split in halves by class with seed "
            f"{c['seed']}. Because they are easy, we add Gaussian feature noise with {c['noise']} times the standard "
            f"deviation of the feature. Test halves have {', '.join(str(x['n_test']) for x in raw.values())} points. "
            "Logistic regression works on standardised features; the forest has 120 trees.",
            "Results": "Accuracy on the test half, rounded to two decimals:\n\n" + table(rows[0], rows[1:])
            + "\n\nPaired intervals of the gain of the blend over the linear model:\n\n" + table(["set", "n", "95% "
            "interval"], ci)
            + (f"\n\nThe interval lies above zero on {', '.join(clear)}." if clear else
               "\n\nNo interval lies entirely above zero.")
            + (f" It lies below zero on {', '.join(worse)}." if worse else " It lies below zero nowhere."),
            "Discussion": "On the smaller sets a single test point moves the accuracy by a percent or so, and the "
            "intervals are accordingly wide. A table without intervals would have invited a ranking that the data do "
            "not support. The accuracy table is written by a small script from the stored numbers, and rounding "
            "follows the usual rule to the nearest value.",
            "Limitations": "The bootstrap over test points ignores the variation from training. One split per set was "
            "used. The feature noise makes the problems harder in a way that is convenient and not natural.",
            "Conclusion": f"Equal-weight blending gives accuracies of {blends}. Only {len(clear)} of {len(raw)} gains "
            "over the linear model survive a paired bootstrap."}
    cfg = {"sets": v["sets"], "noise": v["noise"], "resamples": 2000, "seed": v["seed"]}
    return Base(sources("bootstrap", "blend.py", "make_table.py"), ["blend.py", "make_table.py"], cfg, paper,
                {"blend.py": "(models, blend and bootstrap)", "make_table.py": "(writes the accuracy table)"},
                load=load, logs=["run.log", ""], notes="Blend of two models with paired bootstrap intervals.")


def power_study(v: V) -> Base:
    def paper(r: Any, v: V, c: V) -> Parts:
        rows = [[k.split("/")[0], k.split("/")[1], *(f3(x[m]) for m in ("welch", "mann_whitney", "permutation"))]
                for k, x in r.items()]
        null = {k: x for k, x in r.items() if k.endswith("/0.0")}
        big = max(c["shifts"])
        ln, no = r[f"lognormal/{big}"], r[f"normal/{big}"]
        worst = max(max(x.values()) for x in null.values())
        return {
            "title": v["title"],
            "abstract": f"We simulate how often three two-sample tests reject with {c['n']} observations per group, as "
            f"is common when two learning algorithms are compared over a handful of seeds. With {c['reps']} "
            f"replications per cell and a shift of {big}, rejection rates under skewed data are {pct(ln['welch'])} "
            f"(Welch), {pct(ln['mann_whitney'])} (Mann-Whitney) and {pct(ln['permutation'])} (permutation). Without a "
            f"shift no test rejects more than {pct(worst)} of the time.",
            "Introduction": "Comparisons between learning algorithms rest on few runs: five, ten, sometimes twenty "
            "seeds. Which test one uses matters then. Textbook advice prefers rank tests for skewed data, while "
            "permutation tests are exact under exchangeability whatever the law. This is a simulation study and "
            "nothing else: every observation in it is drawn by a random number generator, and the rates are counted. "
            "[[No trained model is involved.|No model is trained anywhere.]]",
            "Method": "Group A is drawn from a law with mean zero, group B from the same law plus a shift. The laws "
            "are normal, centred lognormal (skewed) and Student t with three degrees of freedom (heavy tails), scaled "
            "to comparable spread. We apply Welch's t test, the Mann-Whitney U test and a two-sided permutation test "
            f"of the difference in means with {c['perms']} random permutations. A test rejects when p ≤ 0.05. The "
            "rejection rate is the number of rejections divided by the number of replications.",
            "Setup": f"Each group has n = {c['n']} observations. Shifts are {', '.join(map(str, c['shifts']))}. Every "
            f"cell of the table rests on {c['reps']} independent replications, so the Monte Carlo standard error of a "
            f"rate near one half is {0.5 / c['reps'] ** 0.5:.3f}, and near 0.05 it is "
            f"{(0.05 * 0.95 / c['reps']) ** 0.5:.4f}. One generator with seed {c['seed']} serves the whole study.",
            "Results": table(["law", "shift", "Welch", "Mann-Whitney", "permutation"], rows)
            + f"\n\nFor normal data and the largest shift, Welch ({f3(no['welch'])}) is "
            f"{word(no['welch'], no['mann_whitney'])} Mann-Whitney ({f3(no['mann_whitney'])}). For lognormal data "
            f"Mann-Whitney ({f3(ln['mann_whitney'])}) is {word(ln['mann_whitney'], ln['welch'])} Welch "
            f"({f3(ln['welch'])}), and the permutation test reaches {f3(ln['permutation'])}. Rows with shift 0.0 are "
            f"the size of the tests; the largest is {f3(worst)}.",
            "Discussion": "Rank and mean are different targets: under skew the rank test answers a slightly different "
            "question and is rewarded for it. The permutation test tracks Welch closely because both look at means.",
            "Limitations": "Two groups, equal sizes, independent draws. Seeds of real trainings share data and are not "
            "independent in this sense, so the rates are best cases.",
            "Conclusion": f"With {c['n']} runs per side and a shift of {big} in lognormal data, the choice of test "
            f"moves the rejection rate between {pct(min(ln.values()))} and {pct(max(ln.values()))}."}
    cfg = {"n": v["n"], "laws": ["normal", "lognormal", "t3"], "shifts": v["shifts"], "reps": v["reps"], "perms": 99,
           "seed": v["seed"]}
    return Base(sources("power_study", "power_tests.py", "study.py"), ["study.py"], cfg, paper,
                {"power_tests.py": "(laws and tests)", "study.py": "(counts rejections)"}, tests=tests("power_study"),
                notes="Monte "
                "Carlo power of three two-sample tests.")


def early_stop(v: V) -> Base:
    def paper(r: Any, v: V, c: V) -> Parts:
        acc = {k: [x["test_acc"] for x in r[k]] for k in r}
        ep = {k: [float(x["epochs"]) for x in r[k]] for k in r}
        names = {k: "no stopping" if k == "0" else f"patience {k}" for k in r}
        rows = [[names[k], f"{mean(ep[k]):.1f}", ms(acc[k])] for k in r]
        pat = [k for k in r if k != "0"]
        a, z = pat[0], "0"
        save_ = 1 - mean(ep[a]) / mean(ep[z])
        return {
            "title": v["title"],
            "abstract": "How much accuracy does impatient early stopping cost? For a one-layer network on "
            f"{c['train']} handwritten digits, stopping after {a} epochs without progress ends after {mean(ep[a]):.1f} "
            f"epochs on average instead of {mean(ep[z]):.1f} and reaches a test accuracy of {f3(mean(acc[a]))}, "
            f"against {f3(mean(acc[z]))} for the full budget. Short patience thus saves {pct(save_, 0)} of the epochs.",
            "Introduction": "Early stopping is used both as a regulariser and to save time (Prechelt, 1998). The "
            "patience, that is the number of epochs one waits for an improvement, is mostly copied from one project "
            "to the next. We measure its effect in the simplest setting we could think of, [[where training takes a "
            "second|where one training takes about a second]] and every epoch can be logged.",
            "Method": f"A network with one hidden layer of {c['hidden']} rectified units is trained with Adam. After "
            "each epoch the accuracy on a validation part is computed. The weights with the best validation accuracy "
            "are kept and used for the test, also when the full budget is spent. Patience p stops after p epochs in a "
            "row without a *strict* improvement. Since validation accuracy is a step function, plateaus are frequent "
            "and short patience is hit early.",
            "Setup": "We use the 8×8 digits that come with scikit-learn. Of the training part (60%), the first "
            f"{c['train']} points are used, a quarter of these for validation; {r[z][0]['n_test']} points are the test "
            f"set. Seeds are {', '.join(map(str, c['seeds']))}, the budget is {c['epochs']} epochs, the step "
            f"{c['lr']}, the batch 32. Every seed changes the split and the initial weights. The log has one line for "
            "each epoch.",
            "Results": table(["rule", "epochs", "test accuracy"], rows)
            + f"\n\nThe shortest patience ends after {min(ep[a]):.0f} to {max(ep[a]):.0f} epochs. Its mean accuracy is "
            f"{word(mean(acc[a]), mean(acc[z]))} that of the full budget ({f3(mean(acc[a]))} and {f3(mean(acc[z]))}), "
            f"a gap of {pp(mean(acc[a]), mean(acc[z]))}. " + " ".join(
                f"Patience {k} uses {mean(ep[k]):.1f} epochs and gives {f3(mean(acc[k]))}." for k in pat[1:]),
            "Discussion": f"The standard deviation over seeds without stopping is {f3(sd(acc[z]))}; gaps of that order "
            "should not be over-read. Curves that are almost flat over the last epochs in the log are simply those of "
            "a network that has fitted its small training set.",
            "Limitations": "One data set, one network, one optimiser, few seeds. The validation part is small, so the "
            "choice of the best epoch is itself noisy.",
            "Conclusion": f"A patience of {a} saves {pct(save_, 0)} of the epochs; the mean accuracy is "
            f"{f3(mean(acc[a]))} in place of {f3(mean(acc[z]))}."}
    cfg = {"hidden": v["hidden"], "train": v["train"], "epochs": v["epochs"], "lr": 0.003, "patience": v["patience"],
           "seeds": v["seeds"]}
    return Base(sources("early_stop", "train.py"), ["train.py"], cfg, paper, {"train.py": "(training loop with "
    "patience)"},
                logs=["train.log"], notes="Patience in early stopping on small digits.")


def active(v: V) -> Base:
    def paper(r: Any, v: V, c: V) -> Parts:
        ok = {k: x for k, x in r.items() if x}
        sets = ", ".join(f"{k} (n = {x['n']})".replace(".csv", "") for k, x in ok.items())
        rows = [[k.replace(".csv", ""), str(x["n"]), ms(x["random"]), ms(x["uncertainty"])] for k, x in ok.items()]
        wins = sum(mean(x["uncertainty"]) > mean(x["random"]) for x in ok.values())
        k0 = max(ok, key=lambda k: mean(ok[k]["uncertainty"]) - mean(ok[k]["random"]))
        a, b = mean(ok[k0]["uncertainty"]), mean(ok[k0]["random"])
        retries, runs = sum(x["retries"] for x in ok.values()), len(ok) * 2 * len(c["seeds"])
        return {
            "title": v["title"],
            "abstract": f"With a budget of {c['budget']} labels we compare uncertainty sampling with random choice on "
            f"{len(ok)} tabular data sets. Over {len(c['seeds'])} seeds uncertainty sampling has the higher mean "
            f"accuracy on {wins} of {len(ok)} sets; the largest gain is on {k0.replace('.csv', '')}, from {f3(b)} to "
            f"{f3(a)}. "
            + (f"In {retries} cases a run was repeated because the first labels held one class only." if retries else
               "No run failed for want of a second class among the first labels."),
            "Introduction": "Uncertainty sampling (Lewis and Gale, 1994) asks for the labels about which the current "
            "model is least sure. It is simple and often good, and it is known to fail when the early model is "
            "confidently wrong. With small budgets both effects are at work. Papers rarely mention a third, mundane "
            "one: at the very beginning the labelled set may hold one class only, and most implementations then "
            "crash. We report how often that happened.",
            "Method": f"The model is logistic regression on standardised features. We start with {c['start']} labels "
            f"drawn at random and add {c['step']} at a time until {c['budget']} are known. Random sampling draws them "
            "uniformly, uncertainty sampling takes those with a predicted probability nearest to one half. If fitting "
            "fails because of a single class, the run is started again with another draw (seed + 1000), at most five "
            "times; the failure stays in the log.",
            "Setup": f"Sets: {sets}. All tasks are "
            f"binary (wine: second class against the rest{'; digits: odd against even' if 'digits' in ok else ''}). "
            f"A third of each set is the test part. There are {len(c['seeds'])} seeds per cell, {runs} runs in total.",
            "Results": table(["data", "n", "random", "uncertainty"], rows)
            + f"\n\nMeans and standard deviations are over seeds. Uncertainty sampling is ahead on {wins} of {len(ok)} "
            f"sets. On {k0.replace('.csv', '')} the gap is {pp(a, b)}. " + (
                f"In {retries} cases a start had a single class and was drawn again; the log shows each of these "
                "failures with its error message, and the table holds the repeated "
                "runs." if retries else "No run had to be "
                "repeated."),
            "Discussion": "The gains are of the size that the literature reports for easy tabular sets. Repeating a "
            "failed start changes the distribution of starts a little: both classes are present by construction "
            "afterwards. This holds for both strategies alike and leaves the comparison fair.",
            "Limitations": "Binary tasks, one model and a fixed batch of queries. Budgets beyond the one tested may "
            "tell another story; random choice usually catches up.",
            "Conclusion": f"At {c['budget']} labels, uncertainty sampling wins on {wins} of {len(ok)} sets, with at "
            f"most {pp(a, b)} over random choice."}
    cfg = {"sets": v["sets"], "start": v["start"], "step": v["step"], "budget": v["budget"], "seeds": v["seeds"]}
    return Base(sources("active", "active.py"), ["active.py"], cfg, paper, {"active.py": "(pool, strategies, retries)"},
                logs=[v["log"]], notes="Uncertainty sampling under a small label budget.")


def diverge(v: V) -> Base:
    def paper(r: Any, v: V, c: V) -> Parts:
        n, p, q = len(c["seeds"]), r["plain"], r["clipped"]

        def cell(x: Any) -> str:
            if x["sd"] is not None:
                return f"{x['acc']:.3f} ± {x['sd']:.3f}"
            return "none" if x["acc"] is None else f3(x["acc"])
        rows = [[name, str(n), str(len(x["failed_seeds"])), cell(x)] for name, x in (("plain SGD", p), ("clipped "
        "SGD", q))]
        acc_p = f3(p["acc"]) if p["acc"] is not None else "undefined"
        gap = f"{pp(q['acc'], p['acc'])} {word(q['acc'], p['acc'])}" if p["acc"] is not None else "not comparable with"
        return {
            "title": v["title"],
            "abstract": f"Gradient clipping is said to make large steps safe. With a step of {c['lr']}, plain gradient "
            f"descent on digits diverges for {len(p['failed_seeds'])} of {n} seeds, clipped descent for "
            f"{len(q['failed_seeds'])}. The mean accuracy of the runs that finish is {acc_p} without and "
            f"{f3(q['acc'])} with clipping. We report failures separately, since a mean over survivors alone would "
            "hide them.",
            "Introduction": "When some of the runs of an experiment diverge there are two bad habits: to leave the "
            "seeds out silently, or to lower the step until the problem disappears for the baseline only. We do "
            "neither. The question here is how often a small network diverges at a fixed, large step, and whether "
            "clipping the gradient norm (Pascanu et al., 2013) prevents it.",
            "Method": f"The network has two hidden layers of {c['hidden']} leaky rectified units and a softmax output; "
            f"it is written in numpy, with gradients by hand. Clipping rescales the whole gradient to norm {c['clip']} "
            "whenever it is longer. A run counts as diverged as soon as the norm of the gradient is no longer a "
            "finite number at the end of an epoch; it is then stopped and its seed is listed. Means and standard "
            "deviations are taken over all runs that finish.",
            "Setup": f"Scikit-learn digits, 30% test part, the same split for all runs. {c['epochs']} epochs with "
            f"batches of 64 and step {c['lr']}. The {n} seeds {c['seeds'][0]} to {c['seeds'][-1]} set initial weights "
            "and the order of batches. Nothing else differs between the variants.",
            "Results": table(["variant", "seeds", "diverged", "accuracy (mean ± sd of finished runs)"], rows)
            + f"\n\nThe clipped variant finishes {q['n_ok']} of {n} runs, the plain one {p['n_ok']}. Diverged seeds of "
            f"the plain variant: {', '.join(map(str, p['failed_seeds'])) or 'none'}; of the clipped variant: "
            f"{', '.join(map(str, q['failed_seeds'])) or 'none'}. In accuracy the finished clipped runs are {gap} the "
            "finished plain ones. If a diverged run is counted with chance level (0.1), the plain variant averages "
            f"{((p['acc'] or 0) * p['n_ok'] + 0.1 * len(p['failed_seeds'])) / n:.3f} and the clipped one "
            f"{(q['acc'] * q['n_ok'] + 0.1 * len(q['failed_seeds'])) / n:.3f}.",
            "Discussion": "Divergence is abrupt: within an epoch the loss leaves the range of floating point numbers. "
            "The log says `diverged, skipping seed` at these places. Survivors of the plain variant are a selected "
            "group, so their mean is not comparable in the strict sense, which is why both readings are given.",
            "Limitations": "One step size and one clipping norm. A run that is finite and useless counts as finished "
            "here, which flatters the plain variant in the count and hurts it in the mean.",
            "Conclusion": f"Clipping changes the number of diverged runs from {len(p['failed_seeds'])} to "
            f"{len(q['failed_seeds'])} of {n} and gives a mean accuracy of {f3(q['acc'])}."}
    cfg = {"hidden": v["hidden"], "epochs": v["epochs"], "lr": v["lr"], "clip": v["clip"], "seeds": v["seeds"]}
    return Base(sources("diverge", "net.py", "run_sgd.py"), ["run_sgd.py"], cfg, paper,
                {"net.py": "(the network)", "run_sgd.py": "(training and bookkeeping of failures)"},
                notes="How often does plain SGD diverge, and does clipping help?")
