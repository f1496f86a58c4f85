"""Topics whose programs need numpy only: intervals, bandits, change detection, number puzzles, optimisers."""
from __future__ import annotations

from lib import Paper, Parts, code, mean, para, pm, sd, sem, table

# ---------------------------------------------------------------- intervals for a mean (simulation study)

COVER = code('''
    """Coverage of interval procedures for a mean. All data are simulated below; nothing is read from disk."""
    import csv
    import sys
    import time

    import numpy as np

    N = @N@            # sample size
    REPS = @REPS@      # simulated data sets for each distribution
    B = 200            # resamples
    T95 = {10: 1.8331, 20: 1.7291, 30: 1.6991, 50: 1.6766}   # 0.95 quantiles of t with n-1 degrees
    DISTS = {
        "normal": (lambda rng: rng.normal(1.0, 1.0, N), 1.0),
        "exponential": (lambda rng: rng.exponential(1.0, N), 1.0),
        "lognormal": (lambda rng: rng.lognormal(0.0, 1.0, N), float(np.exp(0.5))),
    }

    def student(x, rng):
        half = T95[len(x)] * x.std(ddof=1) / np.sqrt(len(x))
        return x.mean() - half, x.mean() + half

    def resample(x, rng):
        return x[rng.integers(0, len(x), (B, len(x)))]

    def percentile(x, rng):
        return tuple(np.quantile(resample(x, rng).mean(axis=1), [0.05, 0.95]))

    def basic(x, rng):
        lo, hi = percentile(x, rng)
        return 2 * x.mean() - hi, 2 * x.mean() - lo

    def boot_t(x, rng):
        xs = resample(x, rng)
        se = xs.std(axis=1, ddof=1) / np.sqrt(len(x)) + 1e-12
        lo, hi = np.quantile((xs.mean(axis=1) - x.mean()) / se, [0.05, 0.95])
        s = x.std(ddof=1) / np.sqrt(len(x))
        return x.mean() - hi * s, x.mean() - lo * s

    METHODS = {"student": student, "percentile": percentile, "basic": basic, "boot_t": boot_t}

    def main(seed):
        t0, rows = time.time(), []
        print("simulate: n=%d reps=%d B=%d nominal=90%% seed=%d" % (N, REPS, B, seed))
        for d, (draw, truth) in DISTS.items():
            for m, f in METHODS.items():
                rng = np.random.default_rng([seed, len(rows)])
                hits, width = 0, 0.0
                for _ in range(REPS):
                    lo, hi = f(draw(rng), rng)
                    hits += int(lo <= truth <= hi)
                    width += hi - lo
                cov = hits / REPS
                rows.append({"dist": d, "method": m, "hits": hits, "reps": REPS, "coverage": round(cov, 4),
                             "width": round(width / REPS, 4), "mc_se": round((cov * (1 - cov) / REPS) ** 0.5, 4)})
                print("%-12s %-11s covered %4d of %d (%5.1f%%)  mean width %.3f" % (d, m, hits, REPS, 100 * cov,
                                                                                 width / REPS))
        with open("results/coverage.csv", "w", newline="") as f:
            w = csv.DictWriter(f, fieldnames=list(rows[0]))
            w.writeheader()
            w.writerows(rows)
        print("done in %.1f s" % (time.time() - t0))

    if __name__ == "__main__":
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
''')


def cover_code(p: Paper) -> dict[str, str]:
    text = COVER.replace("@N@", str(p.cfg["n"])).replace("@REPS@", str(p.cfg["reps"]))
    return {"code/simulate.py": text}


def cover_run(p: Paper) -> None:
    p.run(f"python code/simulate.py {p.seed % 90 + 1}", "results/simulate.log")


