"""What was applied is not applied again: only owned paths count, and only what is remembered."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer.apimachinery import GroupVersionResource, ObjectMeta
from pyinformer.cluster._applied import AppliedMemory, Identity

if TYPE_CHECKING:
    from pyinformer.apimachinery import JSONObject

IDENTITY = Identity(GroupVersionResource.of("apps/v1", "deployments"), "default/a", "me")
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


def meta(resource_version: str = "11", uid: str = "u") -> ObjectMeta:
    return ObjectMeta("default", "a", uid, resource_version)


@pytest.fixture
def memory() -> AppliedMemory:
    memory = AppliedMemory()
    memory.remember(IDENTITY, DESIRED, ANSWER, meta("10"))
    return memory


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
        pytest.param(changed("spec.volumes", []), id="empty-list"),
        pytest.param(changed("spec.volumes", {}), id="empty-object"),
        pytest.param(changed("spec.volumes", None), id="null"),
    ],
)
def test_what_others_change_does_not_matter(memory: AppliedMemory, current: JSONObject) -> None:
    assert memory.is_applied(IDENTITY, DESIRED, current, meta())


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
def test_what_is_changed_at_an_owned_path_is_applied_again(
    memory: AppliedMemory, current: JSONObject
) -> None:
    assert not memory.is_applied(IDENTITY, DESIRED, current, meta())
    assert memory.is_applied(IDENTITY, DESIRED, ANSWER, meta())


@pytest.mark.parametrize(
    "desired",
    [
        pytest.param(changed("spec.replicas", 3, DESIRED), id="changed"),
        pytest.param(changed("spec.strategy", "Rolling", DESIRED), id="added"),
        pytest.param({**DESIRED, "spec": {"replicas": 2}}, id="given-up"),
    ],
)
def test_what_is_wanted_otherwise_is_applied(memory: AppliedMemory, desired: JSONObject) -> None:
    assert not memory.is_applied(IDENTITY, desired, ANSWER, meta())


@pytest.mark.parametrize(
    "desired",
    [
        pytest.param(changed("spec.volumes", None, DESIRED), id="null"),
        pytest.param(changed("metadata.labels", {}, DESIRED), id="empty-labels"),
        pytest.param(changed("metadata.resourceVersion", "9", DESIRED), id="another-version"),
    ],
)
def test_what_says_the_same_is_the_same(memory: AppliedMemory, desired: JSONObject) -> None:
    assert memory.is_applied(IDENTITY, desired, ANSWER, meta())


def test_an_older_version_is_judged_like_any_other(memory: AppliedMemory) -> None:
    """After a restore of the server's data it may be the newest there is."""
    assert memory.is_applied(IDENTITY, DESIRED, ANSWER, meta("9"))
    assert not memory.is_applied(IDENTITY, DESIRED, changed("spec.replicas", 1), meta("9"))


def test_a_successor_of_the_same_name_is_another_object(memory: AppliedMemory) -> None:
    assert not memory.is_applied(IDENTITY, DESIRED, ANSWER, meta(uid="other"))


def test_another_manager_or_object_has_a_memory_of_its_own(memory: AppliedMemory) -> None:
    other = IDENTITY._replace(field_manager="other")

    assert not memory.is_applied(other, DESIRED, ANSWER, meta())
    assert not memory.is_applied(IDENTITY._replace(key="default/b"), DESIRED, ANSWER, meta())


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
def test_whose_the_elements_of_others_are_is_the_servers_word(where: str, is_applied: bool) -> None:
    memory = AppliedMemory()
    memory.remember(IDENTITY, _SUBJECTS, _SUBJECTS, meta(), _managed(_ATOMIC))
    current = changed(where, {"name": "other", "kind": "User"}, _SUBJECTS)

    assert memory.is_applied(IDENTITY, _SUBJECTS, _SUBJECTS, meta())
    assert memory.is_applied(IDENTITY, _SUBJECTS, current, meta()) is is_applied


def test_an_apply_beside_another_one_leaves_open_which_was_last() -> None:
    memory = AppliedMemory()
    memory.begin(IDENTITY)
    memory.begin(IDENTITY)
    memory.remember(IDENTITY, DESIRED, ANSWER, meta())
    memory.end(IDENTITY)
    memory.remember(IDENTITY, DESIRED, ANSWER, meta())
    memory.end(IDENTITY)

    assert not memory.is_applied(IDENTITY, DESIRED, ANSWER, meta())

    memory.begin(IDENTITY)
    memory.remember(IDENTITY, DESIRED, ANSWER, meta())
    memory.end(IDENTITY)

    assert memory.is_applied(IDENTITY, DESIRED, ANSWER, meta())


def test_what_is_forgotten_is_applied_once_more(memory: AppliedMemory) -> None:
    memory.begin(IDENTITY)
    memory.end(IDENTITY)

    assert not memory.is_applied(IDENTITY, DESIRED, ANSWER, meta())


def test_the_memory_is_bounded_and_drops_what_was_asked_for_longest_ago() -> None:
    memory = AppliedMemory(limit=2)
    first, second, third = (IDENTITY._replace(key=key) for key in "abc")
    memory.remember(first, DESIRED, ANSWER, meta())
    memory.remember(second, DESIRED, ANSWER, meta())
    assert memory.is_applied(first, DESIRED, ANSWER, meta())
    memory.remember(third, DESIRED, ANSWER, meta())

    assert len(memory) == 2
    assert memory.is_applied(first, DESIRED, ANSWER, meta())
    assert not memory.is_applied(second, DESIRED, ANSWER, meta())


def test_no_content_is_kept() -> None:
    memory = AppliedMemory()
    secret: JSONObject = {"data": {"password": "hunter2"}}
    memory.remember(IDENTITY, secret, secret, meta())

    assert "hunter2" not in str(vars(memory))
