"""Keys and names of resources: what is accepted, how it prints, that it is plain data."""

from __future__ import annotations

import copy
import gc
import pickle

import pytest

from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.objects import GroupVersionKind, GroupVersionResource, ObjectKey, object_key


@pytest.mark.covers(
    "client-go tools/cache: TestObjectNames",
    "kube-runtime src: display_should_follow_expected_format",
)
@pytest.mark.parametrize(
    ("text", "namespace", "name"),
    [
        pytest.param("default/web", "default", "web", id="namespaced"),
        pytest.param("node-1", "", "node-1", id="cluster-scoped"),
        pytest.param("", "", "", id="empty"),
    ],
)
def test_a_key_has_its_namespace_and_name(text: str, namespace: str, name: str) -> None:
    key = ObjectKey(text)
    assert (key.namespace, key.name) == (namespace, name)
    assert object_key(namespace, name) == text


@pytest.mark.covers("kube-runtime src: display_should_follow_expected_format")
def test_a_key_is_its_text() -> None:
    key = ObjectKey("default/web")
    assert key == "default/web"
    assert {"default/web": 1}[key] == 1
    assert f"{key}" == "default/web"


def test_stored_keys_are_plain_and_untracked() -> None:
    """A str subclass is tracked by the collector; what object_key makes must not be."""
    key = object_key("default", "web")
    assert type(key) is str
    assert not gc.is_tracked(key)


@pytest.mark.covers("client-go tools/cache: TestObjectNames")
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "value",
    [
        ObjectKey("default/web"),
        GroupVersionResource("apps", "v1", "deployments"),
        GroupVersionKind("", "v1", "Pod"),
    ],
)
def test_keys_and_names_survive_pickling_and_copying(value: object, protocol: int) -> None:
    restored = pickle.loads(pickle.dumps(value, protocol))  # noqa: S301 - our own bytes
    for clone in (restored, copy.copy(value), copy.deepcopy(value)):
        assert clone == value
        assert type(clone) is type(value)


@pytest.mark.parametrize(
    ("api_version", "plural", "text", "path"),
    [
        pytest.param("v1", "pods", "pods.v1", "/api/v1", id="core"),
        pytest.param("apps/v1", "deployments", "deployments.v1.apps", "/apis/apps/v1", id="group"),
        pytest.param(
            "stable.example.com/v1alpha1",
            "crontabs",
            "crontabs.v1alpha1.stable.example.com",
            "/apis/stable.example.com/v1alpha1",
            id="custom",
        ),
        pytest.param("g.io/foo", "bars", "bars.foo.g.io", "/apis/g.io/foo", id="odd-version"),
    ],
)
def test_resources_are_read_and_printed(
    api_version: str, plural: str, text: str, path: str
) -> None:
    resource = GroupVersionResource.of(api_version, plural)
    assert (str(resource), resource.path) == (text, path)
    assert (resource.api_version, resource.resource) == (api_version, plural)


@pytest.mark.parametrize(
    ("api_version", "plural"),
    [("pods", "v1"), ("deployments", "apps/v1"), ("crontabs", "g/v1beta2")],
)
def test_swapped_arguments_are_named(api_version: str, plural: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        GroupVersionResource.of(api_version, plural)
    expected = f"api_version: arguments swapped: write ({plural!r}, {api_version!r})"
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("api_version", "plural", "argument"),
    [
        pytest.param("", "pods", "api_version", id="empty-version"),
        pytest.param("a/b/v1", "pods", "api_version", id="two-slashes"),
        pytest.param("/v1", "pods", "api_version", id="empty-group"),
        pytest.param("apps/", "pods", "api_version", id="group-without-version"),
        pytest.param("apps", "deployments", "api_version", id="group-alone"),
        pytest.param("v1\n", "pods", "api_version", id="line-feed"),
        pytest.param("v1", "", "plural", id="empty-plural"),
        pytest.param("v1", "Pod", "plural", id="kind-for-plural"),
        pytest.param("v1", "pods/status", "plural", id="subresource"),
        pytest.param("v1", "../secrets", "plural", id="path"),
        pytest.param("v1", "pods?watch=1", "plural", id="query"),
    ],
)
def test_malformed_resources_are_refused(api_version: str, plural: str, argument: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        GroupVersionResource.of(api_version, plural)
    assert caught.value.argument == argument


@pytest.mark.parametrize(
    ("api_version", "plural", "argument"), [(None, "pods", "api_version"), ("v1", 5, "plural")]
)
def test_a_value_that_is_not_text_is_refused(api_version: str, plural: str, argument: str) -> None:
    with pytest.raises(InvalidTypeError, match=rf"^{argument}: must be a text, not "):
        GroupVersionResource.of(api_version, plural)


def test_a_group_without_a_version_is_refused_with_the_missing_part() -> None:
    with pytest.raises(
        InvalidArgumentError, match="must have a version, got 'apps': write 'apps/v1'"
    ):
        GroupVersionResource.of("apps", "deployments")


def test_kinds_are_read_and_printed() -> None:
    assert GroupVersionKind.of("apps/v1", "Deployment") == GroupVersionKind(
        "apps", "v1", "Deployment"
    )
    assert GroupVersionKind.of("v1", "Pod").api_version == "v1"
    assert str(GroupVersionKind.of("apps/v1", "Deployment")) == "apps/v1/Deployment"


def test_names_are_immutable_and_ordered() -> None:
    pods, nodes = (GroupVersionResource.of("v1", plural) for plural in ("pods", "nodes"))
    assert nodes < pods
    assert len({pods, GroupVersionResource.of("v1", "pods")}) == 1
    with pytest.raises(AttributeError):
        pods.resource = "x"  # type: ignore[misc]  # what the test is about
