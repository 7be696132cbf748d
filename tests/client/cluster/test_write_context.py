"""Whether a write changed anything, by the resource version in the response."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import pyinformer
from pyinformer import GroupVersionResource
from pyinformer.client.cluster import CURRENT_WRITER
from pyinformer.client.cluster._write_context import WriteOutcomes
from tests.client.cluster.test_objects import CONFIG_MAPS, config_map

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.testing import APIServer

_PODS = GroupVersionResource.of("v1", "pods")


class Recorder:
    """A writer that records its calls."""

    name = "recorder"
    identity = "recorder"

    def __init__(self) -> None:
        self.writes: list[bool] = []

    def wrote(self, *, changed: bool) -> None:
        """Note it."""
        self.writes.append(changed)

    def take(self) -> list[bool]:
        """Return what came since the last call."""
        taken, self.writes = self.writes, []
        return taken


@contextmanager
def writing() -> Iterator[Recorder]:
    """Be a writer."""
    recorder = Recorder()
    token = CURRENT_WRITER.set(recorder)
    try:
        yield recorder
    finally:
        CURRENT_WRITER.reset(token)


async def test_each_kind_of_write_is_reported_with_its_result(apiserver: APIServer) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        with writing() as recorder:
            made = await cluster.create(config_map(v="1"))
            assert recorder.take() == [True]
            assert await cluster.replace(made) == made
            assert recorder.take() == [False]
            edited = made.to_dict()
            edited["data"] = {"v": "2"}
            changed = await cluster.patch(made, edited)
            await cluster.patch(made, edited)  # as it is already, by an old version
            await cluster.patch(changed, changed.to_dict())  # does not leave
            assert recorder.take() == [True, False]
            edited["metadata"]["finalizers"] = ["example.com/hold"]
            del edited["metadata"]["resourceVersion"]
            await cluster.replace(edited)
            assert recorder.take() == [True]
            left = await cluster.delete("v1", "configmaps", "default/a")
            assert left is not None
            await cluster.delete(left)
            assert recorder.take() == [True, False]
        assert cluster.write_statistics().unchanged_by == {"recorder": 3}


@pytest.mark.parametrize("how", ["patch", "replace", "apply"])
async def test_removing_the_last_finalizer_is_not_a_noop_write(
    apiserver: APIServer, how: str
) -> None:
    """The server answers with the version from before; removing many finalizers is not a storm."""
    desired = config_map(v="1")
    held = {**desired, "metadata": {**desired["metadata"], "finalizers": ["example.com/hold"]}}
    async with pyinformer.connect(server=apiserver.url) as cluster:
        await cluster.apply(held, field_manager="m")
        left = await cluster.delete("v1", "configmaps", "default/a")
        assert left is not None
        let_go = left.to_dict()
        del let_go["metadata"]["finalizers"]
        with writing() as recorder:
            if how == "patch":
                found = await cluster.patch(left, let_go)
            elif how == "replace":
                found = await cluster.replace(let_go)
            else:
                found = await cluster.apply(desired, field_manager="m")
        assert found.metadata.resource_version == left.metadata.resource_version
        assert recorder.take() == [True]
        assert cluster.write_statistics().unchanged == 0


async def test_a_deletion_of_an_absent_object_is_not_a_write(
    apiserver: APIServer,
) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        made = await cluster.create(config_map())
        with writing() as recorder:
            await cluster.delete(made, dry_run=True)
            assert recorder.take() == []
            await cluster.delete(made)
            assert recorder.take() == [True]
            await cluster.delete("v1", "configmaps", "default/a")
            assert recorder.take() == []


async def test_an_apply_is_compared_with_the_last_answer(apiserver: APIServer) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        with writing() as recorder:
            for value in ("1", "1", "2"):
                await cluster.apply(config_map(v=value), field_manager="m")
        assert recorder.take() == [False, True]  # of the first nothing is known


async def test_a_dry_run_and_a_failed_write_are_not_reported(apiserver: APIServer) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        made = await cluster.create(config_map())
        with writing() as recorder:
            await cluster.replace(made, dry_run=True)
            await cluster.apply(config_map(v="1"), field_manager="m", dry_run=True)
            with pytest.raises(pyinformer.ConflictError):
                await cluster.create(config_map())
        assert recorder.take() == []


async def test_the_first_apply_after_a_start_is_not_a_noop_write(apiserver: APIServer) -> None:
    desired = config_map(v="1")
    async with pyinformer.connect(server=apiserver.url) as cluster:
        known = await cluster.apply(desired, field_manager="m")
    async with pyinformer.connect(server=apiserver.url) as cluster:
        with writing() as recorder:
            again = await cluster.apply_if_changed(desired, known, field_manager="m")
            await cluster.apply_if_changed(desired, again, field_manager="m")
        assert recorder.take() == []
        assert cluster.write_statistics().sent == 1
        assert cluster.write_statistics().unchanged_by == {"recorder": 1}


async def test_writes_outside_of_a_reconcile_count_under_the_empty_name(
    apiserver: APIServer,
) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        made = await cluster.create(config_map())
        await cluster.replace(made)
        assert cluster.write_statistics().unchanged_by == {"": 1}
        assert cluster.write_statistics().unchanged == 1


def test_objects_of_one_key_in_different_resources_are_different() -> None:
    tally = WriteOutcomes()
    with writing() as recorder:
        tally.wrote(CONFIG_MAPS, "default/a", before=None, after="7")
        tally.wrote(_PODS, "default/a", before=None, after="7")
        assert recorder.take() == []
        tally.wrote(_PODS, "default/a", before="6", after="7")
    assert recorder.take() == [False]


def test_remembered_answers_are_bounded_and_the_oldest_is_dropped_first() -> None:
    tally = WriteOutcomes(limit=2)
    with writing() as recorder:
        for name in ("a", "b", "c", "a", "c"):
            tally.wrote(CONFIG_MAPS, f"default/{name}", before=None, after="7")
    assert recorder.take() == [False]  # only c was known still
