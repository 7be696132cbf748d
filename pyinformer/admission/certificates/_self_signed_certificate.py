"""A certificate that the operator makes, keeps in a Secret and renews."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, final

from typing_extensions import override

from pyinformer._runtime.clock import wall_time
from pyinformer._runtime.tasks import error_text, loop_time
from pyinformer.admission.certificates._rotation import Material, renewed
from pyinformer.admission.certificates._serving_certificate import ServingCertificate
from pyinformer.cache.informer import SharedInformerFactory
from pyinformer.errors import ConfigurationError, ConflictError, InformerError
from pyinformer.objects import ExponentialBackoff

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from os import PathLike

    from pyinformer.client.cluster import Cluster
    from pyinformer.objects import JSONObject, KubeObject

_START_SECONDS: Final = 60.0  # an election and the first writes; rights are often granted late
_CHECK_SECONDS: Final = 10.0  # of who leads, of the time, and of what is published
_SOON_SECONDS: Final = 1.0  # the same while there is no certificate, or a write is not seen yet


@final
class SelfSignedCertificate(ServingCertificate):
    """A certificate in a Secret, which the leader makes and renews, and every replica follows.

    Its authority is made, too, and stands in the Secret with its key. Both are renewed when two
    thirds of their life are over. A Secret that is lost is made again, with a new authority: to
    delete it is the way to renew everything. Two replicas that both write cannot disagree: a write
    fails if the Secret has changed since it was read.

    Args:
        cluster: where the Secret is.
        namespace: of the Secret.
        secret_name: its name; only this one is read and written.
        names: the host names and addresses of the server; the first is what clients verify.
        is_leader: returns whether this replica leads now. Asked often.
        client_ca: the file with the authorities of clients, which then need a certificate; None
            accepts every client.
        wall_clock: Unix time in seconds.
    """

    makes_its_authority: bool = True

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        secret_name: str,
        names: Sequence[str],
        *,
        is_leader: Callable[[], bool],
        client_ca: str | PathLike[str] | None = None,
        wall_clock: Callable[[], float] = wall_time,
    ) -> None:
        super().__init__(names, client_ca=client_ca, wall_clock=wall_clock)
        self._cluster = cluster
        self._key = f"{namespace}/{secret_name}"
        self._is_leader = is_leader
        self._known: Material | None = None  # as the Secret was, while it is lost
        self._backoff = ExponentialBackoff()
        self._deadline = 0.0
        self._factory = SharedInformerFactory(cluster)
        self._secrets = self._factory.informer(
            "v1",
            "secrets",
            namespaces=namespace,
            field_selector={"metadata.name": secret_name},
        )
        self._secrets.add_event_handler(lambda _: self.wake(), name="certificate of the webhooks")

    @override
    @asynccontextmanager
    async def _following(self) -> AsyncIterator[None]:
        self._deadline = loop_time() + _START_SECONDS
        async with self._factory:
            await self._factory.start()
            yield

    @override
    async def _step(self) -> float:
        pause_seconds = await self._renew()
        if self._pair is not None:
            return pause_seconds
        left_seconds = self._deadline - loop_time()
        if left_seconds <= 0:
            reason = f"no certificate within {_START_SECONDS:.0f} s: {self._trouble}"
            raise ConfigurationError(f"Secret {self._key}", reason)
        return min(pause_seconds, left_seconds, _SOON_SECONDS)

    async def _renew(self) -> float:
        """Take what the Secret holds, and write what it should hold."""
        if not self._secrets.has_synced:
            error = self._secrets.status().reflector.last_error or "no response yet"
            self._trouble = f"Secret {self._key} cannot be read: {error}"
            return _CHECK_SECONDS
        secret = self._secrets.lister.get(self._key)
        try:
            stored = None if secret is None else Material.read(secret.at("data", dict, default={}))
            if stored is not None:
                self._take(stored.leaf, stored.bundle)
                self._known = stored
        except (ValueError, InformerError) as error:
            self._trouble = (
                f"Secret {self._key} {_told(error)}: delete it, or configure another name; it is"
                " not overwritten"
            )
            return _CHECK_SECONDS
        wanted = renewed(
            self._known,
            is_lost=stored is None,
            names=self._names,
            now=self._wall_clock(),
            is_published=self._is_published,
        )
        self._trouble = ""
        if wanted is None:
            return _CHECK_SECONDS
        if not self._is_leader():
            if self._pair is None:
                self._trouble = f"Secret {self._key} does not exist, and this replica does not lead"
            return _CHECK_SECONDS
        return await self._write(secret, wanted)

    async def _write(self, secret: KubeObject | None, wanted: Material) -> float:
        namespace, _, name = self._key.partition("/")
        try:
            if secret is None:
                body: JSONObject = {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": {"name": name, "namespace": namespace},
                    "type": "kubernetes.io/tls",
                    "data": wanted.data(),
                }
                await self._cluster.create(body)
            else:
                body = secret.to_dict()  # with its resourceVersion
                body["data"] = {**(body.get("data") or {}), **wanted.data()}
                await self._cluster.replace(body)
        except ConflictError:  # another replica was first: the informer shows what it wrote
            return _SOON_SECONDS
        except InformerError as error:
            self._trouble = f"Secret {self._key} cannot be written: {error_text(error)}"
            return self._backoff.next(loop_time())
        self._backoff.reset()
        return _SOON_SECONDS


def _told(error: Exception) -> str:
    """Return what is wrong with the contents, without anything of them."""
    return str(error) if type(error) is ValueError else "cannot be read"
