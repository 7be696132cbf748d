"""The pages on the operators of docs/examples: their tests pass."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from docs.examples.multi_cluster_endpoints import cluster_name

from pyinformer.testing import World
from tests.docs import pages

if TYPE_CHECKING:
    from types import ModuleType

    from pyinformer.objects import JSONObject

_REPLICATOR = "docs/howto/example-operators.md"  # its blocks of "python"
_INVALID = "docs/howto/gone-or-unreadable.md"
_EXAMPLES = pages.ROOT / "docs/examples"


@pytest.fixture
def page(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of a page, which imports a program of docs/examples."""
    monkeypatch.syspath_prepend(_EXAMPLES)
    return pages.module_of(request.param)


@pytest.mark.parametrize("page", [_REPLICATOR], indirect=True)
def test_the_test_of_the_page_on_copies_passes(page: ModuleType) -> None:
    page.test_a_namespace_that_gets_the_label_gets_a_copy()


def _namespace(name: str, **labels: str) -> JSONObject:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _replication(name: str, labels: object) -> JSONObject:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Replication",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"namespaceLabels": labels},
    }


@pytest.mark.parametrize("page", [_REPLICATOR], indirect=True)
def test_a_replication_that_does_not_fit_delays_no_other(page: ModuleType) -> None:
    with World([_replication("good", {"team": "a"}), _replication("odd", None)]) as world:
        (replications,) = page.app.controllers(world.cluster, world.factory)
        world.enqueued_by(replications)
        world.create(_namespace("new", team="a"))
        assert [one.key for one in world.enqueued_by(replications)] == ["default/good"]


@pytest.mark.parametrize("page", [_INVALID], indirect=True)
@pytest.mark.parametrize("conditions", ["none", ["odd"], [{"status": "False"}]])
def test_odd_conditions_of_one_backup_hide_no_other(
    page: ModuleType, caplog: pytest.LogCaptureFixture, conditions: object
) -> None:
    odd = {**page.backup("odd", database="a"), "status": {"conditions": conditions}}
    ready = {"type": "Ready", "status": "False"}
    bad = {**page.backup("bad", database="b"), "status": {"conditions": [ready]}}
    with World([odd, bad]) as world:
        _, timer = page.app.controllers(world.cluster, world.factory)
        assert world.reconcile(timer, "remind").error is None
    assert "shop/bad" in caplog.text


@pytest.mark.parametrize(
    "context",
    [
        "shop-eu",
        "kubernetes-admin@kubernetes",
        "arn:aws:eks:eu-central-1:123456789012:cluster/shop-of-a-long-name",
        "Ω",
        "-",
    ],
)
def test_a_cluster_is_named_as_labels_and_names_can_be(context: str) -> None:
    name = cluster_name(context)
    assert re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", name)
    assert len(name) < 63 - len("-10")
    assert (name == context) is (context == "shop-eu")
    assert cluster_name(f"{context}.") != name, "two contexts have two names"


@pytest.mark.parametrize("page", [_INVALID], indirect=True)
def test_the_test_of_the_page_on_invalid_objects_passes(
    page: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    page.test_a_backup_recovers_when_it_is_corrected()

    assert "1 of 2 backups are invalid: ['shop/odd']" in caplog.text
