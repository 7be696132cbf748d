"""Predicates by themselves and combined: what passes, and that no transition is overlooked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyinformer.controller.sources import (
    Predicate,
    PredicateFunction,
    PrimarySource,
    all_of,
    annotations_changed,
    any_of,
    generation_changed,
    labels_changed,
    matches,
    matches_labels,
    negate,
    resource_version_changed,
)
from pyinformer.errors import InvalidArgumentError, InvalidSelectorError, InvalidTypeError
from pyinformer.objects import JSONValue, KubeObject, LabelSelector
from tests.controller.sources.feeding import FedInformer, Noted, made

_Object = KubeObject[object]


@pytest.mark.covers(
    "kube-runtime src: predicate_filtering_hides_equal_predicate_values",
    "controller-runtime pkg/predicate: should return false (2)",
    "controller-runtime pkg/predicate: Where the annotations are empty / should return false",
    "controller-runtime pkg/internal/source: EventHandler / should create a CreateEvent",
)
@pytest.mark.parametrize(
    ("predicate", "passing", "dropped"),
    [
        pytest.param(
            generation_changed,
            made("a", version=2, generation=4),
            made("a", version=2, generation=3, labels={"a": "b"}),
            id="generation",
        ),
        pytest.param(
            labels_changed,
            made("a", version=2, generation=3, labels={"a": "b"}),
            made("a", version=2, generation=4, annotations={"a": "b"}),
            id="labels",
        ),
        pytest.param(
            annotations_changed,
            made("a", version=2, generation=3, annotations={"a": "b"}),
            made("a", version=2, generation=4, labels={"a": "b"}),
            id="annotations",
        ),
        pytest.param(
            resource_version_changed,
            made("a", version=2, generation=3),
            made("a", version=1, generation=4),
            id="resource-version",
        ),
    ],
)
def test_a_predicate_passes_its_change_and_every_addition_and_deletion(
    predicate: Predicate, passing: _Object, dropped: _Object
) -> None:
    old = made("a", version=1, generation=3)

    assert predicate(old, passing)
    assert not predicate(old, dropped)
    assert predicate(None, old)
    assert predicate(old, None)


@pytest.mark.covers(
    "controller-runtime pkg/predicate: Where the annotations are empty / should return false"
)
@pytest.mark.parametrize("predicate", [labels_changed, annotations_changed])
def test_a_value_that_is_added_changed_or_removed_is_a_change(predicate: Predicate) -> None:
    def of(**values: str) -> _Object:
        if predicate is labels_changed:
            return made("a", version=1, labels=values)
        return made("a", version=1, annotations=values)

    assert predicate(of(), of(a="1"))
    assert predicate(of(a="1"), of(a="2"))
    assert predicate(of(a="1", b="1"), of(a="1"))
    assert not predicate(of(a="1"), of(a="1"))
    assert not predicate(of(), of())


def test_an_object_whose_kind_counts_no_generations_always_passes() -> None:
    assert generation_changed(made("a", version=1), made("a", version=2))


def test_a_generation_that_a_tenant_wrote_into_a_config_map_hides_no_change() -> None:
    """The server keeps what a client writes there, and counts nothing."""

    def config_map(version: int, **fields: object) -> _Object:
        return made("a", version=version, generation=7, fields=fields)

    old = config_map(1, data={"a": "1"}, status={"b": 1})

    assert generation_changed(old, config_map(2, data={"a": "2"}, status={"b": 1}))
    assert generation_changed(old, config_map(2, status={"b": 1}))
    assert not generation_changed(old, config_map(2, data={"a": "1"}, status={"b": 2}))
    body = b'{"data":%s}' % (b"[" * 20_000 + b"]" * 20_000)
    assert generation_changed(old, KubeObject(old.key, old.metadata, None, body, old.gvk))


def _has(label: str) -> Predicate:
    return matches(lambda obj: label in obj.metadata.labels)


def _labelled(*labels: str) -> _Object:
    return made("a", labels=dict.fromkeys(labels, "yes"))


@pytest.mark.covers(
    "controller-runtime pkg/predicate: Where the namespace is matching / should return true"
)
def test_a_state_filter_passes_who_is_in_it_who_enters_and_who_leaves() -> None:
    inside, outside = _labelled("ready"), _labelled()
    ready = _has("ready")

    assert ready(inside, inside)
    assert ready(outside, inside)
    assert ready(inside, outside)
    assert not ready(outside, outside)
    assert ready(None, inside)
    assert ready(inside, None)
    assert not ready(None, outside)


_LEAVES = {"a": _has("a"), "b": _has("b"), "c": _has("c")}
_filters = st.recursive(
    st.sampled_from(list(_LEAVES)),
    lambda inner: (
        st.tuples(st.just("&"), inner, inner)
        | st.tuples(st.just("|"), inner, inner)
        | st.tuples(st.just("~"), inner)
    ),
    max_leaves=6,
)


def _built(tree: object) -> Predicate:
    match tree:
        case str(name):
            return _LEAVES[name]
        case ("~", inner):
            return ~_built(inner)
        case ("&", left, right):
            return _built(left) & _built(right)
        case (_, left, right):
            return _built(left) | _built(right)
    raise AssertionError(tree)


def _holds(tree: object, state: frozenset[str]) -> bool:
    match tree:
        case str(name):
            return name in state
        case ("~", inner):
            return not _holds(inner, state)
        case ("&", left, right):
            return _holds(left, state) and _holds(right, state)
        case (_, left, right):
            return _holds(left, state) or _holds(right, state)
    raise AssertionError(tree)


_states = st.frozensets(st.sampled_from("abc"))


@pytest.mark.covers(
    "controller-runtime pkg/predicate: should return false when one of its predicates returns"
)
@given(_filters, _states, _states)
def test_combined_state_filters_pass_exactly_who_is_or_was_in_the_combined_state(
    tree: object, before: frozenset[str], after: frozenset[str]
) -> None:
    passes = _built(tree)(_labelled(*before), _labelled(*after))

    assert passes == (_holds(tree, before) or _holds(tree, after))


def test_a_mixed_combination_loses_no_transition_by_its_negation() -> None:
    mixed = ~(generation_changed & _has("paused"))
    paused = made("a", version=1, generation=1, labels={"paused": "yes"})
    resumed = made("a", version=2, generation=2)

    assert mixed(paused, resumed), "it left the state that is filtered out"
    assert not mixed(paused, made("a", version=2, generation=2, labels={"paused": "yes"}))


@pytest.mark.covers(
    "controller-runtime pkg/predicate: should return false when one of its predicates returns"
)
def test_a_plain_function_combines_from_either_side() -> None:
    def never(old: _Object | None, new: _Object | None) -> bool:
        return False

    old, new = made("a", version=1, generation=1), made("a", version=2, generation=2)

    assert [
        (never & generation_changed)(old, new),
        (generation_changed & never)(old, new),
        (never | generation_changed)(old, new),
        (generation_changed | never)(old, new),
        any_of(never, never)(old, new),
        all_of(generation_changed, negate(never))(old, new),
    ] == [False, False, True, True, False, True]


def test_and_or_not_are_refused_since_python_would_drop_one_side() -> None:
    with pytest.raises(InvalidArgumentError, match="combined by `&`"):
        _ = generation_changed and labels_changed


async def _asynchronous(old: object, new: object) -> bool:
    return True


class _Asynchronous:
    async def __call__(self, old: object, new: object) -> bool:
        return True


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(_asynchronous, id="coroutine"),
        pytest.param(_Asynchronous(), id="callable-object"),
        pytest.param(lambda obj: True, id="one-argument"),
        pytest.param(7, id="number"),
    ],
)
@pytest.mark.parametrize("build", [Predicate, negate, lambda f: generation_changed & f, any_of])
def test_an_invalid_predicate_is_refused_when_it_is_given(build: object, function: object) -> None:
    assert callable(build)

    with pytest.raises(InvalidTypeError):
        build(function)


def test_a_combination_without_predicates_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="one or more"):
        all_of()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(None, False, id="nothing"),
        pytest.param([1], True, id="truthy"),
        pytest.param(False, False, id="no"),
    ],
)
def test_the_truth_value_of_a_predicate_result_counts(answer: object, *, expected: bool) -> None:
    untyped: PredicateFunction[None] = lambda old, new: answer  # type: ignore[assignment,return-value]  # noqa: E731

    assert _passed(untyped) == (expected, None)


def _passed(predicate: PredicateFunction[None]) -> tuple[bool, str | None]:
    """Return whether a source with a predicate requests an object, and its failure."""
    informer, noted = FedInformer(), Noted()
    informer.load()
    source = PrimarySource(informer, predicate=predicate)
    source.attach(noted)
    informer.add(made("a"))
    return bool(noted.lines), source.status().last_failure


def test_an_answer_that_would_have_to_be_awaited_is_refused() -> None:
    def hidden(old: object, new: object) -> object:
        return _asynchronous(old, new)

    has_passed, failure = _passed(hidden)  # type: ignore[arg-type]

    assert has_passed
    assert "InvalidTypeError" in (failure or "")


def test_the_name_of_a_combination_says_what_is_combined() -> None:
    def ready(obj: _Object) -> bool:
        return True

    mixed, filters = repr(generation_changed & labels_changed), repr(~(matches(ready) | _has("a")))

    assert all(part in mixed for part in ("_generation_changed", " & ", "_labels_changed"))
    assert filters.startswith("~(matches(")
    assert "ready) | matches(" in filters


@pytest.mark.covers("controller-runtime pkg/predicate: should return false (3)")
@pytest.mark.parametrize(
    "selector",
    [
        pytest.param("app in (web,api),!canary", id="text"),
        pytest.param({"app": "web"}, id="labels"),
        pytest.param({"matchLabels": {"app": "web"}}, id="manifest"),
        pytest.param(LabelSelector.parse("app=web"), id="parsed"),
    ],
)
def test_a_selector_passes_objects_that_it_selects_before_or_after_a_change(
    selector: str | dict[str, JSONValue] | LabelSelector,
) -> None:
    predicate = matches_labels(selector)
    web, other = made("a", labels={"app": "web"}), made("a", version=2, labels={"app": "db"})

    for old, new in ((None, web), (web, None), (web, web), (other, web), (web, other)):
        assert predicate(old, new)
    for old, new in ((None, other), (other, None), (other, other)):
        assert not predicate(old, new)


def test_a_selector_is_combined_as_a_state() -> None:
    """The opposite of a selector passes an object that leaves what is selected."""
    predicate = ~matches_labels("app=web") & matches_labels("tier")
    web = made("a", labels={"app": "web", "tier": "x"})

    assert predicate(web, made("a", version=2, labels={"tier": "x"}))
    assert not predicate(web, made("a", version=2, labels={"app": "web"}))
    assert repr(predicate) == "(~matches_labels('app=web') & matches_labels('tier'))"


def test_a_selector_that_cannot_be_parsed_is_refused() -> None:
    with pytest.raises(InvalidSelectorError):
        matches_labels("app in web")
    wrong: Any = 5
    with pytest.raises(InvalidTypeError, match="label_selector"):
        matches_labels(wrong)
