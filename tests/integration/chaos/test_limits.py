"""Each limit of minutes is outlasted once, on the real kube-apiserver, side by side.

`docs/reference/options.md` promises what happens after 75 s, 300 s and 900 s. Tests in virtual time
show each for itself; here the seconds are real, each fault outlasts its limit, and etcd's log says
whether anything was lost. All scenes run at the same time, each with an idle and a busy program, so
that the whole takes as long as the longest of them: 17 minutes.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Final

import anyio
import pytest

import pyinformer
from pyinformer.errors import InformerError
from pyinformer.testing import EtcdRelay, Fault, KubeAPIServer
from pyinformer.testing.histories import EtcdTruth, History, Recorder, Verdict, check_history
from tests.integration.chaos.outlasting import (
    COUNTER,
    KINDS,
    PODS_AND_TEMPLATES,
    Limits,
    Subject,
    write_always,
)
from tests.soak import IS_SOAK
from tests.waiting import pause

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from pyinformer import KubeObject, Request

    Scene = Callable[[Subject], Awaitable[None]]

LIST_SECONDS = 300.0  # and a second more for each 16 KiB
MARGIN_SECONDS = 30.0  # by which a fault outlasts its limit
NOTICED_SECONDS = 20.0  # between a limit and the reaction to it, on a busy machine
RECOVERED_SECONDS = 100.0  # a backoff of 30 s, a proof of the history, and 10 s against flapping
OF_LARGE_LIST = 300
PAGE_SIZE = 10
LARGE = "x" * 800
DRIP_BYTES_PER_SECOND = 800


async def silent(subject: Subject) -> None:
    """A watch stands still for longer than `silence_seconds`, and so does the one after it."""
    loads, limit = subject.loads, subject.limits.reflector.silence_seconds
    struck = monotonic()
    for number, strike in enumerate((_stall_open, _half_open), 1):
        replaced = subject.takeovers + _silences(subject)
        strike(subject)

        def is_replaced(before: int = replaced) -> bool:
            return subject.takeovers + _silences(subject) > before

        took = await subject.within(is_replaced, limit + MARGIN_SECONDS)
        subject.note(f"silence {number} noticed after", took)
        subject.check(took is not None, f"silence {number} did not end the watch")
    await pause(limit)
    subject.check(subject.loads == loads, f"{subject.loads - loads} lists for two silences")
    _is_never_unready(subject, struck)
    _lags_at_most(subject, limit + NOTICED_SECONDS)


def _stall_open(subject: Subject) -> None:
    subject.proxy.stall(new=False)


def _half_open(subject: Subject) -> None:
    subject.proxy.half_open()


def _silences(subject: Subject) -> int:
    return sum("two watches were silent for" in what for what in subject.journal())


async def outage(
    subject: Subject,
    seconds: float,
    strike: Callable[[], None],
    heal: Callable[[], None],
    *,
    is_listed: bool,
) -> None:
    """The server is out of reach for so long."""
    loads, age = subject.loads, subject.informer.age_seconds() or 0.0
    struck = monotonic()
    strike()
    await pause(seconds)
    healed = monotonic()
    heal()
    await _recovers(subject, struck, healed, age)
    lists = subject.loads - loads
    is_said = any("there was no contact for" in what for what in subject.journal())
    subject.note("lists after the outage", lists)
    if is_listed:
        subject.check(lists == 1 and is_said, f"{lists} lists after an outage of {seconds:.0f} s")
    else:
        subject.check(not lists, f"{lists} lists after an outage of {seconds:.0f} s")


async def refused(subject: Subject) -> None:
    """No connection is accepted for longer than a reflector does without contact."""
    seconds = subject.limits.relist_seconds + MARGIN_SECONDS
    await outage(subject, seconds, subject.proxy.refuse, subject.proxy.accept, is_listed=True)


async def stalled(subject: Subject) -> None:
    """Nothing arrives for longer than a reflector does without contact, on any connection."""
    seconds = subject.limits.relist_seconds + 2 * MARGIN_SECONDS
    await outage(subject, seconds, subject.proxy.stall, subject.proxy.resume, is_listed=True)


async def refused_for_less(subject: Subject) -> None:
    """No connection is accepted, for less than the limit: the watch continues, without a list."""
    seconds = subject.limits.relist_seconds * 0.6
    await outage(subject, seconds, subject.proxy.refuse, subject.proxy.accept, is_listed=False)


async def refused_for_long(subject: Subject) -> None:
    """No connection is accepted for longer than 15 minutes: no reason to restart."""
    seconds = subject.limits.wedged_seconds + MARGIN_SECONDS
    await outage(subject, seconds, subject.proxy.refuse, subject.proxy.accept, is_listed=True)


async def forbidden(subject: Subject) -> None:
    """Every request is forbidden for longer than `stale_seconds`."""
    age, struck = subject.informer.age_seconds() or 0.0, monotonic()
    for verb in ("list", "watch"):
        subject.proxy.faults.add(Fault(verb=verb, status=403, times=None))
    subject.proxy.cut()
    await pause(subject.limits.stale_seconds + MARGIN_SECONDS)
    healed = monotonic()
    subject.proxy.heal()
    await _recovers(subject, struck, healed, age)


async def without_watches(subject: Subject, fault: Fault) -> None:
    """Watches do not work for longer than `stale_seconds`, and lists do: they confirm the cache."""
    struck = monotonic()
    subject.proxy.faults.add(fault)
    subject.proxy.cut()
    await pause(subject.limits.stale_seconds + MARGIN_SECONDS)
    subject.proxy.heal()
    _is_never_unready(subject, struck)
    _lags_at_most(subject, subject.limits.reflector.poll_seconds + 2 * NOTICED_SECONDS)


async def watches_refused(subject: Subject) -> None:
    """Watches get 503."""
    await without_watches(subject, Fault(verb="watch", status=503, times=None))


async def watches_unanswered(subject: Subject) -> None:
    """Watches get no answer."""
    await without_watches(subject, Fault(verb="watch", hang=True, times=None))


async def unconfirmed(subject: Subject) -> None:
    """A watch lives, and lists get no answer for longer than 15 minutes: no reason to restart."""
    age, struck = subject.informer.age_seconds() or 0.0, monotonic()
    subject.proxy.faults.add(Fault(verb="list", hang=True, times=None))
    await pause(subject.limits.wedged_seconds + MARGIN_SECONDS)
    healed = monotonic()
    subject.proxy.heal()
    await _recovers(subject, struck, healed, age)
    _lags_at_most(subject, NOTICED_SECONDS)


async def lists_refused(subject: Subject) -> None:
    """A watch lives, and lists get 503 for longer than 15 minutes: no reason to restart."""
    age, struck = subject.informer.age_seconds() or 0.0, monotonic()
    subject.proxy.faults.add(Fault(verb="list", status=503, times=None))
    await pause(subject.limits.wedged_seconds + MARGIN_SECONDS)
    healed = monotonic()
    subject.proxy.heal()
    await _recovers(subject, struck, healed, age)
    _lags_at_most(subject, NOTICED_SECONDS)


async def standing_still(subject: Subject) -> None:
    """The server's watch cache stands still for longer than 15 minutes; lists do not.

    The program has no other watch that would prove the cache to be the culprit: it lists what has
    not been confirmed for three minutes.
    """
    struck = monotonic()
    subject.relay.hold(PODS_AND_TEMPLATES)
    await pause(subject.limits.wedged_seconds + MARGIN_SECONDS)
    subject.relay.release()
    _is_never_unready(subject, struck)
    lags = any(one.lag_seconds > MARGIN_SECONDS for one in subject.seen)
    subject.check(lags or not subject.is_busy, "the watch cache did not stand still")
    _lags_at_most(subject, subject.limits.stale_seconds)


async def dripping(subject: Subject) -> None:
    """The pages of the first list drip for longer than a list may take."""
    subject.proxy.drip(bytes_per_second=DRIP_BYTES_PER_SECOND)
    limit = LIST_SECONDS
    began = monotonic()
    await subject.factory.start()

    def is_given_up() -> bool:
        error = subject.status().reflector.last_error or ""
        return "its pages arrive too slowly" in error

    took = await subject.within(is_given_up, limit * 1.3 + MARGIN_SECONDS)
    subject.note("list given up after", took)
    subject.check(took is not None, "a list that dripped was not given up")
    subject.check(took is None or took > limit, "a list was given up before its time")
    subject.check(not any(one.is_ready for one in subject.seen), "ready without a list")
    subject.proxy.heal()
    synced = await subject.within(lambda: subject.informer.has_synced, RECOVERED_SECONDS)
    subject.note("synced after", synced)
    subject.check(synced is not None, "the list was not started again")
    ready = await subject.within(lambda: _is_well(subject), RECOVERED_SECONDS)
    subject.check(ready is not None, "not ready after the list")
    subject.check(all(one.is_alive for one in subject.during(began)), "not alive")


def _is_well(subject: Subject) -> bool:
    return subject.seen[-1].is_ready and subject.seen[-1].is_alive


async def _recovers(subject: Subject, struck: float, healed: float, age: float) -> None:
    """After `stale_seconds` it was not ready, until it is healed; and it was always alive."""
    took = await subject.within(lambda: _is_well(subject), RECOVERED_SECONDS)
    subject.note("ready after", took)
    subject.check(took is not None, "not ready again")
    _becomes_unready(subject, struck, healed, age)
    subject.check(all(one.is_alive for one in subject.during(struck)), "not alive in an outage")


def _becomes_unready(subject: Subject, struck: float, healed: float, age: float) -> None:
    stale = subject.limits.stale_seconds
    early = subject.during(struck, struck + stale - age - 1.0)
    early = [one for one in early if one.at < healed]
    late = [one for one in subject.during(struck + stale + NOTICED_SECONDS) if one.at < healed]
    subject.check(all(one.is_ready for one in early), "not ready before stale_seconds")
    subject.check(not any(one.is_ready for one in late), "ready after stale_seconds")
    unready = [one.at - struck for one in subject.during(struck) if not one.is_ready]
    subject.note("not ready after", unready[0] if unready else None)


def _is_never_unready(subject: Subject, struck: float) -> None:
    seen = subject.during(struck)
    subject.note("oldest age", max(one.age_seconds or 0.0 for one in seen))
    subject.check(all(one.is_ready for one in seen), "not ready")
    subject.check(all(one.is_alive for one in seen), "not alive")


def _lags_at_most(subject: Subject, seconds: float) -> None:
    lag = max(one.lag_seconds for one in subject.seen)
    subject.note("largest lag", lag)
    subject.check(lag <= seconds, f"lagged by {lag:.0f} s")


class Hanging:
    """A reconcile that hangs, once, for longer than `reconcile_timeout_seconds`."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.cancelled_after: float | None = None
        self.is_retried = False
        self.others = 0

    async def reconcile(self, request: Request, obj: KubeObject[None] | None) -> None:
        """Hang at the first call for the counter."""
        if str(request.key) != f"{self.subject.name}/{COUNTER}":
            self.others += self.cancelled_after is None
            return
        if self.cancelled_after is not None:
            self.is_retried = True
            return
        began = monotonic()
        try:
            await anyio.sleep_forever()
        finally:
            self.cancelled_after = monotonic() - began

    async def judge(self) -> None:
        """Wait for its end."""
        subject, limit = self.subject, self.subject.limits.reconcile_seconds
        took = await subject.within(lambda: self.is_retried, limit + MARGIN_SECONDS)
        cancelled = self.cancelled_after
        subject.note("cancelled after", cancelled)
        subject.note("other reconciles meanwhile", self.others)
        in_time = cancelled is not None and limit <= cancelled <= limit + NOTICED_SECONDS
        subject.check(in_time, "a reconcile was not cancelled in time")
        subject.check(took is not None, "a cancelled reconcile was not retried")
        subject.check(self.others, "no other object was reconciled meanwhile")


