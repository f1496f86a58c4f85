"""Which networks and estimators were trained on the way, and with what means."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from review.honesty.values import LABELS, Made, Mark, Means, Tag, Tags

LOSSES = 6
"""How many losses may be differentiated before the optimisers step."""
BY_HAND = frozenset({"grad", "value_and_grad", "grads"})
"""Names by which a source takes gradients to update parameters itself."""


class Training:
    """What has become of every network and estimator that was made, by its number."""

    def __init__(self, tree: ast.AST) -> None:
        self.count = 0
        self.turning: list[float] = []
        """Known numbers of turns of the loops that are being followed."""
        self.loose = 0
        """Loops that are being followed once or twice in place of all their turns."""
        self._fitted: set[int] = set()
        self._in_loss: set[int] = set()
        self._stepped: set[int] = set()
        self._frozen: set[int] = set()
        self._cleared: set[int] = set()
        """Those whose gradients were thrown away since they were taken."""
        self._losses: list[tuple[Tags, frozenset[Mark]]] = []
        """The latest losses that were differentiated, with the means that they were made with."""
        self._means: dict[int, set[Mark]] = {}
        self._rated: set[int] = set()
        """Those whose optimiser was given another learning rate than it was made with."""
        self.by_hand = any(isinstance(one, ast.Attribute) and one.attr in BY_HAND for one in ast.walk(tree))

    def make(self) -> Made:
        self.count += 1
        return Made(self.count)

    def fit(self, tags: Tags, means: Iterable[Mark] = ()) -> None:
        """What has these tags was fitted, or its parameters were set in a way that is not followed."""
        self._fitted |= numbers(tags)
        self.note(tags, {*means, Means("turns", self.turns)})

    def lose(self, tags: Tags, means: Iterable[Mark] = ()) -> None:
        """A loss with these tags was differentiated."""
        self._in_loss |= numbers(tags)
        self._cleared -= numbers(tags)
        if self.by_hand:
            self.note(tags, {*means, Means("turns", self.turns)})
        else:
            self._losses = [*self._losses[1 - LOSSES:], (tags, frozenset({*means, Means("turns", self.turns)}))]

    def step(self, tags: Tags) -> None:
        """An optimiser over parameters with these tags took a step."""
        self._stepped |= numbers(tags) - self._cleared
        for lost, means in self._losses:  # a teacher is in the loss, and no optimiser has it
            moved = frozenset(tag for tag in lost if not isinstance(tag, Made) or tag in tags)
            self.note(moved, means)

    def clear(self, tags: Tags) -> None:
        """Gradients of what has these tags were set to zero."""
        self._cleared |= numbers(tags)

    def reset(self, tags: Tags) -> None:
        """Parameters with these tags were drawn anew."""
        for known in (self._fitted, self._in_loss, self._stepped):
            known -= numbers(tags)

    def freeze(self, tags: Tags, *, frozen: bool) -> None:
        """Parameters with these tags take no gradient from now on (or take them again); trained ones stay trained."""
        if frozen:
            self._frozen |= {one for one in numbers(tags) if not self.learnt(one)}
        else:
            self._frozen -= numbers(tags)

    def rate(self, tags: Tags) -> None:
        """The optimiser of what has these tags was given a learning rate after it was made."""
        self._rated |= numbers(tags)

    def rated(self, tags: Tags) -> bool:
        return bool(numbers(tags) & self._rated)

    def load(self, tags: Tags, kept: Tags) -> None:
        """Parameters that were kept were put into what has these tags: it is as trained as they are."""
        if any(self.learnt(one) for one in numbers(kept)):
            self.fit(tags, self.means(kept))
        elif numbers(kept) and not kept & {Tag.DATA, Tag.OPAQUE, Tag.FILE}:
            self.reset(tags)

    def learnt(self, number: int) -> bool:
        moved = number in self._in_loss and (number in self._stepped or self.by_hand)
        return number in self._fitted or (moved and number not in self._frozen)

    def untrained(self, tags: Tags) -> bool:
        """Whether networks or estimators went into something, and none of them was ever trained."""
        made = numbers(tags)
        return bool(made) and not any(self.learnt(one) for one in made)

    def means(self, tags: Tags) -> frozenset[Mark]:
        """What something with these tags was trained with."""
        direct = {tag for tag in tags if isinstance(tag, Means) or tag in LABELS}
        return frozenset(direct.union(*(self._means.get(one, set[Mark]()) for one in numbers(tags))))

    @property
    def turns(self) -> float:
        """How often the statement that is being followed is run, as far as loops say."""
        product = 1.0
        for one in self.turning:
            product *= one
        return product

    def note(self, tags: Tags, means: Iterable[Mark]) -> None:
        """What has these tags is trained with these means."""
        told = {*means, *(tag for tag in tags if isinstance(tag, Means) or tag in LABELS)}
        for one in numbers(tags):
            self._means.setdefault(one, set()).update(told)


def numbers(tags: Tags) -> set[int]:
    """Of the networks and estimators in tags."""
    return {tag.number for tag in tags if isinstance(tag, Made)}
