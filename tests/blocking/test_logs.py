"""Logs in threads: closed when they are left, and no line is lost at an interrupt."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

import pyinformer
from pyinformer.blocking import timeout
from pyinformer.errors import LifecycleError, NotFoundError
from tests.blocking.test_interrupts import has_interrupted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.blocking import BlockingCluster
    from pyinformer.testing import APIServer


@pytest.fixture
def cluster(apiserver: APIServer) -> Iterator[BlockingCluster]:
    """A cluster with a pod that has written two lines."""
    spec = {"nodeName": "n1", "containers": [{"name": "main"}]}
    apiserver.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec})
    apiserver.write_log("a", "one\ntwo\n")
    with (
        pyinformer.run_in_thread() as runner,
        runner.connect(server=apiserver.url) as connected,
    ):
        yield connected


def test_a_log_is_a_plain_iterator(cluster: BlockingCluster) -> None:
    with cluster.logs("default/a") as lines:
        assert list(lines) == ["one", "two"]
        assert (lines.line_count, lines.cut_line_count) == (2, 0)
    with cluster.logs("default/a", max_line_bytes=2) as lines:
        assert lines.next_lines() == ["on [cut at 2 bytes]", "tw [cut at 2 bytes]"]
        assert lines.next_lines() == []
        assert lines.cut_line_count == 2
    with pytest.raises(NotFoundError), cluster.logs("default/none"):
        pass
    with pytest.raises(LifecycleError, match="enter the stream first"):
        next(cluster.logs("default/a"))


def test_a_wait_that_ends_at_a_deadline_loses_no_line(
    apiserver: APIServer, cluster: BlockingCluster
) -> None:
    with cluster.logs("default/a", follow=True) as lines:
        assert next(lines) == "one"
        with pytest.raises(TimeoutError), timeout(0.1):
            assert next(lines) == "two"
            next(lines)
        apiserver.write_log("a", "three\n")
        assert next(lines) == "three"
        waiting = threading.Timer(0.0, apiserver.write_log, ("a", "four\n"))
        waiting.start()
        assert next(lines) == "four"
        waiting.join()
        apiserver.restart_container("a")
        assert list(lines) == []


def test_breaking_off_closes_the_connection(cluster: BlockingCluster) -> None:
    with cluster.logs("default/a", follow=True) as lines:
        for line in lines:
            assert line == "one"
            break
    with pytest.raises(LifecycleError, match="closed"):
        next(lines)


def test_a_log_that_is_left_open_is_closed_with_the_runner(apiserver: APIServer) -> None:
    spec = {"nodeName": "n1", "containers": [{"name": "main"}]}
    apiserver.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec})
    with pyinformer.run_in_thread() as runner:
        cluster = runner.connect(server=apiserver.url).__enter__()
        lines = cluster.logs("default/a", follow=True)
        lines.__enter__()
    with pytest.raises(LifecycleError, match="runner is closed"):
        next(lines)


def test_an_interrupt_at_any_step_of_a_log_leaves_the_cluster_usable(
    cluster: BlockingCluster,
) -> None:
    def read_one() -> None:
        with cluster.logs("default/a", follow=True) as lines:
            next(lines)

    steps = 0
    while has_interrupted(read_one, steps):
        steps += 1
        with cluster.logs("default/a") as lines:
            assert list(lines) == ["one", "two"]
    assert steps > 20
