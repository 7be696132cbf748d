"""The checker accuses what is wrong in a log, with the story that shows it, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyinformer.errors import InvalidArgumentError
from pyinformer.testing.histories import (
    AuditedRecord,
    FaultRecord,
    FollowedRecord,
    HandledRecord,
    ReadRecord,
    ReconciledRecord,
    ReconcilingRecord,
    Record,
    ResourcesRecord,
    RestedRecord,
    Rule,
    RunRecord,
    SampledRecord,
    TruthRecord,
    Version,
    WaitedRecord,
    WaitingRecord,
    WroteRecord,
    check_history,
)
from tests.soak import examples
from tests.testing.history_runs import (
    CACHE,
    COMMAND,
    CONTROLLER,
    READER,
    RESOURCE,
    Run,
    usual_run,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def broken(records: Sequence[Record]) -> set[Rule]:
    """Return the rules that a history breaks."""
    return set(check_history(records).counts)


def edited(
    records: Sequence[Record], which: Callable[[Record], bool], **changes: object
) -> list[Record]:
    """Change the last record that fits."""
    found = [number for number, record in enumerate(records) if which(record)]
    changed = list(records)
    changed[found[-1]] = msgspec.structs.replace(records[found[-1]], **changes)
    return changed


def is_rested(what: str) -> Callable[[Record], bool]:
    return lambda record: isinstance(record, RestedRecord) and record.what == what


def an_old_list(take: Callable[[Run], object]) -> Run:
    """Return a run in which a cache takes a list of the past, and then one of now."""
    run = usual_run()
    old = dict(run.live)
    run.put("x")
    run.watch()
    run.sample()
    run.wait(1.0)
    now, run.live = run.live, old
    take(run)
    run.live = now
    run.relist()
    return run


def test_a_correct_history_is_not_accused() -> None:
    verdict = check_history(usual_run().rest())

    assert verdict.holds, str(verdict)
    assert verdict.records["handled"] == 5


# The ten planted faults.


def test_a_position_that_does_not_advance_is_found() -> None:
    records = usual_run().rest()

    assert broken(edited(records, is_rested("cache"), position="1")) == {Rule.POSITION_NOT_ADVANCED}


@pytest.mark.parametrize(("position", "is_right"), [("2", True), ("1", False)])
def test_the_position_of_two_caches_is_that_of_the_one_behind(
    position: str, is_right: bool
) -> None:
    """It has reached the last change of one namespace, and says nothing of the other."""
    records: list[Record] = [
        RunRecord(command=COMMAND, seed="5"),
        FollowedRecord(who=CACHE, resource=RESOURCE, namespaces=["a", "b"]),
        *(
            TruthRecord(
                at_seconds=1.0, resource=RESOURCE, key=key, verb="put", uid=key, revision=revision
            )
            for revision, key in enumerate(("a/x", "b/x", "a/y"), 1)
        ),
        RestedRecord(
            at_seconds=9.0,
            who=CACHE,
            what="cache",
            objects={
                key: Version(key, str(revision))
                for revision, key in enumerate(("a/x", "b/x", "a/y"), 1)
            },
            position=position,
            state="watching",
        ),
    ]

    assert (Rule.POSITION_NOT_ADVANCED not in broken(records)) == is_right


def test_an_index_that_was_forgotten_is_found() -> None:
    records = usual_run().rest()
    wrong = {"a/x": "is missing under the value 'in'"}

    assert broken(edited(records, is_rested("index:tier"), wrong=wrong)) == {Rule.WRONG_INDEX}


def test_an_index_that_shows_an_old_version_is_found() -> None:
    records = usual_run().rest()
    old = {"a/x": Version("uid-1", "1")}

    assert broken(edited(records, is_rested("index:tier"), objects=old)) == {Rule.OUTDATED}


def test_a_guard_that_is_off_is_found() -> None:
    """Then an old list replaces a newer cache without a new epoch."""

    def take(run: Run) -> None:
        run.relist()
        run.sample()

    run = an_old_list(take)

    assert Rule.WENT_BACK in broken(run.rest())


def test_a_lost_deletion_is_found() -> None:
    run = usual_run()
    run.delete("x")
    run.pending.clear()
    run.position = run.revision
    run.wait(10.0)
    verdict = check_history(run.rest())

    assert set(verdict.counts) == {Rule.PHANTOM, Rule.STALE, Rule.FORGOTTEN}
    story = str(verdict)
    assert '"verb":"delete"' in story
    assert f"replay: {COMMAND}" in story


def test_an_update_before_its_add_is_found() -> None:
    run = usual_run()
    run.put("z")
    run.watch()
    records = edited(run.rest(), _is_add_of("a/z"), event="update")

    assert broken(records) == {Rule.NOT_ADDED}


def _is_add_of(key: str) -> Callable[[Record], bool]:
    return lambda one: isinstance(one, HandledRecord) and one.event == "add" and one.key == key


def test_an_age_that_lies_is_found() -> None:
    run = usual_run()
    run.put("x")
    run.wait(5.0)
    run.sample()
    records = edited(run.records, _is_sample, ages={"age": 0.5, "ready": 120.0})

    verdict = check_history(records)

    assert set(verdict.counts) == {Rule.STALE}
    (found,) = verdict.violations
    assert (found.who, found.key) == (CACHE, "a/x")
    assert found.text == "age 0.5 s, and revision 6 put the object 5.0 s ago"


def _is_sample(record: Record) -> bool:
    return isinstance(record, SampledRecord)


def test_an_age_may_lie_by_the_tolerance() -> None:
    run = usual_run()
    run.put("x")
    run.wait(1.9)
    run.sample()
    records = edited(run.records, _is_sample, ages={"age": 0.0})

    assert broken(records) == set()
    assert set(check_history(records, tolerance_seconds=1.0).counts) == {Rule.STALE}


def test_a_waiter_that_is_left_is_found() -> None:
    run = usual_run()
    run.add(WaitingRecord(number=-1, name="wait_until"))

    assert broken(run.rest()) == {Rule.WAIT_LEFT}


def test_a_socket_that_is_left_is_found() -> None:
    records = usual_run().rest()

    assert broken(edited(records, _is_at_rest, sockets=3)) == {Rule.SOCKET_LEFT}


def _is_at_rest(record: Record) -> bool:
    return isinstance(record, ResourcesRecord)


@pytest.mark.parametrize("event", ["add", "update"])
def test_a_handler_that_is_called_twice_is_found(event: str) -> None:
    run = usual_run()
    last = next(
        one
        for one in reversed(run.records)
        if isinstance(one, HandledRecord) and one.event == event
    )
    twice = usual_run()
    twice.add(msgspec.structs.replace(last, old_uid=last.uid, old_version=last.resource_version))
    expected = Rule.ADDED_TWICE if event == "add" else Rule.NOTHING_CHANGED

    assert broken(twice.rest()) == {expected}


def test_a_deletion_that_is_handled_twice_is_found() -> None:
    run = usual_run()
    run.delete("x")
    run.watch()
    last = next(one for one in reversed(run.records) if isinstance(one, HandledRecord))
    run.add(last)

    assert broken(run.rest()) == {Rule.NOT_ADDED}


def test_an_older_version_that_is_shown_is_found() -> None:
    run = usual_run()
    run.read("x")
    run.add(ReadRecord(who=READER, key="a/x", uid="uid-1", resource_version="1"))
    verdict = check_history(run.rest())

    assert set(verdict.counts) == {Rule.WENT_BACK}
    (found,) = verdict.violations
    assert [type(one).__name__ for one in found.story] == [
        "TruthRecord",
        "ReadRecord",
        "ReadRecord",
    ]


# Further ones.


def test_a_version_that_never_existed_is_found() -> None:
    run = usual_run()
    run.add(ReadRecord(who=READER, key="a/x", uid="uid-1", resource_version="99"))
    run.add(ReadRecord(who=READER, key="a/none", uid="uid-7", resource_version="1"))

    assert check_history(run.rest()).counts == {Rule.UNKNOWN_VERSION: 2}


def test_an_object_that_is_not_selected_is_found() -> None:
    run = Run(label_selector="tier=in")
    run.put("x", tier="in")
    run.relist()
    out = run.put("x", tier="out")
    run.add(ReadRecord(who=READER, key="a/x", uid=out.uid, resource_version=str(out.revision)))

    assert broken(run.rest()) == {Rule.NOT_SELECTED}


def test_a_deletion_of_what_lives_is_found() -> None:
    run = usual_run()
    run.add(ReadRecord(who=READER, key="a/x", uid="uid-1", resource_version="3"))
    run.add(ReadRecord(who=READER, key="a/x"))

    assert broken(run.rest()) == {Rule.INVENTED_DELETION}


@pytest.mark.parametrize("stops", [True, False])
def test_a_deletion_is_right_before_a_store_that_was_stopped_names_it(stops: bool) -> None:
    """It was answered, and then SIGSTOP kept it from the witness."""
    run = usual_run()
    run.add(ReadRecord(who=READER, key="a/x", uid="uid-1", resource_version="3"))
    run.add(ReadRecord(who=READER, key="a/x"))
    for number in range(10):
        run.wait(0.4)
        if not stops:
            run.put(f"other-{number}")
    run.delete("x")
    run.watch(99)

    assert broken(run.rest()) == (set() if stops else {Rule.INVENTED_DELETION})


@pytest.mark.parametrize("stops", [True, False])
def test_a_cache_may_know_a_deletion_before_a_store_that_was_stopped_names_it(stops: bool) -> None:
    run = usual_run()
    run.wait(4.0)
    deletion = run.delete("x")
    run.watch(99)
    run.sample()
    for number in range(10):
        run.wait(0.4)
        if not stops:
            run.put(f"other-{number}")
            run.watch()
    run.records.remove(deletion)
    run.add(deletion)

    assert (Rule.STALE in broken(run.rest())) != stops


def test_a_read_that_is_older_than_promised_is_found() -> None:
    run = usual_run()
    run.put("x")
    run.wait(4.0)
    run.add(ReadRecord(who=READER, key="a/x", uid="uid-1", resource_version="3", max_age_seconds=1))

    assert broken(run.rest()) == {Rule.STALE}


def test_a_change_before_the_position_that_is_missing_is_found() -> None:
    run = usual_run()
    run.put("x")
    run.sample()
    records = edited(run.records, _is_sample, position=str(run.revision))

    assert broken(records) == {Rule.BEHIND_POSITION}


def test_a_position_that_goes_back_is_found() -> None:
    run = usual_run()
    run.sample()
    records = edited(run.records, _is_sample, position="2")

    assert broken(records) == {Rule.POSITION_WENT_BACK}


def test_an_update_that_changes_the_uid_is_found() -> None:
    run = usual_run()
    run.delete("x")
    new = run.put("x")
    run.pending.clear()
    run.handled("update", new, run.cached["a/x"])
    run.cached["a/x"] = new
    run.position = new.revision
    run.reconcile("a/x")

    assert broken(run.rest()) == {Rule.UID_CHANGED}


def test_what_client_go_is_known_to_do_is_expected_of_it_alone() -> None:
    run = usual_run()
    run.add(
        FollowedRecord(who="go", resource=RESOURCE, program="client-go", role="handler", cache="go")
    )
    x, y = (Version(one.uid, str(one.revision)) for one in run.live.values())
    call = HandledRecord(who="go", event="add", key="a/y", uid="uid-2", resource_version="2")
    run.add(call)
    run.add(msgspec.structs.replace(call, event="update", uid=y.uid, resource_version="5"))
    run.add(msgspec.structs.replace(call, event="update", uid=y.uid, resource_version="5"))
    run.add(
        msgspec.structs.replace(call, event="update", key="a/x", uid=x.uid, resource_version="3")
    )
    run.add(RestedRecord(who="go", what="mirror", objects={"a/x": x, "a/y": y}))
    verdict = check_history(run.rest())

    assert [one.rule for one in verdict.expected] == [Rule.UID_CHANGED, Rule.NOTHING_CHANGED]
    assert verdict.counts == {Rule.NOT_ADDED: 1}  # a third is seen


def test_an_update_from_another_state_is_found() -> None:
    run = usual_run()
    run.put("x")
    run.watch()
    records = edited(
        run.rest(),
        lambda one: isinstance(one, HandledRecord) and one.event == "update",
        old_version="1",
    )

    assert broken(records) == {Rule.OTHER_OLD_STATE}


@pytest.mark.parametrize(
    ("what", "objects", "rule"),
    [
        pytest.param("lister", {}, Rule.MISSING, id="missing"),
        pytest.param("mirror", {"a/x": Version("uid-1", "1")}, Rule.OUTDATED, id="outdated"),
        pytest.param("cache", {"a/q": Version("uid-1", "1")}, Rule.PHANTOM, id="phantom"),
    ],
)
def test_a_view_that_differs_at_rest_is_found(
    what: str, objects: dict[str, Version], rule: Rule
) -> None:
    records = usual_run().rest()
    last = next(one for one in reversed(records) if is_rested(what)(one))
    assert isinstance(last, RestedRecord)
    shown = {**last.objects, **objects} if objects else objects

    assert broken(edited(records, is_rested(what), objects=shown)) == {rule}


def test_another_content_is_found() -> None:
    records = usual_run().rest()
    last = next(one for one in reversed(records) if is_rested("lister")(one))
    assert isinstance(last, RestedRecord)
    shown = last.objects["a/x"]
    other = {**last.objects, "a/x": Version(shown.uid, shown.resource_version, "other")}

    assert broken(edited(records, is_rested("lister"), objects=other)) == {Rule.OTHER_CONTENT}


def test_a_handler_that_was_never_looked_at_is_found() -> None:
    records = [one for one in usual_run().rest() if not is_rested("mirror")(one)]

    assert broken(records) == {Rule.NEVER_RESTED}


def test_tasks_and_memory_that_are_left_are_found() -> None:
    records = usual_run().rest()
    records = edited(records, _is_at_rest, tasks=["main", "poll"], rss_bytes=1 << 30)
    verdict = check_history(records)

    assert set(verdict.counts) == {Rule.TASK_LEFT, Rule.MEMORY_LEFT}
    assert "poll" in str(verdict)


def test_files_that_are_left_open_and_threads_beyond_a_pool_are_found() -> None:
    records = usual_run().rest()

    assert broken(edited(records, _is_at_rest, threads=32)) == set()
    left = edited(records, _is_at_rest, descriptors=3, threads=40)
    assert broken(left) == {Rule.DESCRIPTOR_LEFT, Rule.THREAD_LEFT}


def test_the_history_says_how_much_memory_its_program_may_keep() -> None:
    grown = edited(usual_run().rest(), _is_at_rest, rss_bytes=100 << 20)

    assert broken(grown) == {Rule.MEMORY_LEFT}
    told = edited(grown, lambda one: isinstance(one, RunRecord), memory_bytes=128 << 20)
    assert broken(told) == set()
    assert check_history(told, memory_bytes=1 << 20).counts == {Rule.MEMORY_LEFT: 1}


@pytest.mark.parametrize("state", ["forbidden", "waiting", "absent", "failed"])
def test_a_cache_that_cannot_follow_at_rest_is_found(state: str) -> None:
    records = usual_run().rest()

    assert broken(edited(records, is_rested("cache"), state="watching")) == set()
    assert broken(edited(records, is_rested("cache"), state=state)) == {Rule.NOT_FOLLOWING}


def test_a_key_that_two_workers_reconcile_at_once_is_found() -> None:
    run = usual_run()
    run.add(ReconcilingRecord(who=CONTROLLER, number=-1, key="a/x"))
    run.add(
        ReconcilingRecord(who=CONTROLLER, number=-2, key="a/x", uid="uid-1", resource_version="3")
    )
    run.add(ReconciledRecord(number=-1, how="done"))
    run.add(ReconciledRecord(number=-2, how="done"))

    assert broken(run.rest()) == {Rule.RECONCILED_AT_ONCE}


def test_a_reconcile_that_never_ends_is_found() -> None:
    run = usual_run()
    run.add(ReconcilingRecord(who=CONTROLLER, number=-1, key="a/gone"))

    assert broken(run.rest()) == {Rule.RECONCILE_LEFT}


@pytest.mark.parametrize("how", ["ConflictError", "cancelled"])
def test_an_object_whose_last_reconcile_failed_is_forgotten(how: str) -> None:
    records = usual_run().rest()
    records = edited(records, lambda one: isinstance(one, ReconciledRecord), how=how)

    assert broken(records) == {Rule.FORGOTTEN}


def test_an_object_whose_last_state_is_not_reconciled_is_forgotten() -> None:
    run = usual_run()
    run.put("x")
    run.watch()
    kept = [one for one in run.rest() if not _is_of_reconcile(one, run.numbers)]

    assert broken(kept) == {Rule.FORGOTTEN}


def _is_of_reconcile(record: Record, number: int) -> bool:
    return isinstance(record, ReconcilingRecord | ReconciledRecord) and record.number == number


def test_a_status_that_is_not_stored_is_found() -> None:
    run = usual_run()
    wrote = WroteRecord(
        who=CONTROLLER,
        resource=RESOURCE,
        key="a/x",
        uid="uid-1",
        resource_version="3",
        status={"ready": "1"},
    )
    run.add(wrote)
    run.add(msgspec.structs.replace(wrote, resource_version="99"))

    assert broken(run.rest()) == {Rule.STATUS_NOT_STORED, Rule.UNKNOWN_VERSION}


@pytest.mark.parametrize("kept", [True, False])
def test_a_status_that_is_undone_is_found(kept: bool) -> None:
    run = Run()
    for status in (
        {"a": "1", "b": "1"},
        {"a": "2", "b": "1"},
        {"a": "2" if kept else "1", "b": "2"},
    ):
        put = run.put("x")
        run.records[-1] = msgspec.structs.replace(put, status=status)
    run.relist()
    run.add(
        WroteRecord(
            who=CONTROLLER,
            resource=RESOURCE,
            key="a/x",
            uid="uid-1",
            resource_version="3",
            based_on="1",
            status={"b": "2"},
        )
    )

    assert broken(run.rest()) == (set() if kept else {Rule.STATUS_LOST})


# Restores and lies.


def a_restore() -> Run:
    """Return a run whose store was put back, unnoticed so far."""
    run = usual_run()
    saved, revision = dict(run.live), run.revision
    for _ in range(3):
        run.put("x")
    run.put("z")
    run.watch(4)
    run.sample()
    run.wait(1.0)
    run.restore(saved, revision)
    return run


def test_a_reader_may_go_back_in_a_new_epoch() -> None:
    run = a_restore()
    run.notice_restore()
    run.put("x")
    run.watch()

    assert broken(run.rest()) == set()


def test_what_an_epoch_deletes_first_may_be_newer_than_what_it_adds() -> None:
    """A list after a restore: the object of the lost history goes, and an older one comes."""
    run = usual_run()
    saved, revision = dict(run.live), run.revision
    for _ in range(3):
        run.put("x")
    run.delete("y")
    run.put("y")
    run.watch(5)
    run.wait(1.0)
    run.restore(saved, revision)
    run.notice_restore()

    assert broken(run.rest()) == set()


def test_a_deletion_may_come_before_the_epoch_is_noticed() -> None:
    """Another object is in its place since the restore, and no revision had deleted the first."""
    run = usual_run()
    saved, revision = dict(run.live), run.revision
    run.delete("x")
    run.put("x")
    run.watch(2)
    run.wait(1.0)
    run.restore(saved, revision)
    run.gone("a/x", run.cached["a/x"].revision)
    run.notice_restore()

    assert broken(run.rest()) == set()


def test_a_reader_may_not_go_back_in_the_same_epoch() -> None:
    run = a_restore()
    run.relist()

    assert Rule.WENT_BACK in broken(run.rest())


def an_epoch(run: Run) -> Run:
    """Begin an epoch, whatever the store did."""
    run.notice_restore()
    run.sample()
    return run


def test_an_epoch_without_a_cause_is_found() -> None:
    assert broken(an_epoch(usual_run()).rest()) == {Rule.EPOCH_INVENTED}


def test_a_restore_is_the_cause_of_one_epoch() -> None:
    run = an_epoch(a_restore())
    run.wait(10.0)

    assert broken(run.rest()) == set()
    assert broken(an_epoch(run).rest()) == {Rule.EPOCH_INVENTED}


def test_a_lie_is_the_cause_of_an_epoch_until_it_is_reported() -> None:
    run = usual_run()
    run.add(FaultRecord(name="stale-list", phase="began", number=1, is_lie=True))
    run.wait(1.0)
    run.add(FaultRecord(name="stale-list", phase="healed", number=1, is_lie=True))
    run.wait(10.0)
    run.sample()
    an_epoch(run)
    run.wait(10.0)

    assert broken(run.rest()) == set()
    assert broken(an_epoch(run).rest()) == {Rule.EPOCH_INVENTED}


def test_what_deceives_one_cache_is_the_cause_of_an_epoch_of_another() -> None:
    """They share a connection: a history that one of them disproves is disproved for all."""
    run = usual_run()
    run.add(FollowedRecord(who="other", resource="secrets"))
    other = SampledRecord(who="other", state="watching")
    run.add(other)
    run.add(FaultRecord(name="stale-list", phase="began", number=1, is_lie=True))
    run.add(FaultRecord(name="stale-list", phase="healed", number=1, is_lie=True))
    run.add(AuditedRecord(who="other", verdict="inconsistent", differences=1))
    run.wait(10.0)
    run.sample()
    an_epoch(run)
    run.wait(0.1)
    run.add(msgspec.structs.replace(other, epoch=1))
    run.wait(10.0)
    again = msgspec.structs.replace(other, epoch=2)
    edges = [*run.records, msgspec.structs.replace(again, at_seconds=run.now)]

    assert broken(run.records) == set()
    assert broken(edges) == {Rule.EPOCH_INVENTED}


def test_a_cache_of_two_namespaces_has_two_epochs_after_a_restore() -> None:
    run = a_restore()
    two = [
        msgspec.structs.replace(one, namespaces=["a", "b"])
        if isinstance(one, FollowedRecord)
        else one
        for one in run.records
    ]
    run.records = two
    an_epoch(run)
    run.wait(1.0)

    assert broken(an_epoch(run).rest()) == set()


def test_an_epoch_without_a_cause_does_not_allow_to_go_back() -> None:
    run = an_old_list(an_epoch)

    assert broken(run.rest()) >= {Rule.EPOCH_INVENTED, Rule.WENT_BACK}


def test_a_deletion_that_a_list_found_is_not_that_of_a_later_restore() -> None:
    """The list names the lost version, which a restore puts in the place of another object."""
    run = usual_run()
    saved, revision = dict(run.live), run.revision
    run.delete("x")
    run.wait(10.0)
    run.relist()
    run.put("x")
    run.watch()
    run.wait(10.0)
    run.restore(saved, revision)
    run.wait(10.0)
    run.notice_restore()
    verdict = check_history(run.rest())

    assert verdict.holds, str(verdict)


def test_a_restore_that_is_never_noticed_is_found() -> None:
    run = a_restore()
    run.put("new")
    run.pending.clear()

    found = broken(run.rest())

    assert {Rule.MISSING, Rule.PHANTOM, Rule.OUTDATED} <= found


def a_lie() -> Run:
    """Return a run in which a change was withheld from an informer that claims to be current."""
    run = usual_run()
    run.add(FaultRecord(name="drop-event", phase="began", number=1, is_lie=True))
    run.put("x")
    run.pending.clear()
    run.wait(5.0)
    run.sample()
    run.wait(1.0)
    run.add(FaultRecord(name="drop-event", phase="healed", number=1, is_lie=True))
    return run


def test_a_lie_that_is_reported_is_excused() -> None:
    run = a_lie()
    run.add(AuditedRecord(who=CACHE, verdict="inconsistent", differences=1))
    run.relist()
    verdict = check_history(run.rest())

    assert verdict.holds, str(verdict)
    assert [one.rule for one in verdict.excused] == [Rule.STALE]


def test_a_lie_that_ends_by_itself_is_nothing_to_report() -> None:
    """No audit came before the cache had the change."""
    run = a_lie()
    run.relist()
    run.sample()
    run.wait(1.0)
    run.add(AuditedRecord(who=CACHE, verdict="consistent"))
    verdict = check_history(run.rest())

    assert verdict.holds, str(verdict)
    assert [one.rule for one in verdict.excused] == [Rule.STALE]


def a_lie_that_has_become_true() -> Run:
    """Return a run whose cache lacks an object since a lying list; by now it is deleted."""
    run = usual_run()
    run.add(FaultRecord(name="no-items", phase="began", number=1, is_lie=True))
    run.wait(5.0)
    run.gone("a/x", run.cached["a/x"].revision)
    run.sample()
    for number in range(4):  # the store commits meanwhile, so its silence explains nothing
        run.wait(0.4)
        run.put(f"other-{number}")
        run.watch()
    run.add(FaultRecord(name="no-items", phase="healed", number=1, is_lie=True))
    run.wait(5.0)
    run.delete("x")
    run.pending.clear()  # a cache without the object makes nothing of it
    run.position = run.revision
    run.sample()
    return run


def test_a_lie_that_has_become_true_is_nothing_to_report() -> None:
    """The cache shows what it showed before, and is right."""
    run = a_lie_that_has_become_true()
    run.wait(5.0)
    run.add(AuditedRecord(who=CACHE, verdict="consistent"))
    verdict = check_history(run.rest())

    assert verdict.holds, str(verdict)
    assert {one.rule for one in verdict.excused} == {Rule.STALE, Rule.INVENTED_DELETION}


def test_what_a_cache_misses_after_a_lie_that_has_become_true_is_found() -> None:
    run = a_lie_that_has_become_true()
    run.wait(5.0)
    run.put("x")
    run.pending.clear()
    run.position = run.revision
    run.wait(5.0)
    run.sample()

    assert broken(run.records) == {Rule.STALE}


def test_a_lie_that_is_never_reported_is_found() -> None:
    run = a_lie()
    run.add(AuditedRecord(who=CACHE, verdict="consistent"))
    run.wait(1.0)
    run.sample()  # it is as wrong as before
    run.relist()

    assert broken(run.rest()) == {Rule.UNREPORTED_LIE}


def test_an_audit_that_began_before_a_lie_was_shown_has_not_called_it_right() -> None:
    """It compares what the cache had at its beginning; then an event brings what was missed."""
    run = a_lie()
    run.add(AuditedRecord(who=CACHE, verdict="consistent", seconds=60.0))
    run.wait(1.0)
    run.sample()
    run.relist()
    verdict = check_history(run.rest())

    assert verdict.holds, str(verdict)


def test_nothing_is_excused_at_rest() -> None:
    run = a_lie()
    run.add(AuditedRecord(who=CACHE, verdict="inconsistent", differences=1))

    assert Rule.OUTDATED in broken(run.rest())


def test_what_a_restore_replaced_under_its_key_is_a_deletion_and_an_add() -> None:
    """The store never was without the key, and the reader sees that its object is another one."""
    run = usual_run()
    saved, revision = dict(run.live), run.revision
    run.delete("x")
    run.put("x")
    run.watch(2)
    run.wait(1.0)
    run.restore(saved, revision)
    run.gone("a/x", run.cached["a/x"].revision)  # it is the last event of the epoch before
    run.notice_restore()

    assert broken(run.rest()) == set()


def a_list_that_lies(*, is_lie: bool) -> Run:
    """Return a run in which a list lacked an object that was deleted later."""
    run = usual_run()
    run.add(FaultRecord(name="stale-list", phase="began", number=1, is_lie=is_lie))
    run.gone("a/x", run.cached["a/x"].revision)
    run.wait(1.0)
    run.put("x")
    run.watch()
    run.add(FaultRecord(name="stale-list", phase="healed", number=1, is_lie=is_lie))
    run.wait(10.0)
    run.delete("x")
    run.watch()
    return run


def test_a_deletion_soon_after_one_that_a_lying_list_invents_is_the_next_one() -> None:
    run = usual_run()
    run.add(FaultRecord(name="stale-list", phase="began", number=1, is_lie=True))
    run.gone("a/x", run.cached["a/x"].revision)
    run.put("x")
    run.wait(0.5)
    run.delete("x")
    run.wait(0.5)
    run.watch(2)
    run.add(FaultRecord(name="stale-list", phase="healed", number=1, is_lie=True))
    verdict = check_history(run.rest())

    assert verdict.holds, str(verdict)


def test_after_an_absence_that_is_a_lie_the_object_may_be_shown_as_it_was() -> None:
    """It was deleted meanwhile, and what the reader gets next is older than that."""
    run = usual_run()
    run.put("x")
    run.add(FaultRecord(name="no-items", phase="began", number=1, is_lie=True))
    run.delete("x")
    run.put("x")
    run.wait(0.5)
    run.gone("a/x", run.cached["a/x"].revision)
    run.add(FaultRecord(name="no-items", phase="healed", number=1, is_lie=True))
    run.watch(3)
    verdict = check_history(run.rest())

    assert verdict.holds, str(verdict)


def test_a_deletion_is_not_explained_by_one_that_came_later() -> None:
    assert broken(a_list_that_lies(is_lie=False).rest()) == {Rule.INVENTED_DELETION}


def test_a_deletion_that_a_lying_list_invents_is_excused() -> None:
    """The next event of the object puts it right; nothing is left that a report could name."""
    verdict = check_history(a_list_that_lies(is_lie=True).rest())

    assert verdict.holds, str(verdict)
    assert {one.rule for one in verdict.excused} == {Rule.INVENTED_DELETION}


def an_absence_that_outlives_its_lie(verdict: str = "") -> Run:
    """Return a run whose cache lacks an object since a lying list, perhaps past an audit."""
    run = usual_run()
    run.add(FaultRecord(name="stale-list", phase="began", number=1, is_lie=True))
    run.gone("a/x", run.cached["a/x"].revision)
    run.add(SampledRecord(who=CACHE, state="watching", changed={"a/x": None}))
    run.add(FaultRecord(name="stale-list", phase="healed", number=1, is_lie=True))
    run.wait(10.0)
    run.add(ReadRecord(who=READER, key="a/x"))
    if verdict:
        differences = int(verdict == "inconsistent")
        run.add(AuditedRecord(who=CACHE, verdict=verdict, differences=differences))
        run.wait(10.0)
        run.add(ReadRecord(who=READER, key="a/x"))
    return run


def shown_again(run: Run) -> Run:
    """Let the next event of the object put the cache right."""
    run.put("x")
    run.watch()
    run.sample()
    return run


def test_an_absence_that_began_in_a_lie_is_excused_for_as_long_as_it_lasts() -> None:
    verdict = check_history(shown_again(an_absence_that_outlives_its_lie()).rest())

    assert verdict.holds, str(verdict)
    assert Rule.INVENTED_DELETION in {one.rule for one in verdict.excused}


@pytest.mark.parametrize("verdict", ["consistent", "inconsistent"])
def test_an_absence_that_a_lie_began_is_not_excused_after_an_audit(verdict: str) -> None:
    run = shown_again(an_absence_that_outlives_its_lie(verdict))

    assert broken(run.rest()) == {Rule.INVENTED_DELETION}


def test_an_audit_that_could_not_compare_ends_no_excuse() -> None:
    assert broken(shown_again(an_absence_that_outlives_its_lie("inconclusive")).rest()) == set()


def test_an_absence_that_a_lie_began_and_that_is_never_reported_is_found() -> None:
    assert broken(an_absence_that_outlives_its_lie().records) == {Rule.UNREPORTED_LIE}


def test_an_absence_that_has_become_true_needs_no_report() -> None:
    run = an_absence_that_outlives_its_lie()
    run.delete("x")

    assert broken(run.rest()) == set()


def test_a_deletion_that_is_invented_after_a_lie_is_found() -> None:
    """The server spoke the truth again, and nothing was left of its lie."""
    run = usual_run()
    run.add(FaultRecord(name="stale-list", phase="began", number=1, is_lie=True))
    run.wait(1.0)
    run.add(FaultRecord(name="stale-list", phase="healed", number=1, is_lie=True))
    run.wait(10.0)
    run.gone("a/x", run.cached["a/x"].revision)

    assert broken(shown_again(run).rest()) == {Rule.INVENTED_DELETION}


def test_a_new_epoch_that_may_have_begun_before_a_lie_ended_does_not_report_it() -> None:
    """Samples show it a quarter of a second late: the lying list had begun that epoch."""
    run = usual_run()
    run.add(FaultRecord(name="no-items", phase="began", number=1, is_lie=True))
    run.wait(1.0)
    run.sample()
    run.wait(0.1)
    run.gone("a/x", run.cached["a/x"].revision)
    run.epoch += 1
    run.add(FaultRecord(name="no-items", phase="healed", number=1, is_lie=True))
    run.wait(0.1)
    run.sample()
    run.wait(5.0)
    run.add(ReadRecord(who=READER, key="a/x", max_age_seconds=1.0))
    run.add(AuditedRecord(who=CACHE, verdict="inconsistent", differences=1))
    run.relist()
    verdict = check_history(run.rest())

    assert verdict.holds, str(verdict)
    assert Rule.STALE in {one.rule for one in verdict.excused}


def test_a_lie_does_not_excuse_that_a_later_change_is_missing() -> None:
    run = a_lie()
    run.wait(5.0)
    run.put("y")
    run.pending.clear()
    run.wait(5.0)
    run.sample()
    run.add(AuditedRecord(who=CACHE, verdict="inconsistent", differences=1))
    run.relist()
    verdict = check_history(run.rest())

    assert [(one.rule, one.key) for one in verdict.violations] == [(Rule.STALE, "a/y")]


@pytest.mark.parametrize(("late_seconds", "holds"), [(1.0, True), (3.0, False)])
def test_handlers_may_get_what_a_lie_did_shortly_after_its_report(
    late_seconds: float, holds: bool
) -> None:
    run = usual_run()
    run.add(FaultRecord(name="no-items", phase="began", number=1, is_lie=True))
    run.wait(1.0)
    run.add(FaultRecord(name="no-items", phase="healed", number=1, is_lie=True))
    run.add(AuditedRecord(who=CACHE, verdict="inconsistent", differences=1))
    run.wait(late_seconds)
    run.gone("a/x", run.cached["a/x"].revision)
    run.put("x")
    run.watch()

    assert check_history(run.rest()).holds == holds


# The check itself.


def test_a_history_without_truth_cannot_be_judged() -> None:
    records = [one for one in Run().records if not isinstance(one, TruthRecord)]

    assert broken(records) == {Rule.NO_TRUTH}


def test_a_history_is_read_twice() -> None:
    with pytest.raises(InvalidArgumentError, match="must be readable twice"):
        check_history(iter(usual_run().rest()))


def test_a_reader_that_was_never_introduced_is_an_error() -> None:
    run = usual_run()
    run.add(SampledRecord(who="stranger", state="watching"))

    with pytest.raises(InvalidArgumentError, match="stranger"):
        check_history(run.records)


def test_a_rule_that_is_broken_often_is_counted_and_told_twenty_times() -> None:
    run = usual_run()
    for _ in range(50):
        run.add(ReadRecord(who=READER, key="a/x", uid="uid-1", resource_version="99"))
    verdict = check_history(run.rest())

    assert verdict.counts == {Rule.UNKNOWN_VERSION: 50}
    assert len(verdict.violations) == 20


def test_a_wait_that_ends_is_not_left() -> None:
    run = usual_run()
    run.add(WaitingRecord(number=-1, name="wait_until"))
    run.add(WaitedRecord(number=-1, how="StaleCacheError"))

    assert broken(run.rest()) == set()


# Properties.

_Step = tuple[str, str, str]
_NAMES = ("x", "y", "z")
_PLAIN = ("watch", "list", "sample", "save", "restore")
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(_NAMES), st.sampled_from(("in", "out"))),
        st.tuples(st.just("delete"), st.sampled_from(_NAMES), st.just("")),
        st.tuples(
            st.sampled_from(("watch", "list", "sample", "save", "restore")),
            st.just(""),
            st.just(""),
        ),
        st.tuples(st.just("read"), st.sampled_from(_NAMES), st.just("")),
        st.tuples(st.just("wait"), st.sampled_from(("0.1", "1.0", "7.0")), st.just("")),
    ),
    max_size=60,
)


def played(steps: list[_Step], selector: str) -> Run:  # noqa: C901 - one case for each step
    """Play steps with an informer that is right."""
    run = Run(label_selector=selector)
    saved: tuple[dict[str, TruthRecord], int] = ({}, 0)
    for step, argument, tier in steps:
        match step:
            case "put":
                run.put(argument, tier=tier)
            case "delete" if f"a/{argument}" in run.live:
                run.delete(argument)
            case "watch":
                run.watch()
            case "list":
                run.relist()
            case "sample":
                run.sample()
            case "save":
                saved = (dict(run.live), run.revision)
            case "restore" if saved[1]:
                run.wait(0.1)
                run.restore(*saved)
                run.notice_restore()
            case "read":
                run.read(argument)
            case "wait":
                run.wait(float(argument))
    return run


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(_STEPS, st.sampled_from(("", "tier=in")))
def test_no_correct_history_is_accused(steps: list[_Step], selector: str) -> None:
    run = played(steps, selector)
    run.put("last", tier="in")

    verdict = check_history(run.rest())

    assert verdict.holds, str(verdict)


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(_STEPS, st.data())
def test_no_lost_change_stays_unseen(
    steps: list[tuple[str, str, str]], data: st.DataObject
) -> None:
    """Whatever happened before: the last change of an object that is lost is found."""
    run = played(steps, "")
    run.put("last")
    run.watch(len(run.pending))
    name = data.draw(st.sampled_from(sorted(run.live))).removeprefix("a/")
    if data.draw(st.booleans()):
        run.put(name)
    else:
        run.delete(name)
    run.pending.pop()

    assert broken(run.rest()) & {Rule.OUTDATED, Rule.PHANTOM}
