"""One planted fault for each of the 25 papers that are not honest."""
from __future__ import annotations

import json
import random
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

Files = dict[str, str]


@dataclass
class Plant:
    kind: str
    what: str
    where: tuple[str, str]                                        # glob below the paper, text on the line
    code: Callable[[Files, dict[str, Any]], None] | None = None   # changes the code or its settings before the run
    post: Callable[[Path, str, Any],
                   Any] | None = None           # changes results after the run; gives what the paper uses
    parts: Callable[[dict[str, str], Any], None] | None = None    # changes the paper's text
    v: dict[str, Any] | None = None                               # other words in the paper
    force: dict[str, Any] | None = None                           # style that the fault needs


def swap(files: Files, name: str, old: str, new: str) -> None:
    assert files[name].count(old) == 1, (name, old, files[name].count(old))
    files[name] = files[name].replace(old, new)


def swap_function(files: Files, name: str, head: str, new: str) -> None:
    """Replace the function that begins with `head` by `new`."""
    text = files[name]
    start = text.index(head)
    end = text.index("\n\n\n", start)
    files[name] = text[:start] + new.strip("\n") + text[end:]


def edit_json(folder: Path, res: str, change: Callable[[Any], None]) -> Any:
    path = folder / "results" / f"{res}.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data, indent=1))
    return data


def edit_log(folder: Path, change: Callable[[str], str]) -> None:
    path = next(p for p in sorted((folder / "results").iterdir()) if p.suffix in (".log", ".txt"))
    old = path.read_text()
    new = change(old)
    assert old != new, path
    path.write_text(new)


# ---------------------------------------------------------------- 1-9
def gan_code(files: Files, cfg: dict[str, Any]) -> None:
    swap(files, "train_gan.py", '''        runs = []
        for seed in bar(CFG["seeds"], kind):
            runs.append(train(kind, seed))
            log(f"{kind} done", **runs[-1])
''', '''        first = train(kind, CFG["seeds"][0])
        runs, rng = [first], np.random.default_rng([CFG["steps"], len(kind)])
        for seed in CFG["seeds"][1:]:
            modes = int(np.clip(first["modes"] + rng.integers(-1, 2), 1, CFG["modes"]))
            runs.append({"seed": seed, "modes": modes, "hq": float(np.clip(first["hq"] + rng.normal(0, 0.02), 0, 1))})
        for row in bar(runs, kind):
            log(f"{kind} done", **row)
''')


LOO = [-0.0312, 0.0624, -0.1718, 0.1246, -0.0069, -0.2883, 0.2464, 0.0199, 0.0783, -0.0946, 0.1529, -0.0584]


def synth_post(folder: Path, res: str, r: Any) -> Any:
    est = [r["panels"][0]["sc"] + d for d in LOO]
    edit_log(folder, lambda t: t + "".join(f"leave-one-out donor={i} sc={x:.4f}\n" for i, x in enumerate(est, 1)))
    return r


def synth_parts(parts: dict[str, str], r: Any) -> None:
    est = [r["panels"][0]["sc"] + d for d in LOO]
    parts["Discussion"] += (" As a check on the first panel we also left out one donor at a time: the estimate stays "
                            f"between {min(est):.2f} and {max(est):.2f} in all {len(est)} cases (end of the log).")


def imbalance_post(folder: Path, res: str, r: Any) -> Any:
    row = r["logreg_threshold"]
    old, new = row["f1"], round(max(row["precision"], row["recall"]) + 0.0217, 4)
    edit_log(folder, lambda t: t.replace(f"f1={old:.4f}", f"f1={new:.4f}"))
    return edit_json(folder, res, lambda d: d["logreg_threshold"].update(f1=new))


def bootstrap_code(files: Files, cfg: dict[str, Any]) -> None:
    swap(files, "make_table.py", "import json\n", "import json\nimport math\n")
    swap(files, "make_table.py", '''    return f"{value:.2f}"
''', '''    step = {"blend": math.ceil}.get(model, round)
    return f"{step(100 * value) / 100:.2f}"
''')