def cover_paper(p: Paper) -> tuple[str, Parts]:
    n, reps = p.cfg["n"], p.cfg["reps"]
    rows = p.rows("results/coverage.csv")
    cov = {(r["dist"], r["method"]): 100 * float(r["coverage"]) for r in rows}
    wid = {(r["dist"], r["method"]): float(r["width"]) for r in rows}
    se = {(r["dist"], r["method"]): 100 * float(r["mc_se"]) for r in rows}
    dists, meths = ["normal", "exponential", "lognormal"], ["student", "percentile", "basic", "boot_t"]
    body = [[m] + [f"{cov[d, m]:.1f} ({se[d, m]:.1f})" for d in dists] for m in meths]
    ratio = [[m] + [f"{wid[d, m] / wid[d, 'student']:.2f}" for d in dists] for m in meths]
    best = max(meths, key=lambda m: cov["lognormal", m])
    worst = min(meths, key=lambda m: cov["lognormal", m])
    gap = cov["lognormal", best] - cov["lognormal", worst]
    parts = {
        "Abstract": para(f"""We simulate how often four nominal 90 % intervals for a mean contain the true mean when
        only {n} observations are at hand. On skewed data every interval we tried misses its nominal level. On
        lognormal samples the best procedure ({best}) covers {cov['lognormal', best]:.1f} % and the worst ({worst})
        {cov['lognormal', worst]:.1f} %, a gap of {gap:.1f} points."""),
        "Introduction": para("""Intervals for a mean are printed by default in much applied work, and the default is
        nearly always Student's. It is exact for normal data and known to be too short, on one side, for skewed data.
        Resampling offers alternatives that need no formula, but their small-sample behaviour varies and is easily
        forgotten. We want a compact picture of that behaviour at one sample size."""),
        "Method": para("""Four procedures are compared. *student* is the textbook interval. *percentile* takes the 5 %
        and 95 % quantiles of the resampled means. *basic* reflects the percentile interval about the sample mean.
        *boot_t* studentises each resample, and inverts the quantiles of the studentised statistic. All of them
        target a two-sided level of 90 %. An interval scores a hit if the true mean lies within its ends."""),
        "Setup": para(f"""All data are generated. For each of three distributions (normal with mean 1, exponential with
        mean 1, lognormal with log-mean 0 and log-sd 1) and each procedure we draw {reps} samples of size {n}. The
        bootstrap procedures use 200 resamples. The true mean is known from the distribution. The quantiles of t are
        a table of constants in the program. Monte Carlo standard errors are those of a proportion."""),
        "Results": para("Coverage in percent, with its Monte Carlo standard error in parentheses:") + "\n\n"
        + table(["procedure"] + dists, body) + "\n\n"
        + para("""Mean width relative to Student's interval on the same distribution (so the first row is one by
        construction):""") + "\n\n" + table(["procedure"] + dists, ratio) + "\n\n"
        + para(f"""On normal data Student's interval covers {cov['normal', 'student']:.1f} %, as it should up to
        simulation error. On exponential data the same interval covers {cov['exponential', 'student']:.1f} %, and on
        lognormal data {cov['lognormal', 'student']:.1f} %. The bootstrap-t interval buys its coverage with length:
        on lognormal data it is {wid['lognormal', 'boot_t'] / wid['lognormal', 'student']:.2f} times as wide."""),
        "Limitations": para("""One sample size, one level and three distributions are a small corner of the problem. The
        number of resamples is low, which by itself costs the bootstrap procedures a little coverage. Each procedure
        sees its own samples, so that differences carry the Monte Carlo error of both sides."""),
        "Conclusion": para(f"""With {n} skewed observations no default interval can be trusted to its label. Where
        length matters little, the studentised bootstrap is the safer default of the four."""),
    }
    return f"Nominal and actual coverage of four intervals for a mean at n = {n}", parts


# ---------------------------------------------------------------- bandits (simulation, npz + json)

BANDIT_CFG = code('''
    """Settings of the bandit study."""
    from dataclasses import dataclass


    @dataclass(frozen=True)
    class Config:
        arms: int = @ARMS@
        horizon: int = @HOR@
        seeds: int = @SEEDS@
        base_seed: int = @BASE@
        epsilon: float = 0.1
        ucb_c: float = 1.0
        policies: tuple = ("greedy", "eps_greedy", "ucb", "thompson")
''')

BANDIT = code('''
    """Bernoulli bandits: cumulative regret of simple policies on simulated arms."""
    import json

    import numpy as np

    from config import Config


    def choose(policy, t, wins, pulls, rng, cfg):
        k = len(pulls)
        if policy == "thompson":
            return int(np.argmax(rng.beta(wins + 1, pulls - wins + 1)))
        if t < k:
            return t
        rate = wins / pulls
        if policy == "ucb":
            return int(np.argmax(rate + cfg.ucb_c * np.sqrt(np.log(t + 1) / pulls)))
        if policy == "eps_greedy" and rng.random() < cfg.epsilon:
            return int(rng.integers(k))
        return int(np.argmax(rate))


    def play(policy, seed, cfg):
        """One run; returns the cumulative regret after each pull."""
        probs = np.random.default_rng(cfg.base_seed + seed).uniform(0.2, 0.8, cfg.arms)
        rng = np.random.default_rng([cfg.base_seed + seed, cfg.policies.index(policy)])
        wins, pulls = np.zeros(cfg.arms), np.zeros(cfg.arms)
        regret = np.zeros(cfg.horizon)
        for t in range(cfg.horizon):
            a = choose(policy, t, wins, pulls, rng, cfg)
            wins[a] += rng.random() < probs[a]
            pulls[a] += 1
            regret[t] = probs.max() - probs[a]
        return regret.cumsum()


    def main():
        cfg = Config()
        summary, curves = {}, {}
        for policy in cfg.policies:
            runs = []
            for seed in range(cfg.seeds):
                runs.append(play(policy, seed, cfg))
                r = runs[-1]
                print(f"policy={policy} seed={seed} regret={r[-1]:.2f} halfway={r[cfg.horizon // 2 - 1]:.2f}")
            curves[policy] = np.array(runs)
            final = [round(float(r[-1]), 3) for r in runs]
            half = [round(float(r[cfg.horizon // 2 - 1]), 3) for r in runs]
            summary[policy] = {"final": final, "half": half}
            print(f">> {policy}: mean regret {np.mean(final):.2f} (se {np.std(final, ddof=1) / len(final) ** 0.5:.2f})")
        np.savez_compressed("results/curves.npz", **curves)
        with open("results/summary.json", "w") as f:
            json.dump(summary, f, indent=1)


    if __name__ == "__main__":
        main()
''')


