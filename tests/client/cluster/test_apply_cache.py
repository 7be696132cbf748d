"""What was applied is not applied again; only owned paths are compared."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pyinformer.client.cluster._apply_cache import ApplyCache, ApplyKey
from pyinformer.objects import GroupVersionKind, GroupVersionResource, KubeObject, ObjectMeta

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.objects import JSONObject

_DEPLOYMENTS = GroupVersionResource.of("apps/v1", "deployments")


def _identity(
    key: str = "default/a",
    *,
    resource: GroupVersionResource = _DEPLOYMENTS,
    field_manager: str = "me",
) -> ApplyKey:
    return ApplyKey(resource, key, field_manager)


IDENTITY = _identity()
DESIRED: JSONObject = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "a", "namespace": "default"},
    "spec": {
        "replicas": 2,
        "template": {"containers": [{"name": "main", "image": "app:1", "cpu": "0.5"}]},
        "args": ["a", "b"],
        "volumes": [],
    },
}
ANSWER: JSONObject = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "10"},
    "spec": {
        "replicas": 2,
        "strategy": "Rolling",
        "template": {
            "containers": [{"name": "main", "image": "app:1", "cpu": "500m", "policy": "Always"}]
        },
        "args": ["a", "b"],
    },
    "status": {"ready": 0},
}


def now(body: JSONObject, resource_version: str = "11", uid: str = "u") -> KubeObject:
    """Return an object as it is now."""
    meta = ObjectMeta("default", "a", uid, resource_version)
    gvk = GroupVersionKind.of("apps/v1", "Deployment")
    return KubeObject("default/a", meta, None, msgspec.json.encode(body), gvk)


def remember(
    cache: ApplyCache,
    desired: JSONObject = DESIRED,
    answer: JSONObject = ANSWER,
    *,
    identity: ApplyKey = IDENTITY,
    managed: list[JSONObject] | None = None,
) -> None:
    """Record an apply with the server's response to it."""
    response = now(answer, "10")
    raw = {**answer, "metadata": {**answer.get("metadata", {}), "managedFields": managed}}
    cache.remember(identity, desired, response, msgspec.json.encode(raw))


@pytest.fixture
def cache() -> ApplyCache:
    cache = ApplyCache(clock=lambda: 0.0)
    remember(cache)
    return cache


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda: changed("spec.replicas", 1), id="altered"),
        pytest.param(lambda: changed("spec.template.containers.0.cpu", "500m"), id="spelled"),
        pytest.param(lambda: changed("spec.replicas", None), id="not returned"),
    ],
)
def test_what_the_server_made_something_else_of_is_applied_again_after_five_minutes(
    answer: Callable[[], JSONObject],
) -> None:
    """A policy that altered it can end without a change of the object."""
    clock = [1_000.0]
    cache = ApplyCache(clock=lambda: clock[0])
    remember(cache, answer=answer())
    found = now(answer(), "10")
    assert cache.is_applied(IDENTITY, DESIRED, found)
    clock[0] += 299.0
    assert cache.is_applied(IDENTITY, DESIRED, found)
    clock[0] += 1.0
    assert not cache.is_applied(IDENTITY, DESIRED, found)
    assert cache.is_due(IDENTITY), "that write does not count as one that changes nothing"


def test_what_the_server_stored_is_never_applied_again() -> None:
    clock = [1_000.0]
    cache = ApplyCache(clock=lambda: clock[0])
    stored = changed("spec.template.containers.0.cpu", "0.5")
    remember(cache, answer=stored)
    clock[0] += 1e9
    assert cache.is_applied(IDENTITY, DESIRED, now(stored, "10"))
    assert cache.is_applied(IDENTITY, DESIRED, now(stored, "11"))
    assert not cache.is_due(IDENTITY)


def changed(where: str, value: Any, of: JSONObject = ANSWER) -> JSONObject:
    """Return an object with another value at a path."""
    found = deepcopy(of)
    *path, last = [int(step) if step.isdigit() else step for step in where.split(".")]
    place: Any = found
    for step in path:
        place = place[step]
    if isinstance(place, list) and last == len(place):
        place.append(value)
    else:
        place[last] = value
    return found


