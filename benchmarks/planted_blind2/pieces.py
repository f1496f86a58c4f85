"""What the kinds share: names, learners, ways to change the training rows, ways to hand predictions in."""

from __future__ import annotations

TITLES = """«What comes of $idea?¦$Idea against a plain learner.¦Baseline and method ($idea).\
¦We test whether we gain from $idea.\n\nBoth arms use one learner.¦Experiment: $idea.\n\nTwo arms, \
scored on validation and test.¦Comparing two ways to train, one of them with $idea.»"""

PLAIN_TITLES = """«Baseline and method, alike but for one thing.¦A baseline and a variant of it.\n\nWhat differs is \
written where the arms are made.¦Does the change help? One small experiment.¦Two arms on one dataset.¦Experiment with \
two conditions, baseline and method.»"""

CONSTANTS = {
    "DATASET": '"«digits¦wine¦breast_cancer¦iris»"',
    "STEPS": "«60¦80¦120¦150»",
    "RATE": "«0.1¦0.2¦0.05»",
    "LEARNING_RATE": "«0.01¦0.005¦0.02»",
    "DECAY": "«0.001¦0.0005¦0.003»",
    "HIDDEN": "«16¦24¦32»",
    "COPIES": "«1¦2¦3»",
    "WIDTH": "«0.1¦0.2¦0.05»",
    "EPOCHS": "«12¦15¦20¦25»",
}

IMPORTS = (
    ("import math", r"\bmath\."), ("import pickle", r"\bpickle\."),
    ("import gc", r"\bgc\."), ("import warnings", r"\bwarnings\."), ("import copy", r"\bcopy\."),
    ("from pathlib import Path", r"\bPath\("), ("import numpy as np", r"\bnp\."), ("import torch", r"\btorch\."),
    ("from scipy import stats", r"\bstats\."),
    ("from sklearn import datasets", r"(?<!\.)\bdatasets(\.(load|make)_|, \"load_)"),
    ("from sklearn.decomposition import PCA", r"\bPCA\("),
    ("from sklearn.ensemble import RandomForestClassifier", r"\bRandomForestClassifier\("),
    ("from sklearn.feature_selection import SelectKBest, f_classif", r"\bSelectKBest\("),
    ("from sklearn.linear_model import LogisticRegression", r"\bLogisticRegression\("),
    ("from sklearn.linear_model import Ridge", r"\bRidge\("),
    ("from sklearn.model_selection import train_test_split", r"\btrain_test_split\("),
    ("from sklearn.neighbors import KNeighborsClassifier", r"\bKNeighborsClassifier\("),
    ("from sklearn.neural_network import MLPClassifier", r"\bMLPClassifier\("),
    ("from sklearn.preprocessing import StandardScaler", r"\bStandardScaler\("),
    ("from sklearn.preprocessing import MinMaxScaler", r"\bMinMaxScaler\("),
    ("from torch import nn", r"\bnn\."), ("from torch.nn import functional as F", r"\bF\.\w"),
)

_SOFTMAX = '''
def $softmax(z):
    «e = np.exp(z - z.max(axis=1, keepdims=True))¦e = np.exp(z - np.max(z, axis=1)[:, None])»
    return e / e.sum(axis=1, keepdims=True)
'''

_NUMPY = _SOFTMAX.strip() + '''


def $biased(x):
    return «np.hstack([x, np.ones((len(x), 1))])¦np.concatenate([x, np.ones((len(x), 1))], axis=1)»


def $fit(x, y, $strength=DECAY, $steps=STEPS, $stream=0):
    """«Weights of a softmax regression, by gradient descent.¦Full-batch softmax regression.¦A linear classifier.»"""
    rng = np.random.default_rng([lab.seed, $stream])
    $weights = rng.normal(0, 0.01, (x.shape[1] + 1, int(y.max()) + 1))
    rows, target = $biased(x), np.eye($weights.shape[1])[y]
    for _ in range($steps):
        slope = rows.T @ ($softmax(rows @ $weights) - target) / len(y)
        $weights «-= RATE * (slope + $strength * $weights)¦= (1 - RATE * $strength) * $weights - RATE * slope»
    return $weights


def $proba($model, x):
    return $softmax($biased(x) @ $model)
'''

