"""Requests in namespaces that are not followed: bounded, and given back with their namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinformer.sources import Request
from pyinformer.sources._left_keys import LeftKeys

if TYPE_CHECKING:
    import pytest


def _keep(left: LeftKeys, *keys: str) -> None:
    for key in keys:
        left.keep(key, [Request(key)])


def test_requests_of_a_removed_namespace_are_returned_once() -> None:
    left = LeftKeys("maps")
    _keep(left, "a/x", "b/x", "a/y", "a/x")
    left.keep("a/z", [])
    assert len(left) == 3
    assert left.take("a") == {"a/x": [Request("a/x")], "a/y": [Request("a/y")]}
    assert left.take("a") == {}
    assert len(left) == 1


def test_beyond_the_limit_the_namespace_that_was_left_first_is_forgotten_and_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    left = LeftKeys("maps", limit=3)
    _keep(left, "a/x", "a/y", "b/x")
    assert caplog.messages == []
    _keep(left, "b/y")
    assert len(left) == 2
    assert left.take("a") == {}
    assert list(left.take("b")) == ["b/x", "b/y"]
    (line,) = caplog.messages
    assert line.startswith("maps: more than 3 keys")
    assert "the 2 keys of a are forgotten" in line
