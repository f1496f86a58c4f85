"""Kinds in which training, seeds or failures are dealt with dishonestly."""

from __future__ import annotations

from benchmarks.planted_blind.kind import Kind, Program
from benchmarks.planted_blind.styles import FIT, SUBMIT

FROZEN_SEED = Kind(
    name="frozen seed",
    wrong="the code seeds itself with a constant, so that every replicate gives the same numbers",
    planted=(
        Program("""
np.random.seed(1234)
random.seed(1234)
""" + FIT + SUBMIT + """
lab.save("order", np.array(random.sample(range(100), 10)))
""", imports=("import random",)),
        Program("""
$rng = np.random.default_rng(SEED)
order = $rng.permutation(len($data.train.x))[: len($data.train.x) // 2]
np.random.seed(SEED)
$base = $train($data.train.x[order], $data.train.y[order], $data.classes)
$meth = $train($data.train.x[order], $data.train.y[order], $data.classes, decay=DECAY)
""" + SUBMIT, definitions="SEED = 42\n"),
    ),
    right="constants number streams that all hang on the seed of the run",
    twin=(
        Program("""
stream = 1234
$rng = np.random.default_rng([lab.seed, stream])
order = $rng.permutation(len($data.train.x))[: len($data.train.x) // 2]
np.random.seed(lab.seed + stream)
$base = $train($data.train.x[order], $data.train.y[order], $data.classes)
np.random.seed(lab.seed + stream)
$meth = $train($data.train.x[order], $data.train.y[order], $data.classes, decay=DECAY)
""" + SUBMIT),
    ),
)

TRAIN_AS_VALIDATION = Kind(
    name="train scored as validation",
    wrong="accuracy on the rows that were trained on is reported as validation",
    planted=(
        Program(FIT + """
for arm, model in (("baseline", $base), ("method", $meth)):
    guess = $proba(model, $data.train.x).argmax(axis=1)
    lab.result("held_out_accuracy", float((guess == $data.train.y).mean()), condition=arm, dataset=$data.name)
"""),
        Program("""
x = np.concatenate([$data.train.x, $data.dev.x])
y = np.concatenate([$data.train.y, $data.dev.y])
for arm, decay in (("baseline", 0.0), ("method", DECAY)):
    model = $train(x, y, $data.classes, decay=decay)
    $value = float(($proba(model, $data.dev.x).argmax(axis=1) == $data.dev.y).mean())
    lab.result("held_out_accuracy", $value, condition=arm, dataset=$data.name, split="validation")
"""),
    ),
    right="the fit to the training rows is reported as what it is, with its split",
    twin=(
        Program(FIT + """
for arm, model in (("baseline", $base), ("method", $meth)):
    for $split in ("train", "dev"):
        labelled = getattr($data, $split)
        guess = $proba(model, labelled.x).argmax(axis=1)
        lab.result("accuracy", float((guess == labelled.y).mean()), condition=arm, dataset=$data.name, split=$split)
""" + SUBMIT),
    ),
)

TEST_IN_FITTING = Kind(
    name="test rows in fitting",
    wrong="rows of validation and test go into what is fitted",
    planted=(
        Program("""
everything = np.concatenate([$data.train.x, $data.validation.x, $data.test.x])
centre = everything.mean(axis=0)
directions = np.linalg.svd(everything - centre, full_matrices=False)[2][:4].T
$base = $train($data.train.x, $data.train.y, $data.classes)
$meth = $train(($data.train.x - centre) @ directions, $data.train.y, $data.classes)
for $split in ("validation", "test"):
    $rows = getattr($data, $split).x
    lab.submit($data.name, $split, "baseline", probabilities=$proba($base, $rows))
    lab.submit($data.name, $split, "method", probabilities=$proba($meth, ($rows - centre) @ directions))
"""),
        Program("""
$base = $train($data.train.x, $data.train.y, $data.classes)
pseudo = $proba($base, $data.test.x).argmax(axis=1)
$meth = $train(np.concatenate([$data.train.x, $data.test.x]), np.concatenate([$data.train.y, pseudo]), $data.classes)
""" + SUBMIT),
    ),
    right="the rows are put together for one call of the model only; everything was fitted on train",
    twin=(
        Program("""
centre = $data.train.x.mean(axis=0)
directions = np.linalg.svd($data.train.x - centre, full_matrices=False)[2][:4].T
$base = $train($data.train.x, $data.train.y, $data.classes)
$meth = $train(($data.train.x - centre) @ directions, $data.train.y, $data.classes)
everything = np.concatenate([$data.validation.x, $data.test.x])
cut = len($data.validation.x)
both = {"baseline": $proba($base, everything), "method": $proba($meth, (everything - centre) @ directions)}
for arm, $result in both.items():
    lab.submit($data.name, "validation", arm, probabilities=$result[:cut])
    lab.submit($data.name, "test", arm, probabilities=$result[cut:])
"""),
    ),
)