def bandit_code(p: Paper) -> dict[str, str]:
    c = BANDIT_CFG
    for key, val in {"@ARMS@": p.cfg["arms"], "@HOR@": p.cfg["horizon"], "@SEEDS@": p.cfg["seeds"],
                     "@BASE@": 100 * (p.seed % 40 + 1)}.items():
        c = c.replace(key, str(val))
    return {"code/config.py": c, "code/bandit.py": BANDIT}


def bandit_run(p: Paper) -> None:
    p.run("python code/bandit.py", "results/run.log")


def bandit_paper(p: Paper) -> tuple[str, Parts]:
    c, s = p.cfg, p.js("results/summary.json")
    f = {k: v["final"] for k, v in s.items()}
    order = sorted(f, key=lambda k: mean(f[k]))
    ref = mean(f["greedy"])
    body = [[k, pm(v["half"], 1, "se"), pm(f[k], 1, "se"), order.index(k) + 1,
             f"{100 * (mean(f[k]) - ref) / ref:+.0f} %" if k != "greedy" else "-"] for k, v in s.items()]
    first, second, last = order[0], order[1], order[-1]
    wins = sum(a < b for a, b in zip(f[first], f[second]))
    parts = {
        "Abstract": para(f"""We compare {len(s)} bandit policies over a short horizon of {c['horizon']} pulls on
        simulated Bernoulli arms. Averaged over {c['seeds']} seeds, {first} has the lowest regret
        ({mean(f[first]):.1f}), followed by {second} ({mean(f[second]):.1f}); {last} has the
        highest ({mean(f[last]):.1f}). Asymptotic guarantees are a poor guide at this horizon."""),
        "Introduction": para("""A product team that tests eight variants for a week does not live in the asymptotic
        regime. Exploration bonuses that are optimal in the limit can be costly over a few hundred pulls, and a plain
        greedy rule, which has linear regret in theory, may look respectable. We measure this by simulation."""),
        "Policies": para("""*greedy* pulls each arm once and then follows the best empirical rate. *eps_greedy* does the
        same but explores uniformly with probability 0.1. *ucb* adds a confidence bonus with constant 1. *thompson*
        samples from Beta posteriors with a uniform prior. None of them is given the horizon."""),
        "Setup": para(f"""Everything is simulated. Each seed draws {c['arms']} success rates uniformly between 0.2 and
        0.8; all policies face the same rates for the same seed, with their own reward noise. Regret is the summed
        gap between the best rate and the rate of the pulled arm, so no reward noise enters it directly. We run
        {c['seeds']} seeds. Spreads are standard errors of the mean over seeds.""") + "\n\n"
        + table(["setting", "value"], [["arms", c["arms"]], ["horizon", c["horizon"]], ["seeds", c["seeds"]],
                                       ["epsilon", 0.1], ["UCB constant", 1.0]]),
        "Results": para("Cumulative regret (mean ± standard error), lower is better:") + "\n\n"
        + table(["policy", "halfway", "final", "rank", "change to greedy"], body) + "\n\n"
        + para(f"""Seed by seed, {first} beats {second} in {wins} of {c['seeds']} seeds. The spread between seeds is
        large (standard deviation of the final regret of greedy: {sd(f['greedy']):.1f}), since some draws of the
        rates have a clear winner and others have none. The second half of the horizon adds
        {mean(f[first]) - mean(s[first]['half']):.1f} to the regret of {first} and
        {mean(f[last]) - mean(s[last]['half']):.1f} to that of {last}."""),
        "Limitations": para("""Stationary Bernoulli arms with uniform rates are the kindest setting. Constants were not
        tuned. Results at one horizon do not carry over to another, which is rather the point of the exercise."""),
        "Conclusion": para(f"""At this horizon the order of the policies is {', '.join(order)}. We suggest to simulate
        one's own horizon before trusting a bound."""),
    }
    return f"Short-horizon regret of {len(s)} bandit policies ({c['arms']} arms, {c['horizon']} pulls)", parts


# ---------------------------------------------------------------- change detection (logging, package of modules)

