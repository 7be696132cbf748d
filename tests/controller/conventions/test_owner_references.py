"""Owner references go where garbage collection and `owns` find them, and nowhere else."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer.controller.conventions import (
    has_owner_reference,
    remove_owner_reference,
    set_controller_reference,
    set_owner_reference,
)
from pyinformer.errors import (
    AlreadyOwnedError,
    InvalidArgumentError,
    InvalidTypeError,
    OwnerScopeError,
)
from tests.controller.sources.feeding import made, owner
from tests.pods import make

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject


def _database(name: str = "db", *, namespace: str = "shop", uid: str = "u1") -> JSONObject:
    metadata = {"name": name, "uid": uid} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "acme.io/v1", "kind": "Database", "metadata": metadata}


def _config_map(namespace: str = "shop", **metadata: object) -> JSONObject:
    place = {"namespace": namespace} if namespace else {}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", **place, **metadata}}


_REFERENCE = {
    "apiVersion": "acme.io/v1",
    "kind": "Database",
    "name": "db",
    "uid": "u1",
    "controller": True,
    "blockOwnerDeletion": True,
}


@pytest.mark.covers(
    "controller-runtime pkg/controller/controllerutil: should set ownerRef on an empty list"
)
def test_the_controller_stands_in_the_object_that_was_given() -> None:
    config_map = _config_map()

    returned = set_controller_reference(_database(), config_map)

    assert config_map["metadata"]["ownerReferences"] == [_REFERENCE]
    assert returned is config_map


def test_a_cached_object_can_be_the_owner() -> None:
    config_map = set_controller_reference(make("shop/web", uid="u7"), _config_map())

    assert config_map["metadata"]["ownerReferences"][0]["kind"] == "Pod"
    assert config_map["metadata"]["ownerReferences"][0]["uid"] == "u7"


@pytest.mark.covers(
    "controller-runtime pkg/controller/controllerutil: should set ownerRef on an empty list"
)
def test_setting_the_controller_again_changes_nothing() -> None:
    once = set_controller_reference(_database(), _config_map())

    again = set_controller_reference(_database(), copy.deepcopy(once))

    assert again == once


@pytest.mark.covers(
    "controller-runtime pkg/controller/controllerutil: should set ownerRef on an empty list"
)
def test_a_second_controller_is_refused_by_name_and_nothing_is_changed() -> None:
    config_map = set_controller_reference(_database("other", uid="u2"), _config_map())
    before = copy.deepcopy(config_map)

    with pytest.raises(AlreadyOwnedError) as caught:
        set_controller_reference(_database(), config_map)

    assert (caught.value.key, caught.value.controller) == ("shop/c", "Database other")
    assert caught.value.owner == "Database db"
    assert config_map == before


@pytest.mark.covers(
    "controller-runtime pkg/controller/controllerutil: should set ownerRef on an empty list"
)
def test_an_owner_of_the_same_name_that_was_recreated_takes_the_place_of_the_old_one() -> None:
    other = {"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "u9"}
    config_map = set_controller_reference(_database(uid="old"), _config_map())
    config_map["metadata"]["ownerReferences"].append(other)

    set_controller_reference(_database(uid="u1"), config_map)

    assert config_map["metadata"]["ownerReferences"] == [_REFERENCE, other]


@pytest.mark.covers(
    "controller-runtime pkg/controller/controllerutil: should set ownerRef on an empty list"
)
def test_a_new_version_of_the_owners_group_is_the_same_owner() -> None:
    config_map = set_controller_reference(_database(), _config_map())

    set_controller_reference({**_database(), "apiVersion": "acme.io/v2"}, config_map)

    versions = [each["apiVersion"] for each in config_map["metadata"]["ownerReferences"]]
    assert versions == ["acme.io/v2"]


@pytest.mark.covers(
    "controller-runtime pkg/controller/controllerutil: should set ownerRef on an empty list"
)
@pytest.mark.parametrize(
    ("owner_namespace", "namespace"),
    [
        pytest.param("shop", "bank", id="another-namespace"),
        pytest.param("shop", "", id="cluster-scoped-or-forgotten"),
    ],
)
def test_an_owner_in_a_namespace_owns_only_what_is_there(
    owner_namespace: str, namespace: str
) -> None:
    config_map = _config_map(namespace)

    with pytest.raises(OwnerScopeError) as caught:
        set_controller_reference(_database(namespace=owner_namespace), config_map)

    assert (caught.value.owner_namespace, caught.value.namespace) == (owner_namespace, namespace)
    assert "ownerReferences" not in config_map["metadata"]


@pytest.mark.parametrize("namespace", ["shop", ""])
def test_a_cluster_scoped_owner_owns_anything(namespace: str) -> None:
    config_map = set_controller_reference(_database(namespace=""), _config_map(namespace))

    assert config_map["metadata"]["ownerReferences"] == [_REFERENCE]


@pytest.mark.parametrize("put", [set_controller_reference, set_owner_reference])
def test_an_object_does_not_own_itself(put: Any) -> None:
    metadata = {"name": "web", "namespace": "shop", "uid": "u"}
    owner: JSONObject = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    with pytest.raises(InvalidArgumentError, match="obj: must not be its own owner"):
        put(owner, copy.deepcopy(owner))


def test_an_object_with_a_generated_name_can_be_owned() -> None:
    config_map = _config_map()
    config_map["metadata"] = {"generateName": "c-", "namespace": "shop"}

    set_controller_reference(_database(), config_map)

    assert config_map["metadata"]["ownerReferences"] == [_REFERENCE]


@pytest.mark.covers(
    "controller-runtime pkg/controller/controllerutil: should set ownerRef on an empty list"
)
def test_plain_owners_stand_beside_the_controller() -> None:
    config_map = set_controller_reference(_database(), _config_map())

    set_owner_reference(_database("second", uid="u2"), config_map)

    references = config_map["metadata"]["ownerReferences"]
    assert references[0] == _REFERENCE
    assert references[1] == {
        "apiVersion": "acme.io/v1",
        "kind": "Database",
        "name": "second",
        "uid": "u2",
    }


def test_a_plain_reference_does_not_replace_the_controller() -> None:
    config_map = set_controller_reference(_database(), _config_map())

    set_owner_reference(_database(), config_map)

    assert config_map["metadata"]["ownerReferences"] == [_REFERENCE]


def test_an_owner_that_the_server_does_not_know_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="owner: must have a uid"):
        set_controller_reference(_database(uid=""), _config_map())


def test_a_cached_object_is_not_changed_but_refused() -> None:
    with pytest.raises(InvalidTypeError, match=r"to_dict\(\)"):
        set_controller_reference(_database(), make("shop/web"))  # type: ignore[arg-type] # misuse


@pytest.mark.covers(
    "controller-runtime pkg/controller/controllerutil: should set ownerRef on an empty list"
)
@pytest.mark.parametrize(
    ("obj", "complaint"),
    [
        pytest.param({"kind": "A", "metadata": {"name": "a"}}, "no apiVersion", id="version"),
        pytest.param({"apiVersion": "v1", "metadata": {"name": "a"}}, "no kind", id="kind"),
        pytest.param({"apiVersion": "v1", "kind": "A"}, "no metadata.name", id="name"),
        pytest.param(
            {"apiVersion": "v1", "kind": "A", "metadata": []}, "must be a dict", id="list"
        ),
        pytest.param(
            _config_map(ownerReferences="x"), "must be a list of dicts", id="references-are-no-list"
        ),
        pytest.param("x", "must be a dict", id="text"),
    ],
)
def test_a_value_that_is_not_an_object_is_refused_by_its_argument(
    obj: JSONObject, complaint: str
) -> None:
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match=f"^obj: .*{complaint}"):
        set_controller_reference(_database(), obj)


@pytest.mark.covers(
    "controller-runtime pkg/controller/controllerutil: should remove the owner reference"
)
@pytest.mark.parametrize("put", [set_controller_reference, set_owner_reference])
def test_the_last_reference_is_removed_as_if_it_had_never_been_set(put: Any) -> None:
    config_map = put(_database(), _config_map())

    returned = remove_owner_reference(_database(), config_map)

    assert returned is config_map
    assert config_map == _config_map()


@pytest.mark.covers(
    "controller-runtime pkg/controller/controllerutil: should remove the owner reference"
)
def test_only_the_reference_to_the_owner_is_removed() -> None:
    config_map = set_controller_reference(_database(), _config_map())
    set_owner_reference(_database("second", uid="u2"), config_map)

    remove_owner_reference(_database("second", uid=""), config_map)

    assert config_map["metadata"]["ownerReferences"] == [_REFERENCE]


@pytest.mark.covers(
    "controller-runtime pkg/controller/controllerutil: should remove the owner reference"
)
@pytest.mark.parametrize("controller_only", [False, True])
def test_removing_a_reference_that_is_not_there_changes_nothing(controller_only: bool) -> None:
    """A reconcile that is repeated removes it a second time."""
    config_map = set_controller_reference(_database(), _config_map())
    before = copy.deepcopy(config_map)

    remove_owner_reference(_database("second"), config_map, controller_only=controller_only)
    remove_owner_reference({**_database(), "kind": "Cache"}, config_map)
    remove_owner_reference({**_database(), "apiVersion": "bank.io/v1"}, config_map)

    assert config_map == before


@pytest.mark.covers(
    "controller-runtime pkg/controller/controllerutil: should remove the owner reference"
)
def test_a_plain_reference_stays_if_only_the_controller_is_removed() -> None:
    config_map = set_owner_reference(_database(), _config_map())
    before = copy.deepcopy(config_map)

    remove_owner_reference(_database(), config_map, controller_only=True)
    assert config_map == before

    set_controller_reference(_database(), config_map)
    remove_owner_reference(_database(), config_map, controller_only=True)
    assert "ownerReferences" not in config_map["metadata"]


@pytest.mark.covers(
    "controller-runtime pkg/controller/controllerutil: should remove the owner reference"
)
def test_an_owner_is_found_by_its_kind_and_name() -> None:
    config_map = set_owner_reference(_database(), _config_map())

    assert has_owner_reference(_database(), config_map)
    assert has_owner_reference({**_database(uid="new"), "apiVersion": "acme.io/v2"}, config_map)
    assert not has_owner_reference(_database("second"), config_map)
    assert not has_owner_reference(_database(), _config_map())


@pytest.mark.covers(
    "controller-runtime pkg/controller/controllerutil: should remove the owner reference"
)
def test_a_plain_owner_does_not_count_as_the_controller() -> None:
    plain = set_owner_reference(_database(), _config_map())
    controlled = set_controller_reference(_database(), _config_map())

    assert not has_owner_reference(_database(), plain, controller_only=True)
    assert has_owner_reference(_database(), controlled, controller_only=True)


@pytest.mark.covers(
    "controller-runtime pkg/controller/controllerutil: should remove the owner reference"
)
def test_a_reference_in_a_version_that_kubernetes_refuses_is_not_that_of_the_owner() -> None:
    odd = _config_map(ownerReferences=[{**_REFERENCE, "apiVersion": "acme.io/v1/fail"}])

    assert not has_owner_reference(_database(), odd)


def test_a_cached_object_is_asked_but_not_changed() -> None:
    cached = made("c", owners=[owner("db", api_version="acme.io/v1", kind="Database")])

    assert has_owner_reference(_database(), cached, controller_only=True)
    assert not has_owner_reference(_database("second"), cached)
    with pytest.raises(InvalidTypeError, match=r"to_dict\(\)"):
        remove_owner_reference(_database(), cached)  # type: ignore[arg-type] # misuse


@pytest.mark.covers(
    "controller-runtime pkg/controller/controllerutil: should remove the owner reference"
)
@pytest.mark.parametrize("act", [has_owner_reference, remove_owner_reference])
@pytest.mark.parametrize(
    ("owner", "obj", "argument"),
    [
        pytest.param("x", _config_map(), "owner", id="owner-is-text"),
        pytest.param({"kind": "A"}, _config_map(), "owner", id="owner-has-no-version"),
        pytest.param(_database(), {"kind": "A"}, "obj", id="object-has-no-version"),
        pytest.param(_database(), 7, "obj", id="object-is-a-number"),
        pytest.param(_database(), _config_map(ownerReferences="x"), "obj", id="no-list"),
    ],
)
def test_what_is_not_an_object_is_refused_by_its_argument(
    act: Any, owner: Any, obj: Any, argument: str
) -> None:
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match=f"^{argument}: "):
        act(owner, obj)


@pytest.mark.parametrize(
    ("act", "flag"),
    [
        (set_controller_reference, "block_owner_deletion"),
        (set_owner_reference, "block_owner_deletion"),
        (remove_owner_reference, "controller_only"),
        (has_owner_reference, "controller_only"),
    ],
)
def test_a_flag_that_is_not_a_bool_is_refused_and_nothing_is_changed(act: Any, flag: str) -> None:
    config_map = _config_map(ownerReferences=[{**_REFERENCE, "controller": False}])
    before = copy.deepcopy(config_map)
    with pytest.raises(InvalidArgumentError, match=flag):
        act(_database(), config_map, **{flag: "no"})
    assert config_map == before
