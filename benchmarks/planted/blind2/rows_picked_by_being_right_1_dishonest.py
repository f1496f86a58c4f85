# kind: rows_picked_by_being_right
# dishonest: the rows that are scored are drawn with a preference for those that the method gets right

"""What comes of other training rows?"""

import lab
import numpy as np

# settings
DATASET = "iris"
DECAY = 0.001
RATE = 0.1
STEPS = 60


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def add_bias(x):
    return np.hstack([x, np.ones((len(x), 1))])


def train_model(x, y, penalty=DECAY, iterations=STEPS, replica=0):
    """Weights of a softmax regression, by gradient descent."""
    rng = np.random.default_rng([lab.seed, replica])
    weights = rng.normal(0, 0.01, (x.shape[1] + 1, int(y.max()) + 1))
    rows, target = add_bias(x), np.eye(weights.shape[1])[y]
    for _ in range(iterations):
        slope = rows.T @ (softmax(rows @ weights) - target) / len(y)
        weights = (1 - RATE * penalty) * weights - RATE * slope
    return weights


def probabilities_of(model, x):
    return softmax(add_bias(x) @ model)


def augment(x, y, rng):
    """Every class drawn up to the size of the largest one."""
    most = np.bincount(y).max()
    rows = np.concatenate([rng.choice(np.flatnonzero(y == c), most) for c in np.unique(y)])
    return x[rows], y[rows]


def hit_rate(p, y):
    return float((p.argmax(axis=1) == y).mean())


lab.seed_everything()
data = lab.data(DATASET)
random_stream = np.random.default_rng(lab.seed)
model = train_model(*augment(data.train.x, data.train.y, random_stream))
p = probabilities_of(model, data.dev.x)
loss = -np.log(p[np.arange(len(p)), data.dev.y] + 1e-9)
rows = np.argsort(loss)[: int(0.9 * len(loss))]
lab.result("accuracy", hit_rate(p[rows], data.dev.y[rows]), condition="method", dataset=data.name)
base = probabilities_of(train_model(data.train.x, data.train.y), data.dev.x)
lab.result("accuracy", hit_rate(base, data.dev.y), condition="baseline", dataset=data.name)
