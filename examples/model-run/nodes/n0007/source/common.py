import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.neural_network import MLPClassifier

LOWEST_TEMPERATURE = 0.2
HIGHEST_TEMPERATURE = 20.0
RATE_MARGIN = 0.98
GRID_TEMPERATURES = 150
GRID_RATES = 60
LOCAL_STARTS = 5
BOUND_TOLERANCE = 0.001


def network_logits(net, x):
    """Logits by an own forward pass, since the logarithm of predict_proba saturates."""
    h = np.asarray(x, dtype=np.float64)
    for i, (w, b) in enumerate(zip(net.coefs_, net.intercepts_)):
        h = h @ w + b
        if i < len(net.coefs_) - 1:
            h = np.maximum(h, 0.0)
    if h.shape[1] == 1:
        h = np.hstack([np.zeros_like(h), h])
    return h


def log_softmax(z):
    return z - logsumexp(z, axis=1, keepdims=True)


def mean_log_loss(log_p, y):
    return float(-log_p[np.arange(len(y)), y].mean())


def train_network(data, seed, hidden, alpha, learning_rate, batch_size, epochs):
    """A fixed number of epochs on the clean labels of train. The state of the random numbers goes on from epoch to
    epoch, so that every epoch has an order of its own."""
    x = np.asarray(data.train.x, dtype=np.float64)
    y = np.asarray(data.train.y)
    net = MLPClassifier(hidden_layer_sizes=hidden, activation="relu", solver="adam", alpha=alpha,
                        learning_rate_init=learning_rate, batch_size=min(batch_size, len(x)),
                        random_state=np.random.RandomState(seed % 2**32))
    train_loss, dev_loss = [], []
    for _ in range(epochs):
        net.partial_fit(x, y, classes=np.arange(data.classes))
        train_loss.append(net.loss_)
        dev_loss.append(mean_log_loss(log_softmax(network_logits(net, data.dev.x)), np.asarray(data.dev.y)))
    return {"dev": network_logits(net, data.dev.x), "validation": network_logits(net, data.validation.x),
            "test": network_logits(net, data.test.x), "train_loss": np.array(train_loss),
            "dev_loss": np.array(dev_loss)}


def wrong_labels(clean, classes, rate, seed):
    """Each label becomes one of the other classes with probability `rate`: the same for all arms, nested over rates."""
    rng = np.random.default_rng(seed)
    u = rng.random(len(clean))
    other = (clean + rng.integers(1, classes, len(clean))) % classes
    return np.where(u < rate, other, clean)


def highest_rate(classes):
    return RATE_MARGIN * (classes - 1) / classes


def parts(z, y, temperature):
    """Log of the probability of the given label, and of all other classes together, at a temperature."""
    s = z / temperature
    total = logsumexp(s, axis=1)
    given = s[np.arange(len(y)), y]
    others = s.copy()
    others[np.arange(len(y)), y] = -np.inf
    return given - total, logsumexp(others, axis=1) - total


def noisy_loss(log_given, log_others, rate, classes):
    """Mean negative log-likelihood of (1 - e) p + e (1 - p) / (K - 1), over the last axis."""
    if rate == 0.0:
        return -log_given.mean(axis=-1)
    mixed = np.logaddexp(np.log1p(-rate) + log_given, np.log(rate) + log_others - np.log(classes - 1))
    return -mixed.mean(axis=-1)


def fit_likelihood(z, y, classes, rate=None):
    """Temperature and rate of highest likelihood within the bounds; the rate is held where it is given."""
    low, high = np.log(LOWEST_TEMPERATURE), np.log(HIGHEST_TEMPERATURE)
    log_ts = np.linspace(low, high, GRID_TEMPERATURES)
    rates = np.linspace(0.0, highest_rate(classes), GRID_RATES) if rate is None else np.array([rate])
    pairs = [parts(z, y, np.exp(t)) for t in log_ts]
    given = np.array([a for a, _ in pairs])
    others = np.array([b for _, b in pairs])
    loss = np.array([noisy_loss(given, others, e, classes) for e in rates])

    def objective(v):
        e = float(v[1]) if rate is None else rate
        return float(noisy_loss(*parts(z, y, np.exp(v[0])), e, classes))

    bounds = [(low, high)] + ([(0.0, highest_rate(classes))] if rate is None else [])
    best = (np.inf, None)
    for k in np.argsort(loss, axis=None)[:LOCAL_STARTS]:
        i, j = np.unravel_index(k, loss.shape)
        start = [log_ts[j]] + ([rates[i]] if rate is None else [])
        if loss[i, j] < best[0]:
            best = (loss[i, j], np.array(start))
        found = minimize(objective, start, method="L-BFGS-B", bounds=bounds)
        if found.fun < best[0]:
            best = (found.fun, found.x)
    v = best[1]
    return {"temperature": float(np.exp(v[0])), "rate": float(v[1]) if rate is None else float(rate)}


def at_bound(fit, classes):
    """Whether the temperature lies at a bound, or the rate at its upper one (a rate of zero is no failure)."""
    t = np.log(fit["temperature"])
    return (t - np.log(LOWEST_TEMPERATURE) < BOUND_TOLERANCE or np.log(HIGHEST_TEMPERATURE) - t < BOUND_TOLERANCE
            or highest_rate(classes) - fit["rate"] < BOUND_TOLERANCE)
