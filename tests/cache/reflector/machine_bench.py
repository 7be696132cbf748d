"""A reflector's machine and a clock, for the tests of what it does next.

A delay is a Sleep; after it comes `Woke`, and the command that had been planned.
"""

from __future__ import annotations

import random

from pyinformer.cache.reflector import ReflectorState, WatchListMemory
from pyinformer.cache.reflector.lineage import HistoryVerdict
from pyinformer.cache.reflector.machine import ReflectorMachine
from pyinformer.cache.reflector.machine.steps import (
    Command,
    Discover,
    Discovered,
    Input,
    Load,
    Loaded,
    LoadMode,
    Prove,
    Proved,
    Sleep,
    Watch,
    Woke,
)
from pyinformer.errors import (
    APIStatusError,
    InformerError,
    InvalidResourceVersionError,
    ListInconsistentError,
    ProtocolError,
    RequestTimeoutError,
    TransportError,
    status_error_class,
)

WATCH_LIST, PAGED, WHOLE = Load(LoadMode.WATCH_LIST), Load(LoadMode.PAGED), Load(LoadMode.WHOLE)
PAUSED = {ReflectorState.WAITING, ReflectorState.ABSENT, ReflectorState.FORBIDDEN}
LOST = TransportError("https://server", "the connection was lost")
HANGING = RequestTimeoutError("https://server", "no answer", waited_seconds=30)
BAD = ProtocolError("watch", "nonsense")
MALFORMED = InvalidResourceVersionError("x")
NO_END = ListInconsistentError("watch-list pods.v1", "the server never said that it is complete")


def status(code: int, retry_after_seconds: float | None = None, *causes: str) -> APIStatusError:
    error_class = status_error_class(code, causes)
    return error_class(status=code, retry_after_seconds=retry_after_seconds, causes=causes)


TOO_LARGE = status(504, None, "ResourceVersionTooLarge")
EXPIRED = status(410)


class Bench:
    """A machine and a clock."""

    def __init__(
        self, *, memory: WatchListMemory | None = None, use_watch_list: bool = True, seed: int = 0
    ) -> None:
        self.memory = memory or WatchListMemory()
        self.suspicions: list[str] = []
        self.may_relax = False
        self.lists_work = True
        """Whether the server answers proofs; not during an outage, or they would look refused."""
        self.relaxed: list[str] = []
        self.now = 1000.0
        self.machine = ReflectorMachine(
            rng=random.Random(seed),
            watch_list=self.memory,
            use_watch_list=use_watch_list,
            on_suspicion=self.suspicions.append,
            relax=self._relax,
        )

    def _relax(self, order: str) -> bool:
        if self.may_relax:
            self.relaxed.append(order)
        return self.may_relax

    def start(self) -> Command:
        return self.machine.start(self.now)

    def state(self) -> ReflectorState:
        return self.machine.state

    @property
    def troubles(self) -> tuple[int, InformerError | None]:
        return self.machine.attempts, self.machine.last_error

    def step(self, happened: Input) -> Command:
        return self.machine.step(happened, self.now)

    def after_delay(
        self, happened: Input, *, at_least: float = 0.2, below: float = 60.0
    ) -> Command:
        """Pass on what happened, wait as commanded, and return the command after that."""
        command = self.step(happened)
        if command == Discover():
            command = self.step(Discovered(is_served=True))
        assert isinstance(command, Sleep)
        assert at_least <= command.seconds <= below
        assert self.machine.state in PAUSED
        self.now += command.seconds
        return self.proven(self.step(Woke()))

    def proven(self, command: Command) -> Command:
        """Find the server's history intact, or nothing during an outage, if that is asked first."""
        verdict = HistoryVerdict.INTACT if self.lists_work else HistoryVerdict.UNDECIDED
        return self.step(Proved(verdict)) if command == Prove() else command

    def during_an_outage(self) -> Bench:
        """Answer no list from now on."""
        self.lists_work = False
        return self

    def watching(self) -> Bench:
        """Load by pages and watch."""
        self.start()
        assert self.step(Loaded(LoadMode.PAGED)) == Watch()
        return self