@pytest.mark.parametrize(
    "current",
    [
        pytest.param(ANSWER, id="nothing"),
        pytest.param(changed("status.ready", 2), id="status"),
        pytest.param(changed("metadata.labels", {"by": "others"}), id="labels-of-others"),
        pytest.param(changed("spec.strategy", "Recreate"), id="a-default"),
        pytest.param(changed("spec.template.containers.0.policy", "Never"), id="default-in-list"),
        pytest.param(
            changed("spec.template.containers.1", {"name": "injected"}), id="element-of-others"
        ),
        pytest.param(changed("spec.volumes", None), id="null"),
    ],
)
def test_changes_of_fields_of_others_do_not_repeat_an_apply(
    cache: ApplyCache, current: JSONObject
) -> None:
    assert cache.is_applied(IDENTITY, DESIRED, now(current))


@pytest.mark.parametrize(
    "current",
    [
        pytest.param(changed("spec.replicas", 3), id="number"),
        pytest.param(changed("spec.replicas", True), id="true-is-not-a-number"),
        pytest.param(changed("spec.replicas", None), id="removed"),
        pytest.param(changed("spec.template.containers.0.image", "app:2"), id="in-list"),
        pytest.param(changed("spec.template.containers", []), id="element-removed"),
        pytest.param(changed("spec.template", {}), id="object-removed"),
        pytest.param(changed("spec.args", ["b", "a"]), id="order"),
        pytest.param(changed("spec.volumes", [{"name": "v"}]), id="filled"),
    ],
)
def test_a_change_at_an_owned_path_is_applied_again(cache: ApplyCache, current: JSONObject) -> None:
    assert not cache.is_applied(IDENTITY, DESIRED, now(current))
    assert cache.is_applied(IDENTITY, DESIRED, now(ANSWER))


@pytest.mark.parametrize("levels", [400, 20_000])
def test_an_object_that_is_nested_too_deeply_to_be_compared_is_applied_again(
    cache: ApplyCache, levels: int
) -> None:
    """Otherwise a tenant could prevent the repair of the object."""
    nested = b"[" * levels + b"]" * levels
    body = msgspec.json.encode(ANSWER).replace(b'["a","b"]', nested)
    current = now(ANSWER)

    is_applied = cache.is_applied(
        IDENTITY, DESIRED, KubeObject(current.key, current.metadata, None, body, current.gvk)
    )

    assert not is_applied


@pytest.mark.parametrize(
    "desired",
    [
        pytest.param(changed("spec.replicas", 3, DESIRED), id="changed"),
        pytest.param(changed("spec.strategy", "Rolling", DESIRED), id="added"),
        pytest.param({**DESIRED, "spec": {"replicas": 2}}, id="given-up"),
        pytest.param(changed("metadata.labels", {}, DESIRED), id="empty-labels"),
        pytest.param(changed("spec.selector", {}, DESIRED), id="empty-selector"),
    ],
)
def test_a_different_configuration_is_applied(cache: ApplyCache, desired: JSONObject) -> None:
    assert not cache.is_applied(IDENTITY, desired, now(ANSWER))


@pytest.mark.parametrize(
    "desired",
    [
        pytest.param(changed("metadata.resourceVersion", "9", DESIRED), id="another-version"),
    ],
)
def test_an_equal_configuration_is_not_applied_again(
    cache: ApplyCache, desired: JSONObject
) -> None:
    assert cache.is_applied(IDENTITY, desired, now(ANSWER))


def test_an_older_version_is_compared_like_any_other(cache: ApplyCache) -> None:
    """After a restore of the server's data it may be the newest there is."""
    assert cache.is_applied(IDENTITY, DESIRED, now(ANSWER, "9"))
    assert not cache.is_applied(IDENTITY, DESIRED, now(changed("spec.replicas", 1), "9"))


def test_a_successor_of_the_same_name_is_another_object(cache: ApplyCache) -> None:
    assert not cache.is_applied(IDENTITY, DESIRED, now(ANSWER, uid="other"))


def test_each_manager_and_object_has_its_own_entry(cache: ApplyCache) -> None:
    other = _identity(field_manager="other")

    assert not cache.is_applied(other, DESIRED, now(ANSWER))
    assert not cache.is_applied(_identity("default/b"), DESIRED, now(ANSWER))


