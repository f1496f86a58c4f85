# kind: seed_ignored
# honest: the generator is seeded with the seed of the cell

"""Label smoothing.

A network with one hidden layer, trained with cross entropy; the method smooths the targets by 0.1.
"""
import torch
from torch.nn import functional as F

import lab

HIDDEN, STEPS, BATCH, RATE = 40, 400, 24, 0.05
SMOOTHING = 0.1


def initial(shape, generator):
    weights = torch.randn(shape, generator=generator) * (2.0 / shape[0]) ** 0.5
    return weights.requires_grad_()


def forward(x, parameters):
    first, first_bias, second, second_bias = parameters
    return torch.relu(x @ first + first_bias) @ second + second_bias


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    generator = torch.Generator().manual_seed(cell.seed)
    x, y = torch.as_tensor(data.train.x), torch.as_tensor(data.train.y)
    parameters = [initial((x.shape[1], HIDDEN), generator), torch.zeros(HIDDEN, requires_grad=True),
                  initial((HIDDEN, data.classes), generator), torch.zeros(data.classes, requires_grad=True)]
    optimizer = torch.optim.SGD(parameters, lr=RATE, momentum=0.9)
    smoothing = SMOOTHING if cell.arm == "method" else 0.0
    for step in range(STEPS):
        rows = torch.randint(len(x), (BATCH,), generator=generator)
        loss = F.cross_entropy(forward(x[rows], parameters), y[rows], label_smoothing=smoothing)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            lab.log("train_loss", loss.detach(), step=step)
    for split in ("validation", "test"):
        with torch.no_grad():
            logits = forward(torch.as_tensor(getattr(data, split).x), parameters)
        lab.submit(cell.dataset, split, condition=cell.arm, probabilities=logits.softmax(dim=1))


lab.measure(run)
