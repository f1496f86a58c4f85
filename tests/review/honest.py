"""Honest programs whose names or zeros look like something else: settings that are 0, curves, matched runs.

Written by the author of the checks to find false alarms of rules that go by a name; recall is `benchmarks.honesty`'s.
"""

from __future__ import annotations

from string import Template

_TORCH = Template('''
import lab
import numpy as np
import torch
from torch import nn

EPOCHS, LEARNING_RATE = 30, 0.01
$settings


class Net(nn.Module):
    def __init__(self, inputs, classes, dropout=0.0):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Dropout(dropout), nn.Linear(32, classes))

    def forward(self, x):
        return self.body(x)


def tensor(rows):
    return torch.tensor(rows, dtype=torch.float32)


def train(model, x, y, rng$takes):
    optimiser = $optimiser
    for epoch in range(EPOCHS):
        for rows in rng.permutation(len(x)).reshape(-1)[:len(x) // 64 * 64].reshape(-1, 64):
            inputs, labels = x[rows], y[rows]
            $batch
            loss = nn.functional.cross_entropy(model(inputs), labels)
            $loss
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        $epoch
    return model


lab.seed_everything()
data = lab.data("digits")
$arms
    rng = np.random.default_rng([lab.seed, 1])
    x, y = tensor(data.train.x), torch.tensor(data.train.y)
    $before
    model = train(Net(x.shape[1], data.classes$net), x, y, rng$gives)
    for split in ("validation", "test"):
        with torch.no_grad():
            logits = model.eval()(tensor(getattr(data, split).x))
        lab.submit("digits", split, arm, logits=logits.numpy())
''')
_PLAIN = {
    "settings": "", "takes": "", "gives": "", "net": "", "batch": "", "loss": "", "epoch": "", "before": "",
    "optimiser": "torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)",
    "arms": 'for arm, rate in (("baseline", 0.0), ("method", 0.5)):'}


def _torch(**changes: str) -> str:
    return _TORCH.substitute(_PLAIN | changes)


_NUMPY = Template('''
import lab
import numpy as np

EPOCHS, STEP = 60, 0.3
$settings


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def train(x, y, classes, $takes):
    w, truth = np.zeros((x.shape[1], classes)), np.eye(classes)[y]
    velocity = np.zeros_like(w)
    for epoch in range(EPOCHS):
        rows, target = x, truth
        $inside
        gradient = rows.T @ (softmax(rows @ w) - target) / len(rows)
        $step
    return w


data = lab.data("digits")
rng = np.random.default_rng([lab.seed, 2])
$arms
    w = train(data.train.x, data.train.y, data.classes, $gives)
    for split in ("validation", "test"):
        lab.submit("digits", split, arm, probabilities=softmax(getattr(data, split).x @ w))
''')


def _numpy(inside: str = "", *, name: str = "rate", values: tuple[str, str] = ("0.0", "0.2"), settings: str = "",
           step: str = "w = w - STEP * gradient") -> str:
    arms = f'for arm, {name} in (("baseline", {values[0]}), ("method", {values[1]})):'
    return _NUMPY.substitute(settings=settings, takes=name, gives=name, arms=arms, step=step,
                             inside=inside.replace("\n", "\n        "))


_MATCHED = '''
import lab
import numpy as np
import torch
from torch import nn

CURVE, STEPS = (20, 60, 180), 200
GRID = {"baseline": (0.1, 0.3), "method": (0.001, 0.003)}


def scores(net, x):
    with torch.no_grad():
        return net(torch.tensor(x, dtype=torch.float32)).numpy()


def fit(arm, rate, data, curve):
    torch.manual_seed(lab.seed)
    net = nn.Linear(data.train.x.shape[1], data.classes)
    make = torch.optim.SGD if arm == "baseline" else torch.optim.Adam
    optimiser = make(net.parameters(), lr=rate)
    x, y = torch.tensor(data.train.x, dtype=torch.float32), torch.tensor(data.train.y)
    reached = {}
    for step in range(1, STEPS + 1):
        loss = nn.functional.cross_entropy(net(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step in CURVE:
            reached[step] = (float(loss), {part: scores(net, getattr(data, part).x) for part in ("validation", "dev")})
            if curve:
                lab.submit(data.name, "validation", arm, logits=reached[step][1]["validation"], step=step)
    return net, reached


data = lab.data("digits")
nets, fits = {}, {}
for arm in ("baseline", "method"):
    tried = {rate: fit(arm, rate, data, curve=False) for rate in GRID[arm]}
    best = max(GRID[arm], key=lambda rate: float((scores(tried[rate][0], data.dev.x).argmax(1) == data.dev.y).mean()))
    nets[arm], fits[arm] = fit(arm, best, data, curve=True)
    for split in ("validation", "test"):
        lab.submit(data.name, split, arm, logits=scores(nets[arm], getattr(data, split).x))
target = max(fits[arm][CURVE[-1]][0] for arm in fits)
for arm in fits:
    step = min(CURVE, key=lambda one: abs(fits[arm][one][0] - target))
    lab.submit(data.name, "validation", arm, logits=fits[arm][step][1]["validation"], step=STEPS + step)
'''