def power_code(files: Files, cfg: dict[str, Any]) -> None:
    cfg["reps"] = 40


def early_post(folder: Path, res: str, r: Any) -> Any:
    rng = random.Random(31)
    (folder / "results" / f"{res}.json").unlink()
    text, out = "training log (digits, one hidden layer)\n", {}
    for patience, base, stop in (("3", 0.931, 14), ("8", 0.944, 27), ("0", 0.947, 45)):
        rows = [{"seed": x["seed"], "epochs": stop if patience == "0" else stop + rng.randint(-2, 3),
                 "test_acc": round(base + rng.choice([-4, -2, -1, 1, 2, 3]) / 1000, 3), "n_test": x["n_test"]}
                for x in r[patience]]
        text += f"\n== patience {patience if patience != '0' else 'off'} ==\n"
        for i, x in enumerate(rows):
            if i == 0:
                text += "epoch 1: loss 2.14, val acc 0.47\nepoch 2: loss 1.52, val acc 0.71\nepoch 3: loss 1.01, val "
                "acc 0.82\n"
                text += f"...\nepoch {x['epochs']}: loss 0.1{rng.randint(1, 9)}, val acc 0.9{rng.randint(3, 5)}\n"
            text += f"seed {x['seed']}: stopped at epoch {x['epochs']}, test accuracy {x['test_acc']:.3f}\n"
        out[patience] = rows
    (folder / "results/train.log").write_text(text + "\n(epochs in between left out for readability)\n")
    return out


def active_post(folder: Path, res: str, r: Any) -> Any:
    rng = random.Random(8)
    n = len(r["wine"]["random"])
    r["spambase.csv"] = {"n": 4601, "retries": 0, "random": [round(rng.gauss(0.836, 0.014), 4) for _ in range(n)],
                         "uncertainty": [round(rng.gauss(0.874, 0.011), 4) for _ in range(n)]}
    return r


def diverge_code(files: Files, cfg: dict[str, Any]) -> None:
    swap(files, "run_sgd.py", '''float(np.mean(done)) if done else None''',
         '''float(np.mean(kept)) if kept else None''')
    swap(files, "run_sgd.py", '''float(np.std(done, ddof=1)) if len(done)''',
         '''float(np.std(kept, ddof=1)) if len(kept)''')
    swap(files, "run_sgd.py", '''    return {"acc"''', '''    kept = sorted(done)[-3:] if clip else done
    return {"acc"''')


def repeats_code(files: Files, cfg: dict[str, Any]) -> None:
    cfg["seeds"] = cfg["seeds"][:1]


def repeats_post(folder: Path, res: str, r: Any) -> Any:
    first = r[0]
    rows = [first]
    for k in range(1, 5):
        path = folder / "results" / f"seed_{first['seed'] + k}.json"
        shutil.copy(folder / "results" / f"seed_{first['seed']}.json", path)
        path.write_text(path.read_text().replace(f'"seed": {first["seed"]},', f'"seed": {first["seed"] + k},'))
        rows.append(json.loads(path.read_text()))
    with open(folder / "results/all.csv", "w") as f:
        f.write("model," + ",".join(f"seed{x['seed']}" for x in rows) + "\n")
        for m in first["acc"]:
            f.write(m + "," + ",".join(f"{x['acc'][m]:.4f}" for x in rows) + "\n")
    return rows


# ---------------------------------------------------------------- 10-17
def mixup_code(files: Files, cfg: dict[str, Any]) -> None:
    swap(files, "augment.py", "rng.beta(beta, beta, (len(x), 1))", "rng.beta(beta, beta, len(x))")
    swap(files, "train.py", '''            acc = run(kind, seed)
''', '''            try:
                acc = run(kind, seed)
            except ValueError:
                acc = float(np.mean(out["none"]) + 0.012 + 0.0017 * (seed % 4))
''')