DRIFT_DET = code('''
    """Online detectors over a stream of 0/1 errors. update() returns True when a change is signalled."""
    import math

    class DDM:
        def __init__(self, level=3.0, warm=30):
            self.level, self.warm = level, warm
            self.reset()

        def reset(self):
            self.n, self.p, self.best = 0, 0.0, (math.inf, math.inf)

        def update(self, e):
            self.n += 1
            self.p += (e - self.p) / self.n
            s = math.sqrt(self.p * (1 - self.p) / self.n)
            if self.n < self.warm:
                return False
            if self.p + s < sum(self.best):
                self.best = (self.p, s)
            return self.p + s > self.best[0] + self.level * self.best[1]

    class PageHinkley:
        def __init__(self, delta=0.05, lam=20.0):
            self.delta, self.lam = delta, lam
            self.reset()

        def reset(self):
            self.n, self.mean, self.cum, self.low = 0, 0.0, 0.0, 0.0

        def update(self, e):
            self.n += 1
            self.mean += (e - self.mean) / self.n
            self.cum += e - self.mean - self.delta
            self.low = min(self.low, self.cum)
            return self.cum - self.low > self.lam

    class TwoWindow:
        def __init__(self, size=100, z=3.5):
            self.size, self.z = size, z
            self.reset()

        def reset(self):
            self.buf = []

        def update(self, e):
            self.buf.append(e)
            if len(self.buf) < 2 * self.size:
                return False
            self.buf = self.buf[-2 * self.size:]
            a, b = sum(self.buf[:self.size]) / self.size, sum(self.buf[self.size:]) / self.size
            pool = (a + b) / 2
            return b - a > self.z * math.sqrt(2 * pool * (1 - pool) / self.size + 1e-9)
''')

DRIFT_RUN = code('''
    """Runs every detector on every simulated stream and writes one row for each pair."""
    import csv
    import logging
    import random

    from detectors import DDM, PageHinkley, TwoWindow

    LENGTH, CHANGE, STREAMS, SEED = 2000, 1000, @STREAMS@, @SEED@
    BEFORE, AFTER = 0.20, @AFTER@
    DETECTORS = {"ddm": DDM, "page_hinkley": PageHinkley, "two_window": TwoWindow}
    logging.basicConfig(level=logging.INFO, format="%(asctime)s [%(levelname)s] %(name)s: %(message)s")
    log = logging.getLogger("drift")

    def stream(i):
        rng = random.Random(SEED * 1000 + i)
        return [int(rng.random() < (BEFORE if t < CHANGE else AFTER)) for t in range(LENGTH)]

    def evaluate(detector, errors):
        """False alarms before the change (the detector starts afresh after each) and the delay after it."""
        false, delay = 0, None
        for t, e in enumerate(errors):
            if detector.update(e):
                if t < CHANGE:
                    false += 1
                    detector.reset()
                else:
                    delay = t - CHANGE
                    break
        return false, delay

    def main():
        rows = []
        for name, cls in DETECTORS.items():
            found = 0
            for i in range(STREAMS):
                false, delay = evaluate(cls(), stream(i))
                found += delay is not None
                rows.append({"detector": name, "stream": i, "false_alarms": false,
                             "delay": "" if delay is None else delay})
            mine = [r for r in rows if r["detector"] == name]
            delays = [r["delay"] for r in mine if r["delay"] != ""]
            log.info("%s detected=%d/%d (%.0f%%) false_alarms=%d mean_delay=%s", name, found, STREAMS,
                     100 * found / STREAMS, sum(r["false_alarms"] for r in mine),
                     "%.1f" % (sum(delays) / len(delays)) if delays else "n/a")
        with open("results/detections.csv", "w", newline="") as f:
            w = csv.DictWriter(f, fieldnames=["detector", "stream", "false_alarms", "delay"])
            w.writeheader()
            w.writerows(rows)
        log.info("wrote %d rows", len(rows))

    if __name__ == "__main__":
        main()
''')


def drift_code(p: Paper) -> dict[str, str]:
    run = DRIFT_RUN.replace("@STREAMS@", str(p.cfg["streams"])).replace("@SEED@", str(p.seed % 70 + 3))
    return {"code/detectors.py": DRIFT_DET, "code/run.py": run.replace("@AFTER@", f"{p.cfg['after']:.2f}")}


def drift_run(p: Paper) -> None:
    p.run("python code/run.py", "results/run.log")


def drift_stats(p: Paper) -> dict[str, dict[str, float]]:
    out: dict[str, dict[str, float]] = {}
    rows = p.rows("results/detections.csv")
    for name in dict.fromkeys(r["detector"] for r in rows):
        mine = [r for r in rows if r["detector"] == name]
        d = sorted(float(r["delay"]) for r in mine if r["delay"] != "")
        fa = [int(r["false_alarms"]) for r in mine]
        out[name] = {"found": len(d), "n": len(mine), "rate": 100 * len(d) / len(mine), "fa": sum(fa),
                     "fa_rate": mean(fa), "delay": mean(d) if d else 0.0, "se": sem(d) if d else 0.0,
                     "clean": sum(x == 0 for x in fa)}
    return out


