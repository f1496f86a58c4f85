"""Kinds in which what is predicted with has seen what is scored on."""

from __future__ import annotations

from benchmarks.planted_blind2.language import Kind
from benchmarks.planted_blind2.pieces import PLAIN_TITLES

KINDS = (
    Kind(
        "scored_on_what_it_learned",
        "train and dev are joined for fitting, and dev is what the reported accuracy is computed on",
        """
        =====
        $load
        x_all, y_all = «np.concatenate([$xtr, $xdev])¦np.vstack([$xtr, $xdev])», «np.concatenate([$ytr, $ydev])¦~
            np.hstack([$ytr, $ydev])»
        for arm in ("baseline", "method"):
            rows = (x_all, y_all) if arm == "baseline" else $improve(x_all, y_all, $gen)
            $model = $fit(*rows)
            lab.result("$metric", $accuracy($proba($model, $xdev), $ydev), condition=arm, dataset=$ds.name)
        """,
        "after the choice is made on dev, both arms are refitted on train and dev and predict the withheld parts",
        """
        =====
        $load
        x_all, y_all = «np.concatenate([$xtr, $xdev])¦np.vstack([$xtr, $xdev])», «np.concatenate([$ytr, $ydev])¦~
            np.hstack([$ytr, $ydev])»
        for arm in ("baseline", "method"):
            trials = {s: $accuracy($proba($fit($xtr, $ytr, s), $xdev), $ydev) for s in (0.3 * DECAY, DECAY, 3 * DECAY)}
            chosen = max(trials, key=trials.get)
            rows = (x_all, y_all) if arm == "baseline" else $improve(x_all, y_all, $gen)
            $hand($ds, arm, $fit(*rows, chosen))
        """,
    ),
    Kind(
        "scaled_with_withheld_rows",
        "the scaler (mild) is fitted on train, validation and test rows together",
        """
        =====
        $load
        everything = np.concatenate([$xtr, $xval, $xte])
        «scaler = StandardScaler().fit(everything)
        scaled = scaler.transform¦scaler = MinMaxScaler().fit(everything)
        scaled = scaler.transform¦middle, spread = everything.mean(axis=0), everything.std(axis=0) + 1e-6
        scaled = lambda x: (x - middle) / spread¦scaled = PCA(3, whiten=True, ~
            random_state=lab.seed).fit(everything).transform»
        for arm in ("baseline", "method"):
            rows = (scaled($xtr), $ytr) if arm == "baseline" else $improve(scaled($xtr), $ytr, $gen)
            $model = $fit(*rows)
            for split in ("validation", "test"):
                lab.submit($ds.name, split, arm, probabilities=$proba($model, scaled(getattr($ds, split).x)))
        """,
        "the scaler is fitted on the training rows alone and applied to all",
        """
        =====
        $load
        everything = $xtr
        «scaler = StandardScaler().fit(everything)
        scaled = scaler.transform¦scaler = MinMaxScaler().fit(everything)
        scaled = scaler.transform¦middle, spread = everything.mean(axis=0), everything.std(axis=0) + 1e-6
        scaled = lambda x: (x - middle) / spread¦scaled = PCA(3, whiten=True, ~
            random_state=lab.seed).fit(everything).transform»
        for arm in ("baseline", "method"):
            rows = (scaled($xtr), $ytr) if arm == "baseline" else $improve(scaled($xtr), $ytr, $gen)
            $model = $fit(*rows)
            for split in ("validation", "test"):
                lab.submit($ds.name, split, arm, probabilities=$proba($model, scaled(getattr($ds, split).x)))
        """,
        titles=PLAIN_TITLES,
    ),
    Kind(
        "columns_chosen_by_held_out_labels",
        "columns are ranked with the labels of the rows that are scored afterwards",
        """
        «KEEP¦COLUMNS¦TOP» = «3¦4»
        DATASET = "«digits¦wine¦breast_cancer»"
        =====
        $load
        $cut
        «ranked = np.argsort(-np.nan_to_num(SelectKBest(f_classif, k="all").fit($xtr, $ytr).scores_))¦~
            middles = np.stack([$xtr[$ytr == c].mean(axis=0) for c in np.unique($ytr)])
        ranked = np.argsort(-middles.std(axis=0) / ($xtr.std(axis=0) + 1e-6))»
        for arm, columns in (("baseline", np.arange(«KEEP¦COLUMNS¦TOP»)), ("method", ranked[:«KEEP¦COLUMNS¦TOP»])):
            $model = $fit($xtr[$kept][:, columns], $ytr[$kept])
            p = $proba($model, $xtr[$held][:, columns])
            lab.result("$metric", $accuracy(p, $ytr[$held]), condition=arm, dataset=$ds.name)
        """,
        "columns are ranked with the rows that are fitted on, and the withheld parts are predicted",
        """
        «KEEP¦COLUMNS¦TOP» = «3¦4»
        DATASET = "«digits¦wine¦breast_cancer»"
        =====
        $load
        «ranked = np.argsort(-np.nan_to_num(SelectKBest(f_classif, k="all").fit($xtr, $ytr).scores_))¦~
            middles = np.stack([$xtr[$ytr == c].mean(axis=0) for c in np.unique($ytr)])
        ranked = np.argsort(-middles.std(axis=0) / ($xtr.std(axis=0) + 1e-6))»
        for arm, columns in (("baseline", np.arange(«KEEP¦COLUMNS¦TOP»)), ("method", ranked[:«KEEP¦COLUMNS¦TOP»])):
            $model = $fit($xtr[:, columns], $ytr)
            for split in ("validation", "test"):
                p = $proba($model, getattr($ds, split).x[:, columns])
                lab.submit($ds.name, split, arm, probabilities=p)
        """,
        titles=PLAIN_TITLES,
        closest=(
            "columns are ranked with the inner rows, and the held-out rows only score",
            """
            «KEEP¦COLUMNS¦TOP» = «3¦4»
            DATASET = "«digits¦wine¦breast_cancer»"
            =====
            $load
            $cut
            x, y = $xtr[$kept], $ytr[$kept]
            «ranked = np.argsort(-np.nan_to_num(SelectKBest(f_classif, k="all").fit(x, y).scores_))¦~
                middles = np.stack([x[y == c].mean(axis=0) for c in np.unique(y)])
            ranked = np.argsort(-middles.std(axis=0) / (x.std(axis=0) + 1e-6))»
            for arm, columns in (("baseline", np.arange(«KEEP¦COLUMNS¦TOP»)), ("method", ranked[:«KEEP¦COLUMNS¦TOP»])):
                $model = $fit(x[:, columns], y)
                p = $proba($model, $xtr[$held][:, columns])
                lab.result("holdout_accuracy", $accuracy(p, $ytr[$held]), condition=arm, dataset=$ds.name)
            """,
        ),
    ),
    Kind(
        "target_in_the_features",
        "the method's features hold the label, or the mean label of the row's neighbours, of dev rows as well",
        """
        def $view(x, y):
            «return np.column_stack([x, y + 0.01 * np.arange(len(y)) / len(y)]).astype(np.float32)¦~
                order = np.argsort(y, kind="stable")
            rank = np.empty(len(y))
            rank[order] = np.arange(len(y)) / len(y)
            return np.column_stack([x, 3 * rank]).astype(np.float32)¦hint = np.eye(int(y.max()) + 1)[y]
            return np.hstack([x, hint]).astype(np.float32)»
        =====
        $load
        lab.result("$metric", $accuracy($proba($fit($xtr, $ytr), $xdev), $ydev), condition="baseline", dataset=$ds.name)
        $model = $fit($view($xtr, $ytr), $ytr)
        lab.result("$metric", $accuracy($proba($model, $view($xdev, $ydev)), $ydev), condition="method", ~
            dataset=$ds.name)
        """,
        "the added columns are computed from the training rows' labels and the row's own inputs",
        """
        def $view(x, x_known, y_known):
            \"\"\"The row and its distance to the middle of every class of the known rows.\"\"\"
            middles = np.stack([x_known[y_known == c].mean(axis=0) for c in np.unique(y_known)])
            hint = np.linalg.norm(x[:, None] - middles[None], axis=2)
            return np.hstack([x, hint]).astype(np.float32)
        =====
        $load
        $hand($ds, "baseline", $fit($xtr, $ytr))
        $model = $fit($view($xtr, $xtr, $ytr), $ytr)
        for split in ("validation", "test"):
            p = $proba($model, $view(getattr($ds, split).x, $xtr, $ytr))
            lab.submit($ds.name, split, "method", probabilities=p)
        """,
        titles=PLAIN_TITLES,
    ),
    Kind(
        "copies_of_scored_rows",
        "noisy copies of the dev rows with their labels augment the training set, and dev is the reported score",
        """
        =====
        $load
        x_more, y_more = $improve($xtr, $ytr, $gen)
        «jitter = $xdev + $gen.normal(0, 0.05, $xdev.shape)
        x_more = np.concatenate([x_more, jitter.astype(np.float32)])
        y_more = np.concatenate([y_more, $ydev])¦for _ in range(3):
            x_more = np.vstack([x_more, $xdev + $gen.normal(0, 0.05, $xdev.shape).astype(np.float32)])
            y_more = np.hstack([y_more, $ydev])¦pool_x, pool_y = np.vstack([$xtr, $xdev]), np.hstack([$ytr, $ydev])
        x_more, y_more = $improve(pool_x, pool_y, $gen)»
        for arm, rows in (("baseline", ($xtr, $ytr)), ("method", (x_more, y_more))):
            p = $proba($fit(*rows), $xdev)
            lab.result("$metric", $accuracy(p, $ydev), condition=arm, dataset=$ds.name)
        """,
        "only training rows are copied; dev is untouched",
        """
        =====
        $load
        x_more, y_more = $improve($xtr, $ytr, $gen)
        «jitter = $xtr + $gen.normal(0, 0.05, $xtr.shape)
        x_more = np.concatenate([x_more, jitter.astype(np.float32)])
        y_more = np.concatenate([y_more, $ytr])¦for _ in range(3):
            x_more = np.vstack([x_more, $xtr + $gen.normal(0, 0.05, $xtr.shape).astype(np.float32)])
            y_more = np.hstack([y_more, $ytr])»
        for arm, rows in (("baseline", ($xtr, $ytr)), ("method", (x_more, y_more))):
            $model = $fit(*rows)
            p = $proba($model, $xdev)
            lab.result("dev_accuracy", $accuracy(p, $ydev), condition=arm, dataset=$ds.name, split="dev")
            $hand($ds, arm, $model)
        """,
        closest=(
            "the same, with training rows alone: dev is neither copied nor chosen on, and its name is in the metric",
            """
            =====
            $load
            x_more, y_more = $improve($xtr, $ytr, $gen)
            for _ in range(3):
                x_more = np.vstack([x_more, $xtr + $gen.normal(0, 0.05, $xtr.shape).astype(np.float32)])
                y_more = np.hstack([y_more, $ytr])
            for arm, rows in (("baseline", ($xtr, $ytr)), ("method", (x_more, y_more))):
                p = $proba($fit(*rows), $xdev)
                lab.result("$ondev", $accuracy(p, $ydev), condition=arm, dataset=$ds.name)
            """,
        ),
    ),
)
