"""The certificate that the webhooks' server shows, wherever it comes from."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import anyio
from typing_extensions import override

from pyinformer._runtime.clock import utc_text
from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import Host, Startable
from pyinformer.admission.certificates._tls_context import TLSContext
from pyinformer.errors import ConfigurationError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Sequence
    from os import PathLike

    from anyio.abc import TaskGroup

    from pyinformer.admission.certificates._x509 import KeyPair

_log = get_logger(__name__)


class Publisher(Protocol):
    """Writes the authorities to where the API server reads them."""

    def is_published(self, authority: str) -> bool:
        """Return whether the API server trusts an authority, which is given as PEM."""
        ...

    def wake(self) -> None:
        """Publish the authorities soon: they have changed."""
        ...


class NewLines:
    """Logs problems that last, each of them once until it has gone."""

    def __init__(self) -> None:
        self._known: frozenset[str] = frozenset()

    def warn(self, lines: Iterable[str]) -> None:
        """Log the lines that were not among the last ones."""
        found = tuple(lines)
        for line in found:
            if line not in self._known:
                _log.warning("%s", line)
        self._known = frozenset(found)


class ServingCertificate(Startable):
    """A certificate with its key in a TLS context, and the authorities that clients have to trust.

    Args:
        names: the host names and addresses of the server; the first is what clients verify.
        client_ca: the file with the authorities of clients, which then need a certificate; None
            accepts every client.
        wall_clock: Unix time in seconds.
    """

    makes_its_authority: bool = False
    """Whether no other program knows its authority."""

    def __init__(
        self,
        names: Sequence[str],
        *,
        client_ca: str | PathLike[str] | None,
        wall_clock: Callable[[], float],
    ) -> None:
        self._names = tuple(names)
        self._tls = TLSContext(None if client_ca is None else Path(client_ca))
        self._wall_clock = wall_clock
        self._pair: KeyPair | None = None
        self._bundle = ""
        self._trouble = "no certificate is there yet"
        self._client_ca_trouble = ""
        self._publisher: Publisher | None = None
        self._lines = NewLines()
        self._woken = anyio.Event()
        self._host = Host("certificate of the webhooks", self._run)
        self._was_started = False

    @property
    def context(self) -> ssl.SSLContext:
        """The context of the server, always the same one; it has a certificate after the start."""
        return self._tls.context

    @property
    def bundle(self) -> str:
        """The authorities that clients have to trust, as PEM; empty if they are not known."""
        return self._bundle

    @property
    def problems(self) -> Sequence[str]:
        """Why clients cannot verify the server, a line for each reason; for readiness."""
        if self._pair is None:
            return (self._trouble,)
        if self._was_started and not self._host.is_running:
            return (
                "the certificate of the webhooks is not followed any more: restart the program",
            )
        expires_at = self._pair.certificate.expires_at
        if self._wall_clock() >= expires_at:
            return (f"the certificate of the webhooks expired at {utc_text(expires_at)}",)
        return ()

    @property
    def warnings(self) -> Sequence[str]:
        """What will become a problem, or is one for some clients, a line for each; for a status."""
        found = [self._client_ca_trouble]
        if self._pair is not None:
            certificate = self._pair.certificate
            found.append(self._trouble)
            if certificate.late_at <= self._wall_clock() < certificate.expires_at:
                until = utc_text(certificate.expires_at)
                found.append(
                    f"the certificate of the webhooks expires at {until}, without a new one"
                )
            if not certificate.covers(self._names[0]):
                found.append(
                    f"the certificate of the webhooks is not of {self._names[0]}, by which the API"
                    " server calls: make one with this name, or correct service= or url="
                )
        return tuple(filter(None, found))

    def publish_with(self, publisher: Publisher) -> None:
        """Name what publishes the authorities; before, they count as not published."""
        self._publisher = publisher

    def wake(self) -> None:
        """Check at once what is otherwise checked after seconds: files, the time, and who leads."""
        self._woken.set()

    @override
    async def start(self) -> None:
        """Start, and wait until there is a certificate.

        Raises:
            ConfigurationError: there is none; it says which file or Secret is missing, and why.
            LifecycleError: it was started before.

        Cancellation:
            What was started is stopped.
        """
        await self._host.start()
        self._was_started = True

    @override
    async def aclose(self) -> None:
        """Stop following the certificate; the context keeps the last one.

        Cancellation:
            Takes effect when everything has ended.
        """
        await self._host.aclose()

    async def _run(self, _: TaskGroup, ready: Callable[[], None]) -> None:
        self._tls.check_client_ca()
        async with self._following():
            while True:
                self._woken = anyio.Event()
                pause_seconds = await self._step()
                self._check_client_ca()
                if self._pair is not None:
                    self._lines.warn((*self.problems, *self.warnings))
                    ready()
                with anyio.move_on_after(pause_seconds):
                    await self._woken.wait()

    def _following(self) -> AbstractAsyncContextManager[object]:
        """Return what must run meanwhile."""
        return nullcontext()

    @abstractmethod
    async def _step(self) -> float:
        """Read what has changed, and do what is due.

        Returns:
            After how many seconds to do so again, unless it is woken before.

        Raises:
            ConfigurationError: there is no certificate, and waiting would not help.
        """

    def _take(self, pair: KeyPair, bundle: str) -> None:
        """Use a certificate from now on.

        Raises:
            ValueError: OpenSSL refuses it; nothing has changed.
        """
        if pair != self._pair:
            self._tls.use(pair)
            _log.info(
                "the webhooks have a certificate that expires at %s",
                utc_text(pair.certificate.expires_at),
            )
        self._pair, self._trouble = pair, ""
        if bundle != self._bundle:
            self._bundle = bundle
            if self._publisher is not None:
                self._publisher.wake()

    def _check_client_ca(self) -> None:
        try:
            self._tls.check_client_ca()
        except ConfigurationError as error:
            self._client_ca_trouble = f"{error}; the last authorities of clients stay in use"
        else:
            self._client_ca_trouble = ""

    def _is_published(self, authority: str) -> bool:
        return self._publisher is not None and self._publisher.is_published(authority)
