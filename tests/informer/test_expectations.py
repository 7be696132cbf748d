"""What a controller expects of its cache: fulfilled, lowered, or visibly given up in the end."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pyinformer.apimachinery import GroupVersionResource, ObjectCodec
from pyinformer.errors import InvalidArgumentError
from pyinformer.informer import Expectations, SharedInformer
from pyinformer.informer._barrier import WriteTarget
from pyinformer.testing import Fault
from tests.informer.clusters import HURRIED, cluster_of, pod
from tests.informer.test_read_your_writes import stalled
from tests.store.objects import pod as cached
from tests.waiting import until

if TYPE_CHECKING:
    from pyinformer.informer import InformerStatus
    from pyinformer.testing import APIServer

A, B = cached("a", version=10), cached("b", version=11)


class Cache:
    """An informer as far as expectations ask; and a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.position = "9"
        self.objects: dict[str, Any] = {}
        self.caches: dict[str | None, tuple[int, int]] = {None: (1, 0)}
        """Loads and epoch by namespace; by None if all are one."""
        self.lister = self

    def get(self, key: str, *, allow_unsynced: bool = False) -> Any:
        """Return what a reader sees."""
        assert allow_unsynced
        return self.objects.get(key)

    def has_seen(
        self, resource_version: str | None, *, key: str | None = None, uid: str | None = None
    ) -> bool:
        """Return it by the same rule as an informer."""
        wanted = WriteTarget.of(resource_version, key, uid)
        return wanted.is_met(self.position, self.objects.get(key or ""))

    def status(self) -> InformerStatus:
        """Say how often each namespace was listed."""
        scopes = [
            SimpleNamespace(namespace=name, loads=loads, epoch=epoch)
            for name, (loads, epoch) in self.caches.items()
        ]
        status: Any = SimpleNamespace(namespaces=tuple(scopes))
        found: InformerStatus = status
        return found


@pytest.fixture
def cache() -> Cache:
    """Return an empty cache."""
    return Cache()


@pytest.fixture
def expectations(cache: Cache) -> Expectations[str]:
    """Return expectations that time out after a minute."""
    return Expectations(cache, timeout_seconds=60, clock=lambda: cache.now)


def test_nothing_is_expected_at_first(expectations: Expectations[str]) -> None:
    assert expectations.check("web") == "fulfilled"
    assert expectations.pending("web") is None
    expectations.expect("web")
    assert len(expectations) == 0


def test_a_creation_is_fulfilled_when_the_cache_has_its_version(
    cache: Cache, expectations: Expectations[str]
) -> None:
    expectations.expect("web", creations=2)
    assert expectations.check("web") == "pending"
    expectations.created("web", A)
    expectations.created("web", B)
    pending = expectations.pending("web")
    assert pending is not None
    assert pending.creations == ("default/a", "default/b")
    assert pending.unanswered_creations == 0
    cache.position = "10"
    assert expectations.check("web") == "pending"
    cache.position = "11"
    assert expectations.check("web") == "fulfilled"
    assert expectations.pending("web") is None
    assert len(expectations) == 0


def test_a_deletion_is_fulfilled_when_its_uid_is_gone(
    cache: Cache, expectations: Expectations[str]
) -> None:
    cache.objects["default/a"] = A
    expectations.expect("web", deletions=[A])
    cache.position = "99"
    pending = expectations.pending("web")
    assert pending is not None
    assert pending.deletions == ("default/a",)
    assert expectations.check("web") == "pending"
    del cache.objects["default/a"]
    assert expectations.check("web") == "fulfilled"


def test_owners_do_not_wait_for_each_other(expectations: Expectations[str]) -> None:
    expectations.expect("web", creations=1)
    assert expectations.check("db") == "fulfilled"
    assert expectations.check("web") == "pending"


def test_a_failed_write_is_no_longer_expected(
    cache: Cache, expectations: Expectations[str]
) -> None:
    cache.objects["default/a"] = A
    expectations.expect("web", creations=2, deletions=[A])
    expectations.failed("web", creations=2, deletions=[A])
    expectations.failed("web", creations=2)
    assert expectations.check("web") == "fulfilled"
    expectations.failed("web", creations=1)