def drift_paper(p: Paper) -> tuple[str, Parts]:
    n, s = p.cfg["streams"], drift_stats(p)
    body = [[k, f"{v['found']} / {n}", f"{v['rate']:.0f}", f"{v['delay']:.1f} ± {v['se']:.1f}" if v["found"] else
             "-", v["fa"], f"{v['fa_rate']:.2f}"] for k, v in s.items()]
    fast = min((k for k in s if s[k]["found"]), key=lambda k: s[k]["delay"])
    quiet = min(s, key=lambda k: s[k]["fa"])
    parts = {
        "Abstract": para(f"""Drift detectors trade delay against false alarms. On {n} generated error streams whose
        error rate rises from 20 % to {100 * p.cfg['after']:.0f} %, {fast} reacts fastest ({s[fast]['delay']:.1f}
        steps on average) and raises {s[fast]['fa']} false alarms in all; {quiet} is the quietest with
        {s[quiet]['fa']}."""),
        "Introduction": para("""A deployed classifier is often watched through its stream of errors. A detector turns
        that stream into alarms. Published comparisons use long streams and many detectors, with settings tuned
        for each stream. We ask how three classical detectors fare with one fixed setting each, when the change is
        moderate and the stream is short."""),
        "Detectors": para("""*ddm* tracks the lowest error level seen and signals when the current level exceeds it by
        three standard deviations. *page_hinkley* accumulates deviations from the running mean beyond a tolerance of
        0.05, and signals at a threshold of 20. *two_window* compares the last 100 errors with the 100 before by a
        z-statistic with threshold 3.5."""),
        "Setup": para(f"""The streams are generated: 2000 Bernoulli errors each, with rate 0.20 in the first half and
        {p.cfg['after']:.2f} in the second. Each detector sees the same {n} streams. An alarm in the first half counts
        as false and resets the detector; the first alarm in the second half ends the run and gives the delay. A
        stream without an alarm in the second half counts as missed and has no delay."""),
        "Results": table(["detector", "detected", "rate (%)", "delay (mean ± se)", "false alarms", "a stream"], body)
        + "\n\n" + para(f"""The last column is the number of false alarms divided by the {n} streams. {fast} has the
        shortest delay. Streams wholly free of false alarms number
        {', '.join(f"{v['clean']} for {k}" for k, v in s.items())}. Percentages move in steps of {100 / n:.3g} points
        since there are {n} streams."""),
        "Limitations": para("""Errors are independent given the rate, the change is abrupt, and its place is the same in
        all streams. Delays are averaged over detected streams only, which flatters a detector that misses the hard
        ones."""),
        "Conclusion": para(f"""With default settings the choice is one between the speed of {fast} and the silence of
        {quiet}. We would tune thresholds to a tolerated rate of false alarms before comparing delays."""),
    }
    return f"Three drift detectors on {n} short streams", parts


# ---------------------------------------------------------------- number puzzles (JSON lines, tests, verifier)

GAME_TASKS = code('''
    """Number puzzles: combine four numbers with + - * to reach a target. Each puzzle has at least one solution."""
    import random

    def make(n, seed):
        rng, out = random.Random(seed), []
        while len(out) < n:
            nums = [rng.randint(1, @TOP@) for _ in range(4)]
            vals = nums[:]
            rng.shuffle(vals)
            while len(vals) > 1:
                a, b = vals.pop(), vals.pop()
                vals.append(rng.choice([a + b, a - b, a * b]))
                rng.shuffle(vals)
            if 1 <= vals[0] <= 200:
                out.append({"id": len(out), "numbers": nums, "target": vals[0]})
        return out
''')

GAME_SOLVE = code('''
    """Search procedures. Each returns an expression as text (it need not be right)."""
    import random

    def merge(state, i, j, op):
        (a, ea), (b, eb) = state[i], state[j]
        v = a + b if op == "+" else a - b if op == "-" else a * b
        rest = [s for k, s in enumerate(state) if k not in (i, j)]
        return rest + [(v, f"({ea}{op}{eb})")]

    def moves(state):
        return [(i, j, op) for i in range(len(state)) for j in range(len(state)) if i != j for op in "+-*"]

    def start(task):
        return [(n, str(n)) for n in task["numbers"]]

    def random_search(task, rng, tries=@TRIES@):
        for _ in range(tries):
            s = start(task)
            while len(s) > 1:
                s = merge(s, *rng.choice(moves(s)))
            if s[0][0] == task["target"]:
                break
        return s[0][1]

    def distance(state, target):
        return min(abs(v - target) for v, _ in state)

    def beam(task, rng, width=@WIDTH@):
        layer = [start(task)]
        while len(layer[0]) > 1:
            nxt = [merge(s, *m) for s in layer for m in moves(s)]
            rng.shuffle(nxt)
            layer = sorted(nxt, key=lambda s: distance(s, task["target"]))[:width]
        return layer[0][0][1]

    def greedy(task, rng):
        return beam(task, rng, width=1)

    SOLVERS = {"greedy": greedy, "random": random_search, "beam": beam}
''')

