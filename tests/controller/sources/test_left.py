"""Requests in namespaces that are not followed: bounded, and given back with their namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinformer.controller.sources import PrimarySource, Request
from tests.controller.sources.feeding import FedInformer, Noted

if TYPE_CHECKING:
    import pytest

_MOST_KEYS = 100_000


def _attached() -> tuple[PrimarySource[None], FedInformer, Noted]:
    informer, noted = FedInformer(), Noted()
    informer.load()
    source = PrimarySource(informer, name="maps")
    source.attach(noted)
    return source, informer, noted


def _keep(source: PrimarySource[None], *keys: str) -> None:
    for key in keys:
        source.keep(Request(key))


def _settle(informer: FedInformer, namespace: str) -> None:
    """Follow a namespace again, without objects, or show that it is gone."""
    for callback in informer.settled:
        callback(namespace)


def test_requests_of_a_removed_namespace_are_returned_once() -> None:
    source, informer, noted = _attached()
    _keep(source, "a/x", "b/x", "a/y", "a/x")
    assert noted.take() == []

    _settle(informer, "a")
    assert noted.take() == ["a/x deleted 0", "a/y deleted 0"]
    _settle(informer, "a")
    assert noted.take() == []
    _settle(informer, "b")
    assert noted.take() == ["b/x deleted 0"]


def test_beyond_the_limit_the_namespace_that_was_left_first_is_forgotten_and_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, informer, noted = _attached()
    _keep(source, "z/x", "z/y")
    _settle(informer, "z")  # what was returned does not count
    noted.take()
    _keep(source, "a/x", "a/y")
    _keep(source, *(f"b/x{number}" for number in range(_MOST_KEYS - 2)))
    _keep(source, "b/x0")  # kept already
    assert caplog.messages == []

    _keep(source, "c/x")

    (line,) = caplog.messages
    assert line.startswith(f"maps: more than {_MOST_KEYS} keys")
    assert "the 2 keys of a are forgotten" in line
    _settle(informer, "a")
    assert noted.take() == []
    _settle(informer, "c")
    assert noted.take() == ["c/x deleted 0"]
    _settle(informer, "b")
    assert len(noted.take()) == _MOST_KEYS - 2
