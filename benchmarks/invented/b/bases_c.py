"""Projects 18-25."""
from __future__ import annotations

from typing import Any

from core import Base, Parts, f2, f3, mean, ms, pct, pp, sd, sources, table, tests, word

V = dict[str, Any]


def anomaly(v: V) -> Base:
    def paper(r: Any, v: V, c: V) -> Parts:
        names = {"iforest": "isolation forest", "knn": "k-NN distance", "lof": "local outlier factor",
                 "mahalanobis": "Mahalanobis"}
        sets = list(r)
        rows = [[names[m], *(ms(r[s][m]) for s in sets)] for m in names]
        best = {s: max(names, key=lambda m: mean(r[s][m])) for s in sets}
        s0 = sets[0]
        return {
            "title": v["title"],
            "abstract": f"Four standard detectors are compared on {len(sets)} tabular sets into which we inject "
            f"anomalies with the right marginals and the wrong dependence between features. Mean AUROC on {s0} is "
            + ", ".join(f"{f3(mean(r[s0][m]))} ({names[m]})" for m in names) + ". " + " ".join(
                f"On {s} the best is {names[best[s]]} with {f3(mean(r[s][best[s]]))}." for s in sets[1:]),
            "Introduction": "Benchmarks of anomaly detection mostly relabel a class as anomalous. Those anomalies are "
            "often far away from everything and easy to find. We inject artificial ones that are harder on purpose: "
            "each feature value occurs in the data, only the combination is unusual. Detectors that look at features "
            "one at a time are then at a loss, while those that use distances or covariances have a chance.",
            "Method": "A fake anomaly takes each feature from the corresponding column shuffled over points, except "
            f"that a share of {c['mix']} of the features is kept from one true point. The larger that share, the "
            "subtler the anomaly. Detectors are the isolation forest (Liu et al., 2008) with 60 trees, the distance "
            f"to the {c['k']}th neighbour, the local outlier factor (Breunig et al., 2000) with {c['k']} neighbours "
            "and the squared Mahalanobis distance with a ridge of 0.1. They see all points without labels; AUROC is "
            "computed with the labels of the injection.",
            "Setup": f"Sets: {', '.join(sets)} {v.get('origin', 'from scikit-learn')}, standardised. "
            f"{pct(c['share'], 0)} anomalies are added to each. Over the {len(c['seeds'])} seeds "
            f"({', '.join(map(str, c['seeds']))}) injection and forest change; the clean points stay.",
            "Results": table(["detector", *sets], rows) + "\n\n" + " ".join(
                f"On {s}, {names[best[s]]} ranks first with an AUROC of {f3(mean(r[s][best[s]]))}, and the isolation "
                f"forest has {f3(mean(r[s]['iforest']))}." for s in sets)
            + " The standard deviations over seeds stay at or below "
            f"{max(sd(r[s][m]) for s in sets for m in names):.3f}.",
            "Discussion": "The isolation forest splits on one feature at a time and needs several splits to see an "
            "unusual combination. The Mahalanobis distance sees linear dependence at once, which is what the "
            "injection destroys. That it does well is thus partly built into the task, and we say so.",
            "Limitations": "Injected anomalies are no substitute for real ones. We did not tune the number of "
            "neighbours, and the anomalies are present while the detectors are fitted.",
            "Conclusion": "For anomalies of dependence, " + "; ".join(
                f"{names[best[s]]} leads on {s} ({f3(mean(r[s][best[s]]))})" for s in sets) + "."}
    cfg = {"sets": v["sets"], "share": v["share"], "mix": v["mix"], "k": v["k"], "seeds": v["seeds"]}
    return Base(sources("anomaly", "detect.py"), ["detect.py"], cfg, paper, {"detect.py": "(injection, detectors, "
    "AUROC)"},
                notes="Detectors against shuffled-feature anomalies.")