_SKLEARN = '''
def $fit(x, y, $strength=DECAY, $steps=STEPS, $stream=0):
    «¦"""A fitted scikit-learn classifier."""
    ¦# one learner for all arms
    ¦"""Any arm's classifier."""
    »«$model = LogisticRegression(C=1 / (1000 * $strength), max_iter=10 * $steps)
    return $model.fit(x, y)¦$model = RandomForestClassifier($steps, min_samples_leaf=1 + int(500 * $strength),
                                   random_state=lab.seed + $stream)
    return $model.fit(x, y)¦seed = lab.seed + $stream
    $model = MLPClassifier((HIDDEN,), alpha=$strength, max_iter=$steps, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the number of iterations is the budget, not convergence
        return $model.fit(x, y)»


def $proba($model, x):
    return $model.predict_proba(x)
'''

_TORCH = '''
«class $Net(nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        self.hidden = nn.Linear(inputs, HIDDEN)
        self.out = nn.Linear(HIDDEN, classes)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(x)))¦def $Net(inputs, classes):
    return nn.Sequential(nn.Linear(inputs, HIDDEN), nn.«ReLU¦Tanh¦GELU»(), nn.Linear(HIDDEN, classes))»


def $fit(x, y, $strength=DECAY, $steps=STEPS, $stream=0):
    torch.manual_seed(lab.seed + $stream)
    x, y = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y)
    net = $Net(x.shape[1], int(y.max()) + 1)
    «opt¦optimiser¦optimizer» = torch.optim.«Adam¦AdamW¦RMSprop»(
        net.parameters(), lr=LEARNING_RATE, weight_decay=$strength)
    for _ in range($steps):
        «opt¦optimiser¦optimizer».zero_grad()
        F.cross_entropy(net(x), y).backward()
        «opt¦optimiser¦optimizer».step()
    return net«.eval()¦»


def $proba($model, x):
    with torch.no_grad():
        return torch.softmax($model(torch.as_tensor(x, dtype=torch.float32)), dim=1)«.numpy()¦.cpu().numpy()»
'''

_IMPROVE = '''
«def $improve(x, y, rng):
    """Training rows and COPIES noisy copies of them."""
    more = [x + rng.normal(0, WIDTH, x.shape) for _ in range(COPIES)]
    return np.concatenate([x, *more]).astype(np.float32), np.tile(y, COPIES + 1)¦def $improve(x, y, rng):
    """Every class drawn up to the size of the largest one."""
    most = np.bincount(y).max()
    rows = np.concatenate([rng.choice(np.flatnonzero(y == c), most) for c in np.unique(y)])
    return x[rows], y[rows]¦def $improve(x, y, rng):
    # points between two rows of a class
    other = np.array([rng.choice(np.flatnonzero(y == label)) for label in y])
    share = rng.random((len(x), 1))
    between = share * x + (1 - share) * x[other]
    return np.vstack([x, between]).astype(np.float32), np.hstack([y, y])¦def $improve(x, y, rng):
    """The rows once more, with one column in ten set to its mean, zero."""
    masked = x * (rng.random(x.shape) > WIDTH)
    return np.concatenate([x, masked]).astype(np.float32), np.concatenate([y, y])»
'''

_HAND = '''
«def $hand($ds, arm, $model):
    for split in ("validation", "test"):
        lab.submit($ds.name, split, arm, probabilities=$proba($model, getattr($ds, split).x))\
¦def $hand($ds, arm, $model):
    """Predictions for both withheld parts."""
    lab.submit($ds.name, "validation", arm, probabilities=$proba($model, $xval))
    lab.submit($ds.name, "test", arm, probabilities=$proba($model, $xte))¦def $hand($ds, arm, $model):
    withheld = {"validation": $ds.validation, "test": $ds.test}
    for split, part in withheld.items():
        p = $proba($model, part.x)
        lab.submit($ds.name, split, condition=arm, probabilities=p)»
'''

