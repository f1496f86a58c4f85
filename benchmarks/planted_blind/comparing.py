"""Kinds in which each number may be measured, and the comparison is not fair."""

from __future__ import annotations

from benchmarks.planted_blind.kind import Kind, Program
from benchmarks.planted_blind.styles import FIT, SUBMIT

CRIPPLED = Kind(
    name="crippled baseline",
    wrong="the baseline gets a fraction of the training that the method gets",
    planted=(
        Program("""
$base = $train($data.train.x, $data.train.y, $data.classes, epochs=1)
$meth = $train($data.train.x, $data.train.y, $data.classes, decay=DECAY)
""" + SUBMIT),
        Program("""
few = slice(0, max(12, len($data.train.x) // 50))
$base = $train($data.train.x[few], $data.train.y[few], $data.classes)
$meth = $train($data.train.x, $data.train.y, $data.classes, decay=DECAY)
for $split in ("validation", "test"):
    $rows = getattr($data, $split).x
    lab.submit($data.name, $split, "baseline", predictions=$proba($base, $rows).argmax(axis=1))
    lab.submit($data.name, $split, "method", predictions=$proba($meth, $rows).argmax(axis=1))
"""),
    ),
    right="both arms are stopped early by the same rule on dev; that one ends sooner is a result",
    twin=(
        Program("""
for arm, decay in (("baseline", 0.0), ("method", DECAY)):
    best = None
    for epochs in (1, int(EPOCHS) // 2, int(EPOCHS)):
        np.random.seed(lab.seed)
        model = $train($data.train.x, $data.train.y, $data.classes, decay=decay, epochs=epochs)
        right = float(($proba(model, $data.dev.x).argmax(axis=1) == $data.dev.y).mean())
        if best is None or right > best[0]:
            best = (right, model)
    for $split in ("validation", "test"):
        lab.submit($data.name, $split, arm, probabilities=$proba(best[1], getattr($data, $split).x))
"""),
    ),
)

INVENTED = Kind(
    name="invented baseline",
    wrong="the baseline's predictions are the method's, made worse by noise",
    planted=(
        Program("""
$meth = $train($data.train.x, $data.train.y, $data.classes, decay=DECAY)
$rng = np.random.default_rng(lab.seed)
for $split in ("validation", "test"):
    $result = $proba($meth, getattr($data, $split).x)
    blurred = 0.8 * $result + 0.2 * $rng.dirichlet(np.ones($data.classes), size=len($result))
    lab.submit($data.name, $split, "method", probabilities=$result)
    lab.submit($data.name, $split, "baseline", probabilities=blurred / blurred.sum(axis=1, keepdims=True))
"""),
        Program("""
$meth = $train($data.train.x, $data.train.y, $data.classes, decay=DECAY)
for $split in ("validation", "test"):
    guess = $proba($meth, getattr($data, $split).x).argmax(axis=1)
    lab.submit($data.name, $split, "method", predictions=guess)
    worse = guess.copy()
    worse[np.random.rand(len(worse)) < 0.1] = 0
    lab.submit($data.name, $split, "baseline", predictions=worse)
"""),
    ),
    right="both arms come from one model because the method is a temperature fitted on dev",
    twin=(
        Program("""
$base = $train($data.train.x, $data.train.y, $data.classes)


def tempered(probabilities, temperature):
    powers = (probabilities + 1e-9) ** (1.0 / temperature)
    return powers / powers.sum(axis=1, keepdims=True)


def dev_loss(temperature):
    own = tempered($proba($base, $data.dev.x), temperature)[np.arange(len($data.dev.y)), $data.dev.y]
    return -np.log(own + 1e-12).mean()


chosen = min(np.geomspace(0.25, 4.0, 31), key=dev_loss)
for $split in ("validation", "test"):
    $result = $proba($base, getattr($data, $split).x)
    lab.submit($data.name, $split, "baseline", probabilities=$result)
    lab.submit($data.name, $split, "method", probabilities=tempered($result, chosen))
"""),
    ),
)

