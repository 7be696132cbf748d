"""A certificate from a folder, as cert-manager and mounted Secrets have it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from typing_extensions import override

from pyinformer._runtime.clock import utc_text, wall_time
from pyinformer.admission.certificates._serving_certificate import ServingCertificate
from pyinformer.admission.certificates._tls_context import Version, read_file, version_of
from pyinformer.admission.certificates._x509 import (
    Certificate,
    KeyPair,
    read_certificates,
    read_pair,
)
from pyinformer.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike

_CHECK_SECONDS: Final = 5.0  # a kubelet takes a minute to bring a change of a Secret
_KEPT_SECONDS: Final = 600.0  # kubelets of other replicas may bring it minutes later


@final
class FolderCertificate(ServingCertificate):
    """The certificate in `tls.crt` and `tls.key` of a folder, read again when they change.

    Clients have to trust the authorities in `ca.crt`, if that is there. A certificate of another
    authority is shown when that is published, or the last certificate has expired; the authorities
    before stay in the bundle for ten minutes. The files are read on the event loop, once when they
    have changed: they should be of a mounted Secret, not of a network.

    Args:
        folder: where the files are.
        names: the host names and addresses of the server; the first is what clients verify.
        client_ca: the file with the authorities of clients, which then need a certificate; None
            accepts every client.
        wall_clock: Unix time in seconds.
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        names: Sequence[str],
        *,
        client_ca: str | PathLike[str] | None = None,
        wall_clock: Callable[[], float] = wall_time,
    ) -> None:
        super().__init__(names, client_ca=client_ca, wall_clock=wall_clock)
        self._chain_file, self._key_file, self._ca_file = (
            Path(folder, name) for name in ("tls.crt", "tls.key", "ca.crt")
        )
        self._versions: tuple[Version, ...] = ()
        self._found: KeyPair | None = None  # what was read last; shown when it is trusted
        self._authorities: tuple[str, ...] = ()
        self._shown: tuple[str, ...] = ()  # with the certificate that is shown
        self._kept: dict[str, float] = {}  # until when an authority is in the bundle

    @override
    async def _step(self) -> float:
        files = (self._chain_file, self._key_file, self._ca_file)
        versions = tuple(map(version_of, files))
        trouble = ""
        try:
            # What is half-written is read again: the other half may have the same version.
            if versions != self._versions or self._trouble:
                self._versions = versions
                self._read()
            self._show()
        except ConfigurationError as error:
            if self._pair is None:
                raise
            trouble = f"{error}; the last certificate stays in use"
        self._trouble = trouble
        return _CHECK_SECONDS

    def _read(self) -> None:
        chain = _certificates(self._chain_file)
        pair = _pair(self._key_file, chain)
        now, begins_at, expires_at = (
            self._wall_clock(),
            pair.certificate.begins_at,
            pair.certificate.expires_at,
        )
        if now >= expires_at:
            reason = f"expired at {utc_text(expires_at)}: renew the certificate"
            raise ConfigurationError(str(self._chain_file), reason)
        if now < begins_at:
            reason = f"is valid from {utc_text(begins_at)} on: correct the clock, or wait"
            raise ConfigurationError(str(self._chain_file), reason)
        has_authorities = version_of(self._ca_file) is not None
        authorities = _certificates(self._ca_file) if has_authorities else ()
        self._found, self._authorities = pair, tuple(one.pem for one in authorities)

    def _show(self) -> None:
        """Publish the authorities, and show the certificate that was read when they are trusted."""
        pair, last, now = self._found, self._pair, self._wall_clock()
        kept = {one: at for one, at in self._kept.items() if at > now}
        self._kept = {**dict.fromkeys(self._authorities, 0.0), **kept}  # these come first
        self._kept.update(dict.fromkeys(self._authorities, now + _KEPT_SECONDS))
        new = (one for one in self._authorities if one not in self._shown)
        must_wait = self._publisher is not None and not all(map(self._is_published, new))
        if must_wait and last is not None and now < last.certificate.expires_at:
            pair = last
        if pair is None:
            return
        try:
            self._take(pair, "".join(self._kept))
            if pair is self._found:
                self._shown = self._authorities
        except ValueError as error:
            raise ConfigurationError(str(self._chain_file), str(error)) from error


def _certificates(file: Path) -> tuple[Certificate, ...]:
    content = read_file(file)
    try:
        return read_certificates(content)
    except ValueError as error:
        raise ConfigurationError(str(file), str(error)) from error


def _pair(file: Path, chain: tuple[Certificate, ...]) -> KeyPair:
    content = read_file(file)
    try:
        return read_pair(chain, content)
    except ValueError as error:
        raise ConfigurationError(str(file), f"{error} in tls.crt") from error
