"""Kinds in which it matters what came first, in time or in the program; and one whose target is a number."""

from __future__ import annotations

from benchmarks.planted_blind2.language import Kind
from benchmarks.planted_blind2.pieces import PLAIN_TITLES

_SERIES = """
        LENGTH = «400¦500¦600»
        LAGS = «6¦8¦10»


        def $series(rng):
            \"\"\"A noisy «wave¦oscillation¦periodic signal» with memory; «made here, ~
                since no bundled set has a clock¦synthetic on purpose».\"\"\"
            noise = rng.normal(0, «0.4¦0.5», LENGTH)
            for t in range(1, LENGTH):
                noise[t] += 0.6 * noise[t - 1]
            return np.sin(np.arange(LENGTH) / 7) + noise


        def $windows(values, told):
            rows = np.arange(LAGS, len(values) - LAGS)
            return np.stack([told[t - LAGS : t] for t in rows]), values[rows]
"""

KINDS = (
    Kind(
        "smoothed_with_the_future",
        "the method's inputs are a centred moving average, which holds the value to be forecast",
        _SERIES + """
        =====
        values = $series(np.random.default_rng(lab.seed))
        «smooth = np.convolve(values, np.ones(7) / 7, mode="same")¦smooth = np.array([values[max(0, t - 3) : t + ~
            4].mean() for t in range(len(values))])¦padded = np.pad(values, 3, mode="edge")
        smooth = np.lib.stride_tricks.sliding_window_view(padded, 7).mean(axis=1)»
        for arm, told in (("baseline", values), ("method", smooth)):
            x, y = $windows(values, told)
            cut = int(0.7 * len(y))
            $model = Ridge(«1.0¦0.1»).fit(x[:cut], y[:cut])
            error = float(np.mean(($model.predict(x[cut:]) - y[cut:]) ** 2))
            lab.result("mse", error, condition=arm, dataset="wave")
        """,
        "the average trails: it holds values up to the step before the forecast",
        _SERIES + """
        =====
        values = $series(np.random.default_rng(lab.seed))
        «smooth = np.convolve(values, np.ones(7) / 7, mode="full")[: len(values)]¦~
            smooth = np.array([values[max(0, t - 6) : t + 1].mean() for t in range(len(values))])¦~
            padded = np.pad(values, (6, 0), mode="edge")
        smooth = np.lib.stride_tricks.sliding_window_view(padded, 7).mean(axis=1)»
        for arm, told in (("baseline", values), ("method", smooth)):
            x, y = $windows(values, told)
            cut = int(0.7 * len(y))
            $model = Ridge(«1.0¦0.1»).fit(x[:cut], y[:cut])
            error = float(np.mean(($model.predict(x[cut:]) - y[cut:]) ** 2))
            lab.result("mse", error, condition=arm, dataset="wave")
        """,
        titles=PLAIN_TITLES,
    ),
    Kind(
        "shuffled_time",
        "overlapping windows of a series are cut at random, so that the future and near-copies stand in training",
        _SERIES + """
        =====
        values = $series(np.random.default_rng(lab.seed))
        x, y = $windows(values, values)
        «order = np.random.default_rng(0).permutation(len(y))
        x, y = x[order], y[order]
        cut = int(0.7 * len(y))
        a, b, ya, yb = x[:cut], x[cut:], y[:cut], y[cut:]¦a, b, ya, yb = train_test_split(x, y, test_size=0.3, ~
            random_state=0)¦a, b, ya, yb = train_test_split(x, y, test_size=0.3, shuffle=True, random_state=lab.seed)»
        lab.result("mse", np.mean((b[:, -1] - yb) ** 2), condition="baseline", dataset="wave")
        nearest = ((b[:, None] - a[None]) ** 2).sum(axis=2).argsort(axis=1)[:, :3]
        lab.result("mse", np.mean((ya[nearest].mean(axis=1) - yb) ** 2), condition="method", dataset="wave")
        """,
        "the cut is in time; only the order of training rows is shuffled",
        _SERIES + """
        =====
        values = $series(np.random.default_rng(lab.seed))
        x, y = $windows(values, values)
        cut = int(0.7 * len(y))
        a, b, ya, yb = x[:cut], x[cut + LAGS :], y[:cut], y[cut + LAGS :]
        order = np.random.default_rng(0).permutation(len(ya))  # rows of training alone
        a, ya = a[order], ya[order]
        lab.result("mse", np.mean((b[:, -1] - yb) ** 2), condition="baseline", dataset="wave")
        nearest = ((b[:, None] - a[None]) ** 2).sum(axis=2).argsort(axis=1)[:, :3]
        lab.result("mse", np.mean((ya[nearest].mean(axis=1) - yb) ** 2), condition="method", dataset="wave")
        """,
        titles=PLAIN_TITLES,
    ),
    Kind(
        "rescaled_to_the_truth",
        "forecasts are brought to the mean and spread of the true values of the rows that are scored",
        """
        DATASET = "diabetes"
        =====
        $load
        for arm in ("baseline", "method"):
            $model = Ridge(«1.0¦3.0» if arm == "baseline" else «10.0¦30.0»).fit($xtr, $ytr)
            y = $model.predict($xdev)
            if arm == "method":
                «y = (y - y.mean()) / y.std() * $ydev.std() + $ydev.mean()¦slope, shift = np.polyfit(y, $ydev, 1)
                y = slope * y + shift¦y = np.clip(y + ($ydev - y).mean(), $ydev.min(), $ydev.max())»  # «calibration¦~
                    bias correction¦match the scale»
            lab.result("mse", np.mean((y - $ydev) ** 2), condition=arm, dataset=$ds.name)
        """,
        "the line is fitted on dev and applied to the withheld parts, whose truth it has not seen; both arms get it",
        """
        DATASET = "diabetes"
        =====
        $load
        for arm in ("baseline", "method"):
            $model = Ridge(«1.0¦3.0» if arm == "baseline" else «10.0¦30.0»).fit($xtr, $ytr)
            y = $model.predict($xdev)
            slope, shift = np.polyfit(y, $ydev, 1)  # calibration on dev
            for split in ("validation", "test"):
                y = slope * $model.predict(getattr($ds, split).x) + shift
                lab.submit($ds.name, split, arm, predictions=np.clip(y, $ytr.min(), $ytr.max()))
        """,
        titles=PLAIN_TITLES,
    ),
    Kind(
        "drawn_before_the_cut",
        "rows are multiplied first and cut into train and held-out rows afterwards, so that copies stand on both sides",
        """
        =====
        $load
        x_more, y_more = «np.tile($xtr, (4, 1)), np.tile($ytr, 4)¦np.concatenate([$xtr] * 3), ~
            np.concatenate([$ytr] * 3)¦np.repeat($xtr, 4, axis=0), np.repeat($ytr, 4)»
        x_more = (x_more + $gen.normal(0, 0.03, x_more.shape)).astype(np.float32)
        «a, b, ya, yb = train_test_split(x_more, y_more, test_size=0.25, random_state=0)¦~
            order = np.random.default_rng(0).permutation(len(y_more))
        rows, rest = order[len(order) // 4 :], order[: len(order) // 4]
        a, b, ya, yb = x_more[rows], x_more[rest], y_more[rows], y_more[rest]»
        lab.result("$metric", $accuracy($proba($fit(a, ya), b), yb), condition="method", dataset=$ds.name)
        a, b, ya, yb = train_test_split($xtr, $ytr, test_size=0.25, random_state=0)
        lab.result("$metric", $accuracy($proba($fit(a, ya), b), yb), condition="baseline", dataset=$ds.name)
        """,
        "the cut is made first, with a fixed seed of its own, and only the part that is fitted on is multiplied",
        """
        =====
        $load
        «a, b, ya, yb = train_test_split($xtr, $ytr, test_size=0.25, random_state=0)¦~
            order = np.random.default_rng(0).permutation(len($ytr))
        rows, rest = order[len(order) // 4 :], order[: len(order) // 4]
        a, b, ya, yb = $xtr[rows], $xtr[rest], $ytr[rows], $ytr[rest]»
        x_more, y_more = «np.tile(a, (4, 1)), np.tile(ya, 4)¦np.concatenate([a] * 3), np.concatenate([ya] * 3)¦~
            np.repeat(a, 4, axis=0), np.repeat(ya, 4)»
        x_more = (x_more + $gen.normal(0, 0.03, x_more.shape)).astype(np.float32)
        for arm, $model in (("baseline", $fit(a, ya)), ("method", $fit(x_more, y_more))):
            lab.result("inner_accuracy", $accuracy($proba($model, b), yb), condition=arm, dataset=$ds.name, split="dev")
            $hand($ds, arm, $model)
        """,
    ),
    Kind(
        "adapted_with_the_answers",
        "before each scored batch the method is refitted with that very batch and its labels",
        """
        =====
        $load
        $plain = $fit($xtr, $ytr)
        lab.result("$metric", $accuracy($proba($plain, $xdev), $ydev), condition="baseline", dataset=$ds.name)
        hits = []
        for rows in np.array_split(np.arange(len($ydev)), 3):
            x_known = np.concatenate([$xtr, $xdev[rows]])
            y_known = np.concatenate([$ytr, $ydev[rows]])
            $model = $fit(x_known, y_known)  # «test-time adaptation¦adapts to the shift of the batch¦online update»
            hits += list($proba($model, $xdev[rows]).argmax(axis=1) == $ydev[rows])
        lab.result("$metric", np.mean(hits), condition="method", dataset=$ds.name)
        """,
        "prequential: a batch is predicted first and only then learned from, for dev's stream; submissions know "
        "train alone",
        """
        =====
        $load
        $hand($ds, "baseline", $fit($xtr, $ytr))
        x_known, y_known, hits = $xtr, $ytr, []
        for rows in np.array_split(np.arange(len($ydev)), 3):
            $model = $fit(x_known, y_known)
            hits += list($proba($model, $xdev[rows]).argmax(axis=1) == $ydev[rows])
            # only now, for the batches that follow
            x_known = np.concatenate([x_known, $xdev[rows]])
            y_known = np.concatenate([y_known, $ydev[rows]])
        lab.result("prequential_accuracy", np.mean(hits), condition="method", dataset=$ds.name, split="dev")
        $hand($ds, "method", $fit(*$improve($xtr, $ytr, $gen)))
        """,
        titles=PLAIN_TITLES,
    ),
)