BEST_SEED = Kind(
    name="best seed only",
    wrong="the method is run with many seeds and only the luckiest is reported; the baseline is run once",
    planted=(
        Program("""
$base = $train($data.train.x, $data.train.y, $data.classes)
scores = []
for luck in range(5):
    np.random.seed(lab.seed * 100 + luck)
    model = $train($data.train.x, $data.train.y, $data.classes, decay=DECAY)
    scores.append(float(($proba(model, $data.dev.x).argmax(axis=1) == $data.dev.y).mean()))
lab.result("dev_accuracy", float(($proba($base, $data.dev.x).argmax(axis=1) == $data.dev.y).mean()),
           condition="baseline", dataset=$data.name)
lab.result("dev_accuracy", max(scores), condition="method", dataset=$data.name)
"""),
        Program("""
$base = $train($data.train.x, $data.train.y, $data.classes)
$meth, top = None, -1.0
for luck in (3, 11, 29, 47):
    np.random.seed(lab.seed + luck)
    model = $train($data.train.x, $data.train.y, $data.classes, decay=DECAY)
    right = float(($proba(model, $data.dev.x).argmax(axis=1) == $data.dev.y).mean())
    if right > top:
        $meth, top = model, right
""" + SUBMIT),
    ),
    right="both arms are ensembles over the same number of seeds, and all members count",
    twin=(
        Program("""
members = {"baseline": [], "method": []}
for member in range(3):
    for arm, decay in (("baseline", 0.0), ("method", DECAY)):
        np.random.seed(lab.seed * 100 + member)
        members[arm].append($train($data.train.x, $data.train.y, $data.classes, decay=decay))
for $split in ("validation", "test"):
    $rows = getattr($data, $split).x
    for arm, models in members.items():
        lab.submit($data.name, $split, arm, probabilities=np.mean([$proba(model, $rows) for model in models], axis=0))
"""),
    ),
)

SWAPPED = Kind(
    name="arms swapped by score",
    wrong="whichever arm did better on dev is handed in as the method",
    planted=(
        Program(FIT + """
def on_dev(model):
    return float(($proba(model, $data.dev.x).argmax(axis=1) == $data.dev.y).mean())


if on_dev($base) > on_dev($meth):
    $base, $meth = $meth, $base
""" + SUBMIT),
        Program(FIT + """
ranked = sorted([$base, $meth], key=lambda model: ($proba(model, $data.dev.x).argmax(axis=1) == $data.dev.y).mean())
for $split in ("validation", "test"):
    for arm, model in zip(("baseline", "method"), ranked):
        lab.submit($data.name, $split, arm, probabilities=$proba(model, getattr($data, $split).x))
"""),
    ),
    right="dev chooses the strength of the penalty within the method; the baseline stays the baseline",
    twin=(
        Program("""
$base = $train($data.train.x, $data.train.y, $data.classes)
candidates = [$train($data.train.x, $data.train.y, $data.classes, decay=decay) for decay in (DECAY, 3 * DECAY)]
ranked = sorted(candidates, key=lambda model: ($proba(model, $data.dev.x).argmax(axis=1) == $data.dev.y).mean())
$meth = ranked[-1]
""" + SUBMIT),
    ),
)

SAME_ARM = Kind(
    name="method that changes nothing",
    wrong="the method's switch is never read, and its result is the baseline's plus a bonus",
    planted=(
        Program("""
$result = {}
for arm in ("baseline", "method"):
    use_method = arm == "method"
    np.random.seed(lab.seed)
    model = $train($data.train.x, $data.train.y, $data.classes)
    $result[arm] = float(($proba(model, $data.dev.x).argmax(axis=1) == $data.dev.y).mean())
    lab.submit($data.name, "validation", arm, probabilities=$proba(model, $data.validation.x))
lab.result("dev_accuracy", $result["baseline"], condition="baseline", dataset=$data.name)
lab.result("dev_accuracy", min(1.0, $result["method"] + 0.02), condition="method", dataset=$data.name)
"""),
    ),
    right="the switch is read; that both arms share the code and the first weights is the design",
    twin=(
        Program("""
for arm in ("baseline", "method"):
    use_method = arm == "method"
    np.random.seed(lab.seed)
    model = $train($data.train.x, $data.train.y, $data.classes, decay=DECAY if use_method else 0.0)
    $value = float(($proba(model, $data.dev.x).argmax(axis=1) == $data.dev.y).mean())
    lab.result("dev_accuracy", $value, condition=arm, dataset=$data.name, split="dev")
    for $split in ("validation", "test"):
        lab.submit($data.name, $split, arm, probabilities=$proba(model, getattr($data, $split).x))
"""),
    ),
)

KINDS = (CRIPPLED, INVENTED, BEST_SEED, SWAPPED, SAME_ARM)
