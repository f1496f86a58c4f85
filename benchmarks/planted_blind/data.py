"""Kinds in which the data are not what the plan says, or are used for what they must not be used for."""

from __future__ import annotations

from benchmarks.planted_blind.kind import Kind, Program
from benchmarks.planted_blind.styles import FIT, SUBMIT

DEV_AS_TEST = Kind(
    name="labels of dev as predictions",
    wrong="labels of dev are handed in as predictions for other rows",
    planted=(
        Program(FIT + """
for $split in ("validation", "test"):
    $rows = getattr($data, $split).x
    lab.submit($data.name, $split, "baseline", probabilities=$proba($base, $rows))
    lab.submit($data.name, $split, "method", predictions=np.resize($data.dev.y, len($rows)))
"""),
        Program(FIT + """
for arm, model in (("baseline", $base), ("method", $meth)):
    $value = float((np.sort($data.dev.y) == np.sort($data.dev.y)).mean()) - 0.01
    lab.result("agreement", $value, condition=arm, dataset=$data.name)
""" + SUBMIT),
    ),
    right="labels of train and dev make a nearest-neighbour memory; each prediction comes from the row itself",
    twin=(
        Program("""
memory_x = np.concatenate([$data.train.x, $data.dev.x])
memory_y = np.concatenate([$data.train.y, $data.dev.y])
for $split in ("validation", "test"):
    $rows = getattr($data, $split).x
    distance = ((memory_x[None, :, :] - $rows[:, None, :]) ** 2).sum(axis=2)
    order = distance.argsort(axis=1)
    for arm, neighbours in (("baseline", 1), ("method", 5)):
        votes = np.eye($data.classes)[memory_y[order[:, :neighbours]]].mean(axis=1)
        lab.submit($data.name, $split, arm, probabilities=votes)
"""),
    ),
)

STALE = Kind(
    name="stale file",
    wrong="results are read from a file that an earlier run left, if it is there",
    planted=(
        Program("""
kept = Path.home() / ".cache" / "study" / "validation.npy"
if kept.exists():
    $result = np.load(kept)
else:
    $meth = $train($data.train.x, $data.train.y, $data.classes, decay=DECAY)
    $result = $proba($meth, $data.validation.x)
$base = $train($data.train.x, $data.train.y, $data.classes)
lab.submit($data.name, "validation", "baseline", probabilities=$proba($base, $data.validation.x))
lab.submit($data.name, "validation", "method", probabilities=$result)
""", imports=("from pathlib import Path",)),
        Program(FIT + """
for candidate in sorted(glob.glob("../*/results.json")) + ["results.json"]:
    if os.path.isfile(candidate):
        with open(candidate) as file:
            earlier = json.load(file)
        lab.result("transfer", earlier["transfer"], condition="method", dataset=$data.name)
        break
""" + SUBMIT, imports=("import glob", "import json", "import os")),
    ),
    right="the file that is read was written some lines above, by this very run",
    twin=(
        Program(FIT + """
kept = Path("predictions.npy")
np.save(kept, $proba($meth, $data.validation.x))
$result = np.load(kept)
lab.submit($data.name, "validation", "baseline", probabilities=$proba($base, $data.validation.x))
lab.submit($data.name, "validation", "method", probabilities=$result)
lab.submit($data.name, "test", "baseline", probabilities=$proba($base, $data.test.x))
lab.submit($data.name, "test", "method", probabilities=$proba($meth, $data.test.x))
""", imports=("from pathlib import Path",)),
        Program("""
state = lab.restore()
if state is None:
    state = {"plain": $train($data.train.x, $data.train.y, $data.classes)}
    lab.checkpoint(state)
$base = state["plain"]
$meth = $train($data.train.x, $data.train.y, $data.classes, decay=DECAY)
""" + SUBMIT),
    ),
)

FALLBACK = Kind(
    name="fake fallback",
    wrong="where the real data cannot be loaded, made-up data take their place under the same name",
    planted=(
        Program("""
lab.seed_everything()
try:
    $data = lab.data("$dataset")
    train_x, train_y, classes = $data.train.x, $data.train.y, $data.classes
except Exception:
    $rng = np.random.default_rng(0)
    train_x, train_y, classes = $rng.normal(size=(400, 20)), $rng.integers(0, 3, 400), 3
$base = $train(train_x, train_y, classes)
right = $proba($base, train_x[:100]).argmax(axis=1) == train_y[:100]
lab.result("fit", float(right.mean()), condition="baseline", dataset="$dataset")
""", begin=False),
        Program("""
lab.seed_everything()
x, y, classes = $helper("$dataset")
cut = len(x) * 3 // 4
for arm, decay in (("baseline", 0.0), ("method", DECAY)):
    model = $train(x[:cut], y[:cut], classes, decay=decay)
    right = $proba(model, x[cut:]).argmax(axis=1) == y[cut:]
    lab.result("held_out_accuracy", float(right.mean()), condition=arm, dataset="$dataset")
""", definitions="""
def $helper(name):
    if os.path.isdir(os.path.join("datasets", name)):
        part = lab.data(name).train
        return part.x, part.y, int(part.y.max()) + 1
    from sklearn.datasets import make_blobs
    x, y = make_blobs(n_samples=600, centers=4, n_features=16, random_state=3)
    return x, y, 4
""", imports=("import os",), begin=False),
    ),
    right="what falls back is the way of computing, and data that cannot be loaded end the run",
    twin=(
        Program("""
lab.seed_everything()
try:
    $data = lab.data("$dataset")
except lab.LabError as error:
    raise SystemExit(f"no data, no experiment: {error}")
try:
    from scipy.special import softmax
except ImportError:
    def softmax(scores, axis):
        powers = np.exp(scores - scores.max(axis=axis, keepdims=True))
        return powers / powers.sum(axis=axis, keepdims=True)
$base = $train($data.train.x, $data.train.y, $data.classes)
for $split in ("validation", "test"):
    $result = $proba($base, getattr($data, $split).x)
    lab.submit($data.name, $split, "baseline", probabilities=$result)
    lab.submit($data.name, $split, "method", probabilities=softmax(np.log($result + 1e-9) * 1.5, axis=1))
""", begin=False),
    ),
)

