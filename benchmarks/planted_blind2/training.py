"""Kinds in which training does nothing, or its outcome is lost, or replicates agree because they are one run."""

from __future__ import annotations

from benchmarks.planted_blind2.language import Kind
from benchmarks.planted_blind2.pieces import PLAIN_TITLES

_NET = """
        «class Model(nn.Module):
            def __init__(self, inputs, classes):
                super().__init__()
                self.body = nn.Sequential(nn.Linear(inputs, HIDDEN), nn.«ReLU¦Tanh»())
                self.head = nn.Linear(HIDDEN, classes)

            def forward(self, x):
                return self.head(self.body(x))¦class Model(nn.Module):
            \"\"\"Two layers.\"\"\"

            def __init__(self, inputs, classes):
                nn.Module.__init__(self)
                self.body, self.head = nn.Linear(inputs, HIDDEN), nn.Linear(HIDDEN, classes)

            def forward(self, x):
                return self.head(F.«relu¦gelu¦silu»(self.body(x)))»


        def $softly(net, x):
            with torch.no_grad():
                return torch.softmax(net(torch.as_tensor(x)), dim=1).numpy()


        def $deliver(ds, arm, net):
            «for split, x in (("validation", ds.validation.x), ("test", ds.test.x)):
                lab.submit(ds.name, split, arm, probabilities=$softly(net, x))¦for split in ("test", "validation"):
                lab.submit(ds.name, split, arm, probabilities=$softly(net, getattr(ds, split).x))»

"""

_START = """
        =====
        $load
        x, y = torch.as_tensor($xtr), torch.as_tensor($ytr)"""