def impute(v: V) -> Base:
    def paper(r: Any, v: V, c: V) -> Parts:
        ms_ = ["mean", "knn", "regression", "blend"]
        rows = [[pct(float(k), 0), *(ms(x[m]) for m in ms_)] for k, x in r.items()]
        last, first = list(r)[-1], list(r)[0]
        gain = {k: 1 - float(f3(mean(x["blend"]))) / float(f3(min(mean(x["knn"]), mean(x["regression"])))) for k,
                x in r.items()}
        ahead = sum(g > 0 for g in gain.values())
        return {
            "title": v["title"],
            "abstract": "We average two imputations, nearest neighbours and iterated regression, and ask whether the "
            f"blend is better than both. On the {c['data']} data with {pct(float(first), 0)} to {pct(float(last), 0)} "
            f"hidden values, the blend has the lowest error at {ahead} of {len(r)} rates. At {pct(float(first), 0)} "
            f"its root mean squared error is {f3(mean(r[first]['blend']))}, a relative change of "
            f"{100 * -gain[first]:+.1f}% against the better member.",
            "Introduction": "Imputation by neighbours and imputation by regression err in different ways: the first "
            "is local and biased towards the mean in sparse regions, the second extrapolates. Averages of predictors "
            "with different errors often improve on each of them. We check whether this simple idea carries over to "
            "missing values, for values that are hidden completely at random, so that the truth is known.",
            "Method": f"The blend is a weighted average, with weight {c['weight']} for nearest neighbours (k = "
            f"{c['k']}) and the rest for iterated ridge regression (four rounds). Filling with the column mean is the "
            "floor. Hidden entries are marked with a placeholder of -999 in the matrix and turned into missing values "
            "before an imputer sees them. The error is the root mean squared difference between the true and the "
            "filled value over hidden entries only, in units of the feature's standard deviation.",
            "Setup": f"The first {c['rows']} rows of {c['data']} (scikit-learn), standardised. Rates: "
            f"{', '.join(pct(float(k), 0) for k in r)}. For each rate we hide entries {len(c['seeds'])} times with "
            "different seeds and run every imputer on the same holes. Errors of all four are measured in each of "
            "these runs.",
            "Results": table(["hidden", "column mean", "neighbours", "regression", "blend"], rows)
            + "\n\n" + " ".join(f"At {pct(float(k), 0)} the blend has {f3(mean(x['blend']))}, the better member "
                                f"{f3(min(mean(x['knn']), mean(x['regression'])))}: "
                                f"{100 * -gain[k]:+.1f}%." for k, x in r.items())
            + f" The column mean stays between {min(mean(x['mean']) for x in r.values()):.3f} and "
            f"{max(mean(x['mean']) for x in r.values()):.3f}, as it must for standardised features.",
            "Discussion": "The blend pays as long as the errors of its members are not too similar. With many holes, "
            "both members fall back on the few values that are left and become alike, and also more uncertain.",
            "Limitations": "Values missing at random are the easiest case. The weight was fixed beforehand and not "
            "tuned per rate. What a better imputation does for a classifier behind it was not looked at.",
            "Conclusion": f"The blend is the best of the four at {ahead} of {len(r)} rates on {c['data']}."}
    cfg = {"data": v["data"], "rows": v["rows"], "rates": v["rates"], "k": v["k"], "weight": v["weight"],
           "seeds": v["seeds"]}
    return Base(sources("impute", "impute.py"), ["impute.py"], cfg, paper, {"impute.py": "(hiding, imputers, errors)"},
                notes="Blending two imputations.")


