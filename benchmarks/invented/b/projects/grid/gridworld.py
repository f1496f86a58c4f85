class Cliff:
    """Grid with a cliff along the bottom row; start left, goal right."""

    def __init__(self, width, height, slip, rng):
        self.w, self.h, self.slip, self.rng = width, height, slip, rng

    def reset(self):
        self.x, self.y = 0, 0
        return 0

    def step(self, action):
        if self.rng.random() < self.slip:
            action = int(self.rng.integers(4))
        dx, dy = ((1, 0), (-1, 0), (0, 1), (0, -1))[action]
        self.x, self.y = min(max(self.x + dx, 0), self.w - 1), min(max(self.y + dy, 0), self.h - 1)
        if self.y == 0 and 0 < self.x < self.w - 1:
            self.x = 0
            return 0, -100.0, False
        return self.y * self.w + self.x, -1.0, self.y == 0 and self.x == self.w - 1
