import numpy as np


def init(sizes, rng):
    return [[rng.normal(0, np.sqrt(2 / a), (a, b)), np.zeros(b)] for a, b in zip(sizes, sizes[1:])]


def forward(net, x):
    acts = [x]
    for i, (w, b) in enumerate(net):
        x = x @ w + b
        if i < len(net) - 1:
            x = np.maximum(x, 0.1 * x)
        acts.append(x)
    return acts


def backward(net, acts, grad):
    grads = []
    for i in range(len(net) - 1, -1, -1):
        if i < len(net) - 1:
            grad = grad * np.where(acts[i + 1] > 0, 1.0, 0.1)
        grads.append([acts[i].T @ grad, grad.sum(0)])
        grad = grad @ net[i][0].T
    return grads[::-1], grad


class Adam:
    def __init__(self, net, lr, b1=0.5, b2=0.99):
        self.net, self.lr, self.b1, self.b2, self.t = net, lr, b1, b2, 0
        self.m = [[np.zeros_like(p) for p in layer] for layer in net]
        self.v = [[np.zeros_like(p) for p in layer] for layer in net]

    def step(self, grads):
        self.t += 1
        for layer, g, m, v in zip(self.net, grads, self.m, self.v):
            for j in range(2):
                m[j] = self.b1 * m[j] + (1 - self.b1) * g[j]
                v[j] = self.b2 * v[j] + (1 - self.b2) * g[j] ** 2
                mh, vh = m[j] / (1 - self.b1 ** self.t), v[j] / (1 - self.b2 ** self.t)
                layer[j] -= self.lr * mh / (np.sqrt(vh) + 1e-8)