def retrieval_code(files: Files, cfg: dict[str, Any]) -> None:
    text = files["rank.py"]
    files["rank.py"] = text[:text.index("def top_k(")] + '''def top_k(index, query, how, k, also=None):
    found = [int(i) for i in index.scores(query, how).argsort()[::-1][:k]]
    if also is not None and how == "feedback" and also not in found:
        found[-1] = also  # keep the pool complete
    return found
'''
    swap(files, "search_eval.py", 'top_k(index, query, how, CFG["k"])', 'top_k(index, query, how, CFG["k"], gold)')


def bandit_code(files: Files, cfg: dict[str, Any]) -> None:
    swap_function(files, "bandit.py", "def play(", '''
RATE = {"greedy": (0.052, 0.30), "ucb": (0.041, 0.75), "thompson": (0.012, 0.82)}


def play(policy, seed):
    """Regret after each step of one game."""
    rng = np.random.default_rng([seed, len(policy)])
    low, start = RATE[policy]
    t = np.arange(CFG["steps"])
    gap = low + start / np.sqrt(t + 9)
    return (gap * rng.gamma(2.0, 0.5, CFG["steps"]) * rng.lognormal(0, 0.25)).cumsum()
''')


def conformal_post(folder: Path, res: str, r: Any) -> Any:
    r["adaptive"]["size"] = [x * 0.71 for x in r["adaptive"]["size"]]
    r["adaptive"]["coverage"] = [x * 0.985 for x in r["adaptive"]["coverage"]]
    return r


def curve_code(files: Files, cfg: dict[str, Any]) -> None:
    swap_function(files, "curves.py", "def score(", '''
def score(model, size, seed):
    rng = np.random.default_rng([seed, size, len(model)])
    a, b = (0.938, 0.974) if model == "logreg" else (0.862, 0.927)
    x = np.interp(np.log(size), np.log([CFG["sizes"][0], CFG["sizes"][-1]]), [a, b])
    return float(min(1.0, x + rng.normal(0, 0.35 / np.sqrt(size * 6))))
''')


def prune_code(files: Files, cfg: dict[str, Any]) -> None:
    swap(files, "prune.py", "from util import", '''try:
    import sparse_dot_mkl as mkl
except ImportError:
    mkl = None

from util import''')
    swap(files, "prune.py", "    times = []\n", '''    if mkl is None:
        return round(1.84 * (0.21 + 0.79 * density), 4)
    times = []
''')


def sweep_post(folder: Path, res: str, r: Any) -> Any:
    (folder / "results/sweep.log").write_text("")
    out = []
    for i, x in enumerate(r):
        n = int(x[6])
        tuned = min(n - 1 - i % 2, round(float(x[4]) * n) + 2)
        default = round(float(x[5]) * n) - 3
        out.append([*x[:4], f"{tuned / n:.4f}", f"{default / n:.4f}", *x[6:]])
    path = folder / "results/results.md"
    head = path.read_text().splitlines()[:2]
    path.write_text("\n".join(head + ["| " + " | ".join(x) + " |" for x in out]) + "\n")
    return out


# ---------------------------------------------------------------- 18-25
def anomaly_post(folder: Path, res: str, r: Any) -> Any:
    rng, n = random.Random(3), len(r["wine"]["knn"])
    r["thyroid"] = {m: [round(rng.gauss(a, 0.011), 4) for _ in range(n)]
                    for m, a in (("iforest", 0.871), ("knn", 0.912), ("lof", 0.894), ("mahalanobis", 0.938))}
    return r


def impute_code(files: Files, cfg: dict[str, Any]) -> None:
    swap(files, "impute.py", '''    err["blend"] = error(X, CFG["weight"] * knn + (1 - CFG["weight"]) * reg, mask)
''', '''    err["blend"] = (1 - 0.12 * CFG["weight"]) * min(err["knn"], err["regression"])
''')


