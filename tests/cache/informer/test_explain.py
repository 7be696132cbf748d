"""Why a cache shows what it shows: each cause has its sentence, and no sentence shows an object."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer import Event, SharedInformer, SharedInformerFactory, View
from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.testing import APIServer, Fault
from tests.cache.informer.clusters import HURRIED, Notes, cluster_of, pod
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from pyinformer.cache import Explanation
    from pyinformer.objects import JSONObject

HIDDEN = "aHVudGVyMg=="


class Spec(View):
    """Wants a number where some pods have text."""

    priority: int | None = None


class Numbered(View):
    """A pod's priority."""

    spec: Spec | None = None


@pytest.fixture
def apiserver() -> Iterator[APIServer]:
    """Return a server with one pod."""
    with APIServer() as made:
        made.create(pod("a"))
        yield made


@asynccontextmanager
async def following(
    server: APIServer, plural: str = "pods", **arguments: Any
) -> AsyncIterator[SharedInformer[Any]]:
    """Run an informer, synced and watching."""
    async with cluster_of(server) as cluster:
        informer: SharedInformer[Any] = SharedInformer(
            cluster, "v1", plural, options=HURRIED, **arguments
        )
        async with informer:
            await informer.wait_for_cache_sync(timeout_seconds=100)
            await until(lambda: informer.state == "watching")
            yield informer


def version_of(server: APIServer, name: str = "a") -> str:
    """Return the version at which the server has a pod."""
    return str(server.get("v1", "pods", name)["metadata"]["resourceVersion"])


def patched(server: APIServer, name: str = "a", **labels: str) -> str:
    """Change a pod's labels; return its new version."""
    server.patch("v1", "pods", name, {"metadata": {"labels": labels}})
    return version_of(server, name)


async def until_cached(informer: SharedInformer[Any], version: str, key: str = "default/a") -> None:
    """Wait until the cache has a version."""

    def has_it() -> bool:
        found = informer.lister.get(key)
        return found is not None and found.metadata.resource_version == version

    await until(has_it)


def has(explanation: Explanation, pattern: str) -> bool:
    """Return whether one sentence is this one, as a whole."""
    return any(re.fullmatch(pattern, sentence) for sentence in explanation.sentences)


async def test_explain_names_the_first_list_and_the_watch(apiserver: APIServer) -> None:
    first = version_of(apiserver)
    async with following(apiserver) as informer:
        informer.add_event_handler(notes := Notes(), name="audit")
        await notes.until_heard("add default/a")
        at_first = informer.explain("default/a")
        second = patched(apiserver, x="y")
        await notes.until_heard("update default/a")
        later = informer.explain("default/a")

    load = r"a watch-list at 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC"
    assert at_first.sentences[0].startswith(f"It is cached at {first}, brought by the first load")
    assert has(at_first, rf"It is cached at {first}, brought by the first load, {load}\.")
    assert later.sentences[0] == f"It is cached at {second}, brought by the watch."
    assert has(
        later,
        rf"The cache follows the server: it has every change up to {second}, last proven 0 s ago\.",
    )
    # A busy machine may make a call of the handler one that took long, which follows.
    assert later.sentences[-1].startswith("Handler audit has received its latest state")
    assert str(later).startswith("default/a in the cache of pods.v1:\nIt is cached at")


async def test_explain_of_a_key_outside_of_the_namespace_is_one_sentence(
    apiserver: APIServer,
) -> None:
    async with following(apiserver, namespaces="default") as informer:
        elsewhere = informer.explain("kube-system/a")
        nowhere = informer.explain("a")

    only = "and only namespace default is followed."
    assert elsewhere.sentences == (f"It cannot be cached: it is in namespace kube-system, {only}",)
    hint = "Write namespace/name, such as default/a."
    assert nowhere.sentences == (f"It cannot be cached: it is in no namespace, {only} {hint}",)


async def test_a_name_without_its_namespace_lists_cached_keys_of_that_name(
    apiserver: APIServer,
) -> None:
    async with following(apiserver) as informer:
        explanation = informer.explain("a")

    assert "Cached under that name: default/a." in explanation.sentences
    hint = "What is followed here has namespaces: write namespace/name."
    assert hint in explanation.sentences


