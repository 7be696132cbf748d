"""Keeps the authorities in the webhook configurations and definitions of an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, final

import anyio
from typing_extensions import override

from pyinformer._runtime.tasks import Host, Startable, error_text, loop_time
from pyinformer.admission.certificates._client_configs import bundles_in, is_injected, put_bundle
from pyinformer.admission.certificates._serving_certificate import NewLines
from pyinformer.cache.informer import SharedInformer, SharedInformerFactory
from pyinformer.errors import ConflictError, InformerError
from pyinformer.objects import ExponentialBackoff

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from anyio.abc import TaskGroup

    from pyinformer.admission.certificates._client_configs import Target
    from pyinformer.admission.certificates._serving_certificate import ServingCertificate
    from pyinformer.client.cluster import Cluster
    from pyinformer.objects import JSONObject, KubeObject

_CHECK_SECONDS: Final = 10.0
_SOON_SECONDS: Final = 1.0  # whether it leads now, while every review fails for want of authorities
_TRUSTED_SECONDS: Final = 10.0  # servers follow their configurations within a second
_BEGIN: Final = "-----BEGIN CERTIFICATE-----"


class _Seen(NamedTuple):
    """What one version of a configuration has."""

    resource_version: str
    is_injected: bool
    bundles: tuple[str, ...]


@final
class CABundles(Startable):
    """Writes the authorities of a certificate to where the API server reads them.

    That is `clientConfig.caBundle` of each webhook in webhook configurations, and that of the
    conversion in definitions. Only what differs is written, by the leader; what lost it, because a
    manifest was applied again for example, gets it back at once. An object with an annotation by
    which cert-manager injects the authorities is left to cert-manager.

    Args:
        cluster: where the configurations are.
        targets: which they are; each is followed and written by its name.
        certificate: its authorities are written; it learns from this when that is done.
        is_leader: returns whether this replica leads now, and so writes. Asked often.
        field_manager: the owner of the fields that are written.
    """

    def __init__(
        self,
        cluster: Cluster,
        targets: Iterable[Target],
        certificate: ServingCertificate,
        *,
        is_leader: Callable[[], bool],
        field_manager: str,
    ) -> None:
        self._cluster = cluster
        self._certificate = certificate
        self._is_leader = is_leader
        self._field_manager = field_manager
        self._factory = SharedInformerFactory(cluster)
        self._informers = {target: self._informer(target) for target in targets}
        self._seen: dict[Target, _Seen] = {}
        self._trusted_at: dict[str, float] = {}  # since when all have an authority
        self._warnings: tuple[str, ...] = ()
        self._lines = NewLines()
        self._backoff = ExponentialBackoff()
        self._woken = anyio.Event()
        self._host = Host("authorities of the webhooks", self._run)
        certificate.publish_with(self)

    def _informer(self, target: Target) -> SharedInformer:
        informer = self._factory.informer(
            target.resource.api_version,
            target.resource.resource,
            field_selector={"metadata.name": target.name},
        )
        informer.add_event_handler(lambda _: self.wake(), name="authorities of the webhooks")
        return informer

    @property
    def warnings(self) -> Sequence[str]:
        """Why the API server may not trust the certificate, a line for each; for a status."""
        return self._warnings

    def is_published(self, authority: str) -> bool:
        """Return whether the API server trusts an authority in all configurations there are.

        It takes the server a moment to follow them.

        Args:
            authority: as PEM.
        """
        at = self._trusted_at.get(authority)
        return at is not None and loop_time() >= at + _TRUSTED_SECONDS

    def wake(self) -> None:
        """Compare at once, and write what differs."""
        self._woken.set()

    @override
    async def start(self) -> None:
        """Start, without waiting for the configurations: they may be applied later.

        Raises:
            LifecycleError: it was started before.

        Cancellation:
            What was started is stopped.
        """
        await self._host.start()

    @override
    async def aclose(self) -> None:
        """Stop; what was written stays.

        Cancellation:
            Takes effect when everything has ended.
        """
        await self._host.aclose()

    async def _run(self, _: TaskGroup, ready: Callable[[], None]) -> None:
        async with self._factory:
            await self._factory.start()
            ready()
            while True:
                self._woken = anyio.Event()
                pause_seconds = await self._step()
                with anyio.move_on_after(pause_seconds):
                    await self._woken.wait()

    async def _step(self) -> float:
        bundle, is_leader = self._certificate.bundle, self._is_leader()
        warnings: list[str] = []
        pause_seconds = _CHECK_SECONDS
        for target, informer in self._informers.items():
            if not bundle or not informer.has_synced:
                continue
            found = informer.lister.get(target.name)
            seen = self._look(target, found)
            if found is None or not seen.bundles:
                warnings.append(_missing(target))
            elif seen.is_injected and self._certificate.makes_its_authority:
                warnings.append(_foreign(target))
            elif seen.is_injected or _is_in_all(seen.bundles, bundle):
                continue
            elif not is_leader:
                pause_seconds = min(pause_seconds, _SOON_SECONDS)
            else:
                try:
                    await self._write(found, bundle)
                except ConflictError:
                    pass  # the informer brings the version that was written meanwhile
                except InformerError as error:
                    warnings.append(f"{target}: caBundle cannot be written: {error_text(error)}")
                    pause_seconds = self._backoff.next(loop_time())
        self._record_trust(bundle)
        self._warnings = tuple(warnings)
        if is_leader:  # one replica says it
            self._lines.warn(warnings)
        return pause_seconds

    def _look(self, target: Target, found: KubeObject | None) -> _Seen:
        """Return what a configuration has; each version is decoded once."""
        version = "" if found is None else found.metadata.resource_version
        seen = self._seen.get(target)
        if seen is None or seen.resource_version != version:
            body: JSONObject | None = None if found is None else found.to_dict()
            seen = _Seen(version, is_injected=False, bundles=())
            if body is not None:
                seen = _Seen(version, is_injected(body), tuple(bundles_in(body)))
            self._seen[target] = seen
        return seen

    async def _write(self, found: KubeObject, bundle: str) -> None:
        edited = found.to_dict()
        put_bundle(edited, bundle)
        await self._cluster.patch(
            found, edited, check_version=True, field_manager=self._field_manager
        )

    def _record_trust(self, bundle: str) -> None:
        if not all(informer.has_synced for informer in self._informers.values()):
            return
        published = [
            one for seen in self._seen.values() if not seen.is_injected for one in seen.bundles
        ]
        now = loop_time()
        self._trusted_at = {
            authority: self._trusted_at.get(authority, now)
            for authority in _split(bundle)
            if all(authority in one for one in published)
        }


def _foreign(target: Target) -> str:
    return (
        f"{target} has an annotation of cert-manager, so the authority of the operator's own"
        " certificate is not written: remove the annotation, or mount cert-manager's certificate,"
        " certificates=<folder>"
    )


def _is_in_all(found: Iterable[str], bundle: str) -> bool:
    """Return whether each has this bundle, or newer authorities before it.

    Those are of a Secret that a new leader has not read yet: it must not take them away.
    """
    return all(one.endswith(bundle) for one in found)


def _missing(target: Target) -> str:
    name, why = "webhooks", "has no webhooks, so the API server calls none"
    if target.kind == "CustomResourceDefinition":
        name, why = "crd", "has no conversion webhook, so versions are not converted"
    cure = f"apply deploy/{name}.yaml, or what `pyinformer {name} module:app` prints"
    return f"{target} {why}: {cure}"


def _split(bundle: str) -> list[str]:
    """Return each certificate of a PEM text, as a PEM text of its own."""
    return [f"{_BEGIN}{part}" for part in bundle.split(_BEGIN) if part.strip()]
