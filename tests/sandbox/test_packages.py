"""Packages for experiments: how they are named, locked, installed and shared."""

from __future__ import annotations

import pytest

from sandbox.errors import PackageError
from sandbox.packages.wanted import Allowed, Wanted, allowed_of, wanted_of


def test_a_list_of_names_says_what_is_a_package_a_model_and_data() -> None:
    found = allowed_of(("timm>=1", "model:owner/net@abc", "data:birds=hf:owner/birds,config=x", "Box2D:sdist"))
    assert found == Allowed(("timm>=1", "Box2D:sdist"), ("owner/net@abc",), ("birds=hf:owner/birds,config=x",))
    assert wanted_of(found.packages) == (Wanted("timm", "timm>=1"), Wanted("box2d", "Box2D", sdist=True))


@pytest.mark.parametrize(("word", "why"), [
    ("no package", "is no package"), ("", "is no package"), ("--index-url=x", "is no package"),
    ("a/b", "is no package"),
    ("x @ https://example.org/x.whl", "has an address"), ("x; sys_platform == 'linux'", "has a condition"),
    ("x:wheel", "is no package")])
def test_what_is_no_package_is_refused_in_one_line(word: str, why: str) -> None:
    with pytest.raises(PackageError, match=why) as error:
        allowed_of((word,))
    assert "\n" not in str(error.value)
    with pytest.raises(PackageError, match="names my-net twice"):
        wanted_of(("my_net", "My.Net>=1"))
