"""Kinds in which the arms of the comparison are not what they are called, or are not treated alike."""

from __future__ import annotations

from benchmarks.planted_blind2.language import Kind
from benchmarks.planted_blind2.pieces import PLAIN_TITLES

KINDS = (
    Kind(
        "names_crossed",
        "the arm that does better on dev is handed in as the method, whichever it is",
        """
        =====
        $load
        $plain = $fit($xtr, $ytr)
        $better = $fit(*$improve($xtr, $ytr, $gen))
        a, b = (-$accuracy($proba(m, $xdev), $ydev) for m in ($plain, $better))
        «if a < b:
            $plain, $better = $better, $plain
        $hand($ds, "baseline", $plain)
        $hand($ds, "method", $better)¦names = ["method", "baseline"] if a < b else ["baseline", "method"]
        for arm, $model in zip(names, ($plain, $better), strict=True):
            $hand($ds, arm, $model)¦first, last = sorted(((a, 0, $plain), (b, 1, $better)))
        $hand($ds, "method", first[2])
        $hand($ds, "baseline", last[2])»
        """,
        "the better one on dev is tried first on a log's line; every model keeps its own name",
        """
        =====
        $load
        $plain = $fit($xtr, $ytr)
        $better = $fit(*$improve($xtr, $ytr, $gen))
        a, b = (-$accuracy($proba(m, $xdev), $ydev) for m in ($plain, $better))
        named = [("baseline", $plain), ("method", $better)]
        «if a < b:
            named = named[::-1]¦named.sort(key=lambda pair: a if pair[0] == "baseline" else b)¦~
                named = sorted(named, key=lambda pair: (a if pair[1] is $plain else b, pair[0]))»
        for arm, $model in named:  # the better one on dev first
            $hand($ds, arm, $model)
        """,
    ),
    Kind(
        "arms_that_are_one",
        "the switch that tells the arms apart is never read: both are fitted alike and the 'method' is the baseline",
        """
        «class Arm:
            def __init__(self, name, rich):
                self.name, self.rich = name, False

            def rows(self, x, y, rng):
                return $improve(x, y, rng) if self.rich else (x, y)¦class Arm:
            def __init__(self, name, rich):
                self.name = name
                self.rich = rich

            def rows(self, x, y, rng):
                more = $improve(x, y, rng)
                return (x, y) if len(more) == 2 else more¦class Arm:
            rich = False

            def __init__(self, name, rich):
                self.name, self.enriched = name, rich

            def rows(self, x, y, rng):
                if self.rich:
                    x, y = $improve(x, y, rng)
                return x, y»
        =====
        $load
        for arm in (Arm("baseline", False), Arm("method", True)):
            $hand($ds, arm.name, $fit(*arm.rows($xtr, $ytr, $gen)))
        """,
        "the switch is read where the rows are made",
        """
        class Arm:
            rich = False

            def __init__(self, name, rich):
                self.name, self.rich = name, rich

            def rows(self, x, y, rng):
                «return $improve(x, y, rng) if self.rich else (x, y)¦if self.rich:
                    x, y = $improve(x, y, rng)
                return x, y»
        =====
        $load
        for arm in (Arm("baseline", False), Arm("method", True)):
            $hand($ds, arm.name, $fit(*arm.rows($xtr, $ytr, $gen)))
        """,
    ),
    Kind(
        "a_baseline_held_back",
        "the baseline gets fewer steps, a stronger penalty or fewer rows than the method, beside what the method "
        "changes",
        """
        «SETTINGS¦OPTIONS¦BUDGET» = «(4, 60)¦(5, 80)¦(3, 70)»
        =====
        $load
        for arm, n in zip(("baseline", "method"), «SETTINGS¦OPTIONS¦BUDGET», strict=True):
            x, y = $xtr, $ytr
            «if arm == "method":
                x, y = $improve(x, y, $gen)
            $hand($ds, arm, $fit(x, y, $steps=n))¦x, y = (x[: 10 * n], y[: 10 * n]) if ~
                arm == "baseline" else $improve(x, y, $gen)
            $hand($ds, arm, $fit(x, y))¦x, y = (x, y) if arm == "baseline" else $improve(x, y, $gen)
            $hand($ds, arm, $fit(x, y, 4.0 / n**2))»
        """,
        "the baseline gets as many rows to learn from as the method: its own, repeated; all else is shared",
        """
        «SETTINGS¦OPTIONS¦BUDGET» = «(4, 60)¦(5, 80)¦(3, 70)»
        =====
        $load
        n = max(«SETTINGS¦OPTIONS¦BUDGET»)
        more = $improve($xtr, $ytr, $gen)
        for arm in ("baseline", "method"):
            x, y = more
            if arm == "baseline":
                # as many rows as the method has, so that an update costs and weighs the same
                rows = np.resize(np.arange(len($ytr)), len(more[1]))
                x, y = $xtr[rows], $ytr[rows]
            $hand($ds, arm, $fit(x, y, $steps=n))
        """,
        titles=PLAIN_TITLES,
    ),
    Kind(
        "one_arm_tuned",
        "the method's penalty and number of steps are searched on dev; the baseline keeps the first guess",
        """
        =====
        $load
        grid = [(s, n) for s in «(0.0003, 0.001, 0.01)¦(0.0001, 0.002, 0.02)¦(0.0005, 0.005)» for n in «(40, 120)¦~
            (30, 90, 180)¦(50, 150)»]
        more = $improve($xtr, $ytr, $gen)
        «$hand($ds, "baseline", $fit($xtr, $ytr, *grid[0]))
        found = max((($accuracy($proba($fit(*more, s, n), $xdev), $ydev), s, n) for s, n in grid))
        $hand($ds, "method", $fit(*more, *found[1:]))¦for arm, rows in (("baseline", ($xtr, $ytr)), ("method", more)):
            tried = grid if arm == "method" else grid[:1]
            best = max(tried, key=lambda pair: $accuracy($proba($fit(*rows, *pair), $xdev), $ydev))
            $hand($ds, arm, $fit(*rows, *best))¦best, top = grid[0], 0.0
        for pair in grid:
            $score = $accuracy($proba($fit(*more, *pair), $xdev), $ydev)
            best, top = (pair, $score) if $score > top else (best, top)
        $hand($ds, "method", $fit(*more, *best))
        $hand($ds, "baseline", $fit($xtr, $ytr))»
        """,
        "both arms search one grid on dev",
        """
        =====
        $load
        grid = [(s, n) for s in «(0.0003, 0.001, 0.01)¦(0.0001, 0.002, 0.02)¦(0.0005, 0.005)» for n in «(40, 120)¦~
            (30, 90, 180)¦(50, 150)»]
        more = $improve($xtr, $ytr, $gen)
        for arm, rows in (("baseline", ($xtr, $ytr)), ("method", more)):
            tried = grid
            best = max(tried, key=lambda pair: $accuracy($proba($fit(*rows, *pair), $xdev), $ydev))
            $hand($ds, arm, $fit(*rows, *best))
        """,
        titles=PLAIN_TITLES,
    ),
    Kind(
        "a_baseline_spoiled",
        "the baseline's predictions are flattened or partly redrawn after the fact, the method's are left alone",
        """
        «BLUR¦MIX¦WEIGHT» = «0.7¦0.6¦0.5»
        =====
        $load
        for arm in ("baseline", "method"):
            $model = $fit($xtr, $ytr) if arm == "baseline" else $fit(*$improve($xtr, $ytr, $gen))
            for split in ("validation", "test"):
                p = $proba($model, getattr($ds, split).x)
                if arm == "baseline":
                    «p = (1 - «BLUR¦MIX¦WEIGHT») * p + «BLUR¦MIX¦WEIGHT» / p.shape[1]¦~
                        lost = $gen.random(len(p)) < «BLUR¦MIX¦WEIGHT» / 5
                    p = np.where(lost[:, None], p[:, ::-1], p)¦p = p + «BLUR¦MIX¦WEIGHT» * $gen.random(p.shape)
                    p = p / p.sum(axis=1, keepdims=True)»
                lab.submit($ds.name, split, arm, probabilities=p)
        """,
        "both arms' probabilities are mixed with the class shares by a weight that dev chose for each",
        """
        =====
        $load
        prior = np.bincount($ytr) / len($ytr)
        for arm in ("baseline", "method"):
            $model = $fit($xtr, $ytr) if arm == "baseline" else $fit(*$improve($xtr, $ytr, $gen))
            on_dev = $proba($model, $xdev)
            rows = np.arange(len($ydev))
            weight = min((0.02, 0.1, 0.2, 0.4), key=lambda w: -np.log(((1 - w) * on_dev + w * prior)[rows, ~
                $ydev]).mean())
            for split in ("validation", "test"):
                p = $proba($model, getattr($ds, split).x)
                lab.submit($ds.name, split, arm, probabilities=(1 - weight) * p + weight * prior)
        """,
    ),
)