def private(v: V) -> Base:
    def paper(r: Any, v: V, c: V) -> Parts:
        rows = [[str(x["eps"]), f3(x["acc"])] for x in r["rows"]] + [["no noise", f3(r["no_noise"])]]
        acc = [round(x["acc"], 3) for x in r["rows"]]
        dips = sum(b < a for a, b in zip(acc, acc[1:]))
        a, z = r["rows"][0], r["rows"][-1]
        return {
            "title": v["title"],
            "abstract": "How much accuracy does differential privacy cost on a data set of a few hundred points? With "
            f"noisy clipped gradients on {c['data']}, the mean accuracy over {r['seeds']} seeds is {f3(a['acc'])} at ε "
            f"= {a['eps']} and {f3(z['acc'])} at ε = {z['eps']}, compared with {f3(r['no_noise'])} without noise. "
            f"Between neighbouring budgets the accuracy falls in {dips} of {len(acc) - 1} steps.",
            "Introduction": "Differential privacy (Dwork et al., 2006) bounds what a trained model can reveal about a "
            "single record. The bound is bought with noise, and with few records the noise is large against the "
            "signal. Most published trade-offs are for large image sets. We look at the other end and trace accuracy "
            "against the budget for logistic regression on a small tabular problem.",
            "Method": f"Training is gradient descent with per-record gradients clipped to norm {c['clip']}. Gaussian "
            "noise is added to the sum of the clipped gradients in every step; its scale follows from the Gaussian "
            f"mechanism with basic composition over {c['steps']} steps and δ = {c['delta']}. This accounting is loose; "
            "tighter accountants would allow less noise for the same ε. Drawing random noise is what the mechanism "
            "consists of. It enters the gradients and nowhere else, and accuracy is counted on the test part.",
            "Setup": f"The {c['data']} data (scikit-learn{', odd against even' if c['data'] == 'digits' else ''}), "
            f"standardised, 30% for testing. Step {c['lr']}, {c['steps']} steps. Seeds "
            f"{', '.join(map(str, c['seeds']))} set the split and the noise. Budgets: {', '.join(map(str, c['eps']))}. "
            "We report the mean over seeds at each budget, as measured.",
            "Results": table(["ε", "accuracy"], rows)
            + f"\n\nFrom ε = {a['eps']} to ε = {z['eps']} the accuracy changes by {pp(z['acc'], a['acc'])}. At the "
            f"largest budget it is {word(z['acc'], r['no_noise'])} the run without noise ({f3(z['acc'])} and "
            f"{f3(r['no_noise'])}). The number of budgets at which accuracy is lower than at the next smaller one is "
            f"{dips}.",
            "Discussion": ("The curve is not monotone; with few seeds, dips of a percentage point or more are within "
                           "the noise that the mechanism itself adds." if dips
                           else "The curve rises at each step, so that more "
                           "budget never hurts on average."),
            "Limitations": "Loose accounting, a convex model and public knowledge of the feature scales. The budget "
            "that would be spent on choosing step and clipping norm is ignored, as is common and not quite right.",
            "Conclusion": f"Privacy at ε = {a['eps']} leaves {f3(a['acc'])} of an accuracy of {f3(r['no_noise'])}."}
    cfg = {"data": v["data"], "eps": v["eps"], "delta": 1e-4, "clip": 1.0, "steps": v["steps"], "lr": v["lr"],
           "seeds": v["seeds"]}
    return Base(sources("private", "private_lr.py"), ["private_lr.py"], cfg, paper, {"private_lr.py": "(mechanism, "
    "training, table)"},
                notes="Accuracy against privacy budget for logistic regression.")