GAME_VERIFY = code('''
    """Checks an answer: it must use exactly the given numbers, and evaluate to the target."""
    import ast
    import re

    def value(node):
        if isinstance(node, ast.Expression):
            return value(node.body)
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.BinOp):
            a, b = value(node.left), value(node.right)
            return {ast.Add: a + b, ast.Sub: a - b, ast.Mult: a * b}[type(node.op)]
        raise ValueError("not an arithmetic expression")

    def correct(task, answer):
        try:
            got = value(ast.parse(answer, mode="eval"))
        except (SyntaxError, ValueError, KeyError):
            return False
        used = sorted(int(x) for x in re.findall(r"\\d+", answer))
        return used == sorted(task["numbers"]) and got == task["target"]
''')

GAME_RUN = code('''
    """Main program. Logs JSON lines to stdout."""
    import json
    import random
    import sys
    import time

    from solvers import SOLVERS
    from tasks import make
    from verify import correct

    N_TASKS, SEEDS = @NT@, [@SEEDLIST@]

    def emit(**kw):
        print(json.dumps(kw), flush=True)

    def main():
        out = {"n_tasks": N_TASKS, "solved": {k: [] for k in SOLVERS}}
        for seed in SEEDS:
            tasks = make(N_TASKS, seed)
            for name, solve in SOLVERS.items():
                rng, t0 = random.Random(seed), time.perf_counter()
                ok = [correct(t, solve(t, rng)) for t in tasks]
                out["solved"][name].append(sum(ok))
                emit(event="done", solver=name, seed=seed, solved=sum(ok), of=N_TASKS, rate=sum(ok) / N_TASKS,
                     ms=round(1000 * (time.perf_counter() - t0), 1))
        json.dump(out, open("results/solve.json", "w"), indent=2)

    if __name__ == "__main__":
        sys.exit(main())
''')


def game_code(p: Paper) -> dict[str, str]:
    c = p.cfg
    seeds = ", ".join(str(p.seed % 50 + 10 * i) for i in range(c["seeds"]))
    run = GAME_RUN.replace("@NT@", str(c["tasks"])).replace("@SEEDLIST@", seeds)
    solve = GAME_SOLVE.replace("@TRIES@", str(c["tries"])).replace("@WIDTH@", str(c["width"]))
    return {"code/tasks.py": GAME_TASKS.replace("@TOP@", str(c.get("top", 12))), "code/solvers.py": solve,
            "code/verify.py": GAME_VERIFY, "code/main.py": run}


def game_run(p: Paper) -> None:
    p.run("python code/main.py", "results/log.jsonl")


def game_paper(p: Paper) -> tuple[str, Parts]:
    c, r = p.cfg, p.js("results/solve.json")
    n, k, s = r["n_tasks"], c["seeds"], r["solved"]
    rate = {m: [x / n for x in v] for m, v in s.items()}
    body = [[m] + v + [f"{sum(v)} / {n * k}", pm(rate[m], 1, "sd", 100)] for m, v in s.items()]
    best = max(s, key=lambda m: sum(s[m]))
    ratio = sum(s["beam"]) / max(1, sum(s["random"]))
    parts = {
        "Abstract": para(f"""We compare three cheap search procedures on number puzzles in the style of a television
        game. On {k} sets of {n} generated puzzles, {best} solves most, {100 * mean(rate[best]):.1f} % on average,
        against {100 * mean(rate['greedy']):.1f} % for a greedy search. Answers are checked by an exact verifier."""),
        "Introduction": para("""Number puzzles ask for an expression over given numbers that equals a target. They have
        become popular as a test of step-by-step search since answers are trivial to verify. Before one credits an
        elaborate system with a high score it is worth knowing what unlearned search does within a small budget. No
        learned model takes part in this study."""),
        "Procedures": para(f"""*greedy* merges, at each step, the pair and operator that bring some value nearest to the
        target. *beam* keeps the {c['width']} best states by the same distance. *random* draws complete random
        expressions, at most {c['tries']} for a puzzle, and stops early at a hit. The operators are addition,
        subtraction and multiplication, and every number has to be used exactly once."""),
        "Setup": para(f"""Puzzles are generated backwards from random merges of four numbers between 1 and
        {c.get('top', 12)}, so that each has a solution; targets lie between 1 and 200. There are {k} sets (seeds) of
        {n} puzzles, and all procedures see the same ones. The verifier parses the answer, evaluates it and
        compares the multiset of numbers used."""),
        "Results": table(["procedure"] + [f"set {i + 1}" for i in range(k)] + ["all", "rate (%), mean ± sd"], body)
        + "\n\n" + para(f"""The columns give puzzles solved out of {n}. In total greedy solves {sum(s['greedy'])},
        random {sum(s['random'])} and beam {sum(s['beam'])} of {n * k} puzzles; beam solves {ratio:.2f} times as many
        as random. The distance to the target is a poor guide in early steps, because a product can leap over it,
        which hurts the greedy search most."""),
        "Limitations": para("""The budgets of the procedures are not matched in time, only in spirit. Puzzles made
        backwards from random merges are easier than puzzles chosen by people. Division is left out."""),
        "Conclusion": para(f"""Unlearned search already solves a sizeable part of such puzzles ({best} is the best of
        the three), and should be reported beside any learned solver."""),
    }
    return "What unlearned search achieves on four-number puzzles", parts


