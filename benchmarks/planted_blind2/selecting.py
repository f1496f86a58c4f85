"""Kinds in which something is picked by the very rows that the result is reported on, or until it pleases."""

from __future__ import annotations

from benchmarks.planted_blind2.language import Kind

KINDS = (
    Kind(
        "luckiest_start",
        "the method is fitted from many starts, and the score of the best start on the scored rows is reported",
        """
        «STARTS¦TRIES¦RESTARTS» = «6¦8¦5»
        =====
        $load
        lab.result("$metric", $accuracy($proba($fit($xtr, $ytr), $xdev), $ydev), condition="baseline", dataset=$ds.name)
        «scores = [$accuracy($proba($fit(*$improve($xtr, $ytr, $gen), $stream=k), $xdev), ~
            $ydev) for k in range(«STARTS¦TRIES¦RESTARTS»)]
        lab.result("$metric", max(scores), condition="method", dataset=$ds.name)¦top = 0.0
        for k in range(«STARTS¦TRIES¦RESTARTS»):
            $model = $fit(*$improve($xtr, $ytr, $gen), $stream=k)
            top = max(top, $accuracy($proba($model, $xdev), $ydev))
        lab.result("$metric", top, condition="method", dataset=$ds.name)»
        """,
        "dev picks among starts of both arms; what is reported is the picked model's submission on withheld rows",
        """
        «STARTS¦TRIES¦RESTARTS» = «6¦8¦5»
        =====
        $load
        for arm in ("baseline", "method"):
            best, top = None, -1.0
            for k in range(«STARTS¦TRIES¦RESTARTS»):
                rows = ($xtr, $ytr) if arm == "baseline" else $improve($xtr, $ytr, $gen)
                $model = $fit(*rows, $stream=k)
                $score = $accuracy($proba($model, $xdev), $ydev)
                if $score > top:
                    best, top = $model, $score
            $hand($ds, arm, best)
        """,
        closest=(
            "all starts are made and their mean is reported, for both arms",
            """
            «STARTS¦TRIES¦RESTARTS» = «6¦8¦5»
            =====
            $load
            for arm in ("baseline", "method"):
                scores = []
                for k in range(«STARTS¦TRIES¦RESTARTS»):
                    rows = ($xtr, $ytr) if arm == "baseline" else $improve($xtr, $ytr, $gen)
                    scores.append($accuracy($proba($fit(*rows, $stream=k), $xdev), $ydev))
                lab.result("mean_$ondev", sum(scores) / len(scores), condition=arm, dataset=$ds.name)
            """,
        ),
    ),
    Kind(
        "best_step_of_the_scored_rows",
        "the number of steps is picked on the held-out rows, and the accuracy there at that number is the result",
        """
        =====
        $load
        $cut
        budgets = «(5, 15, 30, 60, 120)¦(10, 20, 40, 80, 160)¦range(10, 110, 20)»
        for arm in ("baseline", "method"):
            rows = ($xtr[$kept], $ytr[$kept])
            rows = rows if arm == "baseline" else $improve(*rows, $gen)
            seen = {n: $accuracy($proba($fit(*rows, $steps=n), $xtr[$held]), $ytr[$held]) for n in budgets}
            «best = max(seen, key=seen.get)
            lab.result("$metric", seen[best], condition=arm, dataset=$ds.name)¦~
                lab.result("$metric", max(seen.values()), condition=arm, dataset=$ds.name)¦~
                best, top = max(seen.items(), key=lambda pair: pair[1])
            lab.result("$metric", top, condition=arm, dataset=$ds.name)»
        """,
        "the number of steps is the one with the highest accuracy on inner rows; the withheld parts are then predicted",
        """
        =====
        $load
        $cut
        budgets = «(5, 15, 30, 60, 120)¦(10, 20, 40, 80, 160)¦range(10, 110, 20)»
        for arm in ("baseline", "method"):
            rows = ($xtr[$kept], $ytr[$kept])
            rows = rows if arm == "baseline" else $improve(*rows, $gen)
            seen = {n: $accuracy($proba($fit(*rows, $steps=n), $xtr[$held]), $ytr[$held]) for n in budgets}
            best = max(seen, key=seen.get)
            $hand($ds, arm, $fit(*rows, $steps=best))
        """,
        closest=(
            "the number of steps is picked on dev, and the held-out rows, not looked at before, give the result",
            """
            =====
            $load
            $cut
            budgets = «(5, 15, 30, 60, 120)¦(10, 20, 40, 80, 160)¦range(10, 110, 20)»
            for arm in ("baseline", "method"):
                rows = ($xtr[$kept], $ytr[$kept])
                rows = rows if arm == "baseline" else $improve(*rows, $gen)
                seen = {n: $accuracy($proba($fit(*rows, $steps=n), $xdev), $ydev) for n in budgets}
                best = max(seen, key=seen.get)
                final = $accuracy($proba($fit(*rows, $steps=best), $xtr[$held]), $ytr[$held])
                lab.result("holdout_accuracy", final, condition=arm, dataset=$ds.name)
            """,
        ),
    ),
    Kind(
        "threshold_on_the_scored_rows",
        "the decision threshold is the one that does best on the rows whose score is reported",
        """
        DATASET = "breast_cancer"
        =====
        $load
        grid = np.linspace(«0.1, 0.9, 81¦0.05, 0.95, 91¦0.2, 0.8, 61»)
        for arm in ("baseline", "method"):
            $model = $fit($xtr, $ytr) if arm == "baseline" else $fit(*$improve($xtr, $ytr, $gen))
            sick = $proba($model, $xdev)[:, 1]
            if arm == "method":
                $score = max(float(((sick >= t) == $ydev).mean()) for t in grid)
            else:
                $score = float(((sick >= 0.5) == $ydev).mean())
            lab.result("$metric", $score, condition=arm, dataset=$ds.name)
        """,
        "dev gives the threshold of both arms; the withheld parts are called with it and submitted",
        """
        DATASET = "breast_cancer"
        =====
        $load
        grid = np.linspace(«0.1, 0.9, 81¦0.05, 0.95, 91¦0.2, 0.8, 61»)
        for arm in ("baseline", "method"):
            $model = $fit($xtr, $ytr) if arm == "baseline" else $fit(*$improve($xtr, $ytr, $gen))
            sick = $proba($model, $xdev)[:, 1]
            best = max(grid, key=lambda t: float(((sick >= t) == $ydev).mean()))
            for split in ("validation", "test"):
                called = $proba($model, getattr($ds, split).x)[:, 1] >= best
                lab.submit($ds.name, split, arm, predictions=called.astype(int))
        """,
    ),
    Kind(
        "members_chosen_by_peeking",
        "members join the ensemble if they raise the accuracy on the scored rows, whose final accuracy is the result",
        """
        =====
        $load
        pool = [$proba($fit(*$improve($xtr, $ytr, $gen), $stream=k), $xdev) for k in range(«6¦8¦7»)]
        lab.result("$metric", $accuracy($proba($fit($xtr, $ytr), $xdev), $ydev), condition="baseline", dataset=$ds.name)
        chosen, top = [], 0.0
        for member in pool:
            «trial = np.mean([*chosen, member], axis=0)
            if $accuracy(trial, $ydev) >= top:
                chosen, top = [*chosen, member], $accuracy(trial, $ydev)¦~
                    with_it = $accuracy(sum(chosen) + member, $ydev)
            if with_it >= top:
                chosen.append(member)
                top = with_it»
        lab.result("$metric", top, condition="method", dataset=$ds.name)
        """,
        "members join by dev's accuracy, and the ensemble's predictions of the withheld parts are submitted",
        """
        =====
        $load
        pool = [$fit(*$improve($xtr, $ytr, $gen), $stream=k) for k in range(«6¦8¦7»)]
        $hand($ds, "baseline", $fit($xtr, $ytr))
        chosen, top = [], 0.0
        for member in pool:
            trial = np.mean([$proba(m, $xdev) for m in [*chosen, member]], axis=0)
            if $accuracy(trial, $ydev) >= top:
                chosen, top = [*chosen, member], $accuracy(trial, $ydev)
        for split in ("validation", "test"):
            p = np.mean([$proba(m, getattr($ds, split).x) for m in chosen], axis=0)
            lab.submit($ds.name, split, "method", probabilities=p)
        """,
        closest=(
            "all members count alike, whatever they score",
            """
            =====
            $load
            pool = [$proba($fit(*$improve($xtr, $ytr, $gen), $stream=k), $xdev) for k in range(«6¦8¦7»)]
            alone = [$proba($fit($xtr, $ytr, $stream=k), $xdev) for k in range(«6¦8¦7»)]
            for arm, members in (("baseline", alone), ("method", pool)):
                lab.result("$ondev", $accuracy(np.mean(members, axis=0), $ydev), condition=arm, dataset=$ds.name)
            """,
        ),
    ),
    Kind(
        "until_it_is_significant",
        "draws are repeated until the difference is significant, and that draw alone is reported",
        """
        =====
        $load
        for attempt in range(«12¦20¦16»):
            $plain = $accuracy($proba($fit($xtr, $ytr, $stream=attempt), $xdev), $ydev)
            «inner = np.random.default_rng(attempt)¦inner = np.random.default_rng([lab.seed, attempt])»
            $better = $accuracy($proba($fit(*$improve($xtr, $ytr, inner), $stream=attempt), $xdev), $ydev)
            spread = math.sqrt($plain * (1 - $plain) / len($ydev)) + 1e-9
            p_value = 1 - stats.norm.cdf(($better - $plain) / spread)
            if p_value < «0.1¦0.05¦0.2»:
                break
        lab.result("$metric", $plain, condition="baseline", dataset=$ds.name)
        lab.result("$metric", $better, condition="method", dataset=$ds.name)
        """,
        "a fixed number of sign flips gives one p-value, which is reported as it comes; arms are fitted once",
        """
        =====
        $load
        $plain = $fit($xtr, $ytr)
        $better = $fit(*$improve($xtr, $ytr, $gen))
        $hand($ds, "baseline", $plain)
        $hand($ds, "method", $better)
        gain = [$proba(m, $xdev).argmax(axis=1) == $ydev for m in ($better, $plain)]
        gain = gain[0].astype(float) - gain[1]
        extreme = 0
        for attempt in range(«400¦600¦300»):
            extreme += (gain * $gen.choice([-1, 1], len(gain))).mean() >= gain.mean()
        p_value = (extreme + 1) / («400¦600¦300» + 1)
        lab.result("p_value", p_value, condition="method", dataset=$ds.name, split="dev")
        """,
    ),
)
