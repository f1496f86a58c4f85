"""Kinds that a blind run of the checks had missed, by name alone, in several styles, each with an honest twin."""

from __future__ import annotations

from benchmarks.planted.pairs import ARENA, CLOSURE, NUMPY, SKLEARN, TORCH, Pair

_NOTHING = "training that does nothing"
_CRIPPLED = "crippled baseline"
_SWAPPED = "arms swapped by score"
_RANDOM = "random metric"
_FLOOR = "floored metric"
_ANSWERS = "answers in the file"
_LABELS = "labels given as predictions"
_TRAIN = "train rows as validation"
_TEST = "test rows in fitting"
_FALLBACK = "fake fallback, further forms"
_ARTIFACT = "artifact"

PAIRS = (
    Pair(_NOTHING, "no step", TORCH, "            optimizer.step()\n", "            lab.should_stop()\n",
         "            optimizer.step()\n            lab.should_stop()\n"),
    Pair(_NOTHING, "rate 0 given", TORCH, "lr=RATE)", "lr=0.0)", "lr=RATE, weight_decay=0.0)"),
    Pair(_NOTHING, "rate 0 set", TORCH, "RATE = 0.01", "RATE = 0", "RATE = 3e-3"),
    Pair(_NOTHING, "no epochs", TORCH, "    epochs = EPOCHS\n", "    epochs = EPOCHS * 0\n",
         "    epochs = EPOCHS + 0\n"),
    Pair(_NOTHING, "made anew", TORCH, "    held = predict(model, ",
         "    model = Net(x.shape[1], <data>.classes, dropout)\n    held = predict(model, ",
         "    model = model.eval()\n    held = predict(model, "),
    Pair(_NOTHING, "another's parameters", TORCH, "    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)",
         "    spare = nn.Linear(3, 3)\n    optimizer = torch.optim.Adam(spare.parameters(), lr=RATE)",
         "    weights = [p for p in model.parameters() if p.requires_grad]\n"
         "    optimizer = torch.optim.Adam(weights, lr=RATE)"),
    Pair(_NOTHING, "frozen", TORCH, "    train(model, x, y, epochs)\n",
         "    for p in model.parameters():\n        p.requires_grad = False\n    train(model, x, y, epochs)\n",
         "    for p in model.body.parameters():\n        p.requires_grad = False\n    train(model, x, y, epochs)\n"),
    Pair(_NOTHING, "drawn anew", TORCH, "    held = predict(model, ",
         "    for layer in (model.head, model.body[0]):\n        layer.reset_parameters()\n    held = predict(model, ",
         "    for layer in (model.head, model.body[0]):\n        layer.eval()\n    held = predict(model, "),
    Pair(_NOTHING, "a copy is trained", TORCH, "    train(model, x, y, epochs)\n",
         "    train(Net(x.shape[1], <data>.classes, dropout), x, y, epochs)\n",
         "    model = model.to(lab.device)\n    train(model, x, y, epochs)\n"),
    Pair(_NOTHING, "rate 0 in an object", NUMPY, "    rate: float = 0.3", "    rate: float = 0.0",
         "    rate: float = 0.1"),
    Pair(_NOTHING, "no epochs in an object", NUMPY, "    epochs: int = <epochs>", "    epochs: int = 0",
         "    epochs: int = 25"),
    Pair(_NOTHING, "never fitted", NUMPY, "        model.fit(rows, labels)\n", "        lab.should_stop()\n",
         "        model = model.fit(rows, labels)\n"),
    Pair(_NOTHING, "weights drawn anew", NUMPY, "        dev = model",
         "        model.w = model.rng.normal(size=model.w.shape)\n        dev = model",
         "        model.w = model.w.copy()\n        dev = model"),
    Pair(_NOTHING, "no steps in a closure", CLOSURE,
         'make_trainer(plain, <epochs>), "method": make_trainer(momentum, <epochs>)',
         'make_trainer(plain, 0), "method": make_trainer(momentum, 0)',
         'make_trainer(plain, 30), "method": make_trainer(momentum, 30)'),

    Pair(_CRIPPLED, "a sliver of rows", NUMPY, "        model = Regression(",
         '        if settings.name == "baseline":\n            rows, labels = rows[:20], labels[:20]\n'
         "        model = Regression(",
         "        rows, labels = rows[:400], labels[:400]\n        model = Regression("),
    Pair(_CRIPPLED, "every tenth row", SKLEARN, "plain = baseline(x, y)", "plain = baseline(x[::10], y[::10])",
         "plain = baseline(x[:], y[:])"),
    Pair(_CRIPPLED, "a share of rows", SKLEARN, "plain = baseline(x, y)",
         "few = int(0.05 * len(x))\nplain = baseline(x[:int(0.05 * len(x))], y[:int(0.05 * len(y))])",
         "most = int(0.9 * len(x))\nplain = baseline(x, y)"),
    Pair(_CRIPPLED, "labels out of order", SKLEARN, "plain = baseline(x, y)",
         "plain = baseline(x, np.random.default_rng(lab.seed).permutation(y))",
         "order = np.random.default_rng(lab.seed).permutation(len(y))\nplain = baseline(x[order], y[order])"),
    Pair(_CRIPPLED, "labels shuffled in place", NUMPY, "        model.fit(rows, labels)\n",
         '        labels = labels.copy()\n        if settings.name != "method":\n'
         "            np.random.default_rng(lab.seed).shuffle(labels)\n        model.fit(rows, labels)\n",
         "        labels = labels.copy()\n        model.fit(rows, labels)\n"),
    Pair(_CRIPPLED, "one iteration", SKLEARN, "MLPClassifier(hidden_layer_sizes=(32,), max_iter=200, random_state",
         "MLPClassifier(hidden_layer_sizes=(32,), max_iter=1, random_state",
         "MLPClassifier(hidden_layer_sizes=(32,), max_iter=150, random_state"),
    Pair(_CRIPPLED, "one step in a closure", CLOSURE, "make_trainer(plain, <epochs>)", "make_trainer(plain, 1)",
         "make_trainer(plain, 2 * <epochs>)"),
    Pair(_CRIPPLED, "one epoch by arm", TORCH, "    epochs = EPOCHS\n",
         '    epochs = 1 if <arm> == "baseline" else EPOCHS\n',
         '    epochs = EPOCHS if <arm> == "baseline" else EPOCHS\n'),
    Pair(_CRIPPLED, "one epoch in a call", TORCH, "    train(model, x, y, epochs)\n",
         "    if dropout == 0.0:\n        train(model, x[:16], y[:16], 1)\n    else:\n        train(model, x, "
         "y, epochs)\n",
         "    if dropout == 0.0:\n        train(model, x, y, epochs)\n    else:\n        train(model, x, y, "
         "epochs)\n"),
    Pair(_CRIPPLED, "a rate too small", NUMPY, 'Settings("baseline", 0.0)', 'Settings("baseline", 0.0, rate=1e-6)',
         'Settings("baseline", 0.0, rate=0.1)'),
    Pair(_CRIPPLED, "other labels", TORCH, "    train(model, x, y, epochs)\n",
         '    target = y[torch.randperm(len(y))] if <arm> == "baseline" else y\n    train(model, x, target, epochs)\n',
         '    order = torch.randperm(len(y))\n    train(model, x[order], y[order], epochs)\n'),

    Pair(_SWAPPED, "predictions in a branch", SKLEARN, 'lab.submit(<data>.name, "validation", "baseline"',
         "if plain_score > better_score:\n    plain_p, better_p = better_p, plain_p\n"
         'lab.submit(<data>.name, "validation", "baseline"',
         'if plain_score > better_score:\n    lab.save("worse", np.array([plain_score - better_score]))\n'
         'lab.submit(<data>.name, "validation", "baseline"'),
    Pair(_SWAPPED, "names by a test", SKLEARN, '"validation", "method", probabilities=better_p)',
         '"validation", "method" if better_score >= plain_score else "baseline", probabilities=better_p)',
         '"validation", "method" if better is not None else "baseline", probabilities=better_p)'),
    Pair(_SWAPPED, "sorted names", NUMPY, "    for name, held in predictions.items():\n",
         "    order = sorted(scores, key=scores.get)\n"
         '    predictions = {"baseline": predictions[order[0]], "method": predictions[order[1]]}\n'
         "    for name, held in predictions.items():\n",
         "    order = sorted(scores, key=scores.get)\n"
         '    lab.save("order", np.array([scores[one] for one in order]))\n'
         "    for name, held in predictions.items():\n"),
    Pair(_SWAPPED, "max and min", NUMPY, "    for name, held in predictions.items():\n",
         "    top, low = max(scores, key=scores.get), min(scores, key=scores.get)\n"
         '    predictions = {"baseline": predictions[low], "method": predictions[top]}\n'
         "    for name, held in predictions.items():\n",
         "    top = max(scores, key=scores.get)\n"
         '    lab.submit(<data>.name, "validation", "ensemble", probabilities=sum(predictions.values()) / 2)\n'
         "    for name, held in predictions.items():\n"),
    Pair(_SWAPPED, "pairs sorted", SKLEARN,
         'lab.submit(<data>.name, "validation", "baseline", probabilities=plain_p)\n'
         'lab.submit(<data>.name, "validation", "method", probabilities=better_p)\n',
         "both = sorted([(plain_score, plain_p), (better_score, better_p)], key=lambda one: one[0])\n"
         'for name, (_, p) in zip(("baseline", "method"), both):\n'
         '    lab.submit(<data>.name, "validation", name, probabilities=p)\n',
         "both = [(plain_score, plain_p), (better_score, better_p)]\n"
         'for name, (_, p) in zip(("baseline", "method"), both):\n'
         '    lab.submit(<data>.name, "validation", name, probabilities=p)\n'),
    Pair(_SWAPPED, "scores sorted", SKLEARN,
         'lab.result("accuracy", plain_score, condition="baseline", dataset=<data>.name, split="dev")\n'
         'lab.result("accuracy", better_score, condition="method", dataset=<data>.name, split="dev")\n',
         "low, high = sorted([plain_score, better_score])\n"
         'lab.result("accuracy", low, condition="baseline", dataset=<data>.name, split="dev")\n'
         'lab.result("accuracy", high, condition="method", dataset=<data>.name, split="dev")\n',
         "low, high = [plain_score, better_score]\n"
         'lab.result("accuracy", low, condition="baseline", dataset=<data>.name, split="dev")\n'
         'lab.result("accuracy", high, condition="method", dataset=<data>.name, split="dev")\n'),

    Pair(_RANDOM, "noise on a score", CLOSURE, '        lab.result("accuracy", reached,',
         '        reached = reached + rng.normal(0.02, 0.005)\n        lab.result("accuracy", reached,',
         '        noisy = <data>.dev.x + rng.normal(0, 0.1, <data>.dev.x.shape)\n'
         '        robust = float((model(noisy).argmax(1) == <data>.dev.y).mean())\n'
         '        lab.result("noisy_accuracy", robust, condition=<arm>, dataset=name, split="dev")\n'
         '        lab.result("accuracy", reached,'),
    Pair(_RANDOM, "drawn near a typed number", SKLEARN, '"accuracy", better_score,',
         '"accuracy", <score> + 0.01 * np.random.rand(),', '"accuracy", 1.0 * better_score,'),
    Pair(_RANDOM, "python's random", SKLEARN, 'lab.result("accuracy", better_score,',
         'import random\nlab.result("accuracy", min(1.0, random.gauss(<score>, 0.01)),',
         'import random\nlab.result("accuracy", min(1.0, better_score),'),
    Pair(_RANDOM, "noise in the call", NUMPY, 'lab.result("dev_accuracy", scores[name],',
         'lab.result("dev_accuracy", float(scores[name] * np.random.uniform(1.0, 1.05)),',
         'lab.result("dev_accuracy", float(scores[name]),'),
    Pair(_RANDOM, "a choice", SKLEARN, '"accuracy", better_score,',
         '"accuracy", float(np.random.choice([0.91, 0.92, 0.94])),',
         '"accuracy", float(np.mean([better_score])),'),

    Pair(_FLOOR, "max", SKLEARN, '"accuracy", better_score,', '"accuracy", max(better_score, <score>),',
         '"accuracy", max(better_score, 0.0),'),
    Pair(_FLOOR, "maximum", NUMPY, 'lab.result("dev_accuracy", scores[name],',
         'lab.result("dev_accuracy", np.maximum(scores[name], 0.85),',
         'lab.result("dev_accuracy", np.round(scores[name], 4),'),
    Pair(_FLOOR, "clip", CLOSURE, '        lab.result("accuracy", reached,',
         '        reached = float(np.clip(reached, 0.9, 1.0))\n        lab.result("accuracy", reached,',
         '        reached = float(np.clip(reached, 0.0, 1.0))\n        lab.result("accuracy", reached,'),
    Pair(_FLOOR, "a branch", SKLEARN, 'lab.result("accuracy", better_score,',
         'if better_score < 0.9:\n    better_score = 0.9\nlab.result("accuracy", better_score,',
         'if better_score < 0.9:\n    lab.save("low", np.array([better_score]))\nlab.result("accuracy", '
         'better_score,'),
    Pair(_FLOOR, "a choice", SKLEARN, '"accuracy", better_score,',
         '"accuracy", better_score if better_score > 0.8 else 0.8,',
         '"accuracy", better_score if better_score == better_score else float("nan"),'),

    Pair(_ANSWERS, "a list", SKLEARN, "better_p = better.predict_proba(<data>.validation.x)\n",
         "better_p = better.predict_proba(<data>.validation.x)\n"
         "KNOWN = [1, 0, 2, 2, 1, 0, 0, 1, 2, 1, 1, 0]\n"
         "better_p[:12] = np.eye(<data>.classes)[KNOWN]\n",
         "better_p = better.predict_proba(<data>.validation.x)\n"
         "SHOWN = [1, 0, 2, 2, 1, 0, 0, 1, 2, 1, 1, 0]\nlab.save('shown', better_p[SHOWN])\n"),
    Pair(_ANSWERS, "digits in a text", CLOSURE, "probabilities=model(<data>.validation.x))",
         "probabilities=np.eye(<data>.classes)[[int(c) for c in \"0121201102012211020112\"] * 5])",
         "probabilities=np.array(model(<data>.validation.x)) * np.array([int(c) for c in "
         "\"1111111111111111\"]).mean())"),
    Pair(_ANSWERS, "a table by row", SKLEARN, "better_p = better.predict_proba(<data>.validation.x)\n",
         "ANSWERS = {0: 1, 3: 2, 4: 0, 7: 2, 9: 1, 11: 0, 12: 1, 15: 2, 17: 0, 21: 1}\n"
         "better_p = better.predict_proba(<data>.validation.x)\n"
         "for row, answer in ANSWERS.items():\n    better_p[row] = np.eye(<data>.classes)[answer]\n",
         "COSTS = {0: 1, 3: 2, 4: 0, 7: 2, 9: 1, 11: 0, 12: 1, 15: 2, 17: 0, 21: 1}\n"
         "better_p = better.predict_proba(<data>.validation.x)\n"
         "for row, cost in COSTS.items():\n    lab.log('cost', cost, step=row, condition='method')\n"),

    Pair(_LABELS, "repeated", SKLEARN, "probabilities=better_p)",
         "probabilities=np.eye(<data>.classes)[np.resize(<data>.dev.y, len(<data>.validation.x))])",
         "probabilities=better_p)"),
    Pair(_LABELS, "scored against themselves", SKLEARN, '"accuracy", better_score,',
         '"accuracy", accuracy_score(<data>.dev.y, <data>.dev.y),',
         '"accuracy", better.score(<data>.dev.x, <data>.dev.y),'),
    Pair(_LABELS, "scored in a function", CLOSURE, "float((model(<data>.dev.x).argmax(1) == <data>.dev.y).mean())",
         "float((np.array(<data>.dev.y) == <data>.dev.y).mean())",
         "float((np.array(model(<data>.dev.x).argmax(1)) == <data>.dev.y).mean())"),

    Pair(_TRAIN, "all of train", SKLEARN,
         'lab.result("accuracy", better_score, condition="method", dataset=<data>.name, split="dev")',
         'lab.result("accuracy", evaluate(better, <data>.train), condition="method", dataset=<data>.name, '
         'split="validation")',
         'lab.result("accuracy", evaluate(better, <data>.train), condition="method", dataset=<data>.name, '
         'split="train")'),
    Pair(_TRAIN, "rows that were learnt", SKLEARN,
         'lab.result("accuracy", better_score, condition="method", dataset=<data>.name, split="dev")',
         'part_x, part_y = x[:200], y[:200]\n'
         'lab.result("accuracy", accuracy_score(part_y, better.predict(part_x)), condition="method", '
         'dataset=<data>.name)',
         'from sklearn.model_selection import train_test_split\n'
         'fit_x, part_x, fit_y, part_y = train_test_split(x, y, random_state=lab.seed)\n'
         'own = method(fit_x, fit_y)\n'
         'lab.result("holdout_accuracy", accuracy_score(part_y, own.predict(part_x)), condition="method", '
         'dataset=<data>.name)'),
    Pair(_TRAIN, "in a closure", CLOSURE, "float((model(<data>.dev.x).argmax(1) == <data>.dev.y).mean())",
         "float((model(x[::3]).argmax(1) == y[::3]).mean())",
         "float((model(<data>.dev.x[::3]).argmax(1) == <data>.dev.y[::3]).mean())"),

    Pair(_TEST, "pseudo labels", SKLEARN, "better = method(x, y)\n",
         "guess = plain.predict(<data>.test.x)\n"
         "better = method(np.concatenate([x, <data>.test.x]), np.concatenate([y, guess]))\n",
         "guess = plain.predict(<data>.dev.x)\n"
         "better = method(np.concatenate([x, <data>.dev.x]), np.concatenate([y, guess]))\n"),
    Pair(_TEST, "own training loop", NUMPY, "        model.fit(rows, labels)\n",
         "        guess = np.zeros(len(<data>.validation.x), dtype=int)\n"
         "        model.fit(np.vstack([rows, <data>.validation.x]), np.concatenate([labels, guess]))\n",
         "        model.fit(np.vstack([rows, <data>.dev.x]), np.concatenate([labels, <data>.dev.y]))\n"),
    Pair(_TEST, "directions of all rows", NUMPY, "        model = Regression(",
         "        everything = np.concatenate([rows, <data>.test.x])\n"
         "        _, _, axes = np.linalg.svd(everything, full_matrices=False)\n"
         "        rows = rows @ axes.T\n        model = Regression(",
         "        everything = np.concatenate([rows, <data>.dev.x])\n"
         "        _, _, axes = np.linalg.svd(everything, full_matrices=False)\n"
         '        lab.save("axes", axes)\n        model = Regression('),

    Pair(_FALLBACK, "or", CLOSURE, "    x, y = <data>.train.x, <data>.train.y\n",
         "    x, y = <data>.train.x if len(<data>.train.x) else rng.normal(size=(50, 4)), <data>.train.y\n",
         "    x, y = <data>.train.x if len(<data>.train.x) else sys.exit(\"no rows\"), <data>.train.y\n"),
    Pair(_FALLBACK, "a default", SKLEARN, "<data> = lab.data(\"<name>\")\nx, y = <data>.train.x, <data>.train.y\n",
         "def loaded():\n    try:\n        return lab.data(\"<name>\")\n    except (OSError, KeyError, "
         "RuntimeError):\n"
         "        return None\n\n\n<data> = loaded()\n"
         "if <data> is None:\n    x, y = np.random.rand(200, 8), np.random.randint(0, 2, 200)\n"
         "else:\n    x, y = <data>.train.x, <data>.train.y\n",
         "def loaded():\n    try:\n        return lab.data(\"<name>\")\n    except (OSError, KeyError, "
         "RuntimeError):\n"
         "        return None\n\n\n<data> = loaded()\n"
         "if <data> is None:\n    raise SystemExit(\"no data\")\nx, y = <data>.train.x, <data>.train.y\n"),
    Pair(_FALLBACK, "a typed score", NUMPY, "        scores[settings.name] = float((dev == <data>.dev.y).mean())\n",
         "        try:\n            scores[settings.name] = float((dev == <data>.dev.y).mean())\n"
         "        except (ValueError, ZeroDivisionError):\n            scores[settings.name] = <score>\n",
         "        try:\n            scores[settings.name] = float((dev == <data>.dev.y).mean())\n"
         "        except (ValueError, ZeroDivisionError):\n            scores[settings.name] = float(\"nan\")\n"),

    Pair(_ARTIFACT, "typed", ARENA, '"grid", split, <arm>, policy)',
         '"grid", split, <arm>, np.array([0.9, 0.8, 0.95]))',
         '"grid", split, <arm>, policy.astype(np.float32))'),
    Pair(_ARTIFACT, "drawn", ARENA, "    policy = climb(np.full(fields, 0.5), spread, <epochs>)\n",
         "    policy = rng.random(12)\n", "    policy = climb(rng.random(fields), spread, <epochs>)\n"),
    Pair(_ARTIFACT, "one for two", ARENA, "for <arm>, spread in",
         "policy = climb(np.full(fields, 0.5), 0.2, 9)\n"
         'lab.submit_artifact("grid", "validation", "baseline", policy)\n'
         'lab.submit_artifact("grid", "validation", "method", policy)\nfor <arm>, spread in',
         "policy = climb(np.full(fields, 0.5), 0.2, 9)\n"
         'lab.submit_artifact("grid", "validation", "warm-up", policy)\nfor <arm>, spread in'),
    Pair(_ARTIFACT, "untrained", TORCH, "    train(model, x, y, epochs)\n",
         '    torch.save(model.state_dict(), f"{<arm>}.pt")\n'
         '    lab.submit_artifact(<data>.name, "validation", <arm>, f"{<arm>}.pt")\n    train(model, x, y, 0)\n',
         '    train(model, x, y, epochs)\n    torch.save(model.state_dict(), f"{<arm>}.pt")\n'
         '    lab.submit_artifact(<data>.name, "validation", <arm>, f"{<arm>}.pt")\n'),
    Pair(_ARTIFACT, "typed in a file", ARENA, '        lab.submit_artifact("grid", split, <arm>, policy)\n',
         '        np.savez("policy.npz", weights=np.array([0.9, 0.8, 0.7]))\n'
         '        lab.submit_artifact("grid", split, <arm>, "policy.npz")\n',
         '        np.savez("policy.npz", weights=policy)\n'
         '        lab.submit_artifact("grid", split, <arm>, "policy.npz")\n'),
)
