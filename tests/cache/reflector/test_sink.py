"""What a reflector takes from its sink."""

from __future__ import annotations

from collections.abc import Iterable

from pyinformer.cache.reflector._sink import keys_of
from tests.cache.reflector.samples import DictSink, pod


class Viewing(DictSink):
    """A sink whose keys are its own."""

    def keys(self) -> Iterable[str]:  # type: ignore[override]  # a protocol asks for no more
        """Return a view."""
        return self.objects.keys()


class Listing(DictSink):
    """A sink that notes the list it gave."""

    given: list[str]

    def keys(self) -> list[str]:
        """Return a copy."""
        self.given = super().keys()
        return self.given


def test_a_list_of_keys_is_not_copied_again() -> None:
    sink = Listing(pod("a", "1"), pod("b", "2"))
    keys = keys_of(sink)
    assert keys is sink.given
    assert keys == ["a", "b"]


def test_a_view_of_keys_is_copied_before_it_changes() -> None:
    sink = Viewing(pod("a", "1"))
    keys = keys_of(sink)
    sink.objects["b"] = pod("b", "2")
    assert keys == ["a"]
