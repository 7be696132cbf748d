"""Merge patches: they lead to exactly what was edited, and lose nothing a model does not know."""

from __future__ import annotations

import time
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pyinformer.client.cluster._json_conversion import body_of
from pyinformer.client.cluster._merge_patch import carry_over, merge_patch, object_patch, same
from pyinformer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject, JSONValue

NAMES = st.sampled_from(["a", "b", "c", "name", "metadata", "uid"])
SCALARS = st.one_of(st.booleans(), st.integers(-2, 2), st.floats(0, 2), st.sampled_from(["", "x"]))


def trees(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)
        ),
        max_leaves=12,
    )


OBJECTS = st.dictionaries(NAMES, trees(SCALARS), max_size=4)
OBJECTS_WITH_NULLS = st.dictionaries(NAMES, trees(SCALARS | st.none()), max_size=4)


def patched(target: JSONValue, patch: JSONValue) -> JSONValue:
    """Apply a merge patch as RFC 7386 says it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        result.pop(name, None) if value is None else result.update(
            {name: patched(result.get(name), value)}
        )
    return result


def without_nulls(value: JSONValue) -> JSONValue:
    """Take a null in an object for nothing, in elements of lists too; an element it is itself."""
    if isinstance(value, dict):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


@pytest.mark.covers(
    "controller-runtime pkg/client: creates a merge patch with the modifications applied"
)
@given(OBJECTS, OBJECTS)
def test_a_patch_leads_from_one_object_to_the_other(before: JSONObject, after: JSONObject) -> None:
    copies = deepcopy((before, after))

    assert same(patched(before, merge_patch(before, after)), after)
    assert (before, after) == copies


@pytest.mark.covers(
    "controller-runtime pkg/client: should successfully create a patch for two large and"
)
def test_large_numbers_that_are_one_as_floats_are_two() -> None:
    assert merge_patch({"n": 2**63 - 1}, {"n": 2**63 - 2}) == {"n": 2**63 - 2}


@given(OBJECTS_WITH_NULLS, OBJECTS_WITH_NULLS)
def test_a_null_is_the_same_as_an_absent_field(before: JSONObject, after: JSONObject) -> None:
    found = patched(before, merge_patch(before, after))

    assert same(without_nulls(found), without_nulls(after))


@given(OBJECTS_WITH_NULLS)
def test_an_unedited_object_needs_no_patch(obj: JSONObject) -> None:
    assert merge_patch(obj, deepcopy(obj)) == {}


@pytest.mark.covers(
    "controller-runtime pkg/client: creates a merge patch with the modifications applied"
)
def test_a_patch_names_nothing_but_the_difference() -> None:
    before = {"spec": {"a": 1, "b": [1, {"c": None}], "gone": {}}, "kind": "X", "on": True}
    after = {"spec": {"a": 1, "b": [1, {"c": None}], "new": {}}, "kind": "X", "on": 1}

    assert merge_patch(before, after) == {"spec": {"gone": None, "new": {}}, "on": 1}


def test_fields_written_by_the_server_are_not_edits() -> None:
    before: JSONObject = {"metadata": {"uid": "1", "resourceVersion": "1", "name": "a"}}
    after: JSONObject = {"metadata": {"name": "a", "managedFields": [], "labels": {"a": "b"}}}

    assert object_patch(before, after) == {"metadata": {"labels": {"a": "b"}}}
    assert object_patch(before, {"metadata": {"name": "a", "uid": "2"}}) == {}


# What follows edits a narrow image of an object: of each element only name, image and ports.

UNKNOWN = st.dictionaries(st.sampled_from(["x", "y", "z"]), trees(SCALARS), max_size=2)
IMAGES = st.sampled_from(["i", "j", "k"])


@st.composite
def elements(draw: st.DrawFn, *, named: bool = True) -> JSONObject:
    ports = [
        {"hostPort": draw(st.integers(1, 3)), **draw(UNKNOWN)}
        for _ in range(draw(st.integers(0, 2)))
    ]
    name = {"name": draw(st.sampled_from(["a", "b", "c", "d"]))} if named else {}
    return {**name, "image": draw(IMAGES), "ports": ports, **draw(UNKNOWN)}


def image_of(element: JSONObject) -> JSONObject:
    """Return what the model shows of an element."""
    ports = [{"hostPort": port["hostPort"]} for port in element["ports"]]
    known: JSONObject = {name: element[name] for name in ("name", "image") if name in element}
    return {**known, "ports": ports}


def object_with(containers: list[JSONObject], unknown: JSONObject) -> JSONObject:
    return {"spec": {"containers": containers, **unknown}, **unknown}


def seen(containers: list[JSONObject]) -> JSONObject:
    return {"spec": {"containers": [image_of(one) for one in containers]}}


NAMED_LISTS = st.lists(elements(), max_size=4, unique_by=lambda one: str(one["name"]))


@given(NAMED_LISTS, NAMED_LISTS, UNKNOWN)
def test_named_elements_keep_unknown_fields(
    old: list[JSONObject], wanted: list[JSONObject], unknown: JSONObject
) -> None:
    before = object_with(old, unknown)
    by_name = {one["name"]: one for one in old}
    edited, expected = [], []
    for new in wanted:  # in another order, some gone, some new, the others with another image
        one = deepcopy(by_name.get(new["name"], image_of(new)))
        one["image"] = new["image"]
        expected.append(one)
        edited.append(image_of(one))

    after = carry_over(before, seen(old), {"spec": {"containers": edited}})

    assert same(after, object_with(expected, unknown))
    assert same(patched(before, merge_patch(before, after)), object_with(expected, unknown))


@given(st.lists(elements(named=False), min_size=1, max_size=4), st.data(), UNKNOWN)
def test_an_element_without_a_name_is_edited_in_its_place(
    old: list[JSONObject], data: st.DataObject, unknown: JSONObject
) -> None:
    before = object_with(old, unknown)
    place = data.draw(st.integers(0, len(old) - 1))
    expected = deepcopy(old)
    expected[place]["image"] = "another"

    after = carry_over(before, seen(old), seen(expected))

    assert same(after, object_with(expected, unknown))


@given(
    st.lists(
        elements(named=False), min_size=1, max_size=4, unique_by=lambda one: str(image_of(one))
    ),
    st.data(),
    UNKNOWN,
)
def test_an_element_without_a_name_may_be_moved_removed_or_added(
    old: list[JSONObject], data: st.DataObject, unknown: JSONObject
) -> None:
    expected = list(data.draw(st.permutations(old)))
    if data.draw(st.booleans()):
        expected.pop(data.draw(st.integers(0, len(expected) - 1)))
    else:
        new = {"image": "new", "ports": []}
        expected.insert(data.draw(st.integers(0, len(expected))), new)
    before = object_with(old, unknown)

    after = carry_over(before, seen(old), seen(expected))

    assert same(after, object_with(expected, unknown))


def test_an_ambiguous_edit_of_equal_elements_is_refused() -> None:
    whole: JSONObject = {"rules": [{"image": "a", "secret": 1}, {"image": "b", "secret": 2}]}
    image = {"rules": [{"image": "a"}, {"image": "b"}]}

    with pytest.raises(InvalidArgumentError, match=r"elements of rules .* edit to_dict\(\)"):
        carry_over(whole, image, {"rules": [{"image": "c"}]})
    whole["rules"][1]["image"] = "a"
    with pytest.raises(InvalidArgumentError, match="rules"):
        carry_over(whole, {"rules": [{"image": "a"}, {"image": "a"}]}, {"rules": [{"image": "a"}]})
    # Where nothing can be lost there is nothing to ask.
    assert carry_over(image, image, {"rules": [{"image": "c"}]}) == {"rules": [{"image": "c"}]}


@pytest.mark.parametrize("kinds", [1, 2, 10_000])
def test_a_list_of_any_length_takes_linear_time(kinds: int) -> None:
    """A tenant may choose the list: comparing pairs would take far longer."""
    shown: list[JSONObject] = [{"image": str(number % kinds)} for number in range(10_000)]
    whole = [{**one, "unknown": one["image"]} for one in shown]
    new: JSONObject = {"image": "new"}

    def carried(edited: list[JSONObject]) -> JSONValue:
        return carry_over({"rules": whole}, {"rules": shown}, {"rules": edited})

    begun_at = time.thread_time()
    assert carried([new, *shown[1:]]) == {"rules": [{**whole[0], **new}, *whole[1:]]}
    assert carried(shown[::2]) == {"rules": whole[::2]}
    assert carried([new, *shown]) == {"rules": [new, *whole]}
    with pytest.raises(InvalidArgumentError, match="distinguishes them"):
        carried([new, *shown[1:-3], *shown[-2:]])
    assert time.thread_time() - begun_at < 5


def test_a_list_that_the_model_shows_in_part_is_kept_whole() -> None:
    whole = {"rules": [{"image": "a", "secret": 1}, {"image": "b"}]}

    with pytest.raises(InvalidArgumentError, match="rules"):
        carry_over(whole, {"rules": [{"image": "a"}]}, {"rules": []})
    assert carry_over({"tags": ["b", "a", "b"]}, {"tags": ["a", "b"]}, {"tags": ["a"]}) == {
        "tags": ["a"]
    }


def test_the_right_name_is_removed_from_a_sorted_set() -> None:
    whole = {"finalizers": ["b", "a"]}

    after = carry_over(whole, {"finalizers": ["a", "b"]}, {"finalizers": ["a"]})

    assert after == {"finalizers": ["a"]}


def test_a_models_own_defaults_are_not_written() -> None:
    whole = {"spec": {"unknown": 1}}
    image = {"spec": {"replicas": 1, "strategy": {"kind": "Rolling", "surge": 1}}, "tags": []}
    edited = {"spec": {"replicas": 1, "strategy": {"kind": "Rolling", "surge": 2}}, "tags": ["a"]}

    assert carry_over(whole, image, edited) == {
        "spec": {"unknown": 1, "strategy": {"surge": 2}},
        "tags": ["a"],
    }


def test_a_field_that_a_model_drops_is_removed() -> None:
    whole = {"spec": {"unknown": 1, "backup": {"at": "noon", "unknown": 2}}}

    after = carry_over(whole, {"spec": {"backup": {"at": "noon"}}}, {"spec": {}})

    assert after == {"spec": {"unknown": 1}}


def test_a_value_in_a_servers_own_spelling_stays_while_it_is_not_edited() -> None:
    whole = {"limits": {"cpu": "1000m", "memory": "1Gi"}}

    after = carry_over(
        whole,
        {"limits": {"cpu": "1", "memory": "1024Mi"}},
        {"limits": {"cpu": "2", "memory": "1024Mi"}},
    )

    assert after == {"limits": {"cpu": "2", "memory": "1Gi"}}


PORTS: list[JSONObject] = [{"containerPort": 80, "protocol": "UDP"}, {"containerPort": 90}]


@pytest.mark.parametrize(
    ("edited", "expected"),
    [
        pytest.param([81, 90], [{"containerPort": 81, "protocol": "UDP"}, PORTS[1]], id="edited"),
        pytest.param([90, 80], [PORTS[1], PORTS[0]], id="moved"),
        pytest.param([90], [PORTS[1]], id="removed"),
        pytest.param([70, 80, 90], [{"containerPort": 70}, *PORTS], id="added"),
        pytest.param([80, 91, 92], [PORTS[0], *({"containerPort": n} for n in (91, 92))], id="new"),
    ],
)
def test_a_number_that_tells_elements_apart_may_be_edited_itself(
    edited: list[int], expected: list[JSONObject]
) -> None:
    image = {"ports": [{"containerPort": 80}, {"containerPort": 90}]}
    wanted = {"ports": [{"containerPort": number} for number in edited]}

    assert carry_over({"ports": PORTS}, image, wanted) == {"ports": expected}


def test_a_name_that_is_edited_makes_another_element() -> None:
    whole = {"containers": [{"name": "a", "privileged": True}]}

    after = carry_over(whole, {"containers": [{"name": "a"}]}, {"containers": [{"name": "b"}]})

    assert after == {"containers": [{"name": "b"}]}


_NUMBERS = st.sampled_from([0, 1, 2, 0.0, 1.0, -0.0, 2.5, True, False, 2**63, 2**200])
_VALUES = st.recursive(
    st.none() | _NUMBERS | st.text(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=8,
)


def _told_apart(value: Any) -> Any:
    """Return a value whose equality in Python is that of JSON."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, dict):
        return {name: _told_apart(each) for name, each in value.items()}
    return list(map(_told_apart, value)) if isinstance(value, list) else value