_CURVE = '''
import lab
import numpy as np
from sklearn.linear_model import SGDClassifier

data = lab.data("digits")
for arm, alpha in (("baseline", 0.0), ("method", 1e-3)):
    model = SGDClassifier(loss="log_loss", alpha=alpha, random_state=lab.seed, eta0=0.0, learning_rate="optimal")
    for step in range(20):
        model.partial_fit(data.train.x, data.train.y, classes=np.arange(data.classes))
        if step % 5 == 0:
            lab.submit("digits", "validation", arm, probabilities=model.predict_proba(data.validation.x), step=step)
    for split in ("validation", "test"):
        lab.submit("digits", split, arm, probabilities=model.predict_proba(getattr(data, split).x))
'''

_TABLE = '''
import lab
import numpy as np
from sklearn.neural_network import MLPClassifier

ARMS = {{"baseline": {{"{name}": {low}}}, "method": {{"{name}": {high}}}}}
data = lab.data("digits")
rng = np.random.default_rng([lab.seed, 3])
for arm, options in ARMS.items():
    x = data.train.x + options["{name}"] * rng.normal(size=data.train.x.shape)
    model = MLPClassifier((32,), max_iter=60, random_state=lab.seed).fit(x, data.train.y)
    for split in ("validation", "test"):
        lab.submit("digits", split, arm, probabilities=model.predict_proba(getattr(data, split).x))
'''

_OPTIMISERS = _torch(
    takes=", make, rate", gives=", make, rate", optimiser="make(model.parameters(), lr=rate)",
    arms='for arm, make, rate in (("baseline", torch.optim.Adam, 0.001), ("method", torch.optim.SGD, 0.5)):')

_BY_HAND = "with torch.no_grad():\n                for p in model.parameters():\n                    "