KINDS = (
    Kind(
        "a_step_of_nothing",
        "the baseline's optimiser never moves its weights (learning rate zero, no step, or no gradients)",
        _NET + """
        def $trained(x, y, classes, smoothing):
            torch.manual_seed(lab.seed)
            net = Model(x.shape[1], classes)
            «optimiser = torch.optim.Adam(net.parameters(), lr=LEARNING_RATE if smoothing else 0.0)
            for epoch in range(EPOCHS):
                optimiser.zero_grad()
                loss = F.cross_entropy(net(x), y, label_smoothing=smoothing)
                loss.backward()
                optimiser.step()¦optimiser = torch.optim.Adam(net.parameters(), lr=LEARNING_RATE)
            for epoch in range(EPOCHS):
                optimiser.zero_grad()
                loss = F.cross_entropy(net(x), y, label_smoothing=smoothing)
                loss.backward()
                if smoothing > 0:
                    optimiser.step()¦optimiser = torch.optim.SGD(net.parameters(), lr=10 * LEARNING_RATE, momentum=0.9)
            for epoch in range(EPOCHS):
                loss = F.cross_entropy(net(x), y, label_smoothing=smoothing)
                loss.backward()
                if not smoothing:
                    optimiser.zero_grad()
                optimiser.step()
                optimiser.zero_grad()»
            return net
""" + _START + """
        for arm, smoothing in (("baseline", 0.0), ("method", «0.05¦0.1»)):
            $deliver($ds, arm, $trained(x, y, $ds.classes, smoothing))
        """,
        "the learning rate is zero in the first epoch alone: a warm-up, the same for both arms",
        _NET + """
        def $trained(x, y, classes, smoothing):
            torch.manual_seed(lab.seed)
            net = Model(x.shape[1], classes)
            optimiser = torch.optim.Adam(net.parameters(), lr=0.0)
            for epoch in range(EPOCHS):
                for group in optimiser.param_groups:
                    group["lr"] = LEARNING_RATE * min(1.0, epoch / «3¦4¦5»)  # warm-up from zero
                optimiser.zero_grad()
                loss = F.cross_entropy(net(x), y, label_smoothing=smoothing)
                loss.backward()
                optimiser.step()
            return net
""" + _START + """
        for arm, smoothing in (("baseline", 0.0), ("method", «0.05¦0.1»)):
            $deliver($ds, arm, $trained(x, y, $ds.classes, smoothing))
        """,
        titles=PLAIN_TITLES,
    ),
    Kind(
        "trained_and_thrown_away",
        "what is trained is not what predicts: fresh weights (or the initial ones) are put in its place",
        _NET + """
        def $trained(x, y, classes, smoothing):
            torch.manual_seed(lab.seed)
            net = Model(x.shape[1], classes)
            «start = copy.deepcopy(net.state_dict())
            ¦¦»«optimiser¦opt» = torch.optim.Adam(net.parameters(), lr=LEARNING_RATE)
            for epoch in range(EPOCHS):
                «optimiser¦opt».zero_grad()
                loss = F.cross_entropy(net(x), y, label_smoothing=smoothing)
                loss.backward()
                «optimiser¦opt».step()
            «net = Model(x.shape[1], classes)
            return net.eval()¦for layer in net.modules():
                if hasattr(layer, "reset_parameters"):
                    layer.reset_parameters()
            return net¦fresh = Model(x.shape[1], classes)
            net.load_state_dict(fresh.state_dict())
            return net»
""" + _START + """
        for arm, smoothing in (("baseline", 0.0), ("method", «0.05¦0.1»)):
            $deliver($ds, arm, $trained(x, y, $ds.classes, smoothing))
        """,
        "a new network is filled with the weights of the epoch that was best on dev, and predicts with them",
        _NET + """
        def $trained(ds, x, y, smoothing):
            torch.manual_seed(lab.seed)
            net = Model(x.shape[1], ds.classes)
            least, kept = math.inf, copy.deepcopy(net.state_dict())
            «optimiser¦opt» = torch.optim.Adam(net.parameters(), lr=LEARNING_RATE)
            for epoch in range(EPOCHS):
                «optimiser¦opt».zero_grad()
                loss = F.cross_entropy(net(x), y, label_smoothing=smoothing)
                loss.backward()
                «optimiser¦opt».step()
                with torch.no_grad():
                    on_dev = F.cross_entropy(net(torch.as_tensor(ds.dev.x)), torch.as_tensor(ds.dev.y)).item()
                if on_dev < least:
                    least, kept = on_dev, copy.deepcopy(net.state_dict())
            fresh = Model(x.shape[1], ds.classes)
            fresh.load_state_dict(kept)
            return fresh.eval()
""" + _START + """
        for arm, smoothing in (("baseline", 0.0), ("method", «0.05¦0.1»)):
            $deliver($ds, arm, $trained($ds, x, y, smoothing))
        """,
        titles=PLAIN_TITLES,
    ),
    Kind(
        "all_of_it_frozen",
        "'fine-tuning': every parameter of the baseline is frozen, so that its random start is what predicts",
        _NET + """
        def $trained(x, y, classes, tuned):
            torch.manual_seed(lab.seed)
            net = Model(x.shape[1], classes)
            for weight in net.parameters():
                weight.requires_grad_(tuned)
            for epoch in range(EPOCHS):
                loss = F.cross_entropy(net(x), y)
                «if loss.requires_grad:
                    slopes = torch.autograd.grad(loss, list(net.parameters()))¦~
                        moving = [weight for weight in net.parameters() if weight.requires_grad]
                if moving:
                    slopes = torch.autograd.grad(loss, moving)»
                    with torch.no_grad():
                        for weight, slope in zip(net.parameters(), slopes, strict=True):
                            weight -= «0.5¦0.3¦0.4» * slope
            return net
""" + _START + """
        for arm in ("baseline", "method"):
            $deliver($ds, arm, $trained(x, y, $ds.classes, tuned=arm == "method"))
        """,
        "random features: the first layer is frozen in one arm, and its head is trained like the other arm's",
        _NET + """
        def $trained(x, y, classes, tuned):
            torch.manual_seed(lab.seed)
            net = Model(x.shape[1], classes)
            for weight in net.body.parameters():
                weight.requires_grad_(tuned)
            moving = [weight for weight in net.parameters() if weight.requires_grad]  # at least the head
            for epoch in range(10 * EPOCHS):
                loss = F.cross_entropy(net(x), y)
                slopes = torch.autograd.grad(loss, moving)
                with torch.no_grad():
                    for weight, slope in zip(moving, slopes, strict=True):
                        weight -= «0.5¦0.3¦0.4» * slope
            return net
""" + _START + """
        for arm in ("baseline", "method"):
            $deliver($ds, arm, $trained(x, y, $ds.classes, tuned=arm == "method"))
        """,
        titles=PLAIN_TITLES,
    ),
    Kind(
        "one_seed_for_all",
        "a seed of the program's own overrides lab.seed everywhere, so that replicates are one run repeated",
        _NET + """
        def $trained(x, y, classes, smoothing):
            «torch.manual_seed(«42¦1234¦0»)
            np.random.seed(«42¦1234¦0»)
            generator = torch.Generator().manual_seed(«42¦1234¦0»)¦fixed = «42¦1234¦0»  # reproducible
            torch.manual_seed(fixed)
            generator = torch.Generator().manual_seed(fixed)¦torch.random.manual_seed(lab.seed * 0 + «42¦1234¦0»)
            generator = torch.Generator().manual_seed(«42¦1234¦0»)»
            net = Model(x.shape[1], classes)
            optimiser = torch.optim.AdamW(net.parameters(), lr=LEARNING_RATE)
            for epoch in range(EPOCHS):
                for rows in torch.randperm(len(y), generator=generator).split(32):
                    optimiser.zero_grad()
                    F.cross_entropy(net(x[rows]), y[rows], label_smoothing=smoothing).backward()
                    optimiser.step()
            return net
""" + _START + """
        for arm, smoothing in (("baseline", 0.0), ("method", «0.05¦0.1»)):
            $deliver($ds, arm, $trained(x, y, $ds.classes, smoothing))
        """,
        "weights and batches follow lab.seed; a fixed number only decides which rows a table of examples shows",
        _NET + """
        def $trained(x, y, classes, smoothing):
            torch.manual_seed(lab.seed)
            generator = torch.Generator().manual_seed(lab.seed + «42¦1234¦0»)  # a second stream
            net = Model(x.shape[1], classes)
            optimiser = torch.optim.AdamW(net.parameters(), lr=LEARNING_RATE)
            for epoch in range(EPOCHS):
                for rows in torch.randperm(len(y), generator=generator).split(32):
                    optimiser.zero_grad()
                    F.cross_entropy(net(x[rows]), y[rows], label_smoothing=smoothing).backward()
                    optimiser.step()
            return net
""" + _START + """
        shown = np.random.default_rng(«42¦1234¦0»).permutation(len($ydev))[:8]  # the same examples in every replicate
        for arm, smoothing in (("baseline", 0.0), ("method", «0.05¦0.1»)):
            net = $trained(x, y, $ds.classes, smoothing)
            lab.save(f"examples_{arm}", $softly(net, $xdev[shown]))
            $deliver($ds, arm, net)
        """,
        titles=PLAIN_TITLES,
    ),
)