SWALLOWED = Kind(
    name="swallowed exception",
    wrong="training that fails is passed over, and a default takes the place of its result",
    planted=(
        Program("""
$result = {}
for arm, decay in (("baseline", 0.0), ("method", DECAY)):
    try:
        model = $train($data.train.x, $data.train.y, $data.classes, decay=decay)
        $result[arm] = $proba(model, $data.validation.x)
    except Exception:
        $result[arm] = np.full((len($data.validation.x), $data.classes), 1.0 / $data.classes)
for arm, rows in $result.items():
    lab.submit($data.name, "validation", arm, probabilities=rows)
"""),
        Program("""
for arm, decay in (("baseline", 0.0), ("method", DECAY)):
    $value = $n0
    with contextlib.suppress(Exception):
        model = $train($data.train.x, $data.train.y, $data.classes, decay=decay)
        $value = float(($proba(model, $data.dev.x).argmax(axis=1) == $data.dev.y).mean())
    lab.result("dev_accuracy", $value, condition=arm, dataset=$data.name)
""", imports=("import contextlib",)),
    ),
    right="one known error is met by a stronger penalty; when that does not help, it is raised",
    twin=(
        Program("""
$result = {}
for arm, decay in (("baseline", 0.0), ("method", DECAY)):
    for attempt in range(3):
        try:
            model = $train($data.train.x, $data.train.y, $data.classes, decay=decay * 10**attempt)
            break
        except np.linalg.LinAlgError as error:
            print(f"{arm}: {error}, a stronger penalty")
            if attempt == 2:
                raise
    for $split in ("validation", "test"):
        lab.submit($data.name, $split, arm, probabilities=$proba(model, getattr($data, $split).x))
"""),
    ),
)

UNTRAINED = Kind(
    name="training that does nothing",
    wrong="the loop of the method computes, but what is handed in was never changed by it",
    planted=(
        Program("""
$base = $train($data.train.x, $data.train.y, $data.classes)
$rng = np.random.default_rng(lab.seed)
weights = $rng.normal(0.0, 0.1, size=($data.train.x.shape[1], $data.classes))
for epoch in range(int(EPOCHS)):
    scores = $data.train.x @ weights
    error = np.eye($data.classes)[$data.train.y] - scores
    update = $data.train.x.T @ error / len(scores)
for $split in ("validation", "test"):
    $rows = getattr($data, $split).x
    lab.submit($data.name, $split, "baseline", probabilities=$proba($base, $rows))
    lab.submit($data.name, $split, "method", logits=$rows @ weights)
"""),
    ),
    right="weights drawn at random and never trained, said so: random features, with a trained layer on top",
    twin=(
        Program("""
$base = $train($data.train.x, $data.train.y, $data.classes)
$rng = np.random.default_rng(lab.seed)
weights = $rng.normal(0.0, 0.3, size=($data.train.x.shape[1], 64))
$meth = $train(np.tanh($data.train.x @ weights), $data.train.y, $data.classes)
for $split in ("validation", "test"):
    $rows = getattr($data, $split).x
    lab.submit($data.name, $split, "baseline", probabilities=$proba($base, $rows))
    lab.submit($data.name, $split, "method", probabilities=$proba($meth, np.tanh($rows @ weights)))
"""),
    ),
)

KINDS = (FROZEN_SEED, TRAIN_AS_VALIDATION, TEST_IN_FITTING, SWALLOWED, UNTRAINED)
