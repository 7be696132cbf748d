"""Label selectors: read as upstream reads them, printed canonically, refused with the place."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from enum import Enum
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyinformer.errors import InvalidSelectorError, InvalidTypeError
from pyinformer.objects import LabelRequirement, LabelSelector

LABELS = {"app": "web", "tier": "front", "weight": "7", "empty": "", "in": "notin"}


@pytest.mark.covers("apimachinery pkg/labels: TestSelectorParse")
@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        pytest.param("", "", id="nothing"),
        pytest.param(" \t\r\n", "", id="white-space-only"),
        pytest.param("x=a,y=b,z=c", "x=a,y=b,z=c", id="several"),
        pytest.param("y=b,x=a,x=a", "x=a,y=b", id="sorted-and-once"),
        pytest.param("x==a", "x=a", id="double-equals-is-equals"),
        pytest.param("x!=a,y=b", "x!=a,y=b", id="not-equals"),
        pytest.param("x= ,z= ", "x=,z=", id="empty-values"),
        pytest.param(" x  =\ta ", "x=a", id="white-space-between-tokens"),
        pytest.param("!x", "!x", id="does-not-exist"),
        pytest.param("! x", "!x", id="does-not-exist-with-a-space"),
        pytest.param("x", "x", id="exists"),
        pytest.param("x>1,z<5", "x>1,z<5", id="comparisons"),
        pytest.param("x in (b,a,b)", "x in (a,b)", id="set-sorted-and-once"),
        pytest.param("x in(a)", "x in (a)", id="no-space-before-the-set"),
        pytest.param("x in (foo,,baz),y,z notin ()", "x in (,baz,foo),y,z notin ()", id="gaps"),
        pytest.param("x in (,)", "x in ()", id="set-of-commas"),
        pytest.param("in in (in,notin)", "in in (in,notin)", id="operators-as-names"),
        pytest.param("notin=in", "notin=in", id="an-operator-as-value"),
        pytest.param("a.b-c/D_e.f=G_h.i-0", "a.b-c/D_e.f=G_h.i-0", id="prefix-and-punctuation"),
    ],
)
def test_text_prints_canonically(text: str, canonical: str) -> None:
    assert str(LabelSelector.parse(text)) == canonical


@pytest.mark.covers("apimachinery pkg/labels: TestSelectorParse")
@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        pytest.param("x=a||y=b", 2, "the value 'a||y'", id="pipes"),
        pytest.param("x==a==b", 4, "found '=='", id="two-values"),
        pytest.param("!x=a", 2, "expected ','", id="negation-with-value"),
        pytest.param("x<a", 2, "64-bit integer", id="comparison-with-text"),
        pytest.param("x>", 1, "64-bit integer", id="comparison-with-nothing"),
        pytest.param("x>9223372036854775808", 2, "64-bit integer", id="integer-out-of-range"),
        pytest.param("x>=1", 2, "expected a value, found '='", id="greater-or-equal"),
        pytest.param("x=a,", 4, "expected a label's key, found the end", id="trailing-comma"),
        pytest.param(",x=a", 0, "expected a label's key, found ','", id="leading-comma"),
        pytest.param("x in a", 5, "expected '(', found 'a'", id="set-without-parentheses"),
        pytest.param("x in (a", 7, "expected ',' or ')', found the end", id="set-not-closed"),
        pytest.param("x in (a b)", 8, "found 'b'", id="set-without-comma"),
        pytest.param("x in (a=b)", 7, "found '='", id="operator-in-a-set"),
        pytest.param("x y", 2, "expected one of =, ==, !=, in", id="no-operator"),
        pytest.param("x exists", 2, "found 'exists'", id="unknown-operator"),
        pytest.param("x=a y=b", 4, "expected ',', found 'y'", id="no-comma"),
        pytest.param("ok,-x", 3, "the key '-x'", id="key-starts-with-a-dash"),
        pytest.param("a/b/c", 0, "the prefix of the key 'a/b/c'", id="two-slashes"),
        pytest.param("/a", 0, "the prefix of the key '/a'", id="empty-prefix"),
        pytest.param("A.b/c", 0, "the prefix", id="prefix-in-upper-case"),
        pytest.param("a/", 0, "the key 'a/'", id="empty-name"),
        pytest.param("x" * 64, 0, "63", id="key-too-long"),
        pytest.param("a." * 127 + "/x", 0, "253", id="prefix-too-long"),
        pytest.param("k=" + "x" * 64, 2, "63", id="value-too-long"),
        pytest.param("é=a", 0, "the key 'é'", id="key-not-ascii"),
        pytest.param("a=٣", 2, "the value '٣'", id="digit-not-ascii"),
        pytest.param("a=b\0", 2, "the value", id="nul"),
        pytest.param("(", 0, "found '('", id="parenthesis"),
    ],
)
def test_malformed_text_is_refused_with_its_position(
    text: str, position: int, problem: str
) -> None:
    with pytest.raises(InvalidSelectorError) as caught:
        LabelSelector.parse(text)
    assert f"at position {position}: " in str(caught.value)
    assert problem in str(caught.value)
    assert caught.value.selector == text
    assert caught.value.argument == "label_selector"


@pytest.mark.covers("apimachinery pkg/labels: TestSelectorParse")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", True, id="everything"),
        pytest.param("app=web", True, id="equal"),
        pytest.param("app=db", False, id="not-the-value"),
        pytest.param("app=web,tier=front", True, id="both-equal"),
        pytest.param("app=web,tier=back", False, id="one-of-two-equal"),
        pytest.param("absent=", False, id="absent-is-not-empty"),
        pytest.param("empty=", True, id="empty-value"),
        pytest.param("absent!=web", True, id="not-equal-matches-absent"),
        pytest.param("app!=web", False, id="not-equal"),
        pytest.param("app in (db,web)", True, id="in"),
        pytest.param("absent in ()", False, id="absent-is-in-no-set"),
        pytest.param("absent notin (a)", True, id="notin-matches-absent"),
        pytest.param("app notin (db,web)", False, id="notin"),
        pytest.param("empty", True, id="an-empty-label-exists"),
        pytest.param("!empty", False, id="an-empty-label-is-not-absent"),
        pytest.param("!absent", True, id="does-not-exist"),
        pytest.param("weight>6,weight<8", True, id="between"),
        pytest.param("weight>7", False, id="greater-is-strict"),
        pytest.param("weight<7", False, id="less-is-strict"),
        pytest.param("app>1", False, id="text-is-not-greater"),
        pytest.param("absent<1", False, id="absent-is-not-less"),
        pytest.param("in=notin", True, id="operators-as-names"),
        pytest.param("app=web,!absent,tier in (front)", True, id="mixed"),
        pytest.param("app=web,!tier", False, id="mixed-with-one-that-fails"),
    ],
)
def test_matches_as_upstream(text: str, expected: bool) -> None:
    assert LabelSelector.parse(text).matches(MappingProxyType(LABELS)) is expected


@pytest.mark.parametrize("value", ["1_0", " 7", "\u0667", "9" * 30, "9" * 5000, "0x9", "7.5", ""])
def test_a_label_that_is_not_a_64_bit_integer_compares_with_nothing(value: str) -> None:
    assert not LabelSelector.parse("n>1").matches({"n": value})
    assert not LabelSelector.parse("n<9").matches({"n": value})


@pytest.mark.parametrize("value", ["10", "010", "+10"])
def test_integers_compare_as_numbers(value: str) -> None:
    assert LabelSelector.parse("n>9").matches({"n": value})


@pytest.mark.parametrize(
    ("mapping", "canonical"),
    [
        pytest.param({}, "", id="empty"),
        pytest.param({"b": "2", "a": "1"}, "a=1,b=2", id="labels"),
        pytest.param({"matchLabels": "x"}, "matchLabels=x", id="a-label-called-matchLabels"),
        pytest.param({"matchLabels": {"app": "web"}}, "app=web", id="match-labels"),
        pytest.param({"matchLabels": None, "matchExpressions": []}, "", id="empty-parts"),
        pytest.param(
            {
                "matchLabels": {"z": "1"},
                "matchExpressions": [
                    {"key": "a", "operator": "In", "values": ["y", "x"]},
                    {"key": "b", "operator": "NotIn", "values": [""]},
                    {"key": "c", "operator": "Exists", "values": []},
                    {"key": "d", "operator": "DoesNotExist"},
                ],
            },
            "a in (x,y),b notin (),c,!d,z=1",
            id="match-expressions",
        ),
    ],
)
def test_mappings_are_read(mapping: dict[str, object], canonical: str) -> None:
    assert str(LabelSelector.parse(mapping)) == canonical


def _expression(**fields: object) -> dict[str, object]:
    return {"matchExpressions": [{"key": "ok", "operator": "Exists"}, fields]}


@pytest.mark.parametrize(
    ("mapping", "problem"),
    [
        pytest.param({"app": 1}, "the mapping has 1 for 'app'", id="number-as-label"),
        pytest.param({"app": "a b"}, "the mapping: the value 'a b'", id="bad-value"),
        pytest.param({"-": "a"}, "the mapping: the key '-'", id="bad-key"),
        pytest.param({"matchLabels": {}, "app": "x"}, "has 'app' beside", id="two-forms-in-one"),
        pytest.param({"matchLabels": {"a": None}}, "matchLabels has None", id="null-as-label"),
        pytest.param({"matchLabels": ["a"]}, "matchLabels must be a mapping", id="labels-as-list"),
        pytest.param({"matchExpressions": {}}, "matchExpressions must be a list", id="no-list"),
        pytest.param(
            {"matchExpressions": ["a"]}, "matchExpressions[0] must be a mapping", id="text"
        ),
        pytest.param(_expression(operator="Exists"), "[1] must have a key", id="no-key"),
        pytest.param(_expression(key="a"), "[1] needs an operator", id="no-operator"),
        pytest.param(_expression(key="a", operator="Gt"), "needs an operator", id="operator-gt"),
        pytest.param(_expression(key="a", operator="in"), "one of In, NotIn", id="wrong-case"),
        pytest.param(_expression(key="a", operator="In"), "needs values", id="in-without-values"),
        pytest.param(
            _expression(key="a", operator="Exists", values=["x"]),
            "none with the other operators",
            id="exists-with-values",
        ),
        pytest.param(
            _expression(key="a", operator="In", values="x"), "must have a list", id="values-as-text"
        ),
        pytest.param(
            _expression(key="a", operator="In", values=[1]),
            "must have a list",
            id="values-as-numbers",
        ),
        pytest.param(
            _expression(key="a", operator="In", values=["a b"]), "[1]: the value", id="bad-values"
        ),
        pytest.param(_expression(key="a//b", operator="Exists"), "[1]: the prefix", id="bad-keys"),
    ],
)
def test_malformed_mappings_are_refused_with_the_place(
    mapping: dict[str, object], problem: str
) -> None:
    with pytest.raises(InvalidSelectorError) as caught:
        LabelSelector.parse(mapping)
    assert problem in str(caught.value)


@pytest.mark.parametrize("selector", [5, ["app=web"], b"app=web"])
def test_other_types_are_refused(selector: object) -> None:
    with pytest.raises(
        InvalidTypeError, match=r"^label_selector: must be a text, a mapping or None"
    ):
        LabelSelector.parse(selector)  # type: ignore[arg-type]  # a user without a type checker


@pytest.mark.parametrize("nothing", [None, "", {}])
def test_no_selector_selects_everything(nothing: dict[str, object] | str | None) -> None:
    selector = LabelSelector.parse(nothing)
    assert selector.is_empty
    assert selector.matches({})


def test_a_selector_is_taken_as_it_is() -> None:
    selector = LabelSelector.parse("a=b")
    assert LabelSelector.parse(selector) is selector
    assert not selector.is_empty


def test_equal_selectors_are_equal_in_every_form() -> None:
    forms = ("b=2,a=1", "a==1, b=2", {"a": "1", "b": "2"}, {"matchLabels": {"b": "2", "a": "1"}})
    assert len({LabelSelector.parse(form) for form in forms}) == 1
    assert LabelSelector.parse("a=1") != LabelSelector.parse("a!=1")


def test_selectors_are_immutable() -> None:
    selector = LabelSelector.parse("a=b")
    with pytest.raises(dataclasses.FrozenInstanceError):
        selector.requirements = ()  # type: ignore[misc]  # what the test is about


def _pickled(selector: LabelSelector) -> LabelSelector:
    restored = pickle.loads(pickle.dumps(selector))  # noqa: S301 - our own bytes
    assert isinstance(restored, LabelSelector)
    return restored


@pytest.mark.parametrize(
    "clone", [copy.copy, copy.deepcopy, _pickled], ids=["copy", "deepcopy", "pickle"]
)
def test_selectors_pickle_and_copy(clone: Callable[[LabelSelector], LabelSelector]) -> None:
    selector = LabelSelector.parse("a in (x,y),n>4,!b")
    cloned = clone(selector)
    assert cloned == selector
    assert cloned.matches({"a": "x", "n": "5"})
    assert not cloned.matches({"a": "x", "n": "4"})


_words = st.sampled_from(["a", "b", "in", "notin", "x.y/z"])
_values = st.sampled_from(["", "v", "w", "in", "5", "6"])
_requirements: st.SearchStrategy[tuple[str, str, list[str]]] = st.one_of(
    st.tuples(
        _words, st.sampled_from(["=", "==", "!="]), st.lists(_values, min_size=1, max_size=1)
    ),
    st.tuples(_words, st.sampled_from(["in", "notin"]), st.lists(_values, min_size=1)),
    st.tuples(_words, st.sampled_from(["exists", "!"]), st.just([])),
    st.tuples(_words, st.sampled_from([">", "<"]), st.sampled_from([["5"], ["6"], ["0"]])),
)


def _write(requirement: tuple[str, str, list[str]], space: str) -> str:
    key, operator, values = requirement
    match operator:
        case "exists":
            return key
        case "!":
            return f"!{space}{key}"
        case "in" | "notin":
            return f"{key} {operator} ({f',{space}'.join(values)})"
        case _:
            return f"{key}{space}{operator}{space}{values[0]}"


def _holds(requirement: tuple[str, str, list[str]], labels: dict[str, str]) -> bool:
    """Say the same as the selector, straight from the documentation."""
    key, operator, values = requirement
    there = key in labels
    if operator in {"exists", "!"}:
        return there is (operator == "exists")
    if operator in {">", "<"}:
        if not there or not labels[key].isdecimal():
            return False
        difference = int(labels[key]) - int(values[0])
        return difference > 0 if operator == ">" else difference < 0
    chosen = there and labels[key] in values
    return chosen is (operator in {"=", "==", "in"})


@settings(deadline=None)
@given(
    st.lists(_requirements, max_size=4),
    st.lists(st.dictionaries(_words, _values), max_size=8),
    st.sampled_from(["", " ", "\t\n"]),
)
def test_text_selects_what_its_requirements_say(
    requirements: list[tuple[str, str, list[str]]], many: list[dict[str, str]], space: str
) -> None:
    selector = LabelSelector.parse(",".join(_write(each, space) for each in requirements))
    for labels in many:
        expected = all(_holds(each, labels) for each in requirements)
        assert selector.matches(labels) is expected
    assert LabelSelector.parse(str(selector)) == selector


@settings(deadline=None)
@given(st.text(alphabet="ab1/.-_=!<>(), \tn", max_size=20) | st.text(max_size=10))
def test_any_text_is_read_or_refused_and_round_trips(text: str) -> None:
    try:
        selector = LabelSelector.parse(text)
    except InvalidSelectorError:
        return
    assert LabelSelector.parse(str(selector)) == selector
    assert str(LabelSelector.parse(str(selector))) == str(selector)


def test_a_huge_selector_is_parsed_in_linear_time() -> None:
    """Thousands of requirements neither recurse nor take quadratic time."""
    text = ",".join(f"k{number}" for number in range(20_000))
    selector = LabelSelector.parse(text)
    assert len(selector.requirements) == 20_000
    assert selector.matches({f"k{number}": "" for number in range(20_000)})


class _Word(str, Enum):  # noqa: UP042 - whose str() is its name
    APP = "app"
    WEB = "web"
    IS = "="


def test_a_requirement_of_enum_members_is_that_of_their_values() -> None:
    requirement = LabelRequirement(_Word.APP, _Word.IS, (_Word.WEB,))

    assert str(LabelSelector((requirement,))) == "app=web"
    assert requirement == LabelRequirement("app", "=", ("web",))
    assert {type(one) for one in (requirement.key, requirement.operator, *requirement.values)} == {
        str
    }


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((5, "=", ("a",)), "key"),
        (("a", None, ("a",)), "operator"),
        (("a", "=", "web"), "values"),
        (("a", "=", (5,)), "values"),
        (("a", "=", 5), "values"),
    ],
)
def test_a_requirement_of_anything_else_is_refused(arguments: Any, name: str) -> None:
    with pytest.raises(InvalidTypeError, match=f"^{name}: "):
        LabelRequirement(*arguments)