SCENES: Final[dict[str, Scene]] = {
    "silent": silent,
    "refused": refused,
    "stalled": stalled,
    "refused-for-less": refused_for_less,
    "refused-for-long": refused_for_long,
    "forbidden": forbidden,
    "watches-refused": watches_refused,
    "watches-unanswered": watches_unanswered,
    "unconfirmed": unconfirmed,
    "lists-refused": lists_refused,
    "standing-still": standing_still,
    "dripping": dripping,
}
HANGING: Final = "hanging-reconcile"
READS_REQUESTS: Final = {
    "forbidden",
    "watches-refused",
    "watches-unanswered",
    "unconfirmed",
    "lists-refused",
}


class Run:
    """All scenes on one server, and the one history of all of them."""

    def __init__(self, server: KubeAPIServer, relay: EtcdRelay, limits: Limits) -> None:
        self._limits = limits
        self.subjects: dict[tuple[str, bool], Subject] = {}
        config_maps, secrets, *still = KINDS
        for name in (*SCENES, HANGING):
            for is_busy in (False, True):
                own = still if name == "standing-still" else (secrets, config_maps)
                if name == "dripping":  # of these, `data` may be anything
                    own = (config_maps, config_maps)
                self.subjects[name, is_busy] = Subject(
                    name,
                    own[is_busy],
                    is_busy=is_busy,
                    server=server,
                    relay=relay,
                    limits=limits,
                    reads_requests=name in READS_REQUESTS,
                )

    async def live(self, history: History, truth: EtcdTruth) -> Verdict:
        """Run all scenes, come to rest, and judge."""
        subjects, stop = list(self.subjects.values()), threading.Event()
        async with (
            Recorder(history, interval_seconds=1.0, counts_resources=False) as recorder,
            AsyncExitStack() as stack,
        ):
            for (name, _), subject in self.subjects.items():
                is_large = name == "dripping"
                await asyncio.to_thread(subject.fill, OF_LARGE_LIST if is_large else 0, LARGE)
                options = self._limits.reflector
                paged = replace(options, use_watch_list=False, page_size=PAGE_SIZE)
                await subject.start(stack, recorder, paged if is_large else None)
            async with anyio.create_task_group() as group:
                for subject in subjects:
                    group.start_soon(subject.probe)
                try:
                    writing = asyncio.create_task(asyncio.to_thread(write_always, subjects, stop))
                    async with anyio.create_task_group() as scenes:
                        for key, subject in self.subjects.items():
                            scenes.start_soon(self._play, key[0], subject, recorder, stack)
                finally:
                    stop.set()
                    await writing
                for subject in subjects:
                    await asyncio.to_thread(subject.write)
                await recorder.rest(truth, timeout_seconds=180.0)
                for subject in subjects:
                    subject.look()
                    subject.check(_is_well(subject), "neither ready nor alive in the end")
                group.cancel_scope.cancel()
        return check_history(history)

    async def _play(
        self, name: str, subject: Subject, recorder: Recorder, stack: AsyncExitStack
    ) -> None:
        """Play a scene; the others continue if it breaks off."""
        try:
            if name != "dripping":
                await subject.follow()
            if name in SCENES:
                await SCENES[name](subject)
            else:
                await self._hang(subject, recorder, stack)
        except (AssertionError, InformerError) as error:
            subject.check(holds=False, promise=f"broke off: {error!r}")

    async def _hang(self, subject: Subject, recorder: Recorder, stack: AsyncExitStack) -> None:
        hanging, informer = Hanging(subject), subject.informer
        controller = pyinformer.Controller(
            subject.name,
            recorder.reconciling(subject.name, hanging.reconcile, informer),
            informer,
            workers=2,
            options=self._limits.controller,
        )
        await stack.enter_async_context(controller)
        await hanging.judge()