def test_repeated_expectations_are_added(cache: Cache, expectations: Expectations[str]) -> None:
    expectations.expect("web", creations=1)
    expectations.expect("web", creations=1)
    expectations.created("web", A)
    cache.position = "10"
    assert expectations.check("web") == "pending"
    expectations.failed("web", creations=1)
    assert expectations.check("web") == "fulfilled"


def test_a_late_answer_is_still_counted(cache: Cache, expectations: Expectations[str]) -> None:
    expectations.expect("web", creations=1)
    cache.caches[None] = (3, 0)
    assert expectations.check("web") == "fulfilled"  # its answer seemed to be lost
    expectations.created("web", A)
    assert expectations.check("web") == "pending"
    cache.position = "10"
    assert expectations.check("web") == "fulfilled"


def test_an_answer_is_recorded_for_its_owner(expectations: Expectations[str]) -> None:
    expectations.expect("web", creations=1)
    expectations.created("web", A)
    expectations.created("web", B)
    pending = expectations.pending("web")
    assert pending is not None
    assert pending.creations == ("default/a", "default/b")


def test_a_deletion_is_fulfilled_when_its_object_is_seen_to_end(
    cache: Cache, expectations: Expectations[str]
) -> None:
    cache.objects["default/a"] = A
    expectations.expect("web", deletions=[A])
    assert expectations.check("web") == "pending"
    body = A.to_dict()
    body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    raw = msgspec.json.encode(body)
    codec: ObjectCodec[None] = ObjectCodec(GroupVersionResource.of("v1", "pods"))
    cache.objects["default/a"] = codec.decode(raw, 0, len(raw))
    assert expectations.check("web") == "fulfilled"  # its grace period may last for minutes


def test_a_new_epoch_ends_the_expectations_of_the_old_one(
    cache: Cache, expectations: Expectations[str]
) -> None:
    cache.objects["default/b"] = B
    expectations.expect("web", creations=1, deletions=[B])
    expectations.created("web", A)
    assert expectations.check("web") == "pending"
    cache.caches[None], cache.position = (2, 1), "5"
    expectations.expect("web", creations=1)
    pending = expectations.pending("web")
    assert pending is not None
    assert (pending.creations, pending.deletions) == ((), ())
    assert pending.unanswered_creations == 1


def test_a_creation_whose_answer_was_lost_is_settled_by_the_second_list(
    cache: Cache, expectations: Expectations[str]
) -> None:
    expectations.expect("web", creations=1)
    cache.caches[None] = (2, 0)  # may have begun before
    assert expectations.check("web") == "pending"
    cache.caches[None] = (3, 0)
    assert expectations.check("web") == "fulfilled"


@pytest.mark.parametrize(
    "now",
    [
        pytest.param({"a": (9, 0), "b": (2, 0)}, id="one-of-two-was-listed"),
        pytest.param({"a": (3, 0), "b": (3, 0), "c": (1, 0)}, id="one-is-new"),
        pytest.param({"a": (3, 0), "b": (1, 0)}, id="one-was-left-and-is-followed-again"),
        pytest.param({}, id="none-is-followed-for-now"),
    ],
)
def test_a_creation_without_an_answer_waits_for_the_lists_of_every_namespace(
    cache: Cache, expectations: Expectations[str], now: dict[str | None, tuple[int, int]]
) -> None:
    cache.caches = {"a": (1, 0), "b": (1, 0)}
    expectations.expect("web", creations=1)
    cache.caches = now
    assert expectations.check("web") == "pending"
    cache.caches = {"a": (9, 0), "b": (3, 0), "c": (2, 0)}
    assert expectations.check("web") == "fulfilled"


@pytest.mark.parametrize("other", [(8, 4), (1, 0)])
def test_a_new_epoch_of_one_namespace_ends_nothing_in_another(
    cache: Cache, expectations: Expectations[str], other: tuple[int, int]
) -> None:
    cache.objects["default/b"] = B
    cache.caches = {"default": (1, 0), "other": (2, 3)}
    expectations.expect("web", creations=1, deletions=[B])
    expectations.created("web", A)
    cache.caches["other"] = other
    assert expectations.check("web") == "pending"
    cache.caches["default"] = (2, 1)
    assert expectations.check("web") == "fulfilled"