def distil(v: V) -> Base:
    def paper(r: Any, v: V, c: V) -> Parts:
        col = {k: [x[k] for x in r["rows"]] for k in ("teacher", "plain", "distilled")}
        rows = [[str(x["seed"]), f3(x["teacher"]), f3(x["plain"]), f3(x["distilled"])] for x in r["rows"]]
        rows.append(["mean", *(f3(mean(col[k])) for k in col)])
        wins = sum(a > b for a, b in zip(col["distilled"], col["plain"]))
        p, d = mean(col["plain"]), mean(col["distilled"])
        return {
            "title": v["title"],
            "abstract": f"A network with {c['hidden']} hidden units is trained on {c['train']} digits with and without "
            f"the soft outputs of a support vector teacher. With a distillation weight of {c['alpha']} the student "
            f"reaches {f3(d)} on average over {len(rows) - 1} seeds, without it {f3(p)}; the teacher has "
            f"{f3(mean(col['teacher']))}. The distilled student is ahead on {wins} of {len(rows) - 1} seeds.",
            "Introduction": "Distillation (Hinton et al., 2015) trains a small model on the soft outputs of a large "
            "one. It is best known for deep networks. A support vector machine is an unusual teacher: it has no "
            "probabilities, only decision values, yet on small image sets it is often the strongest model at hand. We "
            "ask whether its soft values help a tiny student that sees the very same training points.",
            "Method": f"The teacher's decision values are divided by a temperature of {c['temp']} and passed through a "
            "softmax. The student minimises (1 - a) times the cross entropy with the labels plus a times the cross "
            f"entropy with the soft targets, at the same temperature. The weight a is zero for the first {c['warmup']} "
            f"epochs and rises linearly to {c['alpha']} within {c['ramp']} epochs, where it stays until the end. The "
            "plain student has a = 0 throughout. Students start from independent initial weights.",
            "Setup": f"{c['train']} digits for training, {r['rows'][0]['n_test']} for testing, split by class with the "
            f"seed. {c['epochs']} epochs, batches of 32, Adam with step {c['lr']}. The teacher is an RBF machine with "
            f"C = 10 and gamma = 0.5. Seeds: {', '.join(map(str, c['seeds']))}. All scores are taken after the last "
            "epoch.",
            "Results": table(["seed", "teacher", "plain student", "distilled student"], rows)
            + f"\n\nThe distilled student is {word(d, p)} the plain one by {pp(d, p)} in the mean. The standard "
            f"deviation over seeds is {f3(sd(col['plain']))} for the plain and {f3(sd(col['distilled']))} for the "
            f"distilled student. Measured by errors, the distilled student makes {pct(1 - float(f3(d)))} errors and "
            f"the plain one {pct(1 - float(f3(p)))}.",
            "Discussion": "Soft targets carry the teacher's view of which classes are close. On training points the "
            "teacher is nearly always right, so the soft targets agree with the labels in the first place and differ "
            "in the second.",
            "Limitations": "One teacher, one temperature and one weight. With independent initial weights, part of "
            "the difference between students is chance, and few seeds cannot separate it.",
            "Conclusion": f"The distilled student has {f3(d)} against {f3(p)} of the plain one and wins on {wins} of "
            f"{len(rows) - 1} seeds."}
    cfg = {"train": v["train"], "hidden": v["hidden"], "epochs": v["epochs"], "warmup": 5, "ramp": 10,
           "alpha": v["alpha"],
           "temp": v["temp"], "lr": 0.004, "seeds": v["seeds"]}
    return Base(sources("distil", "net.py", "distil.py"), ["distil.py"], cfg, paper,
                {"net.py": "(layers and optimiser)", "distil.py": "(teacher, students, scores)"},
                notes="Distilling a support vector machine into a small network.")


def fairness(v: V) -> Base:
    def paper(r: Any, v: V, c: V) -> Parts:
        rows = [[m, pct(x["acc"]), f"{x['A'][1]}/{x['A'][0]}", pct(x["tpr_A"]), f"{x['B'][1]}/{x['B'][0]}",
                 pct(x["tpr_B"]),
                 f"{round(100 * x['tpr_A'], 1) - round(100 * x['tpr_B'], 1):.1f}"] for m, x in r.items()]
        gap = {m: row[-1] for m, row in zip(r, rows)}
        pl, gc, rw = r["plain"], r["group cut"], r["reweighed"]
        ga = (pp(pl["acc"], gc["acc"]))
        return {
            "title": v["title"],
            "abstract": "On simulated credit data in which one group is measured less well, we compare two simple "
            f"repairs. Plain logistic regression approves {pct(pl['tpr_A'])} of the qualified applicants of group A "
            f"and {pct(pl['tpr_B'])} of group B, a gap of {gap['plain']} percentage points. Cuts per group bring the "
            f"gap to {gap['group cut']} points at an accuracy of {pct(gc['acc'])} (plain: {pct(pl['acc'])}).",
            "Introduction": "Equal opportunity (Hardt et al., 2016) asks that qualified people be approved at equal "
            "rates in all groups. When one group is measured with more noise and a shift, a single rule fails this "
            "even without any ill intent. Kamiran and Calders (2012) proposed to reweigh the training data; cuts that "
            "differ by group are the more direct tool. We compare both on simulated applicants, because only there is "
            "the true qualification known.",
            "Method": "Applicants have a merit drawn from a normal law and a label that follows it with noise. The "
            f"measured income of group B is lower by {c['shift']} and noisier. Reweighing gives each combination of "
            "group and label the weight that would make them independent. Group cuts choose, on the training data, "
            f"the quantile at which {pct(c['target'], 0)} of the qualified of each group are approved. Rates are "
            "computed from counts pooled over all seeds: approved qualified applicants divided by qualified "
            "applicants.",
            "Setup": f"Each of the {len(c['seeds'])} seeds simulates {c['n']} applicants for training and {c['n']} for "
            f"testing, a share of {pct(c['share_b'], 0)} in group B. The test counts of all seeds are added, "
            f"{pl['A'][3] + pl['B'][3]} applicants in all: {pl['A'][3]} in group A and {pl['B'][3]} in group B.",
            "Results": table(["method", "accuracy", "A approved", "A rate", "B approved", "B rate", "gap "
            "(points)"], rows)
            + f"\n\nThe plain rule has a gap of {gap['plain']} percentage points, reweighing {gap['reweighed']} and "
            f"group cuts {gap['group cut']}. Accuracy differs by {ga} between the plain rule and group cuts. "
            f"Reweighing has an accuracy of {pct(rw['acc'])}.",
            "Discussion": "Reweighing changes the intercept and the slope a little, but it cannot treat the groups "
            "differently at the time of decision since the group is not an input. Group cuts can, and whether they "
            "may is a legal question. Rates are rounded to one decimal and gaps are differences of the rounded rates.",
            "Limitations": "The bias in the data is of one simple kind. Real measurements err in ways that are not "
            "known, and then the training labels themselves cannot be trusted.",
            "Conclusion": f"Group cuts bring the gap from {gap['plain']} to {gap['group cut']} points, reweighing to "
            f"{gap['reweighed']}."}
    cfg = {"n": v["n"], "share_b": v["share_b"], "shift": v["shift"], "target": v["target"], "seeds": v["seeds"]}
    return Base(sources("fairness", "credit.py", "audit.py"), ["audit.py"], cfg, paper,
                {"credit.py": "(simulated applicants)", "audit.py": "(three rules and pooled counts)"},
                notes="Equal opportunity on simulated credit data.")