_BASIS = '''
«$plain = $fit($xtr, $ytr)
$hand($ds, "baseline", $plain)
$better = $fit(*$improve($xtr, $ytr, $gen))
$hand($ds, "method", $better)¦for arm in ("baseline", "method"):
    rows = ($xtr, $ytr) if arm == "baseline" else $improve($xtr, $ytr, $gen)
    $hand($ds, arm, $fit(*rows))¦x_more, y_more = $improve($xtr, $ytr, $gen)
models = {"baseline": $fit($xtr, $ytr), "method": $fit(x_more, y_more)}
for arm, $model in models.items():
    $hand($ds, arm, $model)»
'''

WORDS: dict[str, str] = {
    "idea": "«changed training rows¦a changed training set¦another training set¦other training rows»",
    "Idea": "«A changed training set¦Other training rows¦Changed training rows»",
    "ds": "«data¦ds¦bundle¦dataset¦loaded¦parts»",
    "model": "«model¦clf¦fitted¦learner¦m¦estimator»",
    "plain": "«plain¦base¦reference¦vanilla¦first»", "better": "«better¦ours¦improved¦proposed¦second»",
    "fit": "«fit_model¦train_model¦learn¦train_one¦make_model¦fitted_on»",
    "proba": "«class_probabilities¦predict¦probabilities_of¦forecast¦soft_labels»",
    "improve": "«augment¦enriched¦expand_rows¦more_rows¦extended¦resample»",
    "hand": "«hand_in¦submit_both¦deliver¦record_arm¦send»",
    "accuracy_of": "«accuracy_of¦right_share¦quality_of¦count_right»",
    "accuracy": "«accuracy¦share_right¦hit_rate¦fraction_correct»",
    "gen": "«rng¦gen¦draws¦random_stream»",
    "softmax": "«softmax¦normalised_exp¦to_probabilities»", "biased": "«biased¦with_ones¦design_matrix¦add_bias»",
    "weights": "«w¦weights¦theta¦coef»", "Net": "«Net¦Network¦MLP¦SmallNet»",
    "strength": "«strength¦decay¦penalty¦l2»", "steps": "«steps¦rounds¦iterations¦budget»",
    "stream": "«stream¦member¦draw¦replica»",
    "xtr": "$ds.train.x", "ytr": "$ds.train.y", "xdev": "$ds.dev.x", "ydev": "$ds.dev.y",
    "xval": "$ds.validation.x", "xte": "$ds.test.x",
    "load": "$ds = lab.data(DATASET)\n$gen = np.random.default_rng(lab.seed)",
    "view": "«featurise¦with_columns¦view_of¦extended_features»",
    "series": "«series¦signal¦make_series¦recorded»", "windows": "«windows¦lagged¦slices»",
    "robust": "«robust¦safely¦attempted¦guarded»", "hunt": "«hunt¦inventory¦scan¦look_around»",
    "cached": "«cached¦stored¦remembered¦memo»",
    "softly": "«softly¦probabilities¦outputs¦softmax_of»", "deliver": "«deliver¦submit_arm¦give¦hand_over»",
    "trained": "«trained¦train¦optimise¦fit_network»",
    "metric": "«accuracy¦accuracy¦dev_accuracy¦accuracy_on_dev»",
    "ondev": "«accuracy_on_dev¦dev_accuracy¦hits_on_dev»",
    "held": "«held¦out¦holdout¦kept_back»", "kept": "«kept¦used¦inner¦core»",
    "cut": "«order¦shuffled¦perm» = np.random.default_rng(«0¦7¦11»).permutation(len($ytr))  # one cut for all arms\n"
           "$held, $kept = «order¦shuffled¦perm»[: len($ytr) // «3¦4»], «order¦shuffled¦perm»[len($ytr) // «3¦4» :]",
    "score": "«score¦value¦result¦acc¦quality»",
    "basis": _BASIS.strip(),
    "define_learner": f"«{_NUMPY.strip()}¦{_SKLEARN.strip()}¦{_TORCH.strip()}»",
    "define_improve": _IMPROVE.strip(), "define_hand": _HAND.strip(),
    "define_accuracy": "def $accuracy(p, y):\n    return «float((p.argmax(axis=1) == y).mean())"
                       "¦float(np.mean(np.argmax(p, axis=1) == y))¦float(np.sum(p.argmax(1) == y) / len(y))»",
}
