"""EtcdTruth on a gateway that the tests script: what it reads, and what it notices."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer.errors import KubeAPIServerError, LifecycleError
from pyinformer.testing.histories import (
    EtcdTruth,
    History,
    RestoredRecord,
    TruthRecord,
    digest_of,
    status_digests,
)
from tests.testing.etcd_gateway import Gateway, gateway
from tests.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Iterator

A, B = "/registry/configmaps/default/a", "/registry/configmaps/default/b"


@pytest.fixture
def etcd() -> Iterator[Gateway]:
    with gateway() as store:
        yield store


def config_map(name: str, uid: str, **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": uid, "labels": {"tier": "in"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **more}


def shown(history: History) -> list[tuple[int, str, str, str]]:
    return [
        (one.revision, one.verb, one.key, one.uid)
        for one in history
        if isinstance(one, TruthRecord)
    ]


def restores(history: History) -> list[RestoredRecord]:
    return [one for one in history if isinstance(one, RestoredRecord)]


def test_everything_is_read_from_the_first_revision(etcd: Gateway) -> None:
    body = config_map("a", "u1", data={"x": "1"}, status={"ready": 1})
    etcd.put(A, body)
    history = History()
    with EtcdTruth(history, etcd.url, fields=["data.x", "data.none"]) as truth:
        etcd.delete(A)
        etcd.put(A, config_map("a", "u2"))
        assert truth.catch_up() == truth.revision == 4

    assert shown(history) == [
        (2, "put", "default/a", "u1"),
        (3, "delete", "default/a", "u1"),
        (4, "put", "default/a", "u2"),
    ]
    first = next(one for one in history if isinstance(one, TruthRecord))
    assert first.resource == "configmaps"
    assert first.labels == {"tier": "in"}
    assert first.fields == {"data.x": "1", "data.none": ""}
    assert first.digest == digest_of(body)
    assert first.status == status_digests(body["status"])


@pytest.mark.parametrize(
    ("key", "api_version", "resource"),
    [
        pytest.param("deployments/default/a", "apps/v1", "deployments.apps", id="group"),
        pytest.param(
            "example.com/widgets/default/a", "example.com/v1", "widgets.example.com", id="custom"
        ),
        pytest.param("services/specs/default/a", "v1", "services", id="services"),
        pytest.param("services/endpoints/default/a", "v1", "endpoints", id="endpoints"),
    ],
)
def test_resources_have_the_names_of_their_urls(
    etcd: Gateway, key: str, api_version: str, resource: str
) -> None:
    etcd.put(f"/registry/{key}", {**config_map("a", "u"), "apiVersion": api_version})
    history = History()
    with EtcdTruth(history, etcd.url) as truth:
        truth.catch_up()

    assert [one.resource for one in history if isinstance(one, TruthRecord)] == [resource]


def test_a_cluster_scoped_object_has_its_name_as_key(etcd: Gateway) -> None:
    metadata = {"name": "n", "uid": "u"}
    etcd.put("/registry/minions/n", {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    history = History()
    with EtcdTruth(history, etcd.url) as truth:
        truth.catch_up()

    (found,) = (one for one in history if isinstance(one, TruthRecord))
    assert (found.resource, found.key) == ("nodes", "n")


def test_what_is_not_an_object_is_left_out(etcd: Gateway) -> None:
    etcd.put("compact_rev_key", b"7")
    etcd.put("/registry/ranges/serviceips", b"k8s\x00\xff")
    etcd.put("/registry/odd/default/x", b"[1]")
    etcd.delete("compact_rev_key")
    history = History()
    with EtcdTruth(history, etcd.url) as truth:
        assert truth.catch_up() == 5

    assert list(history) == []


def test_only_the_wanted_resources_are_recorded(etcd: Gateway) -> None:
    etcd.put(A, config_map("a", "u"))
    etcd.put("/registry/pods/default/p", {**config_map("p", "u"), "kind": "Pod"})
    history = History()
    with EtcdTruth(history, etcd.url, resources=["pods"]) as truth:
        truth.catch_up()

    assert shown(history) == [(3, "put", "default/p", "u")]


def test_a_cut_connection_loses_and_repeats_nothing(etcd: Gateway) -> None:
    history = History()
    with EtcdTruth(history, etcd.url) as truth:
        for number in range(5):
            etcd.put(A, config_map("a", "u", data={"n": str(number)}))
            truth.catch_up()
            etcd.cut()
        etcd.delete(A)
        truth.catch_up()

    assert [one[0] for one in shown(history)] == [2, 3, 4, 5, 6, 7]
    assert restores(history) == []


def test_an_older_revision_is_another_history(etcd: Gateway) -> None:
    etcd.put(A, config_map("a", "u1"))
    saved = etcd.save()
    etcd.put(B, config_map("b", "u2"))
    history = History()
    with EtcdTruth(history, etcd.url) as truth:
        truth.catch_up()
        etcd.restore(saved)
        assert poll(lambda: restores(history), timeout_seconds=100)
        etcd.put(B, config_map("b", "u3"))
        truth.catch_up()

    (restored,) = restores(history)
    assert (restored.revision, restored.puts) == (2, 1)
    assert shown(history) == [
        (2, "put", "default/a", "u1"),
        (3, "put", "default/b", "u2"),
        (2, "put", "default/a", "u1"),
        (3, "put", "default/b", "u3"),
    ]


@pytest.mark.parametrize("again", [True, False], ids=["written-again", "only-lost"])
def test_another_history_is_noticed_when_the_revision_has_passed(
    etcd: Gateway, again: bool
) -> None:
    """By a key that was written at a known revision, or by one that is missing without a delete."""
    etcd.put(A, config_map("a", "u1"))
    saved = etcd.save()
    etcd.put(B, config_map("b", "u2"))
    history = History()
    truth = EtcdTruth(history, etcd.url)
    with truth:
        truth.catch_up()
    etcd.restore(saved)
    if again:
        etcd.put(B, config_map("b", "u3"))
    else:
        etcd.put(A, config_map("a", "u1"))
    etcd.put(A, config_map("a", "u1"))
    with truth:
        assert poll(lambda: restores(history), timeout_seconds=100)
        truth.catch_up()

    assert len(restores(history)) == 1


def test_compacted_revisions_are_reported(etcd: Gateway) -> None:
    etcd.put(A, config_map("a", "u1"))
    etcd.compact()
    history = History()
    with EtcdTruth(history, etcd.url) as truth:
        etcd.put(B, config_map("b", "u2"))
        truth.catch_up()
        assert poll(lambda: len(shown(history)) == 2, timeout_seconds=100)

    (restored,) = restores(history)
    assert restored.reason == "etcd has compacted revisions that were not read"


def test_an_etcd_that_refuses_is_asked_again(etcd: Gateway) -> None:
    history = History()
    etcd.fails = True
    with EtcdTruth(history, etcd.url) as truth:
        with pytest.raises(KubeAPIServerError, match="etcd does not answer"):
            truth.catch_up()
        etcd.fails = False
        etcd.put(A, config_map("a", "u1"))
        truth.catch_up()

    assert len(shown(history)) == 1


def test_a_truth_that_stands_still_is_an_error(etcd: Gateway) -> None:
    truth = EtcdTruth(History(), etcd.url)
    etcd.put(A, config_map("a", "u1"))

    with pytest.raises(KubeAPIServerError, match="it is at 0, and etcd at 2"):
        truth.catch_up(timeout_seconds=0.05)


def test_it_is_started_once_at_a_time(etcd: Gateway) -> None:
    truth = EtcdTruth(History(), etcd.url)
    with truth, pytest.raises(LifecycleError, match="this EtcdTruth runs"):
        truth.start()
    truth.stop()


def test_a_revision_counts_when_the_history_has_it(etcd: Gateway) -> None:
    """What `catch_up` returns is what a reader of the history finds in it."""
    began, may_add = threading.Event(), threading.Event()

    class Slow(History):  # type: ignore[misc]  # final for programs
        def add(self, record: Any) -> Any:
            began.set()
            assert may_add.wait(100)
            return super().add(record)

    history = Slow()
    etcd.put(A, config_map("a", "u1"))
    with EtcdTruth(history, etcd.url) as truth:
        try:
            assert began.wait(100)
            assert truth.revision == 0
            with pytest.raises(KubeAPIServerError, match="it is at 0, and etcd at 2"):
                truth.catch_up(timeout_seconds=0.05)
        finally:
            may_add.set()
        assert truth.catch_up() == truth.revision == 2
        assert shown(history) == [(2, "put", "default/a", "u1")]


def test_the_end_of_a_history_ends_the_truth_with_an_error(etcd: Gateway) -> None:
    """A bug in the thread is raised by catch_up, not swallowed."""

    class Full(History):  # type: ignore[misc]  # final for programs
        def add(self, record: Any) -> Any:
            raise ValueError("the disk is full")

    with EtcdTruth(Full(), etcd.url) as truth:
        etcd.put(A, config_map("a", "u1"))
        with pytest.raises(KubeAPIServerError, match="the disk is full"):
            truth.catch_up()