@pytest.fixture
def relay() -> Iterator[EtcdRelay]:
    with EtcdRelay() as made:
        yield made


@pytest.fixture
def server(kube_apiserver_build: bool, relay: EtcdRelay) -> Iterator[KubeAPIServer]:
    as_json = "--storage-media-type=application/json"
    with KubeAPIServer(
        build=kube_apiserver_build, etcd_relays=[relay], extra_args=[as_json]
    ) as running:
        yield running
        running.close_connections()


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(2400)
@pytest.mark.skipif(not IS_SOAK, reason="outlasting 15 minutes takes 17: make soak")
def test_a_fault_that_outlasts_a_limit_does_what_the_limit_says(
    server: KubeAPIServer, relay: EtcdRelay, tmp_path: Path
) -> None:
    with (
        History(tmp_path / "history.jsonl") as history,
        EtcdTruth(history, server.etcd_url, resources=KINDS) as truth,
    ):
        truth.catch_up()
        run = Run(server, relay, Limits())
        verdict = asyncio.run(run.live(history, truth))

    for one in run.subjects.values():
        print(f"{one.name}: {one.figures}")  # noqa: T201 - the figures of this run
    broken = [text for one in run.subjects.values() for text in one.broken]
    assert not broken, "\n".join(broken)
    assert verdict.holds, str(verdict)