def grid(v: V) -> Base:
    def paper(r: Any, v: V, c: V) -> Parts:
        names = {"qlearning": "Q-learning", "sarsa": "SARSA", "expected": "expected SARSA"}
        last = {k: [x["last"] for x in r[k]] for k in names}
        first = {k: [x["first"] for x in r[k]] for k in names}
        rows = [[names[k], ms(first[k], 1), ms(last[k], 1)] for k in names]
        best = max(names, key=lambda k: mean(last[k]))
        time_ = v.get("time") or f"All trainings together took {r['seconds']:.1f} seconds of wall time."
        return {
            "title": v["title"],
            "abstract": "The cliff walk is the standard illustration of the difference between on-policy and "
            f"off-policy learning. With slippery ground (slip {c['slip']}), the mean return over the last 100 episodes "
            f"is {mean(last['qlearning']):.1f} for Q-learning, {mean(last['sarsa']):.1f} for SARSA and "
            f"{mean(last['expected']):.1f} for expected SARSA, over {len(c['seeds'])} seeds.",
            "Introduction": "Sutton and Barto use a cliff to show that Q-learning learns the shortest path and falls "
            "while it explores, whereas SARSA learns a safer one. In the textbook the ground is firm. With slippery "
            "ground falls also happen under the greedy policy, and it is less clear what off-policy learning loses. "
            "We repeat the experiment with slip and add expected SARSA (van Seijen et al., 2009).",
            "Method": "States are the cells of a grid, actions the four directions. A step costs one, a fall costs "
            f"100 and returns the agent to the start. With probability {c['slip']} the chosen action is replaced by a "
            f"random one. All agents explore with ε = {c['eps']} throughout and learn with step {c['lr']} without "
            "discount; they differ only in the value of the next state: the maximum, the value of the next action, or "
            "its expectation under the exploring policy.",
            "Setup": f"The grid is {c['width']} by {c['height']}; {c['episodes']} episodes of at most {c['horizon']} "
            f"steps; seeds {', '.join(map(str, c['seeds']))}. We report the mean return of the first 50 and the last "
            f"100 episodes, while exploring. {time_}",
            "Results": table(["agent", "first 50 episodes", "last 100 episodes"], rows)
            + f"\n\nThe best return at the end belongs to {names[best]} ({mean(last[best]):.1f}). SARSA is "
            f"{word(mean(last['sarsa']), mean(last['qlearning']), 1)} Q-learning by "
            f"{abs(round(mean(last['sarsa']), 1) - round(mean(last['qlearning']), 1)):.1f}. Expected SARSA and SARSA "
            f"differ by {abs(round(mean(last['expected']), 1) - round(mean(last['sarsa']), 1)):.1f}.",
            "Discussion": "The returns include falls caused by exploration. An evaluation with the greedy policy "
            "would treat Q-learning more kindly. Early returns are poor for every agent because an untrained agent "
            "falls often.",
            "Limitations": "Tabular agents in a world with a few dozen states. The step size was not tuned, and it "
            "affects SARSA and expected SARSA differently.",
            "Conclusion": f"On slippery ground the returns at the end are {mean(last['qlearning']):.1f}, "
            f"{mean(last['sarsa']):.1f} and {mean(last['expected']):.1f} for Q-learning, SARSA and expected SARSA."}
    cfg = {"width": v["width"], "height": 4, "slip": v["slip"], "eps": 0.1, "lr": v["lr"], "episodes": v["episodes"],
           "horizon": 150, "seeds": v["seeds"]}
    return Base(sources("grid", "gridworld.py", "agents.py"), ["agents.py"], cfg, paper,
                {"gridworld.py": "(simulated environment)", "agents.py": "(three agents)"}, notes="Cliff walking with "
                "slip.")