async def test_selectors_and_transforms_are_named(apiserver: APIServer) -> None:
    def shrink(obj: JSONObject) -> JSONObject:
        return obj

    async with following(
        apiserver, label_selector="app=web", field_selector="spec.nodeName=n1", transform=shrink
    ) as informer:
        explanation = informer.explain("default/a")
        live = await informer.explain_live("default/a")

    assert explanation.sentences[0] == "It is not cached, and no deletion of it is remembered."
    assert has(explanation, "Only objects that match the label selector app=web are followed.")
    assert has(explanation, r"Only objects that match the field selector spec\.nodeName=n1 are .*")
    assert has(explanation, "A transform of the program changes objects before they are cached.")
    assert live.sentences[-1].endswith("not followed: its labels do not match app=web.")


async def test_explain_names_an_object_that_left_the_selection(apiserver: APIServer) -> None:
    apiserver.create(pod("b", app="web"))
    async with following(apiserver, label_selector="app=web") as informer:
        gone = patched(apiserver, "b", app="db")
        await until(lambda: informer.lister.get("default/b") is None)
        explanation = informer.explain("default/b")

    reason = f"it was deleted, or stopped matching the selectors, at {gone}."
    assert explanation.sentences[0] == f"It is not cached: {reason}"


async def test_a_field_selector_that_does_not_match_is_found_live(apiserver: APIServer) -> None:
    async with following(apiserver, field_selector="spec.nodeName=n1") as informer:
        live = await informer.explain_live("default/a")

    assert live.sentences[-1] == (
        f"The server has it at {version_of(apiserver)}, and it is not followed:"
        " its fields do not match spec.nodeName=n1."
    )


async def test_a_live_explanation_reads_other_namespaces(apiserver: APIServer) -> None:
    version = str(apiserver.create(pod("b", namespace="other"))["metadata"]["resourceVersion"])
    async with following(apiserver, namespaces="default") as informer:
        live = await informer.explain_live("other/b")

    reason = "and it is not followed: only namespace default is."
    assert live.sentences[-1] == f"The server has it at {version}, {reason}"