_SUBJECTS: JSONObject = {"subjects": [{"name": "me", "kind": "User"}], "rules": [{"name": "a"}]}
_ATOMIC: JSONObject = {"f:subjects": {}, "f:rules": {'k:{"name":"a"}': {".": {}, "f:name": {}}}}


def _managed(fields: JSONObject, manager: str = "me") -> list[JSONObject]:
    return [{"manager": manager, "operation": "Apply", "fieldsV1": fields}]


@pytest.mark.parametrize(
    ("where", "is_applied"),
    [
        pytest.param("subjects.1", False, id="a-list-that-is-owned-as-a-whole"),
        pytest.param("rules.1", True, id="a-list-of-which-elements-are-owned"),
    ],
)
def test_the_server_decides_who_owns_the_elements_of_a_list(where: str, is_applied: bool) -> None:
    cache = ApplyCache(clock=lambda: 0.0)
    remember(cache, _SUBJECTS, _SUBJECTS, managed=_managed(_ATOMIC))
    current = changed(where, {"name": "other", "kind": "User"}, _SUBJECTS)

    assert cache.is_applied(IDENTITY, _SUBJECTS, now(_SUBJECTS))
    assert cache.is_applied(IDENTITY, _SUBJECTS, now(current)) is is_applied


_UNSHOWN = changed("spec.token", "abc", DESIRED)
_UNSHOWN_IN_A_LIST = changed("spec.template.containers.0.token", "abc", DESIRED)
_UNSHOWN_ELEMENT = changed("spec.template.containers.1", {"name": "lost"}, DESIRED)
_WITHOUT_NAMES = {"spec": {"rules": [{"from": "a", "token": "abc"}]}}


@pytest.mark.parametrize(
    ("desired", "answer"),
    [
        pytest.param(_UNSHOWN, ANSWER, id="field"),
        pytest.param(_UNSHOWN_IN_A_LIST, ANSWER, id="in-an-element-with-a-name"),
        pytest.param(_UNSHOWN_ELEMENT, ANSWER, id="element"),
        pytest.param(_WITHOUT_NAMES, {"spec": {"rules": [{"from": "a"}]}}, id="in-an-element"),
        pytest.param(
            _WITHOUT_NAMES, {"spec": {"rules": [{"from": "a"}, {}]}}, id="in-one-of-more-elements"
        ),
    ],
)
def test_a_field_that_the_server_does_not_return_is_applied_again_after_any_change(
    desired: JSONObject, answer: JSONObject
) -> None:
    """No response shows whether it was changed; an equal version shows that nothing was."""
    cache = ApplyCache(clock=lambda: 0.0)
    remember(cache, desired, answer)

    assert cache.is_applied(IDENTITY, desired, now(answer, "10"))
    assert not cache.is_applied(IDENTITY, desired, now(answer, "11"))
    assert cache.is_due(IDENTITY)


def test_an_object_of_which_only_metadata_is_known_is_applied_again_after_any_change(
    cache: ApplyCache,
) -> None:
    alone: JSONObject = {
        "apiVersion": "meta.k8s.io/v1",
        "kind": "PartialObjectMetadata",
        "metadata": ANSWER["metadata"],
    }

    assert cache.is_applied(IDENTITY, DESIRED, now(alone, "10"))
    assert not cache.is_applied(IDENTITY, DESIRED, now(alone, "11"))
    assert not cache.is_applied(IDENTITY, DESIRED, now(alone, "10", uid="other"))
    assert not cache.is_applied(IDENTITY, changed("spec.replicas", 3, DESIRED), now(alone, "10"))


@pytest.mark.parametrize("empty", [None, False, 0, 0.0, "", [], {}, {"inner": {"flag": False}}])
def test_an_empty_value_that_the_server_leaves_out_counts_as_applied(empty: Any) -> None:
    """Servers leave out the false and the zero of many fields; all other values they return."""
    cache = ApplyCache(clock=lambda: 0.0)
    desired = changed("spec.template.containers.0.flag", empty, DESIRED)
    remember(cache, desired)

    assert cache.is_applied(IDENTITY, desired, now(ANSWER))
    assert not cache.is_due(IDENTITY)
    theirs = changed("spec.template.containers.0.flag", {"inner": 1}, ANSWER)
    assert not cache.is_applied(IDENTITY, desired, now(theirs))