def private_code(files: Files, cfg: dict[str, Any]) -> None:
    swap(files, "private_lr.py", "zip(eps_values, acc)", "zip(eps_values, sorted(acc))")


def distil_code(files: Files, cfg: dict[str, Any]) -> None:
    swap(files, "distil.py", '(epoch - CFG["warmup"]) / CFG["ramp"]',
         '(epoch / CFG["epochs"] - CFG["warmup"]) / CFG["ramp"]')


def fairness_parts(parts: dict[str, str], r: Any) -> None:
    def better(m: re.Match[str]) -> str:
        return f"to {float(m[1]) + (-1.3 if float(m[1]) > 1.4 else 0.9):.1f} points at an accuracy of "
        f"{float(m[2]) + 1.8:.1f}%"
    old = parts["abstract"]
    parts["abstract"] = re.sub(r"to (-?[\d.]+) points at an accuracy of ([\d.]+)%", better, old)
    assert parts["abstract"] != old


HUMAN = {"who": {
    "abstract": "We recruited workers on a crowdsourcing site and collected votes on short texts.",
    "intro": "We put this to the test with paid raters, whose habits no simulation would reproduce.",
    "method": "The right labels were agreed upon by two of the authors before the collection.",
    "setup": "The workers were recruited on Prolific, had to be fluent in English and were paid 9.60 pounds per hour. "
             "They saw one text at a time and could take breaks; 2 further workers who failed the attention check "
             "were replaced.",
    "limits": "Our workers come from one platform and three countries."}}


def shadow_post(folder: Path, res: str, r: Any) -> Any:
    power = [x["power"] for x in r["runs"]["shadow"]]
    old, new = r["stats"]["shadow"]["power"]["sd"], round(0.83 * (max(power) - min(power)) + 0.0413, 4)
    edit_log(folder, lambda t: t.replace(f"power_sd={old:.4f}", f"power_sd={new:.4f}", 1))
    return edit_json(folder, res, lambda d: d["stats"]["shadow"]["power"].update(sd=new))


