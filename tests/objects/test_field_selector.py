"""Field selectors: read, escaped and matched as upstream does it."""

from __future__ import annotations

import pickle
from enum import Enum
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyinformer.errors import InvalidSelectorError, InvalidTypeError
from pyinformer.objects import FieldRequirement, FieldSelector

FIELDS = {"metadata.name": "web", "spec.nodeName": "n1", "odd": r"a,b=c\d"}


def _get(path: str) -> str:
    return FIELDS.get(path, "")


@pytest.mark.covers("apimachinery pkg/fields: TestSplitTerms")
@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        pytest.param("", "", id="nothing"),
        pytest.param("x=a,y=b,z=c", "x=a,y=b,z=c", id="several"),
        pytest.param("y!=b,x==a,y!=b", "x=a,y!=b", id="sorted-and-once"),
        pytest.param("x=a,", "x=a", id="trailing-comma"),
        pytest.param(",,x=a", "x=a", id="leading-commas"),
        pytest.param("x=", "x=", id="empty-value"),
        pytest.param(r"x=a||y\=b", r"x=a||y\=b", id="pipes-are-text"),
        pytest.param(r"x=a\=\=b", r"x=a\=\=b", id="escaped-equals"),
        pytest.param(r"k=\,,k2=v2", r"k=\,,k2=v2", id="escaped-comma"),
        pytest.param(r"k=\\,k2=v2", r"k=\\,k2=v2", id="escaped-backslash-before-a-comma"),
        pytest.param("x= a", "x= a", id="spaces-belong-to-values"),
        pytest.param("x=a!b", "x=a!b", id="exclamation-mark-in-a-value"),
        pytest.param("함=수,목=록", "목=록,함=수", id="not-ascii"),
    ],
)
def test_text_prints_canonically(text: str, canonical: str) -> None:
    assert str(FieldSelector.parse(text)) == canonical


@pytest.mark.covers("apimachinery pkg/fields: TestSplitTerms")
@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        pytest.param("x=a||y=b", 6, "'=' in a value", id="equals-in-a-value"),
        pytest.param("x==a==b", 4, "'=' in a value", id="two-values"),
        pytest.param("x===b", 3, "'=' in a value", id="three-equals"),
        pytest.param("x=a,b", 4, "'b' must have one of", id="no-operator"),
        pytest.param("x in (a)", 0, "'x in (a)' must have one of", id="label-syntax"),
        pytest.param(r"x=\a", 2, "'\\\\' in a value", id="unknown-escape"),
        pytest.param("x=a\\", 3, "'\\\\' in a value", id="backslash-at-the-end"),
        pytest.param("=a", 0, "'' is not a field path", id="no-path"),
        pytest.param("x=a, y=b", 4, "' y' is not a field path", id="space-before-a-path"),
        pytest.param(r"x\,y=a", 0, "is not a field path", id="escape-in-a-path"),
    ],
)
def test_malformed_text_is_refused_with_its_position(
    text: str, position: int, problem: str
) -> None:
    with pytest.raises(InvalidSelectorError) as caught:
        FieldSelector.parse(text)
    assert str(caught.value).startswith(f"field_selector: cannot parse {text!r}: ")
    assert f"at position {position}: " in str(caught.value)
    assert problem in str(caught.value)
    assert caught.value.argument == "field_selector"


@pytest.mark.covers(
    "apimachinery pkg/fields: TestSplitTerms", "apimachinery pkg/fields: TestRequiresExactMatch"
)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", True, id="everything"),
        pytest.param("metadata.name=web", True, id="equal"),
        pytest.param("metadata.name!=web", False, id="not-equal"),
        pytest.param("metadata.name=web,spec.nodeName!=n2", True, id="both"),
        pytest.param("metadata.name=web,spec.nodeName=n2", False, id="one-of-two"),
        pytest.param("absent=", True, id="absent-is-empty"),
        pytest.param("absent!=", False, id="absent-is-not-unequal-to-empty"),
        pytest.param(r"odd=a\,b\=c\\d", True, id="escaped"),
    ],
)
def test_matches_as_upstream(text: str, expected: bool) -> None:
    assert FieldSelector.parse(text).matches(_get) is expected