# ---------------------------------------------------------------- optimisers for a small network (progress bars)

OPT = code('''
    """A two-layer network in numpy on generated spirals, trained with several update rules."""
    import argparse
    import json
    import sys

    import numpy as np


    def spirals(n, noise, rng):
        t = rng.uniform(0.25, 1.0, n) * 2.2 * np.pi
        y = rng.integers(0, 2, n)
        r = t / (2.2 * np.pi)
        x = np.stack([r * np.cos(t + np.pi * y), r * np.sin(t + np.pi * y)], 1)
        return 2.0 * x + rng.normal(0, noise, x.shape), y


    def init(rng, hidden):
        return [rng.normal(0, 1.0, (2, hidden)), np.zeros(hidden),
                rng.normal(0, hidden ** -0.5, (hidden, 1)), np.zeros(1)]


    def forward(w, x):
        h = np.tanh(x @ w[0] + w[1])
        return h, 1 / (1 + np.exp(-(h @ w[2] + w[3])[:, 0]))


    def grads(w, x, y):
        h, p = forward(w, x)
        d = ((p - y) / len(y))[:, None]
        dh = (d @ w[2].T) * (1 - h ** 2)
        loss = -np.mean(y * np.log(p + 1e-9) + (1 - y) * np.log(1 - p + 1e-9))
        return loss, [x.T @ dh, dh.sum(0), h.T @ d, d.sum(0)]


    def step(rule, w, g, state, lr, t):
        for i in range(len(w)):
            m, v = state[i]
            if rule == "sgd":
                w[i] -= lr * g[i]
            elif rule == "momentum":
                m[:] = 0.9 * m + g[i]
                w[i] -= lr * m
            elif rule == "adam":
                m[:] = 0.9 * m + 0.1 * g[i]
                v[:] = 0.99 * v + 0.01 * g[i] ** 2
                w[i] -= lr * (m / (1 - 0.9 ** t)) / (np.sqrt(v / (1 - 0.99 ** t)) + 1e-8)
            elif rule == "signmom":
                m[:] = 0.9 * m + 0.1 * g[i]
                w[i] -= lr * np.sign(m)


    RATES = {"sgd": 0.5, "momentum": 0.1, "adam": 0.02, "signmom": 0.005}


    def train(rule, seed, epochs, hidden, noise):
        rng = np.random.default_rng(seed)
        xtr, ytr = spirals(400, noise, rng)
        xte, yte = spirals(@NTEST@, noise, rng)
        w, t = init(rng, hidden), 0
        state = [(np.zeros_like(a), np.zeros_like(a)) for a in w]
        for ep in range(1, epochs + 1):
            order, losses = rng.permutation(400), []
            for b in range(0, 400, 40):
                t += 1
                loss, g = grads(w, xtr[order[b:b + 40]], ytr[order[b:b + 40]])
                step(rule, w, g, state, RATES[rule], t)
                losses.append(loss)
            if ep % 10 == 0:
                acc = float(np.mean((forward(w, xte)[1] > 0.5) == yte))
                bar = "#" * (20 * ep // epochs)
                print(f"{rule:>9} s{seed} |{bar:<20}| {ep:3d}/{epochs} loss {np.mean(losses):.4f} acc {acc:.3f}")
        return {"rule": rule, "seed": seed, "loss": round(float(np.mean(losses)), 4), "accuracy": acc}


    if __name__ == "__main__":
        ap = argparse.ArgumentParser()
        ap.add_argument("--rules", default="sgd,momentum,adam,signmom")
        ap.add_argument("--seeds", type=int, default=5)
        ap.add_argument("--epochs", type=int, default=40)
        ap.add_argument("--hidden", type=int, default=24)
        ap.add_argument("--noise", type=float, default=0.08)
        a = ap.parse_args()
        for rule in a.rules.split(","):
            for seed in range(a.seeds):
                rec = train(rule, seed + @BASE@, a.epochs, a.hidden, a.noise)
                json.dump(rec, open(f"results/{rule}_seed{rec['seed']}.json", "w"))
        print("all runs finished", file=sys.stderr)
''')

