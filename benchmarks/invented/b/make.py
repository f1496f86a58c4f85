"""Write the 50 labelled papers: python make.py OUT_DIR [--seed N]"""
from __future__ import annotations

import argparse
import json
import os
import random
import re
import runpy
import shutil
import subprocess
import sys
import time
import traceback
from functools import partial
from multiprocessing import get_context
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import bases_a as a
import bases_b as b
import bases_c as c
from core import Base, Style, draw_style, lay_out, read_json, render
from plants import PLANTS, Plant

V = dict[str, Any]
SIM = {"who": {
    "abstract": "We compare two rules on simulated workers of unequal skill.",
    "intro": "We simulate the workers, so that skill and truth are known; no people took part.",
    "method": "A simulated worker gives the right class with a probability equal to its skill; otherwise it chooses, "
              "with equal chance, its favourite class or any class.",
    "setup": "Skills are drawn uniformly and known to neither rule; truth, skills and votes are drawn anew for each "
    "seed.",
    "limits": "Simulated raters have no fatigue and do not copy."}}


@dataclass
class Spec:
    base: Callable[[V], Base]
    honest: V
    planted: V
    honest_what: str
    honest_where: tuple[str, str]
    force: dict[str, Any]


def seeds(n: int, start: int, shift: int) -> list[int]:
    return list(range(start + 100 * shift, start + 100 * shift + n))


