"""What a storm is, as its history says it: a replay repeats all of it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyinformer.testing import FaultSchedule
from pyinformer.testing.histories import RunRecord, read_history
from tests.integration.chaos.flavours import Flavour, flavour_of

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

OBJECTS = 240
# What is imported and connected late, and what the allocator of several threads keeps: some 90 MiB.
# Smaller leaks show in the hours of the soak.
MEMORY_BYTES = 128 << 20
PAGE_SIZES = (0, 40)  # of 120 config maps, so that a list has several pages
_LIES, _OBJECTS, _PAGES = "lies", "objects", "page-size"
_WITHOUT = "starts-without-descriptors"


@dataclass(frozen=True, kw_only=True)
class Script:
    """One storm, without its server."""

    seed: int
    """Of the writers, the readers, and of all that is drawn."""
    flavour: Flavour = field(default_factory=Flavour)
    schedule: FaultSchedule | None = None
    """The faults; None draws them."""
    seconds: float
    """How long the faults last."""
    lies: bool = False
    """Whether the server lies, too, after which caches are audited."""
    objects: int = OBJECTS
    """How many the writers write to."""
    page_size: int = 0
    """Of how many objects the pages are in which informers list; 0 for watch-lists."""
    starts_without_descriptors: bool = False
    """Whether the program has none from before it connects; the faults have to give them back."""

    @classmethod
    def drawn(cls, seed: int, *, seconds: float, lies: bool) -> Self:
        """Draw the server, how informers list, and the faults by the seed."""
        return cls(
            seed=seed,
            flavour=flavour_of(seed),
            seconds=seconds,
            lies=lies,
            page_size=random.Random(f"{seed} pages").choice(PAGE_SIZES),
        )

    @classmethod
    def of_history(cls, path: Path) -> Self:
        """Read the storm that a history is of.

        Raises:
            InvalidArgumentError: the file is not a history.
            OSError: it cannot be read.
        """
        run = next((one for one in read_history(path) if isinstance(one, RunRecord)), None)
        assert run is not None, f"{path} does not say which run it is"
        schedule = FaultSchedule.of_history(path)
        return cls(
            seed=int(run.seed),
            flavour=Flavour.of(run.settings),
            schedule=schedule,
            seconds=schedule.seconds,
            lies=run.settings[_LIES] == "yes",
            objects=int(run.settings[_OBJECTS]),
            page_size=int(run.settings.get(_PAGES, "0")),
            starts_without_descriptors=run.settings[_WITHOUT] == "yes",
        )

    def record(self, path: Path) -> RunRecord:
        """Return the first line of the history at a path."""
        return RunRecord(
            command=f"make chaos REPLAY={path}",
            seed=str(self.seed),
            versions={"server": str(self.flavour)},
            memory_bytes=MEMORY_BYTES,
            settings={
                _LIES: "yes" if self.lies else "no",
                _OBJECTS: str(self.objects),
                _PAGES: str(self.page_size),
                _WITHOUT: "yes" if self.starts_without_descriptors else "no",
                **self.flavour.settings(),
            },
        )