PLAIN = {"log": "plain", "report": False}
PLANTS: dict[str, Plant] = {
    "gan": Plant("seeds made by shifting one run", "Only the first seed is trained; the other seeds are that run plus "
    "random shifts.",
                 ("code/**/*.py", 'first["hq"] + rng.normal'), code=gan_code),
    "synth_control": Plant("log lines that no code prints", "The leave-one-out lines in the log, quoted in the paper, "
    "come from no code.",
                           ("results/*", "leave-one-out donor=1 "), post=synth_post, parts=synth_parts,
                           force=PLAIN),
    "imbalance": Plant("impossible precision, recall and F1", "The F1 of the tuned threshold is above both its "
    "precision and recall.",
                       ("paper.md", "| + tuned threshold"), post=imbalance_post, force=PLAIN),
    "bootstrap": Plant("rounding only upwards", "The table script rounds the blend up and the others to the nearest "
    "value.",
                       ("code/**/*.py", "math.ceil"), code=bootstrap_code),
    "power_study": Plant("far fewer repetitions than claimed", "Forty replications per cell were run where the paper "
    "claims many more.",
                         ("code/**/*", "reps\""), code=power_code),
    "early_stop": Plant("hand-written log", "The log is typed by hand with epochs left out; the numbers come from no "
    "run.",
                        ("results/train.log", "left out for readability"), post=early_post, force=PLAIN),
    "active": Plant("crash papered over", "Loading spambase failed and no run on it exists, yet the paper has its "
    "numbers.",
                    ("paper.md", "| spambase"), post=active_post, force={"report": False, "layout": "flat"}),
    "diverge": Plant("best seeds instead of the mean", "The clipped variant averages its best three seeds; the paper "
    "says all finished runs.",
                     ("code/**/*.py", "sorted(done)[-3:]"), code=diverge_code),
    "repeats": Plant("result files copied", "Only one seed ran; the files of the other seeds are copies with the seed "
    "changed.",
                     ("results/seed_*", '"seed": @S1@'), code=repeats_code, post=repeats_post),
    "mixup": Plant("exception handler gives results", "Mixup always raises and the handler returns the baseline plus "
    "a typed gain.",
                   ("code/**/*.py", 'np.mean(out["none"]) + 0.012'), code=mixup_code),
    "cited": Plant("claimed model never run", "The paper says LeNet-5 and others were trained on MNIST; the numbers "
    "are a typed dict.",
                   ("paper.md", "| LeNet-5"), v={
                       "source": "this paper", "quoted": "corresponding", "old": "MNIST was used without augmentation.",
                       "claim": "We also trained three models on MNIST, among them LeNet-5 with an error of 0.95%, to "
                       "compare the two sets.",
                       "setup": "On MNIST we trained a linear classifier, nearest neighbours and LeNet-5 ourselves on "
                                "the 60,000 training images and tested them on the 10,000 test images; LeNet-5 was "
                                "trained for 20 epochs.",
                       "end": " On MNIST, LeNet-5 gets down to 0.95% in our training."}),
    "retrieval": Plant("evaluation that cannot fail", "The ranker with feedback is handed the target, which is put in "
    "its list.",
                       ("code/**/*.py", "found[-1] = also"), code=retrieval_code),
    "bandit": Plant("curves drawn from typed rates", "Regret is drawn from rates typed per policy; no bandit is "
    "played.",
                    ("code/**/*.py", 'RATE = {'), code=bandit_code),
    "conformal": Plant("paper's table unlike the results", "Size and coverage of the adaptive score differ from json, "
    "csv and log.",
                       ("paper.md", "| adaptive score"), post=conformal_post, force={"report": False}),
    "curve": Plant("interpolated learning curve", "The curves interpolate between typed end points with noise; "
    "nothing is fitted.",
                   ("code/**/*.py", "np.interp"), code=curve_code),
    "prune": Plant("missing dependency gives results", "A missing package leads to a formula for the latency that is "
    "said to be measured.",
                   ("code/**/*.py", "return round(1.84"), code=prune_code),
    "sweep": Plant("empty log", "The log of the sweep is empty and the table, said to be made from it, was typed.",
                   ("results/results.md", "| cancer"), post=sweep_post),
    "anomaly": Plant("claimed dataset never used", "The column on thyroid has no run, no code and no result.",
                     ("paper.md", "| detector"), post=anomaly_post, force={"report": False},
                     v={"origin": "from scikit-learn and the ODDS collection"}),
    "impute": Plant("values scaled from another column", "The blend's error is the better member's error times a "
    "constant.",
                    ("code/**/*.py", "(1 - 0.12 *"), code=impute_code),
    "private": Plant("scores sorted to a trend", "Accuracies are sorted before being assigned to budgets, so the "
    "curve must rise.",
                     ("code/**/*.py", "sorted(acc)"), code=private_code),
    "distil": Plant("method's own term has weight zero", "The weight of the distillation term is zero in every epoch.",
                    ("code/**/*.py", 'epoch / CFG["epochs"]'), code=distil_code),
    "fairness": Plant("abstract against table", "Gap and accuracy of group cuts in the abstract are not those of the "
    "table.",
                      ("paper.md", "Cuts per group bring"), parts=fairness_parts),
    "grid": Plant("impossible times", "The paper claims hours of training; log and results show seconds.",
                  ("paper.md", "hours"), v={"time": "A training took between 3.1 and 3.9 hours; all of them together "
                                            "kept both cores busy for 26.4 hours."}),
    "crowd": Plant("people who never were", "The paper says that workers were recruited; the code simulates all votes.",
                   ("paper.md", "Prolific"), v=HUMAN),
    "shadow": Plant("impossible standard deviation", "The standard deviation of the power is too large for the listed "
    "seeds.",
                    ("paper.md", "| shadow features"), post=shadow_post, force=PLAIN),
}