_SECRET: JSONObject = {
    "apiVersion": "v1",
    "kind": "Secret",
    "data": {"user": "bWU=", "password": "b2xk"},
    "stringData": {"password": "good", "host": "dé"},
}
_STORED: JSONObject = {"data": {"user": "bWU=", "password": "Z29vZA==", "host": "ZMOp"}}
_OF_SECRET = _identity(resource=GroupVersionResource.of("v1", "secrets"))


@pytest.mark.parametrize(
    ("data", "is_applied"),
    [
        pytest.param({**_STORED["data"], "other": "eA=="}, True, id="key-of-others"),
        pytest.param({**_STORED["data"], "password": "eA=="}, False, id="changed"),
        pytest.param({"user": "bWU=", "host": "ZMOp"}, False, id="removed"),
        pytest.param(None, False, id="all-removed"),
    ],
)
def test_the_plain_text_of_a_secret_is_compared_as_the_server_stores_it(
    data: JSONObject | None, is_applied: bool
) -> None:
    cache = ApplyCache(clock=lambda: 0.0)
    identity = {"apiVersion": "v1", "kind": "Secret"}
    remember(cache, _SECRET, {**identity, **_STORED}, identity=_OF_SECRET)
    current = now({**identity, "data": data})

    assert cache.is_applied(_OF_SECRET, _SECRET, current) is is_applied


@pytest.mark.parametrize("wrong", [{"password": None}, {"password": 5}, "good"])
def test_texts_of_a_secret_that_are_none_are_applied_again_after_any_change(wrong: Any) -> None:
    """What a server makes of them is unknown here."""
    cache = ApplyCache(clock=lambda: 0.0)
    desired: JSONObject = {**_SECRET, "stringData": wrong, "type": "Opaque"}
    remember(cache, desired, {**_SECRET, "stringData": None}, identity=_OF_SECRET)

    assert not cache.is_applied(_OF_SECRET, desired, now(_SECRET))


def test_a_list_of_texts_to_which_others_add_is_compared_as_it_was_returned() -> None:
    cache = ApplyCache(clock=lambda: 0.0)
    finalizers: JSONObject = {"metadata": {"finalizers": ["ours"]}}
    both: JSONObject = {"metadata": {"finalizers": ["theirs", "ours"]}}
    remember(cache, finalizers, both)

    assert cache.is_applied(IDENTITY, finalizers, now(both))
    assert not cache.is_applied(IDENTITY, finalizers, now(finalizers))


def test_two_concurrent_applies_are_not_cached() -> None:
    cache = ApplyCache(clock=lambda: 0.0)
    with cache.applying(IDENTITY):
        with cache.applying(IDENTITY):
            remember(cache)
        remember(cache)

    assert not cache.is_applied(IDENTITY, DESIRED, now(ANSWER))

    with cache.applying(IDENTITY):
        remember(cache)

    assert cache.is_applied(IDENTITY, DESIRED, now(ANSWER))


def test_an_evicted_entry_is_applied_again(cache: ApplyCache) -> None:
    with cache.applying(IDENTITY):
        pass

    assert not cache.is_applied(IDENTITY, DESIRED, now(ANSWER))


def test_the_apply_cache_is_bounded_and_evicts_the_least_recently_used() -> None:
    cache = ApplyCache(clock=lambda: 0.0, limit=2)
    first, second, third = map(_identity, "abc")
    remember(cache, identity=first)
    remember(cache, identity=second)
    assert cache.is_applied(first, DESIRED, now(ANSWER))
    remember(cache, identity=third)

    assert len(cache) == 2
    assert cache.is_applied(first, DESIRED, now(ANSWER))
    assert not cache.is_applied(second, DESIRED, now(ANSWER))


def test_the_apply_cache_keeps_no_content() -> None:
    cache = ApplyCache(clock=lambda: 0.0)
    secret: JSONObject = {"data": {"password": "hunter2"}}
    remember(cache, secret, secret)

    plain: JSONObject = {"stringData": {"password": "hunter2"}}
    remember(cache, plain, secret, identity=_OF_SECRET)

    assert "hunter2" not in str(vars(cache))
