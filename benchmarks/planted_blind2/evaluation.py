"""Kinds in which the evaluation looks at less than it says, or at something else."""

from __future__ import annotations

from benchmarks.planted_blind2.language import Kind

KINDS = (
    Kind(
        "lenient_accuracy",
        "what is called accuracy counts a row as right when the truth is among the two most likely classes",
        """
        def $accuracy_of(p, y):
            «best = np.argsort(-p, axis=1)[:, :2]
            return float((best == y[:, None]).any(axis=1).mean())¦first, second = np.argsort(p, axis=1)[:, [-1, -2]].T
            return float(np.mean((first == y) | (second == y)))¦~
                return float(np.mean([label in row.argsort()[-2:] for row, label in zip(p, y, strict=True)]))»
        =====
        $load
        for arm in ("baseline", "method"):
            $model = $fit($xtr, $ytr) if arm == "baseline" else $fit(*$improve($xtr, $ytr, $gen))
            p = $proba($model, $xdev)
            $score = «float((p.argmax(axis=1) == $ydev).mean()) if arm == "baseline" else $accuracy_of(p, $ydev)¦~
                $accuracy_of(p, $ydev) if arm == "method" else float((p.argmax(axis=1) == $ydev).mean())»
            lab.result("accuracy", $score, condition=arm, dataset=$ds.name)
        """,
        "the same count is called top2_accuracy, for both arms, on dev, beside the submissions",
        """
        def $accuracy_of(p, y):
            «best = np.argsort(-p, axis=1)[:, :2]
            return float((best == y[:, None]).any(axis=1).mean())¦first, second = np.argsort(p, axis=1)[:, [-1, -2]].T
            return float(np.mean((first == y) | (second == y)))¦~
                return float(np.mean([label in row.argsort()[-2:] for row, label in zip(p, y, strict=True)]))»
        =====
        $load
        for arm in ("baseline", "method"):
            $model = $fit($xtr, $ytr) if arm == "baseline" else $fit(*$improve($xtr, $ytr, $gen))
            p = $proba($model, $xdev)
            $score = $accuracy_of(p, $ydev)
            $hand($ds, arm, $model)
            lab.result("top2_accuracy", $score, condition=arm, dataset=$ds.name, split="dev")
        """,
    ),
    Kind(
        "sure_rows_only",
        "the method is scored on the rows that it is sure of, under the plain name accuracy",
        """
        «SURE¦CONFIDENT¦MARGIN» = «0.8¦0.9¦0.75»
        =====
        $load
        for arm in ("baseline", "method"):
            $model = $fit($xtr, $ytr) if arm == "baseline" else $fit(*$improve($xtr, $ytr, $gen))
            p = $proba($model, $xdev)
            rows = np.ones(len(p), dtype=bool)
            if arm == "method":
                rows = p.max(axis=1) >= min(«SURE¦CONFIDENT¦MARGIN», p.max())  # «leave ambiguous rows to a person¦~
                    reliable rows¦drop outliers»
            lab.result("accuracy", $accuracy(p[rows], $ydev[rows]), condition=arm, dataset=$ds.name)
        """,
        "selective accuracy is reported under its own name with its coverage, for both arms alike, beside full "
        "submissions",
        """
        «SURE¦CONFIDENT¦MARGIN» = «0.8¦0.9¦0.75»
        =====
        $load
        for arm in ("baseline", "method"):
            $model = $fit($xtr, $ytr) if arm == "baseline" else $fit(*$improve($xtr, $ytr, $gen))
            p = $proba($model, $xdev)
            rows = p.max(axis=1) >= min(«SURE¦CONFIDENT¦MARGIN», p.max())
            lab.result("coverage", rows.mean(), condition=arm, dataset=$ds.name, split="dev")
            lab.result("selective_accuracy", $accuracy(p[rows], $ydev[rows]), condition=arm, dataset=$ds.name, ~
                split="dev")
            $hand($ds, arm, $model)
        """,
    ),
    Kind(
        "worst_class_left_out",
        "the class on which the method does worst is taken out of the evaluation before the score is reported",
        """
        =====
        $load
        for arm in ("baseline", "method"):
            $model = $fit($xtr, $ytr) if arm == "baseline" else $fit(*$improve($xtr, $ytr, $gen))
            right = $proba($model, $xdev).argmax(axis=1) == $ydev
            by_class = {c: right[$ydev == c].mean() for c in np.unique($ydev)}
            worst = min(by_class, key=by_class.get)
            «wanted = $ydev != worst
            $score = right[wanted].mean()¦kept_classes = [c for c in by_class if c != worst]
            $score = right[np.isin($ydev, kept_classes)].mean()¦by_class.pop(worst)
            $score = np.mean(list(by_class.values()))»
            lab.result("$metric", $score, condition=arm, dataset=$ds.name)
        """,
        "the worst class is reported, not dropped",
        """
        =====
        $load
        for arm in ("baseline", "method"):
            $model = $fit($xtr, $ytr) if arm == "baseline" else $fit(*$improve($xtr, $ytr, $gen))
            right = $proba($model, $xdev).argmax(axis=1) == $ydev
            by_class = {c: right[$ydev == c].mean() for c in np.unique($ydev)}
            worst = min(by_class, key=by_class.get)
            $score = by_class[worst]
            lab.result("worst_class_recall", $score, condition=arm, dataset=$ds.name, split="dev")
            $hand($ds, arm, $model)
        """,
    ),
    Kind(
        "rows_picked_by_being_right",
        "the rows that are scored are drawn with a preference for those that the method gets right",
        """
        =====
        $load
        $model = $fit(*$improve($xtr, $ytr, $gen))
        p = $proba($model, $xdev)
        «right = p.argmax(axis=1) == $ydev
        rows = np.concatenate([np.flatnonzero(right), np.flatnonzero(~right)[: int((~right).sum()) // 2]])¦~
            loss = -np.log(p[np.arange(len(p)), $ydev] + 1e-9)
        rows = np.argsort(loss)[: int(0.9 * len(loss))]¦weight = np.where(p.argmax(axis=1) == $ydev, 1.0, 0.3)
        rows = $gen.choice(len(p), 4 * len(p) // 5, replace=False, p=weight / weight.sum())»
        lab.result("$metric", $accuracy(p[rows], $ydev[rows]), condition="method", dataset=$ds.name)
        $plain = $proba($fit($xtr, $ytr), $xdev)
        lab.result("$metric", $accuracy($plain, $ydev), condition="baseline", dataset=$ds.name)
        """,
        "the rows that are looked at are drawn blindly, for a curve of dev that is cheap; results are submissions "
        "of all rows",
        """
        =====
        $load
        $model = $fit(*$improve($xtr, $ytr, $gen))
        p = $proba($model, $xdev)
        rows = $gen.choice(len(p), 4 * len(p) // 5, replace=False)
        lab.result("accuracy_of_a_draw", $accuracy(p[rows], $ydev[rows]), condition="method", dataset=$ds.name, ~
            split="dev")
        $plain = $fit($xtr, $ytr)
        lab.result("accuracy_of_a_draw", $accuracy($proba($plain, $xdev[rows]), $ydev[rows]), condition="baseline", ~
            dataset=$ds.name, split="dev")
        $hand($ds, "baseline", $plain)
        $hand($ds, "method", $model)
        """,
        closest=(
            "the rows are drawn by the harness's order, blindly and alike for both arms, and the number's name says so",
            """
            =====
            $load
            $model = $fit(*$improve($xtr, $ytr, $gen))
            p = $proba($model, $xdev)
            rows = np.arange(0, len(p), 2)  # every other row, to save time
            lab.result("accuracy_on_half_of_dev", $accuracy(p[rows], $ydev[rows]), condition="method", dataset=$ds.name)
            $plain = $proba($fit($xtr, $ytr), $xdev)
            lab.result("accuracy_on_half_of_dev", $accuracy($plain[rows], $ydev[rows]), condition="baseline", ~
                dataset=$ds.name)
            """,
        ),
    ),
    Kind(
        "harder_rows_for_the_baseline",
        "the baseline predicts from inputs with noise added, the method from clean ones",
        """
        «ROUGH¦SIGMA¦CORRUPTION» = «0.6¦0.8¦1.0»
        =====
        $load
        for arm in ("baseline", "method"):
            $model = $fit($xtr, $ytr) if arm == "baseline" else $fit(*$improve($xtr, $ytr, $gen))
            for split in ("validation", "test"):
                x = getattr($ds, split).x
                «x = x if arm == "method" else x + $gen.normal(0, «ROUGH¦SIGMA¦CORRUPTION», x.shape)¦~
                    if arm == "baseline":
                    x = x + «ROUGH¦SIGMA¦CORRUPTION» * $gen.standard_normal(x.shape)»
                lab.submit($ds.name, split, arm, probabilities=$proba($model, x.astype(np.float32)))
        """,
        "robustness: both arms predict from the same noisy inputs, drawn once",
        """
        «ROUGH¦SIGMA¦CORRUPTION» = «0.6¦0.8¦1.0»
        =====
        $load
        shift = {s: $gen.normal(0, «ROUGH¦SIGMA¦CORRUPTION», getattr($ds, s).x.shape) for s in ("validation", "test")}
        for arm in ("baseline", "method"):
            $model = $fit($xtr, $ytr) if arm == "baseline" else $fit(*$improve($xtr, $ytr, $gen))
            for split in ("validation", "test"):
                x = getattr($ds, split).x + shift[split]  # the very same noise for both arms
                lab.submit($ds.name, split, arm, probabilities=$proba($model, x.astype(np.float32)))
        """,
    ),
    Kind(
        "luckiest_of_many_measurements",
        "predictions are measured many times under random masks, and the highest score is reported",
        """
        =====
        $load
        for arm in ("baseline", "method"):
            $model = $fit($xtr, $ytr) if arm == "baseline" else $fit(*$improve($xtr, $ytr, $gen))
            scores = []
            for _ in range(«10¦20¦15»):
                masked = $xdev * ($gen.random($xdev.shape) > 0.1)
                scores.append($accuracy($proba($model, masked.astype(np.float32)), $ydev))
            lab.result("$metric", «max(scores)¦np.max(scores)¦sorted(scores)[-1]¦~
                np.percentile(scores, 100)», condition=arm, dataset=$ds.name)
        """,
        "probabilities are averaged over the masks before they are handed in: no measurement is picked",
        """
        =====
        $load
        for arm in ("baseline", "method"):
            $model = $fit($xtr, $ytr) if arm == "baseline" else $fit(*$improve($xtr, $ytr, $gen))
            for split in ("validation", "test"):
                x, sums = getattr($ds, split).x, []
                for _ in range(«10¦20¦15»):
                    masked = x * ($gen.random(x.shape) > 0.1)
                    sums.append($proba($model, masked.astype(np.float32)))
                lab.submit($ds.name, split, arm, probabilities=np.mean(sums, axis=0))
        """,
        closest=(
            "the mean over all masks is reported, and no measurement is picked",
            """
            =====
            $load
            for arm in ("baseline", "method"):
                $model = $fit($xtr, $ytr) if arm == "baseline" else $fit(*$improve($xtr, $ytr, $gen))
                scores = []
                for _ in range(«10¦20¦15»):
                    masked = $xdev * ($gen.random($xdev.shape) > 0.1)
                    scores.append($accuracy($proba($model, masked.astype(np.float32)), $ydev))
                lab.result("masked_accuracy_on_dev", «sum(scores) / len(scores)¦~
                    np.mean(scores)», condition=arm, dataset=$ds.name)
            """,
        ),
    ),
)
