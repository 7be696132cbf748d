"""Field paths: how they are written, and that reading several at once reads each as it is."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Struct

from pyinformer.errors import InvalidArgumentError, InvalidObjectError
from pyinformer.objects import (
    GroupVersionKind,
    JSONValue,
    KubeObject,
    ObjectMeta,
    PathSet,
    parse_path,
)


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        pytest.param("spec", ("spec",), id="one"),
        pytest.param("spec.nodeName", ("spec", "nodeName"), id="two"),
        pytest.param("a.b-c.d_e.$f", ("a", "b-c", "d_e", "$f"), id="signs"),
        pytest.param("metadata.labels['a.b/c']", ("metadata", "labels", "a.b/c"), id="quoted"),
        pytest.param('a["b.c"].d', ("a", "b.c", "d"), id="double-quoted-inside"),
        pytest.param("['a.b']['c']", ("a.b", "c"), id="quoted-first"),
        pytest.param('a["it\'s"]', ("a", "it's"), id="quote-in-quotes"),
        pytest.param("a['日本']", ("a", "日本"), id="any-script"),
    ],
)
def test_a_path_is_its_field_names(path: str, steps: tuple[str, ...]) -> None:
    assert parse_path(path) == steps


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        pytest.param("", "write field names with dots", id="empty"),
        pytest.param(5, "write field names with dots", id="number"),
        pytest.param(".spec", r"unexpected '.spec' at position 0", id="leading-dot"),
        pytest.param("spec.", r"unexpected '.' at position 4", id="trailing-dot"),
        pytest.param("a..b", r"unexpected '..b' at position 1", id="two-dots"),
        pytest.param("a b", r"unexpected ' b' at position 1", id="space"),
        pytest.param("a['b", r"unexpected '\[.b' at position 1|unexpected", id="open-quote"),
        pytest.param("a['']", "unexpected", id="empty-quotes"),
        pytest.param("a[0]", "elements of lists have no path", id="element"),
        pytest.param("a[].b", "elements of lists have no path", id="all-elements"),
        pytest.param("a.0", "unexpected", id="digit"),
    ],
)
def test_a_path_that_cannot_be_read_is_explained(path: str, reason: str) -> None:
    with pytest.raises(InvalidArgumentError, match=reason) as caught:
        parse_path(path)
    assert (caught.value.argument, caught.value.given) == ("path", str(path))


def made(raw: bytes) -> KubeObject:
    """Return an object with this body."""
    meta = ObjectMeta("default", "a", "u", "1")
    return KubeObject("default/a", meta, None, raw, GroupVersionKind("", "v1", "Pod"))


def test_a_path_and_a_type_are_compiled_once() -> None:
    obj = made(b'{"spec":{"onlyInThisTest":"n"}}')
    known = set(Struct.__subclasses__())
    assert obj.at("spec.onlyInThisTest", str) == "n"
    compiled = set(Struct.__subclasses__())
    assert len(compiled - known) >= 1
    assert obj.at("spec.onlyInThisTest", str) == "n"
    assert set(Struct.__subclasses__()) == compiled
    with pytest.raises(InvalidObjectError):
        obj.at("spec.onlyInThisTest", int)


def test_compiled_paths_are_bounded() -> None:
    for number in range(3000):
        parse_path(f"a{number}")
    assert parse_path.cache_info().currsize <= 1024


BODY: JSONValue = {
    "metadata": {"name": "a", "annotations": {"a.b/c": "x"}},
    "spec": {"nodeName": "n", "list": [1, {"a": 2}], "deep": {"er": {"est": True}}, "null": None},
    "status": "text",
}


def read(*paths: str) -> tuple[JSONValue, ...]:
    """Read paths from the body, in one pass."""
    return PathSet(paths).read(json.dumps(BODY).encode())


def test_several_paths_are_read_in_one_pass_in_their_order() -> None:
    assert read("spec.nodeName", "metadata.name", "spec.deep.er.est") == ("n", "a", True)
    assert read("spec.list", "metadata.annotations['a.b/c']") == ([1, {"a": 2}], "x")
    assert read() == ()


def test_absent_and_null_values_are_none() -> None:
    assert read("spec.missing", "missing.at.all", "spec.null", "spec.null.deeper") == (None,) * 4


def test_the_same_path_twice_is_read_twice() -> None:
    assert read("spec.nodeName", "spec.nodeName") == ("n", "n")


def test_a_path_below_another_is_read_beside_it() -> None:
    whole, part = read("spec.deep", "spec.deep.er.est")
    assert part is True
    assert not isinstance(whole, str)


def test_a_path_through_text_does_not_affect_other_paths() -> None:
    good, bad, other = read("spec.nodeName", "status.phase", "spec.list.a")
    assert good == "n"
    assert isinstance(bad, ValueError)
    assert isinstance(other, ValueError)
    assert isinstance(read("status.phase")[0], ValueError)


def test_bodies_that_do_not_fit_compile_decoders_once() -> None:
    """Compiling takes about 0.2 ms for each path; an update of such an object must not pay it."""
    paths = PathSet(("spec.nodeName", "status.phase", "spec.list.a"))
    raw = json.dumps(BODY).encode()
    first = paths.read(raw)
    compiled = set(Struct.__subclasses__())
    again = [paths.read(raw) for _ in range(20)]
    assert set(Struct.__subclasses__()) - compiled == set()
    assert {values[0] for values in again} == {first[0]} == {"n"}
    assert all(isinstance(value, ValueError) for values in again for value in values[1:])


UNREADABLE = set('"\\') | {chr(code) for code in range(0x20)}


def holds_no_decoder(step: str) -> bool:
    return any(one in UNREADABLE or "\ud800" <= one <= "\udfff" for one in step)


@given(step=st.text(st.characters(exclude_characters="'", codec=None), min_size=1))
@example(step='a"b')
@example(step="a\\b")
@example(step="a\nb")
@example(step="\ud800")
@example(step="\u2028")
@example(step="\x7f")
def test_any_quoted_name_is_read_or_refused_by_a_typed_error(step: str) -> None:
    path = f"data['{step}']"
    raw = json.dumps({"data": {step: "found", "other": "x"}}).encode()
    if holds_no_decoder(step):
        with pytest.raises(InvalidArgumentError, match="must not contain"):
            made(raw).at(path, str)
        with pytest.raises(InvalidArgumentError, match="must not contain"):
            PathSet((path, "data.other"))
    else:
        assert made(raw).at(path, str) == "found"
        assert PathSet((path, "data.spare")).read(raw) == ("found", None)


@pytest.mark.parametrize("steps", [65, 100_000])
def test_a_path_beyond_64_steps_is_refused(steps: int) -> None:
    path = "a" + ".a" * (steps - 1)
    for compiled in (lambda: made(b"{}").at(path, str), lambda: PathSet((path,))):
        with pytest.raises(InvalidArgumentError, match="at most 64 are allowed") as caught:
            compiled()
        assert len(str(caught.value)) < 500


def test_a_path_of_64_steps_is_read() -> None:
    path, raw = "a" + ".a" * 63, b'{"a":' * 64 + b"1" + b"}" * 64
    assert made(raw).at(path, int) == 1
    assert PathSet((path,)).read(raw) == (1,)