def test_a_new_epoch_keeps_expectations_of_its_own_writes(
    cache: Cache, expectations: Expectations[str]
) -> None:
    expectations.expect("web", creations=2)
    cache.caches[None] = (2, 1)
    assert expectations.check("web") == "pending"
    expectations.created("web", A)
    expectations.created("web", B)
    assert expectations.check("web") == "pending"
    cache.position = "11"
    assert expectations.check("web") == "fulfilled"


def test_an_unfulfilled_expectation_times_out_once_and_is_reported(
    cache: Cache, expectations: Expectations[str], caplog: pytest.LogCaptureFixture
) -> None:
    expectations.expect("web", creations=1)
    cache.now = 59.0
    assert expectations.check("web") == "pending"
    cache.now = 60.0
    with caplog.at_level(logging.WARNING):
        assert expectations.check("web") == "timed_out"
    assert [record.__dict__["owner"] for record in caplog.records] == ["web"]
    assert expectations.timeouts == 1
    assert expectations.check("web") == "fulfilled"


def test_owners_that_are_never_checked_are_forgotten(
    cache: Cache, expectations: Expectations[str]
) -> None:
    expectations.expect("web", creations=1)
    cache.now = 30.0
    expectations.expect("db", creations=1)
    cache.now = 70.0
    expectations.expect("api", creations=1)
    assert len(expectations) == 2
    cache.position = "99"
    expectations.created("db", A)
    cache.now = 200.0
    assert expectations.check("db") == "fulfilled"  # late, and still fulfilled
    assert expectations.timeouts == 2


def test_an_expectation_fulfilled_before_the_check_is_not_a_timeout(
    cache: Cache, expectations: Expectations[str]
) -> None:
    expectations.expect("web", creations=1)
    expectations.created("web", A)
    cache.position, cache.now = "10", 100.0
    assert expectations.check("web") == "fulfilled"
    assert expectations.timeouts == 0


def test_an_owner_that_is_gone_expects_nothing(expectations: Expectations[str]) -> None:
    expectations.expect("web", creations=1)
    expectations.forget("web")
    assert expectations.check("web") == "fulfilled"


def test_a_negative_number_is_refused(expectations: Expectations[str]) -> None:
    with pytest.raises(InvalidArgumentError):
        expectations.expect("web", creations=-1)


async def test_an_informer_fulfils_expectations(apiserver: APIServer) -> None:
    apiserver.create(pod("old"))
    async with cluster_of(apiserver) as cluster, stalled(apiserver, cluster) as pods:
        expectations: Expectations[str] = Expectations(pods)
        old = pods.lister["default/old"]
        expectations.expect("web", creations=1, deletions=[old])
        expectations.created("web", await cluster.create(pod("new")))
        await cluster.delete(old, grace_period_seconds=0)
        assert expectations.check("web") == "pending"
        apiserver.faults.release()
        await until(lambda: expectations.check("web") == "fulfilled")
        assert sorted(pods.lister.keys()) == ["default/new"]


async def test_the_lists_of_one_namespace_prove_nothing_about_another(
    apiserver: APIServer,
) -> None:
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformer(cluster, "v1", "pods", namespaces=["a", "b"], options=HURRIED) as pods,
    ):
        await pods.wait_for_cache_sync(timeout_seconds=100)
        expectations: Expectations[str] = Expectations(pods)
        expectations.expect("web", creations=1)
        await _listed_again(apiserver, pods, "a")
        await _listed_again(apiserver, pods, "a")
        assert expectations.check("web") == "pending"
        await _listed_again(apiserver, pods, "b")
        assert expectations.check("web") == "pending"
        await _listed_again(apiserver, pods, "b")
        assert expectations.check("web") == "fulfilled"


async def _listed_again(server: APIServer, pods: SharedInformer[None], namespace: str) -> None:
    def loads() -> int:
        return {one.namespace: one.loads for one in pods.status().namespaces}[namespace]

    before = loads()
    server.faults.add(Fault(verb="watch", namespace=namespace, status=410))
    server.end_watches()
    await until(lambda: loads() > before)