@given(_VALUES, _VALUES)
def test_values_are_the_same_as_in_json(first: Any, second: Any) -> None:
    for one, other in ((first, second), (first, deepcopy(first))):
        expected = _told_apart(one) == _told_apart(other)
        assert same(one, other) is expected
        assert same([one], [other]) is expected
        assert same({"a": one, "b": 1}, {"b": 1, "a": other}) is expected


@given(st.dictionaries(st.text(max_size=3) | st.integers(), _VALUES, max_size=4))
def test_a_dict_becomes_a_body_of_its_own(value: dict[Any, Any]) -> None:
    assume(len(set(map(str, value))) == len(value))  # else it is refused
    body = body_of(value)
    assert same(body, {str(name): each for name, each in value.items()})
    for name, each in value.items():
        if isinstance(each, dict | list):
            assert body[str(name)] is not each


class _Counting(dict[str, Any]):
    """A dict that counts how often a value of it is read one by one."""

    reads = 0

    def items(self) -> Any:
        """Count."""
        type(self).reads += 1
        return super().items()


def test_the_equal_parts_of_a_large_object_are_not_compared_one_by_one() -> None:
    """A definition of 1.2 MB blocked the event loop for a second."""
    before: JSONObject = {"versions": [_Counting(name=number) for number in range(1_000)]}
    after: JSONObject = {"versions": [{"name": number} for number in range(1_000)]}
    assert merge_patch(before, after) == {}
    assert _Counting.reads == 0
    after["versions"][-1]["name"] = -1
    assert merge_patch(before, after) == {"versions": after["versions"]}
    assert _Counting.reads == 0


def test_nulls_in_elements_of_a_list_are_no_edit() -> None:
    """Servers drop them, so that the same patch would be sent again and again."""
    before: JSONObject = {"conditions": [{"type": "Ready"}], "other": [None]}
    after: JSONObject = {"conditions": [{"type": "Ready", "message": None}], "other": [None]}
    assert merge_patch(before, after) == {}
    assert merge_patch(before, {**after, "other": []}) == {"other": []}
    changed: JSONObject = {**after, "conditions": [{"type": "Done", "message": None}]}
    assert merge_patch(before, changed) == {"conditions": changed["conditions"]}
