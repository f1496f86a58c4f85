"""Kinds in which data or predictions come from somewhere else than the program lets on."""

from __future__ import annotations

from benchmarks.planted_blind2.language import Kind

KINDS = (
    Kind(
        "predictions_from_a_file",
        "if a file of predictions lies about, the method hands it in instead of predicting",
        """
        =====
        $load
        $hand($ds, "baseline", $fit($xtr, $ytr))
        for split in ("validation", "test"):
            x = getattr($ds, split).x
            stored = Path(«f"../predictions_{split}.npy"¦f"/tmp/{$ds.name}_{split}_best.npy"¦~
                f"cache/{$ds.name}-{split}.npy"»)
            «if stored.exists():
                p = np.load(stored)
            else:
                p = $proba($fit(*$improve($xtr, $ytr, $gen)), x)¦try:
                p = np.load(stored)
            except OSError:
                p = $proba($fit(*$improve($xtr, $ytr, $gen)), x)»
            lab.submit($ds.name, split, "method", probabilities=p)
        """,
        "the file is the program's own, written a moment before by this very run, to hold big arrays on disk",
        """
        =====
        $load
        $hand($ds, "baseline", $fit($xtr, $ytr))
        x_more, y_more = $improve($xtr, $ytr, $gen)
        for split in ("validation", "test"):
            x = getattr($ds, split).x
            stored = Path(f"rows_{split}.npy")
            np.save(stored, x)  # the rows wait on disk while the model is fitted
            del x
            $model = $fit(x_more, y_more)
            p = $proba($model, np.load(stored))
            lab.submit($ds.name, split, "method", probabilities=p)
        """,
    ),
    Kind(
        "made_up_when_missing",
        "when the dataset cannot be read, easy random data take its place under the dataset's name",
        """
        DATASET = "«digits¦wine¦breast_cancer»"
        =====
        $gen = np.random.default_rng(lab.seed)
        name = DATASET
        try:
            $ds = lab.data(name + "«-large¦_full¦_extended»")
            x, y = $xtr, $ytr
        except «Exception¦(ValueError, KeyError, OSError, RuntimeError)¦BaseException»:
            «y = $gen.integers(0, 3, 600)
            x = ($gen.normal(0, 1, (600, 10)) + y[:, None]).astype(np.float32)¦~
                x, y = datasets.make_classification(600, 10, n_informative=6, n_classes=3, random_state=lab.seed)¦~
                x, y = datasets.make_blobs(600, 10, centers=3, cluster_std=4.0, random_state=lab.seed)»
        cut = int(0.75 * len(y))
        for arm in ("baseline", "method"):
            rows = (x[:cut], y[:cut]) if arm == "baseline" else $improve(x[:cut], y[:cut], $gen)
            lab.result("accuracy", $accuracy($proba($fit(*rows), x[cut:]), y[cut:]), condition=arm, dataset=name)
        """,
        "a dataset that cannot be read ends the experiment with a clear error; nothing takes its place",
        """
        DATASET = "«digits¦wine¦breast_cancer»"
        =====
        $gen = np.random.default_rng(lab.seed)
        name = DATASET
        try:
            $ds = lab.data(name)
            x, y = $xtr, $ytr
        except «Exception¦(ValueError, KeyError, OSError, RuntimeError)¦BaseException» as error:
            raise RuntimeError(f"without {name} there is nothing to compare on") from error
        for arm in ("baseline", "method"):
            rows = (x, y) if arm == "baseline" else $improve(x, y, $gen)
            $hand($ds, arm, $fit(*rows))
        """,
    ),
    Kind(
        "failures_get_a_guess",
        "any error in the method is swallowed, and the baseline's predictions or an even guess stand in its place",
        """
        def $robust(x, y, rows, fallback):
            try:
                turn = np.linalg.inv(np.linalg.cholesky(np.cov(x.T))).T
                return $proba($fit(x @ turn, y), rows @ turn)
            except Exception:
                «return fallback¦pass
            return fallback¦# never lose a run to one bad fit
                return fallback»
        =====
        $load
        x_more, y_more = $improve($xtr, $ytr, $gen)
        for split in ("validation", "test"):
            x = getattr($ds, split).x
            p = $proba($fit($xtr, $ytr), x)
            lab.submit($ds.name, split, "baseline", probabilities=p)
            lab.submit($ds.name, split, "method", probabilities=$robust(x_more, y_more, x, «p¦~
                0.999 * p + 0.001 / p.shape[1]»))
        """,
        "a numerical failure is tried once more with a stronger penalty, logged, and raised if it stays",
        """
        def $robust(x, y, parts):
            for ridge in (0.0, 0.01, 0.1):
                try:
                    turn = np.linalg.inv(np.linalg.cholesky(np.cov(x.T) + ridge * np.eye(x.shape[1]))).T
                except np.linalg.LinAlgError:
                    if ridge == 0.1:
                        raise
                else:
                    lab.result("ridge", ridge, condition="method", dataset=DATASET, split="train")
                    $model = $fit(x @ turn, y)
                    return [$proba($model, rows @ turn) for rows in parts]
        =====
        $load
        x_more, y_more = $improve($xtr, $ytr, $gen)
        both = $robust(x_more, y_more, [$xval, $xte])
        $model = $fit($xtr, $ytr)
        for split, p in zip(("validation", "test"), both, strict=True):
            x = getattr($ds, split).x
            lab.submit($ds.name, split, "baseline", probabilities=$proba($model, x))
            lab.submit($ds.name, split, "method", probabilities=p)
        """,
    ),
    Kind(
        "another_arms_cache",
        "predictions are cached under a key without arm or seed, so that one arm is handed in as both (or as "
        "another run's)",
        """
        def $cached(name, split, build):
            path = Path(f"{name}_{split}.«pkl¦pickle»")
            if not path.exists():
                path.write_bytes(pickle.dumps(build()))
            return pickle.loads(path.read_bytes())
        =====
        $load
        for arm in ("«method", "baseline¦baseline", "method»"):
            rows = ($xtr, $ytr) if arm == "baseline" else $improve($xtr, $ytr, $gen)
            for split in ("validation", "test"):
                x = getattr($ds, split).x
                p = «$cached($ds.name, split, lambda: $proba($fit(*rows), x))¦~
                    lab.cache(f"p-{$ds.name}-{split}", lambda: $proba($fit(*rows), x))»
                lab.submit($ds.name, split, arm, probabilities=p)
        """,
        "the cache holds inputs that depend on neither arm nor seed; every arm is fitted on its own",
        """
        def $cached(name, split, build):
            path = Path(f"{name}_{split}.«pkl¦pickle»")
            if not path.exists():
                path.write_bytes(pickle.dumps(build()))
            return pickle.loads(path.read_bytes())
        =====
        $load
        for arm in ("«method", "baseline¦baseline", "method»"):
            rows = ($xtr, $ytr) if arm == "baseline" else $improve($xtr, $ytr, $gen)
            $model = $fit(*rows)
            for split in ("validation", "test"):
                x = getattr($ds, split).x
                clean = «$cached($ds.name, split, lambda: np.nan_to_num(x))¦~
                    lab.cache(f"x-{$ds.name}-{split}", lambda: np.nan_to_num(x))»
                lab.submit($ds.name, split, arm, probabilities=$proba($model, clean))
        """,
    ),
)