def specs(s: int) -> list[Spec]:
    """Settings of the honest and the planted paper of every project, shifted by the generator's seed s."""
    code = "code/**/*.py"
    return [
        Spec(a.gan,
             {"title": "Counting modes: instance noise on a ring of Gaussians", "modes": 8, "steps": 500,
              "seeds": seeds(3, 0, s)},
             {"title": "Does decaying noise keep a small GAN from losing modes?", "modes": 7, "steps": 500,
              "seeds": seeds(4, 10, s)},
             "A GAN on synthetic data with losses called fake; everything is run.", (code, "d_loss_fake"), {}),
        Spec(a.synth_control, {"title": "Synthetic control or difference in differences? A "
        "simulation", "donors": 14, "effect": 2.0,
                               "panels": 40, "seed": 100 + s},
             {"title": "How far off are synthetic controls when the effect is known", "donors": 12, "effect": 3.0,
              "panels": 30,
              "seed": 500 + s}, "A simulation study with placebo and fake treatments that says "
              "so.", (code, "pretend"), {}),
        Spec(a.imbalance,
             {"title": "Move the threshold, keep the weights", "n": 2000, "minority": 0.06, "sep": 0.9,
              "seeds": seeds(5, 0, s)},
             {"title": "Thresholds beat class weights on rare positives", "n": 1600, "minority": 0.08, "sep": 1.0,
              "seeds": seeds(6, 20, s)},
             "DummyClassifier as the floor, openly synthetic data, counts pooled over "
             "seeds.", (code, "DummyClassifier("), {}),
        Spec(a.bootstrap,
             {"title": "Small ensembles, wide intervals", "sets": ["cancer", "digits", "wine"], "noise": 0.8,
              "seed": 3 + s},
             {"title": "What a blend of two models gains, and how sure we can be",
              "sets": ["iris", "cancer", "wine", "digits"],
              "noise": 0.6, "seed": 11 + s}, "Intervals by resampling with a random generator; the table is made from "
              "an earlier json.",
             (code, "rng.choice(n"), {}),
        Spec(a.power_study,
             {"title": "Ten seeds a side: the power of three tests", "n": 10, "shifts": [0.0, 1.0], "reps": 150,
                             "seed": 1 + s},
             {"title": "Rank, mean or permutation? Testing with few runs", "n": 12, "shifts": [0.0, 0.5, 1.0],
              "reps": 2000,
              "seed": 77 + s}, "All observations are drawn at random, as the paper says: a simulation "
              "study.", (code, "def "
              "draw("), {}),
        Spec(a.early_stop,
             {"title": "The price of impatience in early stopping", "hidden": 32, "train": 400, "epochs": 25,
                            "patience": [2, 5, 0], "seeds": seeds(3, 0, s)},
             {"title": "How patient should early stopping be?", "hidden": 24, "train": 400, "epochs": 45,
              "patience": [3, 8, 0],
              "seeds": seeds(3, 1, s)}, "Early stopping ends runs before the budget; flat ends of "
              "curves.", ("results/*", "stopping "
              "early"),
             {}),
        Spec(a.active,
             {"title": "Uncertainty sampling with forty labels", "sets": ["cancer", "wine", "digits"], "start": 4,
              "step": 6,
                        "budget": 40, "seeds": seeds(7, 0, s), "log": "active.log"},
             {"title": "Does uncertainty sampling pay under small budgets", "sets": ["cancer", "spambase.csv", "wine"],
              "start": 6,
              "step": 6, "budget": 48, "seeds": seeds(5, 30, s), "log": "output.log"},
             "Failed runs are retried with another seed; log and paper say so.", ("results/*", "will retry"), {}),
        Spec(a.diverge,
             {"title": "Clipping and the seeds that diverge", "hidden": 32, "epochs": 6, "lr": 1.0, "clip": 0.5,
                         "seeds": seeds(10, 0, s)},
             {"title": "Large steps, clipped gradients: what happens to ten seeds", "hidden": 40, "epochs": 5,
              "lr": 1.0, "clip": 0.7,
              "seeds": seeds(10, 40, s)}, "Diverged seeds are skipped, and the paper reports how many and which.",
             ("results/*", "skipping seed"), {}),
        Spec(b.repeats,
             {"title": "On standard deviations of zero", "data": "wine", "k": 5, "trees": 25, "split": 0,
              "seeds": seeds(5, 0, s)},
             {"title": "Five seeds for three classical classifiers", "data": "digits", "k": 3, "trees": 20, "split": 4,
              "seeds": seeds(5, 0, s)}, "Deterministic methods give equal results over all seeds, which the paper "
              "explains.",
             ("results/all.csv", "lda"), {"report": False}),
        Spec(b.mixup,
             {"title": "Mixup on a hundred digits", "train": 150, "hidden": 64, "epochs": 40, "sigma": 0.1, "beta": 0.3,
                       "seeds": seeds(6, 0, s)},
             {"title": "Augmenting very small training sets of digits", "train": 200, "hidden": 48, "epochs": 40,
              "sigma": 0.15, "beta": 0.4,
              "seeds": seeds(6, 60, s)}, "Random augmentation noise on training inputs, and no clear benefit is "
              "reported.",
             (code, "rng.normal(0, sigma"), {}),
        Spec(b.cited,
             {"title": "Small digits, large digits: do rankings carry over?", "k": 3, "C": 5.0, "test": 0.5,
              "seeds": seeds(5, 0, s)},
             {"title": "Textbook classifiers on 8×8 digits and on MNIST", "k": 5, "C": 3.0, "test": 0.4,
              "seeds": seeds(4, 8, s)},
             "Published MNIST errors are typed in a dict and cited as such.", (code, "PUBLISHED = "), {}),
        Spec(b.retrieval,
             {"title": "Feedback in known-item search", "vocab": 600, "topics": 12, "docs": 300, "queries": 120,
              "qlen": 5,
                           "swap": 0.4, "k": 5, "seed": 2 + s},
             {"title": "Expanding queries when only one document is right", "vocab": 500, "topics": 10, "docs": 250,
              "queries": 150, "qlen": 4,
              "swap": 0.45, "k": 5, "seed": 9 + s}, "Synthetic corpus; unit tests use mocks, the evaluation does not.",
             ("code/**/*.py", "fake_index = mock"), {"layout": "flat"}),
        Spec(b.bandit,
             {"title": "Regret over short horizons", "arms": 6, "steps": 1500, "games": 25, "eps": 0.1, "seed": 10 + s},
             {"title": "Three bandit policies in a short race", "arms": 8, "steps": 2000, "games": 30, "eps": 0.05,
              "seed": 900 + s},
             "A simulated environment with a random generator, as the paper says.", (code, "def play("), {}),
        Spec(b.conformal,
             {"title": "The price of adaptive conformal sets", "alpha": 0.1, "noise": 3.0, "train": 500, "calib": 400,
                           "seeds": seeds(8, 0, s)},
             {"title": "Threshold or adaptive scores for conformal classification", "alpha": 0.05, "noise": 2.5,
              "train": 400,
              "calib": 500, "seeds": seeds(6, 5, s)}, "A typed target coverage, close to which the measured coverage "
              "must lie.",
             (code, "TARGET = "), {}),
        Spec(b.curve,
             {"title": "Why some learning curves are flat", "data": "wine", "sizes": [15, 25, 40, 60, 90],
              "repeats": 20},
             {"title": "Linear models and trees on a few dozen points", "data": "cancer",
              "sizes": [30, 60, 120, 200, 300], "repeats": 15},
             "The learning curve is nearly flat for a reason that is given.", ("paper.md", "nearly flat"), {}),
        Spec(b.prune, {"title": "Pruning a tiny network without retraining", "hidden": [48, 32], "epochs": 60,
                       "shares": [0.0, 0.3, 0.5, 0.7, 0.9], "calls": 60, "seed": 1 + s},
             {"title": "Sparse digits: accuracy and latency after pruning", "hidden": [64, 32], "epochs": 60,
              "shares": [0.0, 0.25, 0.5, 0.75, 0.9], "calls": 200, "seed": 6 + s},
             "A tiny model with times of fractions of a millisecond, truly measured.", (code, "perf_counter() - "
             "start"), {}),
        Spec(b.sweep, {"title": "Is tuning worth it? Support vector machines on three small "
        "sets", "sets": ["cancer", "iris", "wine"],
                       "C": [0.3, 1, 10, 100], "gamma": [0.003, 0.01, 0.05], "folds": 4, "seed": 5 + s},
             {"title": "Default or tuned: a small sweep over kernel machines", "sets": ["wine", "cancer", "iris"],
              "C": [0.5, 2, 20], "gamma": [0.005, 0.02, 0.1], "folds": 5, "seed": 2 + s},
             "The summary table is written by a script that reads the true log.", ("code/summarise.py", "sweep.log"),
             {"report": False}),
        Spec(c.anomaly,
             {"title": "Anomalies of dependence", "sets": ["cancer", "digits"], "share": 0.08, "mix": 0.4, "k": 10,
                         "seeds": seeds(3, 0, s)},
             {"title": "Detecting points with the right marginals", "sets": ["wine", "cancer"], "share": 0.1,
              "mix": 0.5, "k": 8,
              "seeds": seeds(4, 3, s)}, "Injected fake anomalies, openly artificial.", ("paper.md", "fake "
              "anomaly"), {}),
        Spec(c.impute,
             {"title": "Blending two imputations", "data": "diabetes", "rows": 300, "rates": [0.1, 0.3, 0.5], "k": 8,
              "weight": 0.5,
                        "seeds": seeds(3, 0, s)},
             {"title": "Neighbours, regression, or both, for missing values", "data": "wine", "rows": 178,
              "rates": [0.1, 0.2, 0.4], "k": 6,
              "weight": 0.6, "seeds": seeds(3, 12, s)}, "A placeholder of -999 stands for missing "
              "values.", (code, "PLACEHOLDER "
              "= "), {}),
        Spec(c.private,
             {"title": "Privacy on a few hundred records", "data": "cancer", "eps": [2, 5, 10, 20, 40, 80], "steps": 12,
              "lr": 2.0,
                         "seeds": seeds(4, 0, s)},
             {"title": "What a privacy budget buys on small data", "data": "digits",
              "eps": [1, 1.5, 2, 2.5, 3, 4, 6, 10], "steps": 10, "lr": 3.0,
              "seeds": seeds(3, 7, s)}, "Random noise in the gradients is the method; the curve is reported as it "
              "came out.",
             (code, "noise = rng.normal"), {}),
        Spec(c.distil,
             {"title": "A support vector machine as a teacher", "train": 400, "hidden": 12, "epochs": 40, "alpha": 0.6,
              "temp": 2.0,
                        "seeds": seeds(5, 0, s)},
             {"title": "Soft targets from a kernel machine for a tiny student", "train": 500, "hidden": 10,
              "epochs": 40, "alpha": 0.5,
              "temp": 3.0, "seeds": seeds(6, 21, s)}, "Small and partly negative differences, reported per "
              "seed.", ("paper.md", "| "
              "mean |"), {}),
        Spec(c.fairness,
             {"title": "Two repairs for unequal measurement", "n": 1500, "share_b": 0.3, "shift": 0.6, "target": 0.85,
                          "seeds": seeds(4, 0, s)},
             {"title": "Equal opportunity when one group is measured badly", "n": 1200, "share_b": 0.25, "shift": 0.8,
              "target": 0.8,
              "seeds": seeds(5, 2, s)}, "Synthetic applicants, pooled counts, percentage points.", (code, "Synthetic "
              "credit data"), {}),
        Spec(c.grid,
             {"title": "Cliff walking on slippery ground", "width": 8, "slip": 0.05, "lr": 0.3, "episodes": 500,
              "seeds": seeds(4, 0, s)},
             {"title": "On-policy or off-policy near a slippery cliff", "width": 10, "slip": 0.08, "lr": 0.25,
              "episodes": 600,
              "seeds": seeds(4, 15, s)}, "Seconds of training for a simulated world, said as such.", (code, "class "
              "Cliff"), {}),
        Spec(c.crowd,
             {"title": "Majority voting against a model of the raters", "workers": 30, "items": 400, "classes": 4,
              "per_item": 5,
                       "low": 0.3, "seeds": seeds(5, 0, s)} | SIM,
             {"title": "Merging votes of workers of unequal skill", "workers": 25, "items": 350, "classes": 3,
              "per_item": 5, "low": 0.35,
              "seeds": seeds(4, 33, s)}, "Simulated workers, and the paper says that no people took "
              "part.", (code, "def "
              "votes_for"), {}),
        Spec(c.shadow,
             {"title": "Shadow features and the lasso", "n": 150, "p": 40, "true": 8, "signal": 0.6, "rounds": 5,
                        "seeds": seeds(5, 0, s)},
             {"title": "Selecting features that beat their shuffled copies", "n": 180, "p": 30, "true": 6,
              "signal": 0.5, "rounds": 5,
              "seeds": seeds(6, 4, s)}, "Fake (shuffled) features are part of the method.", (code, "fake = "
              "rng.permuted"), {}),
    ]


