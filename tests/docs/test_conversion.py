"""The page on conversion: its functions convert, and its test finds what the page says."""

from __future__ import annotations

import json

import pytest

from tests.docs import pages

PAGE = "docs/howto/conversion.md"


def test_the_functions_of_the_page_convert() -> None:
    assert len(pages.blocks(PAGE, "python")) == 3  # which are one module
    page = pages.module_of(PAGE)
    old = {
        "apiVersion": "acme.io/v1beta1",
        "kind": "Database",
        "metadata": {"name": "a", "labels": {"b": "c"}},
        "spec": {"engine": "mysql:8"},
    }

    new = json.loads(page.app.conversions.convert(json.dumps(old).encode(), "acme.io/v1"))

    assert new["metadata"] == old["metadata"]
    assert new["spec"] == {"engine": "mysql", "version": "8"}
    for definition in page.app.custom_resource_definitions():
        assert [one["name"] for one in definition["spec"]["versions"]] == ["v1", "v1beta1"]


def test_the_test_of_the_page_fails_with_its_words() -> None:
    page = pages.module_of(PAGE)
    (text,) = pages.blocks(PAGE, "text")
    first, change = text.text.removeprefix("AssertionError: ").splitlines()

    with pytest.raises(AssertionError) as raised:
        page.test_no_version_loses_a_field()

    found = str(raised.value).splitlines()
    assert found[0].startswith(first.removesuffix("{...}:"))
    assert found[1] == change


def test_an_annotation_keeps_what_the_old_version_cannot_hold() -> None:
    page = pages.module_of(PAGE)

    page.test_no_version_of_a_bucket_loses_a_field()

    new = {
        "apiVersion": "acme.io/v1",
        "kind": "Bucket",
        "metadata": {"name": "a"},
        "spec": {"region": "north", "name": "logs", "storageClass": "cold"},
    }
    old = json.loads(page.app.conversions.convert(json.dumps(new).encode(), "acme.io/v1beta1"))
    assert old["spec"] == {"place": "north/logs"}
    assert old["metadata"]["annotations"] == {page.KEPT: "cold"}