def crowd(v: V) -> Base:
    def paper(r: Any, v: V, c: V) -> Parts:
        s, m, d = r["single"], r["majority"], r["dawid_skene"]
        rows = [[n, ms(x), f3(min(x)), f3(max(x))] for n,
                x in (("single votes", s), ("majority", m), ("Dawid-Skene", d))]
        wins, n = sum(a > b for a, b in zip(d, m)), len(m)
        who = v["who"]
        return {
            "title": v["title"],
            "abstract": f"Labels from several people have to be merged. {who['abstract']} With {c['per_item']} votes "
            f"per item, majority voting is right for {pct(mean(m))} of the items and the model of Dawid and Skene for "
            f"{pct(mean(d))}; a single vote is right in {pct(mean(s))} of the cases.",
            "Introduction": "Dawid and Skene (1979) estimate, together with the labels, how each rater errs. Majority "
            "voting ignores who said what. When raters differ in skill, or share a habit of choosing one class when "
            "unsure, the model should gain. With few votes per rater its estimates are noisy and it may lose instead. "
            f"{who['intro']}",
            "Method": f"Every item gets {c['per_item']} votes from different workers, out of {c['workers']}. Majority "
            "voting takes the most frequent class and the first of them in a tie. The model is fitted with "
            f"{c['rounds']} rounds of expectation maximisation from the vote shares, with a pseudo count of one half "
            f"in each cell of the confusion matrices. {who['method']}",
            "Setup": f"There are {n} rounds, each with {c['items']} items of {c['classes']} classes and hence "
            f"{c['items'] * c['per_item']} votes. {who['setup']} Accuracy is the share of items with the right merged "
            "label, reported as mean and standard deviation over rounds.",
            "Results": table(["rule", "accuracy", "lowest", "highest"], rows)
            + f"\n\nDawid-Skene is ahead of majority voting in {wins} of {n} rounds, and its mean is "
            f"{word(mean(d), mean(m))} that of majority voting by {pp(mean(d), mean(m))}. Majority voting adds "
            f"{pp(mean(m), mean(s))} to a single vote.",
            "Discussion": f"Each worker sees {c['items'] * c['per_item'] / c['workers']:.0f} items on average, which "
            "is what the confusion matrices are estimated from. More classes would need more votes per worker. The "
            "pseudo count matters little here.",
            "Limitations": f"Workers err independently given the class. {who['limits']} Difficulty does not vary "
            "between items in the model.",
            "Conclusion": f"Modelling raters gives {pct(mean(d))} in place of {pct(mean(m))} for majority voting."}
    cfg = {"workers": v["workers"], "items": v["items"], "classes": v["classes"], "per_item": v["per_item"],
           "low": v["low"],
           "high": 0.9, "rounds": 20, "seeds": v["seeds"]}
    return Base(sources("crowd", "aggregate.py", "rounds.py"), ["rounds.py"], cfg, paper,
                {"aggregate.py": "(majority voting and Dawid-Skene)", "rounds.py": "(votes and accuracy)"},
                tests=tests("crowd"), notes="Merging "
                "votes with and without a model of the raters.")