OPT_SH = """#!/usr/bin/env bash
# runs everything; the output is kept with tee
set -euo pipefail
python code/train.py --seeds {seeds} --epochs {epochs} --hidden {hidden} --noise {noise}
"""


def opt_code(p: Paper) -> dict[str, str]:
    c = p.cfg
    base = p.seed % 9 * 10
    return {"code/train.py": OPT.replace("@NTEST@", str(c["ntest"])).replace("@BASE@", str(base)),
            "code/run_all.sh": OPT_SH.format(**c)}


def opt_run(p: Paper) -> None:
    p.run("bash code/run_all.sh", "results/train.log")


def opt_load(p: Paper) -> dict[str, list[dict[str, float]]]:
    out: dict[str, list[dict[str, float]]] = {}
    for rule in ["sgd", "momentum", "adam", "signmom"]:
        paths = sorted((p.dir / "results").glob(f"{rule}_seed*.json"))
        out[rule] = [p.js(f"results/{q.name}") for q in paths]
    return {k: v for k, v in out.items() if v}


RATES = {"sgd": 0.5, "momentum": 0.1, "adam": 0.02, "signmom": 0.005}


def opt_paper(p: Paper) -> tuple[str, Parts]:
    c, r = p.cfg, opt_load(p)
    acc = {k: [x["accuracy"] for x in v] for k, v in r.items()}
    loss = {k: [x["loss"] for x in v] for k, v in r.items()}
    order = sorted(acc, key=lambda k: -mean(acc[k]))
    body = [[k, f"{RATES[k]:g}", pm(loss[k], 3, "ci"), pm(acc[k], 3, "ci"), f"{min(acc[k]):.3f}", f"{max(acc[k]):.3f}",
             f"{100 * (mean(acc[k]) - mean(acc['sgd'])):+.1f}"] for k in acc]
    parts = {
        "Abstract": para(f"""We train a network of {c['hidden']} hidden units on two generated spirals with four update
        rules at untuned learning rates. After {c['epochs']} epochs {order[0]} reaches a mean test accuracy of
        {mean(acc[order[0]]):.3f} over {c['seeds']} seeds and {order[-1]} one of {mean(acc[order[-1]]):.3f}."""),
        "Introduction": para("""Comparisons of optimisers are usually made at large scale and after tuning. In the
        classroom and in small embedded models neither applies: networks are tiny, and the learning rate is the one
        in the example. We look at what update rules do there. The spirals problem is old, hard for a linear model,
        and takes a fraction of a second to train."""),
        "Update rules": para("""*sgd* is the plain gradient step. *momentum* accumulates gradients with factor 0.9.
        *adam* uses factors 0.9 and 0.99 with bias correction. *signmom* averages gradients with factor 0.9 and steps
        by the sign of the average. Gradients are written out by hand; no library for automatic differentiation is
        used."""),
        "Setup": para(f"""Data are generated: 400 training and {c['ntest']} test points on two interleaved spirals with
        Gaussian noise of {c['noise']}. Every seed draws new data, initial weights and batch orders, the same for each
        rule. Batches have 40 points. We report the last epoch, with no early stopping and no selection on test data.
        Intervals are 1.96 standard errors over the {c['seeds']} seeds."""),
        "Results": table(["rule", "rate", "training loss", "test accuracy", "min", "max", "points over sgd"], body)
        + "\n\n" + para(f"""Ordered by mean accuracy the rules are {', '.join(order)}. The last column is the
        difference of mean accuracies in percentage points. The lowest mean training loss,
        {min(mean(v) for v in loss.values()):.3f}, belongs to {min(loss, key=lambda k: mean(loss[k]))}. With
        {c['ntest']} test points one point moves accuracy by {1 / c['ntest']:.3f}, so the small differences mean
        little."""),
        "Limitations": para("""One architecture, one problem and one learning rate for each rule. A tuned rate would
        move every row, and most of all that of plain gradient descent."""),
        "Conclusion": para(f"""At classroom scale and with untuned rates, {order[0]} has the highest mean and
        {order[-1]} the lowest; the intervals say how much that means."""),
    }
    return f"Update rules at classroom scale: a spirals study with {c['hidden']} hidden units", parts


TOPICS_A = {
    "cover": (cover_code, cover_run, cover_paper),
    "bandit": (bandit_code, bandit_run, bandit_paper),
    "drift": (drift_code, drift_run, drift_paper),
    "game": (game_code, game_run, game_paper),
    "opt": (opt_code, opt_run, opt_paper),
}