def test_paths_are_named_once_in_order() -> None:
    selector = FieldSelector.parse("b!=2,a=1,b!=1")
    assert selector.paths == ("a", "b")


@pytest.mark.covers("apimachinery pkg/fields: TestSplitTerms")
def test_a_mapping_needs_no_escapes() -> None:
    selector = FieldSelector.parse({"odd": FIELDS["odd"]})
    assert str(selector) == r"odd=a\,b\=c\\d"
    assert selector.matches(_get)


@pytest.mark.parametrize("mapping", [{"a": 1}, {"a b": "x"}, {1: "x"}, {"": "x"}, {"a!": "x"}])
def test_malformed_mappings_are_refused(mapping: dict[str, object]) -> None:
    with pytest.raises(InvalidSelectorError, match=r"^field_selector: .*it maps"):
        FieldSelector.parse(mapping)  # type: ignore[arg-type]  # a user without a type checker


def test_other_types_are_refused() -> None:
    with pytest.raises(
        InvalidTypeError, match=r"^field_selector: must be a text, a mapping or None"
    ):
        FieldSelector.parse(["metadata.name=web"])  # type: ignore[arg-type]  # as above


@pytest.mark.covers("apimachinery pkg/fields: TestSplitTerms")
@pytest.mark.parametrize("nothing", [None, "", {}, ","])
def test_no_selector_selects_everything(nothing: dict[str, str] | str | None) -> None:
    assert FieldSelector.parse(nothing).is_empty


def test_equal_selectors_are_equal_and_survive_a_pickle() -> None:
    selector = FieldSelector.parse("b=2,a==1")
    assert selector == FieldSelector.parse({"a": "1", "b": "2"})
    assert hash(selector) == hash(FieldSelector.parse("a=1,b=2"))
    assert pickle.loads(pickle.dumps(selector)) == selector  # noqa: S301 - our own bytes
    assert FieldSelector.parse(selector) is selector


def _read(fields: dict[str, str], path: str) -> str:
    return fields.get(path, "")


_paths = st.sampled_from(["metadata.name", "a", "b"])


@pytest.mark.covers("apimachinery pkg/fields: TestSplitTerms")
@settings(deadline=None)
@given(
    st.lists(
        st.tuples(_paths, st.sampled_from(["=", "==", "!="]), st.text(max_size=4)), max_size=4
    ),
    st.lists(st.dictionaries(_paths, st.text(max_size=2)), max_size=6),
)
def test_any_value_survives_escaping_and_selects(
    terms: list[tuple[str, str, str]], objects: list[dict[str, str]]
) -> None:
    escape = str.maketrans({"\\": r"\\", ",": r"\,", "=": r"\="})
    text = ",".join(f"{path}{sign}{value.translate(escape)}" for path, sign, value in terms)
    selector = FieldSelector.parse(text)
    assert {each.value for each in selector.requirements} == {value for _, _, value in terms}
    assert FieldSelector.parse(str(selector)) == selector
    for fields in (*objects, {path: value for path, _, value in terms}):
        expected = all((fields.get(p, "") == v) == (sign != "!=") for p, sign, v in terms)
        assert selector.matches(partial(_read, fields)) is expected


@pytest.mark.covers("apimachinery pkg/fields: TestSplitTerms")
@settings(deadline=None)
@given(st.text(alphabet="ab\\,=! ", max_size=12) | st.text(max_size=8))
def test_any_text_is_read_or_refused_and_round_trips(text: str) -> None:
    try:
        selector = FieldSelector.parse(text)
    except InvalidSelectorError:
        return
    assert FieldSelector.parse(str(selector)) == selector


class _Word(str, Enum):  # noqa: UP042 - whose str() is its name
    PATH = "spec.nodeName"
    NODE = "n1"
    IS = "="


def test_a_requirement_of_enum_members_is_that_of_their_values() -> None:
    requirement = FieldRequirement(_Word.PATH, _Word.IS, _Word.NODE)

    assert str(FieldSelector((requirement,))) == "spec.nodeName=n1"
    assert requirement == FieldRequirement("spec.nodeName", "=", "n1")


def test_a_requirement_of_anything_else_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match=r"^value: "):
        FieldRequirement("spec.nodeName", "=", 5)  # type: ignore[arg-type] # refused