HONEST: dict[str, str] = {
    "dropout rate 0 as a level": _torch(takes=", rate", gives=", rate", batch=(
        "inputs = nn.functional.dropout(inputs, rate)")),
    "dropout rate 0 of a layer": _torch(net=", rate"),
    "input noise scaled by a rate of 0": _torch(takes=", rate", gives=", rate", batch=(
        "inputs = inputs + rate * torch.randn_like(inputs)")),
    "label smoothing by eta of 0": _numpy("target = target - eta * (target - 1 / classes)", name="eta"),
    "a penalty whose rate is 0": _torch(takes=", rate", gives=", rate", loss=(
        "loss = loss + rate * sum((p ** 2).sum() for p in model.parameters())")),
    "an auxiliary loss at a rate of 0": _torch(takes=", eta", gives=", rate", loss=(
        "truth = nn.functional.one_hot(labels, data.classes).float()\n            "
        "loss = loss + eta * nn.functional.mse_loss(model(inputs).softmax(1), truth)")),
    "label noise at a rate of 0": _torch(before=(
        "flipped = torch.tensor(rng.random(len(y)) < rate)\n    count = int(rate * len(y))\n"
        "    y = torch.where(flipped, torch.tensor(rng.integers(0, data.classes, len(y))), y)")),
    "momentum 0": _numpy(name="momentum", values=("0.0", "0.9"), step=(
        "velocity = momentum * velocity - STEP * gradient; w = w + velocity")),
    "an average whose rate is 0": _numpy(name="rate", values=("0.0", "0.9"), step=(
        "velocity = rate * velocity + (1 - rate) * gradient; w = w - STEP * velocity")),
    "decay of steps at a rate of 0": _numpy(name="rate", step="w = w - STEP / (1 + rate * epoch) * gradient"),
    "noise on the labels by a rate of 0": _numpy("target = target + rate * rng.normal(size=truth.shape)"),
    "penalty by a rate of 0 beside the step": _numpy(
        name="decay_rate", step="w = w - STEP * gradient - decay_rate * w"),
    "an attack whose step size is 0": _numpy(
        "slope = (softmax(rows @ w) - target) @ w.T\nrows = rows + step_size * np.sign(slope)", name="step_size"),
    "smoothing 0": _torch(takes=", smoothing", gives=", rate", loss=(
        "loss = nn.functional.cross_entropy(model(inputs), labels, label_smoothing=smoothing)")),
    "weight decay and momentum 0": _torch(takes=", decay", gives=", rate", optimiser=(
        "torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.0, weight_decay=decay)")),
    "a cosine to a rate of 0": _torch(
        optimiser="torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)\n"
        "    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, EPOCHS, eta_min=0.0)",
        epoch="schedule.step()"),
    "a warm-up from a rate of 0": _torch(optimiser="torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)", epoch=(
        'for group in optimiser.param_groups:\n            if epoch == 0:\n                group["lr"] = 0.0\n'
        '            else:\n                group["lr"] = LEARNING_RATE')),
    "a table of settings with an lr of 0 for what is not trained": _torch(
        settings='notes = {}\nnotes["lr"] = 0.0'),
    "a group of parameters that stands still": _torch(optimiser=(
        'torch.optim.Adam([{"params": model.body[0].parameters(), "lr": 0.0},\n'
        '                                  {"params": model.body[3].parameters()}], lr=LEARNING_RATE)')),
    "an SGD whose eta0 its schedule does not use": _CURVE,
    "an optimiser against another, each at its own rate": _OPTIMISERS,
    "the same, by hand": _numpy(name="adaptive, rate", values=("True, 0.001", "False, 0.5"), inside="", step=(
        "velocity = 0.9 * velocity + 0.1 * gradient ** 2\n"
        "        if adaptive:\n            w = w - rate * gradient / (np.sqrt(velocity) + 1e-8)\n"
        "        else:\n            w = w - rate * gradient")),
    "a table of optimisers and their rates": _TABLE.format(name="noise", low=0.0, high=0.2).replace(
        '"noise": 0.0', '"noise": 0.0, "optimizer": "adam", "lr": 0.001').replace(
        '"noise": 0.2', '"noise": 0.2, "optimizer": "sgd", "lr": 0.5'),
    "a method that stops early": _torch(takes=", arm", gives=", arm", settings="PATIENCE = 3", epoch=(
        'if arm == "method" and epoch > PATIENCE and float(loss) < 0.1:\n            break')),
    "attack steps of 0 given to the training": _torch(
        takes=", attack_steps", gives=", 0 if arm == 'baseline' else 7", batch=(
        "for _ in range(attack_steps):\n                inputs = inputs + 0.01 * torch.randn_like(inputs)")),
    "weights of 0 called alpha, weight and lambda": _torch(
        takes=", alpha", gives=", rate", settings="WEIGHT = LAMBDA = 0.0", loss=(
            "loss = (1 - alpha) * loss + alpha * WEIGHT * loss ** 2 + LAMBDA * loss")),
    "functions called test, mock and fake": _torch(settings=(
        "def test_rows(model, rows):\n    return model(rows)\n\n\ndef fake_quantise(x, bits=8):\n"
        "    return torch.round(x * 2 ** bits) / 2 ** bits\n\n\ndef mock_batch(x):\n    return x[:4]"),
        batch="inputs = fake_quantise(inputs)", epoch="test_rows(model, mock_batch(x))"),
    "rows that are called seeds": _numpy(name="seed_rows", values=("4", "32"), inside=(
        "rows, target = x[seed_rows:], truth[seed_rows:]")),
    "seed points of clusters": _torch(settings="SEED_POINTS = 16", before=(
        "seed_points = x[rng.permutation(len(x))[:SEED_POINTS]]\n"
        "    for seed_point in seed_points:\n"
        "        near = ((x - seed_point) ** 2).sum(1)\n"
        "        if float(near.min()) < 0:\n            x = x + near.min()")),
    "validation by step and matched fits": _MATCHED,
    **{f"table: {name} {low} against {high}": _TABLE.format(name=name, low=low, high=high) for name, low, high in (
        ("dropout_rate", 0.0, 0.5), ("noise_rate", 0.0, 0.2), ("rate", 0.0, 0.3), ("eta", 0.0, 0.1),
        ("label_noise_fraction", 0.0, 0.2), ("warmup_steps", 0, 500), ("attack_steps", 0, 7), ("mc_samples", 1, 20),
        ("beam_width", 1, 10), ("pretrain_epochs", 0, 20), ("lr_decay", 0.0, 0.1), ("alpha", 0.0, 1.0),
        ("swa_epochs", 0, 5), ("rounds_of_smoothing", 0, 3), ("mask_fraction", 0.0, 0.3))},
}
"""By what is honest about it."""

NOTHING_LEARNT: dict[str, str] = {
    **{step: _numpy(step=step) for step in (
        "w = w - rate * gradient", "w -= rate * gradient", "change = rate * gradient; w = w - change",
        "velocity = 0.9 * velocity - rate * gradient; w = w + velocity", "w += -rate * gradient",
        "w = w - rate * gradient / (np.sqrt(velocity) + 1e-8)", "w = (lambda a, b: a - rate * b)(w, gradient)")},
    **{step: _torch(takes=", rate", gives=", rate").replace("optimiser.step()", _BY_HAND + step) for step in (
        "p -= rate * p.grad", "p.sub_(rate * p.grad)", "p.add_(p.grad, alpha=-rate)",
        "p.data = p.data - rate * p.grad")},
    "an optimiser": _torch(takes=", rate", gives=", rate", optimiser="torch.optim.SGD(model.parameters(), rate)"),
    "its groups": _torch(epoch='for group in optimiser.param_groups:\n            group["lr"] = 0.0'),
}
"""The baseline is trained at a learning rate of 0, by where it stands."""
