"""The generated shapes: always the same images, balanced, and told apart by their form alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sandbox.bundled import GENERATED_SHAPES, PER_CLASS, SHAPES, SIDE
from sandbox.datasets import materialise


def test_the_set_is_the_same_each_time_and_balanced() -> None:
    one, two = GENERATED_SHAPES.load(), GENERATED_SHAPES.load()
    assert np.array_equal(one.x, two.x) and np.array_equal(one.y, two.y)
    assert one.x.shape == (len(SHAPES) * PER_CLASS, SIDE, SIDE, 1) and one.x.dtype == np.uint8
    assert set(np.bincount(one.y)) == {PER_CLASS} and one.class_names == tuple(SHAPES)


def test_no_image_stands_twice_and_brightness_alone_does_not_tell_the_class() -> None:
    examples = GENERATED_SHAPES.load()
    flat = examples.x.reshape(len(examples.x), -1)
    assert len(np.unique(flat, axis=0)) == len(flat)
    means = flat.mean(axis=1)
    by_class = np.array([means[examples.y == label].mean() for label in range(len(SHAPES))])
    nearest = np.abs(means[:, None] - by_class).argmin(axis=1)
    assert (nearest == examples.y).mean() < 0.5


def test_shapes_are_inside_out_as_their_names_say() -> None:
    """At the centre discs and squares are filled, rings and frames are not; a plus fills its axes, a cross does not."""
    at = np.array([[0.0, 0.7], [0.0, 0.0]])  # the centre, and a point on the right of it
    inside = {name: form(*at) > 0 for name, form in SHAPES.items()}
    assert [bool(inside[name][0]) for name in ("disc", "square", "ring", "frame")] == [True, True, False, False]
    assert inside["plus"][1] and not inside["cross"][1]


def test_the_view_holds_them_as_images(tmp_path: Path) -> None:
    facts = materialise("shapes", views=tmp_path / "views", labels=tmp_path / "labels", seed=3)
    assert (facts.features, facts.shape, facts.duplicates) == (SIDE * SIDE, (SIDE, SIDE, 1), 0)
    with np.load(tmp_path / "views" / "shapes.npz") as view:
        assert view["train_x"].dtype == np.float32 and 0.0 <= view["train_x"].min() < view["train_x"].max() <= 1.0