def shadow(v: V) -> Base:
    def paper(r: Any, v: V, c: V) -> Parts:
        st, runs = r["stats"], r["runs"]
        names = {"shadow": "shadow features", "lasso": "lasso (cross-validated)"}
        rows = [[names[k], *(f"{st[k][m]['mean']:.3f} ± {st[k][m]['sd']:.3f}" for m in ("power", "fdp"))]
                for k in names]
        per = [[str(a["seed"]), f3(a["power"]), f3(a["fdp"]), f3(b["power"]), f3(b["fdp"])]
               for a, b in zip(runs["shadow"], runs["lasso"])]
        s, la = st["shadow"], st["lasso"]
        return {
            "title": v["title"],
            "abstract": "Shadow features are fake features, made by shuffling real ones, that a useful feature has to "
            f"beat. On simulated regressions with {c['relevant']} relevant features among {c['p']}, they find "
            f"{f3(s['power']['mean'])} of the relevant ones at a false discovery proportion of {f3(s['fdp']['mean'])}; "
            f"the lasso finds {f3(la['power']['mean'])} at {f3(la['fdp']['mean'])}. Means are over {len(per)} seeds.",
            "Introduction": "Variable importance has no natural zero. Boruta (Kursa and Rudnicki, 2010) creates one "
            "by adding permuted copies of all features: whatever importance a fake feature reaches by chance is the "
            "bar for the real ones. Cross-validated lasso, on the other hand, optimises prediction and is known to "
            "let in too many features. We compare what the two select when the truth is known because the data are "
            "simulated.",
            "Method": f"In each of {c['rounds']} rounds every column is shuffled to give a fake twin, and a forest of "
            "25 extremely randomised trees is fitted on real and fake columns together. A feature is kept if it beats "
            "the best fake in more than half of the rounds. The lasso is tuned by four-fold cross-validation, and its "
            "non-zero coefficients are the selection. Power is the share of relevant features that are selected; the "
            "false discovery proportion is the share of irrelevant ones among the selected.",
            "Setup": f"n = {c['n']} points, {c['p']} Gaussian features, neighbouring pairs correlated with 0.5; "
            f"{c['relevant']} coefficients of ±{c['signal']} and unit noise. The {len(per)} seeds each simulate a new data "
            "set. Both methods see the same data.",
            "Results": table(["method", "power", "false discovery proportion"], rows) + "\n\nThe single seeds:\n\n"
            + table(["seed", "power (shadow)", "FDP (shadow)", "power (lasso)", "FDP (lasso)"], per)
            + f"\n\nThe lasso is {word(la['power']['mean'], s['power']['mean'])} shadow features in power "
            f"({f3(la['power']['mean'])} and {f3(s['power']['mean'])}) and {word(la['fdp']['mean'], s['fdp']['mean'])} "
            f"them in false discoveries ({f3(la['fdp']['mean'])} and {f3(s['fdp']['mean'])}). It selects "
            f"{mean([x['chosen'] for x in runs['lasso']]):.1f} features on average, the shadow rule "
            f"{mean([x['chosen'] for x in runs['shadow']]):.1f}.",
            "Discussion": "The bar set by the best fake among many is high, which keeps false discoveries rare and "
            "costs power. The lasso has no such bar. For prediction, its extra features do little harm; as statements "
            "on relevance, they are wrong.",
            "Limitations": "A linear truth favours the lasso. The number of rounds is small, and a full Boruta would "
            "use tests and drop features on the way.",
            "Conclusion": f"Shadow features select with a false discovery proportion of {f3(s['fdp']['mean'])} (lasso: "
            f"{f3(la['fdp']['mean'])}) at a power of {f3(s['power']['mean'])} (lasso: {f3(la['power']['mean'])})."}
    cfg = {"n": v["n"], "p": v["p"], "relevant": v["true"], "signal": v["signal"], "rounds": v["rounds"],
           "seeds": v["seeds"]}
    return Base(sources("shadow", "selection.py"), ["selection.py"], cfg, paper, {"selection.py": "(simulation and "
    "both selections)"},
                notes="Shadow features against the lasso.")
