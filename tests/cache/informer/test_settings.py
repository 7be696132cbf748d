"""What can be asked for: refused at the call, in words that say what would be right."""

from __future__ import annotations

from typing import Any

import pytest

from pyinformer.cache.informer import InformerSettings, Scope
from pyinformer.errors import (
    InformerError,
    InvalidArgumentError,
    InvalidSelectorError,
)


def scope(**options: Any) -> Scope:
    given: dict[str, Any] = {"namespaces": None, "label_selector": None, "field_selector": None}
    return Scope.of("v1", "pods", **{**given, **options})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "pods.v1"),
        ({"namespaces": "web"}, "pods.v1 in web"),
        ({"namespaces": ["web"]}, "pods.v1 in web"),
        ({"namespaces": ["web", "web"]}, "pods.v1 in web"),
        ({"namespaces": ["web", "db"]}, "pods.v1 in db, web"),
        ({"namespaces": list("abcdefg")}, "pods.v1 in a, b, c, d and 3 more"),
        ({"namespace_selector": {"team": "a"}}, "pods.v1 in namespaces with labels team=a"),
        ({"label_selector": {"app": "a"}}, "pods.v1 with labels app=a"),
        ({"field_selector": "spec.nodeName=n"}, "pods.v1 with fields spec.nodeName=n"),
    ],
)
def test_a_scope_has_a_readable_text(options: dict[str, Any], text: str) -> None:
    assert str(scope(**options)) == text


def test_scopes_that_mean_the_same_are_one() -> None:
    as_text = scope(namespaces="web", label_selector="b=2,a=1")
    as_mapping = scope(namespaces=("web",), label_selector={"a": "1", "b": "2"})

    assert {as_text: "known"}[as_mapping] == "known"


def test_namespaces_and_selectors_distinguish_scopes() -> None:
    scopes = {
        scope(),
        scope(namespaces="web"),
        scope(label_selector="app"),
        scope(field_selector="metadata.name=a"),
    }

    assert len(scopes) == 4


@pytest.mark.parametrize(
    ("options", "is_selective"),
    [
        ({}, False),
        ({"namespaces": "web"}, False),
        ({"label_selector": "app"}, True),
        ({"field_selector": "metadata.name=a"}, True),
    ],
)
def test_only_selectors_let_an_object_leave_undeleted(
    options: dict[str, Any], is_selective: bool
) -> None:
    assert scope(**options).is_selective is is_selective


@pytest.mark.parametrize(
    ("namespaces", "words"),
    [
        pytest.param(
            [], "namespaces: an empty list follows nothing; None follows all namespaces", id="none"
        ),
        pytest.param(
            "",
            "namespaces: must be the name of a namespace, got ''; None follows all of them",
            id="empty",
        ),
        pytest.param("a/b", "got 'a/b'", id="key"),
        pytest.param("Web", "got 'Web'", id="upper-case"),
        pytest.param("web ", "got 'web '", id="blank"),
        pytest.param("*", "got '*'", id="star"),
        pytest.param("a" * 64, "must be the name of a namespace", id="too-long"),
        pytest.param([None], "got None", id="none-in-list"),
        pytest.param(7, "got a int", id="number"),
    ],
)
def test_namespaces_that_cannot_be_followed_are_refused(namespaces: object, words: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        scope(namespaces=namespaces)

    assert words in str(raised.value)
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize("option", ["label_selector", "field_selector"])
def test_a_malformed_selector_is_refused_with_its_text(option: str) -> None:
    with pytest.raises(InvalidSelectorError) as raised:
        scope(**{option: "a in (b"})

    assert str(raised.value).startswith(f"{option}: cannot parse 'a in (b'")


@pytest.mark.parametrize(
    ("api_version", "plural", "words"),
    [
        ("pods", "v1", "arguments swapped: write ('v1', 'pods')"),
        ("deployments", "apps/v1", "arguments swapped: write ('apps/v1', 'deployments')"),
        ("v1", "Pod", "must be a plural resource name in lower case such as 'pods', got 'Pod'"),
        ("", "pods", "must be 'v1' or 'group/version', got ''"),
        (None, "pods", "api_version: must be a text, not NoneType"),
    ],
)
def test_an_invalid_resource_is_refused(api_version: Any, plural: str, words: str) -> None:
    with pytest.raises(InformerError) as raised:
        Scope.of(api_version, plural, None, None, None)

    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"memory": "zstd"},
            "memory: must be one of raw, strip_managed_fields, compact, metadata, got 'zstd'",
        ),
        ({"queue": "fifo"}, "queue: must be one of direct, real_fifo, delta_fifo, got 'fifo'"),
        ({"queue": None}, "queue: must be one of direct, real_fifo, delta_fifo, got None"),
    ],
)
def test_settings_outside_of_the_choices_are_refused(options: Any, words: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        InformerSettings(**options)

    assert words in str(raised.value)
