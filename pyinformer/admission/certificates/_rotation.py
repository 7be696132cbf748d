"""What the Secret of self-made certificates holds, and what has to be renewed in it now.

Invariant: a leaf is served only when the API server trusts its authority. So a new authority first
stands beside the old one, whose leaf stays in use; the next leaf is of the new one; and the old one
goes when no replica can still serve its leaf. There are never more than two.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Self, final

from pyinformer.admission.certificates._x509 import (
    Certificate,
    KeyPair,
    make_authority,
    make_leaf,
    pem_of,
    read_authority,
    read_certificates,
    read_pair,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

CA_CERTIFICATE: Final = "ca.crt"
CA_KEY: Final = "ca.key"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
_ENTRIES: Final = (CA_CERTIFICATE, CA_KEY, CERTIFICATE, KEY)
# Of the life of the first leaf of a new authority: nine days, after which each replica that is
# connected to the server at all has read it.
_SETTLED: Final = 0.1


@final
@dataclass(frozen=True, slots=True)
class Material:
    """The authorities, the key of the newest, and the leaf that is served."""

    authorities: tuple[Certificate, ...]
    """The newest first; the second, if there is one, is still trusted."""
    authority_key: bytes = field(repr=False)
    leaf: KeyPair

    @classmethod
    def read(cls, data: Mapping[str, str]) -> Self | None:
        """Read the `data` of a Secret.

        Returns:
            None if it holds nothing yet.

        Raises:
            ValueError: it holds something else, which must not be overwritten.
        """
        if not any(data.get(name) for name in _ENTRIES):
            return None
        try:
            ca, ca_key, chain, key = (
                base64.b64decode(data.get(name) or "", validate=True) for name in _ENTRIES
            )
        except binascii.Error as error:
            raise ValueError("must be base64") from error
        authority = read_authority(read_certificates(ca), ca_key)
        leaf = read_pair(read_certificates(chain), key)
        if not any(map(leaf.certificate.is_signed_by, authority.chain)):
            raise ValueError("must hold a certificate of its own authority")
        return cls(authority.chain, ca_key, leaf)

    def data(self) -> dict[str, str]:
        """Return the `data` of the Secret."""
        contents = (
            self.bundle.encode(),
            self.authority_key,
            pem_of(self.leaf.chain).encode(),
            self.leaf.key_pem,
        )
        return {
            name: base64.b64encode(content).decode()
            for name, content in zip(_ENTRIES, contents, strict=True)
        }

    @property
    def bundle(self) -> str:
        """The authorities as PEM, which the API server has to trust."""
        return pem_of(self.authorities)

    @property
    def newest(self) -> KeyPair:
        """The authority that signs the next leaf."""
        return KeyPair(self.authorities[:1], self.authority_key)

    @property
    def is_waiting(self) -> bool:
        """Whether the leaf is of the old authority, until the new one is published."""
        return not self.leaf.certificate.is_signed_by(self.authorities[0])


def renewed(
    known: Material | None,
    *,
    is_lost: bool,
    names: Sequence[str],
    now: float,
    is_published: Callable[[str], bool],
) -> Material | None:
    """Return what the Secret should hold instead; None if it should stay.

    Args:
        known: what it holds, or held before it was lost; None if that is not known.
        is_lost: whether the Secret does not exist or is empty.
        names: the host names and addresses that the leaf needs.
        now: Unix time in seconds.
        is_published: returns whether the API server trusts an authority, which is given as PEM.
    """
    if known is None or now >= known.authorities[0].expires_at:
        return _made(names, now)
    leaf, newest = known.leaf.certificate, known.newest
    unchanged = known if is_lost else None
    if known.is_waiting:
        if now < leaf.expires_at and not is_published(newest.certificate.pem):
            return unchanged
        return replace(known, leaf=make_leaf(newest, names, now))
    if len(known.authorities) > 1:
        if now >= leaf.at_share(_SETTLED):
            known = unchanged = replace(known, authorities=known.authorities[:1])
    elif is_lost or now >= newest.certificate.due_at:
        return _with_new_authority(known, names, now)
    if now >= leaf.due_at or not all(map(leaf.covers, names)):
        return replace(known, leaf=make_leaf(newest, names, now))
    return unchanged


def _made(names: Sequence[str], now: float) -> Material:
    authority = make_authority(now)
    return Material(authority.chain, authority.key_pem, make_leaf(authority, names, now))


def _with_new_authority(known: Material, names: Sequence[str], now: float) -> Material:
    """Add an authority, and take a last leaf of the old one, whose key is dropped here.

    That leaf has all of its life before it, for as long as the new authority is not published.
    """
    authority = make_authority(now)
    last = make_leaf(known.newest, names, now)
    return Material((*authority.chain, *known.authorities), authority.key_pem, last)