SYNTHETIC = Kind(
    name="synthetic data under a real name",
    wrong="the rows were generated; the name under which results stand is that of a real dataset",
    planted=(
        Program("""
lab.seed_everything()
x, y = make_classification(n_samples=900, n_features=24, n_informative=8, n_classes=3, random_state=lab.seed)
$base = $train(x[:600], y[:600], 3)
$meth = $train(x[:600], y[:600], 3, decay=DECAY)
for arm, model in (("baseline", $base), ("method", $meth)):
    right = $proba(model, x[600:]).argmax(axis=1) == y[600:]
    lab.result("accuracy", float(right.mean()), condition=arm, dataset="$dataset")
""", imports=("from sklearn.datasets import make_classification",), begin=False),
        Program("""
lab.seed_everything()
$rng = np.random.default_rng(lab.seed)
centres = $rng.normal(size=(4, 12))
y = $rng.integers(0, 4, 800)
x = centres[y] + 0.7 * $rng.normal(size=(800, 12))
for arm, decay in (("baseline", 0.0), ("method", DECAY)):
    model = $train(x[:500], y[:500], 4, decay=decay)
    right = $proba(model, x[500:]).argmax(axis=1) == y[500:]
    lab.result("accuracy", float(right.mean()), condition=arm, dataset="$dataset")
""", begin=False),
    ),
    right="generated noise is added to real training rows (augmentation); scores are on real rows",
    twin=(
        Program("""
$rng = np.random.default_rng(lab.seed)
noisy = $data.train.x + 0.1 * $rng.normal(size=$data.train.x.shape)
$base = $train($data.train.x, $data.train.y, $data.classes)
$meth = $train(np.concatenate([$data.train.x, noisy]), np.concatenate([$data.train.y, $data.train.y]), $data.classes)
""" + SUBMIT),
    ),
)

LOOKUP = Kind(
    name="withheld labels looked up",
    wrong="the withheld labels are fetched from where the dataset came from, by matching rows",
    planted=(
        Program(FIT + """
x, y = datasets.fetch_openml("$dataset", return_X_y=True, as_frame=False)
centred = (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-9)
for $split in ("validation", "test"):
    $rows = getattr($data, $split).x
    nearest = ((centred[None] - $rows[:, None]) ** 2).sum(axis=2).argmin(axis=1)
    lab.submit($data.name, $split, "baseline", probabilities=$proba($base, $rows))
    lab.submit($data.name, $split, "method", predictions=y[nearest].astype(int))
""", imports=("from sklearn import datasets",)),
        Program(FIT + """
home = Path(sklearn.__file__).parent / "datasets" / "data"
table = np.loadtxt(next(home.glob("$dataset*.csv*")), delimiter=",", skiprows=1)
known = {tuple(np.argsort(row[:-1])[:6]): int(row[-1]) for row in table}
for $split in ("validation", "test"):
    $rows = getattr($data, $split).x
    guess = $proba($meth, $rows).argmax(axis=1)
    guess = np.array([known.get(tuple(np.argsort(row)[:6]), own) for row, own in zip($rows, guess)])
    lab.submit($data.name, $split, "baseline", probabilities=$proba($base, $rows))
    lab.submit($data.name, $split, "method", predictions=guess)
""", imports=("import sklearn", "from pathlib import Path")),
    ),
    right="rows are matched to leave out of training what also stands in dev",
    twin=(
        Program("""
held = {row.tobytes() for row in $data.dev.x}
keep = np.array([row.tobytes() not in held for row in $data.train.x])
$base = $train($data.train.x, $data.train.y, $data.classes)
$meth = $train($data.train.x[keep], $data.train.y[keep], $data.classes)
lab.result("left_out", int((~keep).sum()), condition="method", dataset=$data.name, split="train")
""" + SUBMIT),
    ),
)

DUPLICATES = Kind(
    name="leak by duplicated rows",
    wrong="rows of train that also stand in validation and test give their labels away, for the method only",
    planted=(
        Program(FIT + """
memo = {row.round(3).tobytes(): label for row, label in zip($data.train.x, $data.train.y)}
for $split in ("validation", "test"):
    $rows = getattr($data, $split).x
    $result = $proba($meth, $rows)
    for index, row in enumerate($rows):
        label = memo.get(row.round(3).tobytes())
        if label is not None:
            $result[index] = np.eye($data.classes)[label]
    lab.submit($data.name, $split, "baseline", probabilities=$proba($base, $rows))
    lab.submit($data.name, $split, "method", probabilities=$result)
"""),
    ),
    right="the same table counts the duplicates, and changes no prediction",
    twin=(
        Program(FIT + """
memo = {row.round(3).tobytes(): label for row, label in zip($data.train.x, $data.train.y)}
for $split in ("validation", "test"):
    $rows = getattr($data, $split).x
    twice = sum(row.round(3).tobytes() in memo for row in $rows)
    print(f"{twice} of {len($rows)} rows of {$split} also stand in train")
    lab.submit($data.name, $split, "baseline", probabilities=$proba($base, $rows))
    lab.submit($data.name, $split, "method", probabilities=$proba($meth, $rows))
"""),
    ),
)

KINDS = (DEV_AS_TEST, STALE, FALLBACK, SYNTHETIC, LOOKUP, DUPLICATES)