async def test_before_the_start_nothing_is_known(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster:
        informer: SharedInformer[None] = SharedInformer(cluster, "v1", "pods")
        explanation = informer.explain("default/a")

    assert explanation.sentences == (
        "It is not cached: nothing is, before the first load is complete.",
        "The informer has not been started.",
    )


async def test_explain_right_after_the_start_does_not_name_a_wait(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster, SharedInformerFactory(cluster) as factory:
        informer = factory.informer("v1", "pods")
        await factory.start()
        assert informer.state == "new"
        explanation = informer.explain("default/a")

    assert explanation.sentences[1] == (
        "The informer was started a moment ago, and has not asked the server yet."
    )


async def test_explain_names_an_optional_resource_that_is_not_served(
    apiserver: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pyinformer")
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformer(
            cluster, "acme.io/v1", "gadgets", options=HURRIED, absent="optional"
        ) as informer,
    ):
        await informer.wait_for_cache_sync(timeout_seconds=100)
        live = await informer.explain_live("default/g")
        report = await informer.audit(timeout_seconds=100)
        await until(lambda: informer.status().reflector.attempts >= 2)

    words = [one.getMessage() for one in caplog.records if one.levelno >= logging.INFO]
    told = [line for line in words if "gadgets" in line and "stopped" not in line]
    assert told == [
        "gadgets.v1.acme.io is not served (404); it is optional, and is followed once it is served"
    ]
    assert "never synced" not in str(live)
    assert live.sentences[-1] == "The server does not serve gadgets.v1.acme.io at all."
    assert (report.verdict, report.seconds < 5) == ("inconclusive", True)
    assert "the informer is absent" in report.reason


@pytest.mark.parametrize(
    ("is_deletion", "words"),
    [
        pytest.param(False, r"written it out of what is followed \(at \d+\)", id="relabelled"),
        pytest.param(True, "deleted it", id="deleted"),
    ],
)
async def test_explain_distinguishes_own_writes_out_of_the_selector_from_deletions(
    apiserver: APIServer, words: str, *, is_deletion: bool
) -> None:
    apiserver.create(pod("b", app="web"))
    async with following(apiserver, label_selector="app=web") as informer:
        found = await informer.cluster.get("v1", "pods", "default/b")
        apiserver.faults.add(Fault(resource="pods", verb="watch", hang=True, times=None))
        apiserver.end_watches()
        await until(lambda: apiserver.faults.held)
        if is_deletion:
            await informer.cluster.delete("v1", "pods", "default/b", grace_period_seconds=0)
        else:
            body = found.to_dict()
            body["metadata"]["labels"] = {"app": "db"}
            await informer.cluster.replace(body)
        explanation = informer.explain("default/b")
        apiserver.faults.clear()
        apiserver.faults.release()

    assert has(
        explanation, rf"This process has {words}: reads show that already, the watch does not yet\."
    )


async def test_explain_dates_a_deletion_by_another_history(
    apiserver: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pyinformer")
    snapshot = apiserver.save()
    async with following(apiserver) as informer:
        apiserver.create(pod("b"))
        await until(lambda: informer.lister.get("default/b") is not None)
        apiserver.stop_accepting()
        apiserver.drop_connections()
        await until(lambda: informer.state != "watching")
        apiserver.restore(snapshot)
        apiserver.accept_again()
        await until(lambda: informer.lister.get("default/b") is None)
        await until(lambda: informer.state == "watching")
        gone = informer.explain("default/b")
        left = informer.explain("default/a")
        journal = [entry.what for entry in informer.journal.entries()]

    reset = r"when the server's history was found to be another, at 20.* UTC"
    assert re.fullmatch(rf"It is not cached: it may have gone {reset}\.", gone.sentences[0])
    assert re.search(r"relist, .* \(the server's history is another: ", left.sentences[0])
    changes = [one.getMessage() for one in caplog.records if "pods.v1: loading" in one.getMessage()]
    assert all("history is another" in line for line in changes), changes
    assert len([what for what in journal if "history is another" in what]) == 1, journal


@pytest.mark.parametrize("key", ["", "a/b/c", "/", "a/", "/a"])
async def test_an_invalid_key_is_refused(apiserver: APIServer, key: str) -> None:
    async with cluster_of(apiserver) as cluster:
        informer: SharedInformer[None] = SharedInformer(cluster, "v1", "pods")
        with pytest.raises(InvalidArgumentError, match="'namespace/name' or 'name'"):
            informer.explain(key)
        with pytest.raises(InvalidArgumentError, match="'namespace/name' or 'name'"):
            await informer.explain_live(key)


async def test_explain_names_the_missing_right(apiserver: APIServer) -> None:
    apiserver.faults.add(Fault(resource="pods", status=403, times=None, message="u may not list"))
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformer(cluster, "v1", "pods", options=HURRIED) as informer,
    ):
        await until(lambda: informer.state == "forbidden")
        explanation = informer.explain("default/a")
        live = await informer.explain_live("default/a")

    refusal = r"list pods\.v1: 403 Forbidden: u may not list; .*verbs: .*"
    assert has(
        explanation, rf"The cache has never held everything: forbidden, never synced: {refusal}\."
    )
    assert has(live, rf"The server did not answer: {refusal}\.")


async def test_explain_names_a_resource_that_is_not_served_and_keeps_the_cache(
    apiserver: APIServer,
) -> None:
    apiserver.register("acme.io/v1", "Bucket", "buckets")
    apiserver.create(
        {
            "apiVersion": "acme.io/v1",
            "kind": "Bucket",
            "metadata": {"name": "b", "namespace": "default"},
        }
    )
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformer(cluster, "acme.io/v1", "buckets", options=HURRIED) as informer,
    ):
        await informer.wait_for_cache_sync(timeout_seconds=100)
        apiserver.unregister("acme.io/v1", "buckets")
        apiserver.drop_connections()
        await until(lambda: informer.state == "absent")
        explanation = informer.explain("default/b")

    assert explanation.sentences[0].startswith("It is cached at ")
    assert has(explanation, r"The cache is at \d+ and may be behind: absent, last proven .* 404 .*")


async def test_explain_names_position_and_error_of_a_disconnected_cache(
    apiserver: APIServer,
) -> None:
    """The lag, and the lines of the journal that led to it."""
    async with following(apiserver) as informer:
        apiserver.faults.add(
            Fault(resource="pods", verb="watch", status=500, times=None, message="no etcd")
        )
        apiserver.drop_connections()
        await until(lambda: "no etcd" in informer.staleness)
        newest = patched(apiserver, x="y")
        live = await informer.explain_live("default/a")
        position = informer.status().position

    assert has(
        live, rf"The cache is at {position} and may be behind: .*500 InternalError: no etcd\."
    )
    assert has(live, rf"The server is at \d+ now, and the cache had reached {position}\.")
    assert live.sentences[-1] == (
        f"The server has it at {newest}, and the cache at {position}: it is behind."
    )
    assert has(live, r"At 20.* UTC: waiting at \d+: .*\.")


async def test_a_live_explanation_finds_equal_states(apiserver: APIServer) -> None:
    version = version_of(apiserver)
    async with following(apiserver) as informer:
        same = await informer.explain_live("default/a")
        none = await informer.explain_live("default/b")

    assert same.sentences[-1] == f"The server has it at {version}, as the cache has."
    assert none.sentences[-1] == "The server does not have it."


async def test_a_live_explanation_concludes_nothing_from_a_404_that_names_no_object(
    apiserver: APIServer,
) -> None:
    async with following(apiserver, namespaces=["default"]) as informer:
        apiserver.faults.add(Fault(verb="get", status=404, body=b"default backend - 404"))
        live = await informer.explain_live("shop/b")

    last = live.sentences[-1]
    assert last.startswith("The server does not say whether it has it: ")
    assert "default backend - 404" in last


async def test_a_live_explanation_with_an_unreachable_server_is_not_an_error(
    apiserver: APIServer,
) -> None:
    async with following(apiserver) as informer:
        apiserver.stop_accepting()
        apiserver.drop_connections()
        live = await informer.explain_live("default/a")
        apiserver.accept_again()

    assert live.sentences[-1].startswith("The server did not answer: ")


async def test_an_object_that_cannot_be_read_names_the_path_and_the_last_good_state(
    apiserver: APIServer,
) -> None:
    good = version_of(apiserver)
    async with following(apiserver, model=Numbered) as informer:
        apiserver.patch("v1", "pods", "a", {"spec": {"priority": HIDDEN}})
        bad = version_of(apiserver)
        await until_cached(informer, bad)
        explanation = informer.explain("default/a")

    assert explanation.sentences[0] == f"It is cached at {bad}, brought by the watch."
    assert has(
        explanation, r"It has a problem: cannot be read as asked: [^:]*int.*str.*priority.*\."
    )
    assert f"Its last state that could be read is {good}; last_good() returns it." in (
        explanation.sentences
    )
    assert HIDDEN not in str(explanation)


async def test_a_relist_is_named_with_its_reason_and_its_time(apiserver: APIServer) -> None:
    async with following(apiserver) as informer:
        apiserver.stop_accepting()
        apiserver.drop_connections()
        version = patched(apiserver, x="y")
        apiserver.create(pod("b"))
        apiserver.compact()
        apiserver.accept_again()
        await until_cached(informer, version)
        applied = informer.explain("default/a")
        await until(lambda: informer.state == "watching")
        explanation = informer.explain("default/a")

    assert "brought by the watch" not in str(applied)  # its load may not be finished yet
    assert has(
        explanation,
        rf"It is cached at {version}, brought by a relist, a .*list at 20.* UTC"
        r" \(.*410.*\)\.",
    )
    assert has(explanation, r"At 20.* UTC: waiting at \d+: .*410.*\.")


async def test_a_deletion_is_remembered(apiserver: APIServer) -> None:
    async with following(apiserver) as informer:
        informer.add_event_handler(notes := Notes(), name="audit")
        apiserver.delete("v1", "pods", "a")
        await notes.until_heard("delete default/a")
        position = informer.status().position
        explanation = informer.explain("default/a")

    assert explanation.sentences[0] == f"It is not cached: it was deleted at {position}."
    # On a busy machine a call that took 10 ms has a sentence as well.
    assert not has(explanation, "Handler (?!audit has nothing left to receive of it).*")


async def test_explain_names_a_handler_in_flight_then_behind_then_slow(
    apiserver: APIServer,
) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    async def slow(event: Event[Any]) -> None:
        if event.key == "default/a" and not entered.is_set():
            entered.set()
            await leave.wait()

    async with following(apiserver) as informer:
        informer.add_event_handler(slow, name="audit", mailbox_size=1)
        await asyncio.wait_for(entered.wait(), 10)
        busy = informer.explain("default/a")
        apiserver.create(pod("b"))
        versions = [patched(apiserver, "b", n=str(number)) for number in range(3)]
        await until_cached(informer, versions[-1], "default/b")
        behind = informer.explain("default/b")
        await until(lambda: informer.status().handlers[0].in_flight_seconds > 0.02)
        leave.set()
        await until(lambda: not informer.status().handlers[0].depth)
        await until(lambda: informer.status().handlers[0].in_flight_key is None)
        after = informer.explain("default/a")
        told = informer.explain("default/b")

    first = version_of(apiserver)
    assert has(busy, r"Handler audit has been in a call for it for \d+ ms\.")
    assert has(
        behind,
        r"Handler audit has not received its latest state: \d events? waits? in its mailbox;"
        r" \d of its events were merged into others\.",
    )
    assert has(
        after,
        rf"Handler audit has received its latest state; a call for {first} took \d+ ms\.",
    )
    assert has(
        told, r"Handler audit has received its latest state; \d of its events were merged .*"
    )


async def test_explain_names_a_failed_handler_without_its_error_text(apiserver: APIServer) -> None:
    def failing(event: Event[Any]) -> None:
        raise ValueError(HIDDEN)

    version = version_of(apiserver)
    async with following(apiserver) as informer:
        informer.add_event_handler(failing, name="audit")
        await until(lambda: informer.status().handlers[0].failed)
        explanation = informer.explain("default/a")

    failure = rf"a call for {version} failed: ValueError .*test_explain\.py.*"
    assert has(explanation, rf"Handler audit has received its latest state; {failure}\.")
    assert HIDDEN not in str(explanation)


async def test_explain_names_own_writes_that_the_watch_has_not_brought(
    apiserver: APIServer,
) -> None:
    async with following(apiserver) as informer:
        apiserver.faults.add(Fault(resource="pods", verb="watch", hang=True, times=None))
        apiserver.end_watches()
        await until(lambda: apiserver.faults.held)
        made = await informer.cluster.create(pod("b"))
        await informer.cluster.delete("v1", "pods", "default/a", grace_period_seconds=0)
        created, deleted = informer.explain("default/b"), informer.explain("default/a")
        apiserver.faults.clear()
        apiserver.faults.release()

    version = made.metadata.resource_version
    assert has(
        created, rf"This process has written {version}: reads show it, the watch does not yet\."
    )
    assert has(
        deleted, r"This process has deleted it: reads show that already, the watch does not yet\."
    )


async def test_explain_names_a_closed_informer(apiserver: APIServer) -> None:
    async with following(apiserver) as informer:
        pass

    position = informer.status().position
    assert has(
        informer.explain("default/a"), rf"The informer is closed: its cache stays at {position}\."
    )


async def test_no_sentence_shows_a_secret_or_what_was_applied_last(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Not in the cache, not in the server's words, not in a handler's."""
    body: JSONObject = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "s",
            "namespace": "default",
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": HIDDEN},
        },
        "data": {"key": HIDDEN},
    }

    def failing(event: Event[Any]) -> None:
        raise ValueError(str(event))

    with APIServer() as server:
        server.create(body)
        async with following(server, "secrets", transform=lambda obj: obj) as informer:
            informer.add_event_handler(failing, name="audit")
            await until(lambda: informer.status().handlers[0].failed)
            quoting = f'cannot convert {{"data": {{"key": "{HIDDEN}"}}}} of {HIDDEN}'
            frame = {"type": "ERROR", "object": {"code": 500, "message": quoting}}
            server.faults.add(
                Fault(
                    resource="secrets", verb="watch", frames=(json.dumps(frame).encode() + b"\n",)
                ),
                Fault(resource="secrets", status=500, times=None, message=quoting),
            )
            server.drop_connections()
            await until(lambda: server.faults.struck > 1)
            await until(lambda: "500" in informer.staleness)
            explanation = await informer.explain_live("default/s")
            status = informer.status()
            journal = informer.journal.entries()

    assert has(explanation, r"The server did not answer: list secrets\.v1: 500 .*\(redacted\)\.")
    assert HIDDEN not in f"{explanation} {explanation!r} {status!r} {journal!r} {caplog.text}"


async def test_explain_works_in_any_thread_while_everything_changes(apiserver: APIServer) -> None:
    """Nothing that the loop changes is iterated or changed by who asks."""
    told: list[Explanation] = []
    errors: list[BaseException] = []
    done = threading.Event()

    async with following(apiserver) as informer:
        informer.add_event_handler(Notes(), name="audit", mailbox_size=2)

        def ask() -> None:
            try:
                while not done.is_set():
                    told.append(informer.explain("default/a"))
            except BaseException as error:
                errors.append(error)

        asking = [threading.Thread(target=ask) for _ in range(2)]
        for thread in asking:
            thread.start()
        for number in range(40):
            await asyncio.to_thread(apiserver.create, pod(f"p{number}"))
            await asyncio.to_thread(apiserver.delete, "v1", "pods", f"p{number}")
            last = await asyncio.to_thread(patched, apiserver, n=str(number))
        await until_cached(informer, last)
        done.set()
        await until(lambda: not any(thread.is_alive() for thread in asking))

    assert errors == []
    assert told


async def test_a_key_that_is_not_text_is_refused(apiserver: APIServer) -> None:
    async with following(apiserver) as informer:
        with pytest.raises(InvalidTypeError, match="'namespace/name'"):
            informer.explain(7)  # type: ignore[arg-type] # on purpose
        with pytest.raises(InvalidTypeError, match="'namespace/name'"):
            await informer.explain_live(None)  # type: ignore[arg-type] # on purpose
