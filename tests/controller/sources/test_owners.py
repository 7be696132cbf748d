"""Owners by group and kind, and the way back: an index that equals its own recomputation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyinformer.controller.sources import OwnedSource, OwnerKind, Request
from pyinformer.errors import LifecycleError
from pyinformer.objects import Added, KubeObject
from tests.controller.sources.feeding import FedInformer, Noted, made, owner
from tests.hostile import STORABLE, assert_shown_safely

if TYPE_CHECKING:
    from collections.abc import Callable

_DEPLOYMENT = OwnerKind("apps", "Deployment", namespaced=True)
_TENANT = OwnerKind("acme.io", "Tenant", namespaced=False)


def _owners(obj: KubeObject, kind: OwnerKind, *, controller_only: bool = True) -> list[str]:
    """Return the owners that an object requests; these alone have to own it in the index."""
    informer = FedInformer()
    informer.load(obj)
    source = OwnedSource(informer, controller_only=controller_only)
    source.set_owner(kind)
    requested = [str(request) for request in source.requests_for(Added(obj))]
    names = {one.name for one in obj.metadata.owner_references}
    for key in {""} | names | {f"default/{name}" for name in names}:
        assert source.owned_by(key) == ([obj] if key in requested else [])
    return requested


@pytest.mark.covers(
    "kube-runtime src: trigger_self_maps_owned_and_shared_objects",
    "controller-runtime pkg/handler: should enqueue a Request with the Owner of the object in",
    "controller-runtime pkg/handler: should do nothing.",
)
@pytest.mark.parametrize(
    ("owners", "kind", "expected"),
    [
        pytest.param([owner("a")], _DEPLOYMENT, ("default/a",), id="controller"),
        pytest.param(
            [owner("a", api_version="apps/v1beta2")], _DEPLOYMENT, ("default/a",), id="old"
        ),
        pytest.param([owner("a", api_version="other/v1")], _DEPLOYMENT, (), id="other-group"),
        pytest.param([owner("a", api_version="v1")], _DEPLOYMENT, (), id="core-group"),
        pytest.param([owner("a", api_version="apps/v1/fail")], _DEPLOYMENT, (), id="malformed"),
        pytest.param([owner("a", kind="StatefulSet")], _DEPLOYMENT, (), id="other-kind"),
        pytest.param([owner("a", controller=False)], _DEPLOYMENT, (), id="does-not-control"),
        pytest.param([owner("")], _DEPLOYMENT, (), id="nameless"),
        pytest.param([owner("a/b")], _DEPLOYMENT, (), id="no-name"),
        pytest.param([owner("a%b")], _DEPLOYMENT, (), id="percent"),
        pytest.param([owner("..")], _DEPLOYMENT, (), id="dots"),
        pytest.param([owner("<" * 300_000)], _DEPLOYMENT, (), id="endless"),
        pytest.param([owner("system:a b")], _DEPLOYMENT, ("default/system:a b",), id="of-rbac"),
        pytest.param(
            [owner("a", api_version="acme.io/v1", kind="Tenant")], _TENANT, ("a",), id="cluster"
        ),
        pytest.param([], _DEPLOYMENT, (), id="none"),
    ],
)
def test_owners_are_matched_by_group_and_kind_in_any_version(
    owners: list[dict[str, object]], kind: OwnerKind, expected: tuple[str, ...]
) -> None:
    assert _owners(made("x", owners=owners), kind) == list(expected)


@pytest.mark.covers(
    "controller-runtime pkg/handler: should enqueue a Request with the Owner of the object in",
    "kube-runtime src: trigger_self_maps_owned_and_shared_objects",
)
def test_every_owner_counts_when_controllers_are_not_required() -> None:
    obj = made("x", owners=[owner("a", controller=False), owner("b"), owner("a")])

    found = _owners(obj, _DEPLOYMENT, controller_only=False)
    assert found == ["default/a", "default/b"]


def _source(informer: FedInformer, *, controller_only: bool = True) -> OwnedSource[None]:
    source = OwnedSource(informer, controller_only=controller_only)
    source.set_owner(_DEPLOYMENT)
    return source


@pytest.mark.covers(
    "controller-runtime pkg/handler: should enqueue a Request with the Owner of the object in"
)
def test_a_change_of_owner_requests_both_owners() -> None:
    informer, noted = FedInformer(), Noted()
    informer.load(made("x", owners=[owner("a")]))
    _source(informer).attach(noted)

    informer.update(made("x", version=2, owners=[owner("b")]))

    assert noted.take() == [
        "default/a initial -100",
        "default/a updated 0",
        "default/b updated 0",
    ]


@pytest.mark.covers(
    "controller-runtime pkg/handler: should enqueue a Request with the Owner of the object in"
)
def test_an_object_with_the_same_owner_requests_it_once_per_event() -> None:
    informer, noted = FedInformer(), Noted()
    informer.load()
    _source(informer).attach(noted)

    informer.add(made("x", owners=[owner("a")]))
    informer.update(made("x", version=2, owners=[owner("a")]))
    informer.delete("default/x")
    informer.add(made("orphan"))

    assert noted.take() == ["default/a added 0", "default/a updated 0", "default/a deleted 0"]


def test_a_source_that_does_not_know_its_kind_of_owner_is_not_attached() -> None:
    source = OwnedSource(FedInformer())

    with pytest.raises(LifecycleError, match="not known yet"):
        source.attach(Noted())
    with pytest.raises(LifecycleError, match="not known yet"):
        source.owned_by("default/a")
    with pytest.raises(LifecycleError, match="not known yet"):
        source.requests_for(Added(made("x", owners=[owner("a")])))


def test_the_kind_of_owner_is_set_once() -> None:
    source = _source(FedInformer())

    source.set_owner(_DEPLOYMENT)

    assert source.owner == _DEPLOYMENT
    with pytest.raises(LifecycleError, match=r"owners of kind Deployment\.apps already"):
        source.set_owner(_TENANT)


def test_two_sources_of_one_informer_share_the_index() -> None:
    informer = FedInformer()
    informer.load(made("x", owners=[owner("a")]))

    first, second, loose = (
        _source(informer),
        _source(informer),
        _source(informer, controller_only=False),
    )

    for source in (first, second, loose):
        assert [obj.key for obj in source.owned_by("default/a")] == ["default/x"]


def test_owned_objects_are_found_by_key_by_request_and_by_object() -> None:
    informer = FedInformer()
    informer.load(made("x", owners=[owner("a")]), made("y", owners=[owner("b")]))
    source = _source(informer)

    for who in ("default/a", Request("default/a"), made("a")):
        assert [obj.key for obj in source.owned_by(who)] == ["default/x"]
    assert source.owned_by("other/a") == []
    assert source.owned_by(Request("default/a", "elsewhere")) == []


def test_an_object_owns_nothing_that_names_another_uid() -> None:
    """Any tenant may write a reference to a cluster-scoped owner."""
    informer = FedInformer()
    forged = {**owner("a"), "uid": "another-uid"}
    informer.load(made("x", owners=[owner("a")]), made("forged", owners=[forged]))
    source = _source(informer)

    assert [obj.key for obj in source.owned_by(made("a"))] == ["default/x"]
    assert len(source.owned_by("default/a")) == 2


_NAMES = ["a", "b", "c"]
_references = st.lists(
    st.builds(
        owner,
        st.sampled_from(_NAMES),
        api_version=st.sampled_from(["apps/v1", "apps/v1beta1", "v1"]),
        controller=st.booleans(),
    ),
    max_size=3,
)
_namespaces = st.sampled_from(["default", "other"])
_steps = st.lists(
    st.tuples(
        st.sampled_from(["put", "delete", "relist"]),
        st.sampled_from(["x", "y"]),
        _namespaces,
        _references,
    ),
    max_size=15,
)


@given(_steps, st.booleans())
def test_the_owner_index_equals_its_recomputation_after_any_history(
    steps: list[tuple[str, str, str, list[dict[str, object]]]], controller_only: bool
) -> None:
    informer, noted = FedInformer(), Noted()
    informer.load()
    source = _source(informer, controller_only=controller_only)
    source.attach(noted)

    for version, (step, name, namespace, references) in enumerate(steps, start=2):
        obj = made(name, namespace=namespace, owners=references, version=version)
        before = informer.lister.get(obj.key)
        expected = _owners_of(before, controller_only) | _owners_of(obj, controller_only)
        match step:
            case "put":
                (informer.add if before is None else informer.update)(obj)
            case "delete":
                expected = _owners_of(before, controller_only)
                if before is not None:
                    informer.delete(obj.key)
            case _:
                others = [known for known in informer.lister.list() if known.key != obj.key]
                informer.load(obj, *others)
        assert {line.split()[0] for line in noted.take()} == expected
        _assert_equals_recomputation(
            source, informer, lambda known: _owners_of(known, controller_only)
        )


def _owners_of(obj: KubeObject | None, controller_only: bool) -> set[str]:
    if obj is None:
        return set()
    return {
        f"{obj.metadata.namespace}/{each.name}"
        for each in obj.metadata.owner_references
        if each.api_version.startswith("apps/") and (each.controller or not controller_only)
    }


def _assert_equals_recomputation(
    source: OwnedSource[None], informer: FedInformer, owners: Callable[[KubeObject], set[str]]
) -> None:
    for namespace in ("default", "other"):
        for name in _NAMES:
            key = f"{namespace}/{name}"
            expected = {obj.key for obj in informer.lister.list() if key in owners(obj)}
            assert {obj.key for obj in source.owned_by(key)} == expected


@pytest.mark.parametrize("name", STORABLE, ids=ascii)
def test_a_reference_whose_name_no_object_can_have_makes_no_request(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    informer, noted = FedInformer(), Noted()
    informer.load()
    source = _source(informer)
    source.attach(noted)

    for number in range(3):
        informer.add(made(f"x{number}", owners=[owner(name), owner("good")]))

    assert [line.split()[0] for line in noted.take()] == ["default/good"] * 3
    assert source.status().refused == 3
    (line,) = caplog.messages
    assert "default/x0 has an ownerReference with a name that an object cannot have" in line
    assert_shown_safely(line)


def test_an_index_of_owners_has_no_bucket_for_a_name_that_cannot_be() -> None:
    obj = made("x", owners=[owner("a\nb"), owner("good")])
    assert _owners(obj, _DEPLOYMENT) == ["default/good"]
