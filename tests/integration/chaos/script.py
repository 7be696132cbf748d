"""What a storm is, as its history says it: a replay repeats all of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyinformer.testing import FaultSchedule
from pyinformer.testing.histories import RunRecord, read_history
from tests.integration.chaos.flavours import Flavour, flavour_of

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

OBJECTS = 240
_LIES, _OBJECTS, _WITHOUT = "lies", "objects", "starts-without-descriptors"


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
    starts_without_descriptors: bool = False
    """Whether the program has none from before it connects; the faults have to give them back."""

    @classmethod
    def drawn(cls, seed: int, *, seconds: float, lies: bool) -> Self:
        """Draw the server and the faults by the seed."""
        return cls(seed=seed, flavour=flavour_of(seed), seconds=seconds, lies=lies)

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
            starts_without_descriptors=run.settings[_WITHOUT] == "yes",
        )

    def record(self, path: Path) -> RunRecord:
        """Return the first line of the history at a path."""
        return RunRecord(
            command=f"make chaos REPLAY={path}",
            seed=str(self.seed),
            versions={"server": str(self.flavour)},
            settings={
                _LIES: "yes" if self.lies else "no",
                _OBJECTS: str(self.objects),
                _WITHOUT: "yes" if self.starts_without_descriptors else "no",
                **self.flavour.settings(),
            },
        )