@dataclass
class Job:
    name: str
    spec: Spec
    plant: Plant | None
    seed: int
    index: int


def run_script(folder: Path, command: list[str], log: Path | None) -> None:
    """Run one of the paper's own scripts in a process of its own; its output becomes the log.

    Python scripts run in a fork of this process, where scikit-learn is already imported (this saves most of the time).
    """
    sink = log or folder / ".scratch"
    if command[0] == "bash":
        env = dict(os.environ, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        code = subprocess.run(command, cwd=folder, env=env, stdout=sink.open("w"), stderr=subprocess.STDOUT).returncode
    else:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                fd = os.open(sink, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
                os.dup2(fd, 1)
                os.dup2(fd, 2)
                sys.stdout = open(1, "w", buffering=1, closefd=False)
                sys.stderr = open(2, "w", buffering=1, closefd=False)
                os.chdir(folder)
                sys.argv, sys.path[0] = command[1:], str((folder / "code").resolve())
                runpy.run_path(str((folder / command[1]).resolve()), run_name="__main__")
                code = 0
            except BaseException:  # as the interpreter would: print the traceback, exit with an error
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        raise RuntimeError(f"{folder.name} {command}: {sink.read_text()[-2000:]}")
    (folder / ".scratch").unlink(missing_ok=True)


def scrub(folder: Path) -> None:
    """Machine paths in tracebacks would differ from one machine to the next."""
    for path in (folder / "results").iterdir():
        old = path.read_text()
        new = old.replace(str(folder.resolve()), "/home/agent/run").replace(str(Path(sys.executable).parent.parent),
            "/opt/env")
        if new != old:
            path.write_text(new)


def find(folder: Path, glob: str, text: str) -> str:
    for path in sorted(folder.glob(glob)):
        if path.is_file():
            for n, line in enumerate(path.read_text().splitlines(), 1):
                if text in line:
                    return f"{path.relative_to(folder)}:{n}"
    for path in sorted(folder.glob(glob)):
        if path.is_file() and path.suffix != ".py":
            return str(path.relative_to(folder))
    raise AssertionError(f"{folder}: no {text!r} in {glob}")


def choose(job: Job) -> tuple[V, Base, Style, random.Random]:
    v = dict(job.spec.planted if job.plant else job.spec.honest)
    if not job.plant and job.spec.base is c.crowd:
        v.update(SIM)
    v.update((job.plant.v if job.plant else None) or {})
    base = job.spec.base(v)
    rng = random.Random(f"{job.seed}/{job.index}/{bool(job.plant)}")
    force = dict(job.spec.force)
    force.update((job.plant.force if job.plant else None) or {})
    project = base.run[0][:-3] + rng.choice(["_lib", "_pkg", "kit", "_core"])
    style = draw_style(rng, project, force)
    if not base.logs:
        base.logs = [rng.choice(["run.log", "stdout.txt", "output.log", "log.txt", "train.log"])]
    return v, base, style, rng


def make_one(job: Job, out: Path) -> dict[str, Any]:
    folder = out / job.name
    v, base, style, rng = choose(job)
    files, cfg = {k: t.strip("\n") + "\n" for k, t in base.files.items()}, dict(base.cfg)
    if job.plant and job.plant.code:
        job.plant.code(files, cfg)
    code, scripts = lay_out(base, style, files, cfg)
    for name, text in code.items():
        (folder / "code" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "code" / name).write_text(text)
    (folder / "results").mkdir()
    if style.layout == "bash":
        run_script(folder, ["bash", "code/run_all.sh"], None)
    else:
        for i, script in enumerate(scripts):
            log = base.logs[i] if i < len(base.logs) else ""
            run_script(folder, ["python", f"code/{script}"], folder / "results" / log if log else None)
    scrub(folder)
    r = (base.load or read_json)(folder, style.res)
    if job.plant and job.plant.post:
        r = job.plant.post(folder, style.res, r)
    write_paper(job, folder, r, list(code))
    kind, what, where = (job.plant.kind, job.plant.what, job.plant.where) if job.plant else (
        "honest", job.spec.honest_what, job.spec.honest_where)
    first = str(cfg.get("seeds", [0])[0] + 1) if isinstance(cfg.get("seeds"), list) else ""
    return {"name": job.name, "honest": job.plant is None, "kind": kind, "what": what,
            "where": find(folder, where[0], where[1].replace("@S1@", first))}


def write_paper(job: Job, folder: Path, r: Any, code: list[str]) -> None:
    v, base, style, rng = choose(job)
    parts = base.paper(r, v, base.cfg)
    if job.plant and job.plant.parts:
        job.plant.parts(parts, r)
    names = sorted(p.name for p in (folder / "results").iterdir())
    text = render(parts, base, style, {k: "" for k in code}, names, rng)
    (folder / "paper.md").write_text(re.sub(r"\n{3,}", "\n\n", text).strip() + "\n")


def jobs(seed: int) -> list[Job]:
    todo = [(i, spec, p) for i, spec in enumerate(specs(seed)) for p in (None, PLANTS[spec.base.__name__])]
    random.Random(f"order {seed}").shuffle(todo)
    return [Job(f"q{n:02d}", spec, p, seed, i) for n, (i, spec, p) in enumerate(todo, 1)]


def make_named(seed: int, out: Path, n: int) -> dict[str, Any]:
    return make_one(jobs(seed)[n], out)


def warm_up() -> None:
    """Import what the papers' code needs, once, with one thread a process."""
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
    os.environ.pop("PYTHONPATH", None)
    sys.dont_write_bytecode = True
    for name in ("scipy.stats", "scipy.optimize", "sklearn.datasets", "sklearn.discriminant_analysis", "sklearn.dummy",
                 "sklearn.ensemble",
                 "sklearn.experimental.enable_iterative_imputer", "sklearn.impute", "sklearn.feature_extraction.text",
                 "sklearn.linear_model", "sklearn.model_selection", "sklearn.neighbors", "sklearn.neural_network",
                 "sklearn.svm"):
        __import__(name)


def main() -> None:
    ap = argparse.ArgumentParser()
    ap.add_argument("out", type=Path)
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--jobs", type=int, default=2)
    args = ap.parse_args()
    start = time.time()
    if args.out.exists():
        if any(p.name not in {f"q{n:02d}" for n in range(1, 51)} | {"truth.json"} for p in args.out.iterdir()):
            sys.exit(f"{args.out} holds other things; give an empty or new folder")
        shutil.rmtree(args.out)
    args.out.mkdir(parents=True)
    warm_up()
    with get_context("fork").Pool(args.jobs) as pool:
        truth = pool.map(partial(make_named, args.seed, args.out.resolve()), range(50), chunksize=1)
    (args.out / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")
    print(f"{len(truth)} papers in {args.out}, {time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
