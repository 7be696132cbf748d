"""The server of a storm: what is drawn of it by seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyinformer.testing import EtcdRelay, KubeAPIServer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self


@dataclass(frozen=True)
class Flavour:
    """How the kube-apiservers are started."""

    replicas: int = 1
    """Of one etcd, behind one address, each with its own lag."""
    watch_list: bool = True
    sharded: bool = False
    watch_cache: bool = True

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Self:
        """Return the flavour that a history names."""
        return cls(
            replicas=int(settings["replicas"]),
            watch_list=settings["watch_list"] == "yes",
            sharded=settings["sharded"] == "yes",
            watch_cache=settings["watch_cache"] == "yes",
        )

    def settings(self) -> dict[str, str]:
        """Return it as text, for a history."""
        gates = ("watch_list", "sharded", "watch_cache")
        shown = {name: "yes" if getattr(self, name) else "no" for name in gates}
        return {"replicas": str(self.replicas), **shown}

    def __str__(self) -> str:
        gates = f"WatchList={self.watch_list} ShardedListAndWatch={self.sharded}"
        return f"{self.replicas} kube-apiservers, {gates}, watch-cache={self.watch_cache}"

    def server(self, relays: Sequence[EtcdRelay], *, build: bool) -> KubeAPIServer:
        """Return the server, which is not started yet."""
        return KubeAPIServer(
            build=build,
            replicas=self.replicas,
            watch_list=self.watch_list,
            feature_gates={"ShardedListAndWatch": self.sharded},
            extra_args=[f"--watch-cache={str(self.watch_cache).lower()}"],
            etcd_relays=relays,
        )


def flavour_of(seed: int) -> Flavour:
    """Draw a flavour: half of the seeds have two servers, one in six has no watch cache."""
    rng = random.Random(f"{seed} flavour")
    return Flavour(
        replicas=rng.choice((1, 2)),
        watch_list=rng.choice((True, True, False)),
        sharded=rng.choice((True, False)),
        watch_cache=rng.randrange(6) != 0,
    )
