"""YAML is read as it says, and a key that stands twice is refused."""

from __future__ import annotations

import pytest
import yaml

from labwright.record.yaml_text import load_yaml


@pytest.mark.parametrize("text", ["a: 1\nb: 2\na: 3\n", "a: {x: 1, x: 2}", "- {a: 1, 'a': 2}", "1: a\n1: b\n"])
def test_a_key_that_stands_twice_is_refused(text: str) -> None:
    with pytest.raises(yaml.YAMLError, match=r"^the key '[a1x]' is in line \d and again in line \d: remove one$"):
        load_yaml(text)
