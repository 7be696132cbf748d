"""Certificates and keys: reading them, and making authorities and leaves.

Only this module of the folder imports the package cryptography. Keys are never part of a
representation.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, final

from pyinformer.errors import InvalidArgumentError

try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError as missing:
    _HINT: Final = (
        "the certificates of webhooks need the package cryptography:"
        " pip install 'pyinformer[webhooks]'"
    )
    raise InvalidArgumentError("webhooks", _HINT) from missing

if TYPE_CHECKING:
    from collections.abc import Iterable

LEAF_SECONDS: Final = 90 * 86_400.0  # as cert-manager's default
AUTHORITY_SECONDS: Final = 3650 * 86_400.0  # its key leaves the Secret at the next rotation
_SKEW_SECONDS: Final = 300.0  # clocks of other nodes may be this far behind
_DUE: Final = 2 / 3  # of a life, as cert-manager's default
_SOON: Final = 0.9  # of a life: what renews it has missed its time
_UNREADABLE: Final = (
    ValueError,
    x509.ExtensionNotFound,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)


@final
@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate, with times as Unix seconds."""

    parsed: x509.Certificate

    @property
    def pem(self) -> str:
        """The certificate as PEM, with a newline at its end."""
        return self.parsed.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def begins_at(self) -> float:
        """From when on it is valid."""
        return self.parsed.not_valid_before_utc.timestamp()

    @property
    def expires_at(self) -> float:
        """Until when it is valid."""
        return self.parsed.not_valid_after_utc.timestamp()

    @property
    def due_at(self) -> float:
        """When two thirds of its life are over, and it has to be renewed."""
        return self.at_share(_DUE)

    @property
    def late_at(self) -> float:
        """When so little of its life is left that its renewal must have failed."""
        return self.at_share(_SOON)

    def at_share(self, share: float) -> float:
        """Return when a share of its life is over."""
        return self.begins_at + share * (self.expires_at - self.begins_at)

    def covers(self, name: str) -> bool:
        """Return whether clients accept it for a host name or an address."""
        try:
            names = self.parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except _UNREADABLE:
            return False
        try:
            return ip_address(name) in names.value.get_values_for_type(x509.IPAddress)
        except ValueError:
            _, _, domain = name.lower().partition(".")
            found = {one.lower() for one in names.value.get_values_for_type(x509.DNSName)}
            return not found.isdisjoint((name.lower(), f"*.{domain}"))

    def is_signed_by(self, authority: Certificate) -> bool:
        """Return whether an authority has signed it."""
        try:
            self.parsed.verify_directly_issued_by(authority.parsed)
        except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
            return False
        return True


@final
@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate with its private key, and the authorities between it and the trusted one."""

    chain: tuple[Certificate, ...]
    """The first is that of the key."""
    key_pem: bytes = field(repr=False)

    @property
    def certificate(self) -> Certificate:
        """The certificate of the key."""
        return self.chain[0]

    @property
    def pem(self) -> bytes:
        """The certificates and the key, as OpenSSL reads them from one file."""
        return pem_of(self.chain).encode() + self.key_pem


def pem_of(certificates: Iterable[Certificate]) -> str:
    """Return certificates as PEM."""
    return "".join(one.pem for one in certificates)


def read_certificates(pem: bytes) -> tuple[Certificate, ...]:
    """Read the certificates in a PEM text.

    Raises:
        ValueError: there is none, or one cannot be read; the text quotes nothing of it.
    """
    try:
        return tuple(map(Certificate, x509.load_pem_x509_certificates(pem)))
    except ValueError as error:
        raise ValueError("must hold certificates as PEM") from error


def read_pair(chain: tuple[Certificate, ...], key_pem: bytes) -> KeyPair:
    """Read the private key of the first certificate.

    Raises:
        ValueError: it cannot be read, or is another one's; the text quotes nothing of it.
    """
    try:
        key = serialization.load_pem_private_key(key_pem, password=None)
        fits = key.public_key() == chain[0].parsed.public_key()
    except TypeError as error:
        raise ValueError("must hold a private key without a password") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ValueError("must hold a private key as PEM") from error
    if not fits:
        raise ValueError("must hold the key of the certificate, but holds another one")
    return KeyPair(chain, key_pem)


def read_authority(chain: tuple[Certificate, ...], key_pem: bytes) -> KeyPair:
    """Read the private key of an authority that was made here.

    Raises:
        ValueError: as for `read_pair`, or it is a key of another kind.
    """
    pair = read_pair(chain, key_pem)
    _signing_key(pair)
    return pair


def make_authority(now: float) -> KeyPair:
    """Make an authority that signs itself.

    Args:
        now: Unix time in seconds.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    # A name of its own: clients find the signer of a leaf by its name first.
    name = _name(f"pyinformer webhooks {x509.random_serial_number():x}"[:64])
    builder = (
        _begun(name, name, key, now, now + AUTHORITY_SECONDS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    return KeyPair((Certificate(builder.sign(key, hashes.SHA256())),), _key_pem(key))


def make_leaf(authority: KeyPair, names: Iterable[str], now: float) -> KeyPair:
    """Make a certificate of a server; it does not outlive its authority.

    Args:
        authority: which signs it.
        names: its host names and addresses.
        now: Unix time in seconds.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    signer = authority.certificate
    until = min(now + LEAF_SECONDS, signer.expires_at)
    signing_key = _signing_key(authority)
    builder = (
        _begun(_name("pyinformer webhooks"), signer.parsed.subject, key, now, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(map(_general_name, names)), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()),
            critical=False,
        )
    )
    return KeyPair((Certificate(builder.sign(signing_key, hashes.SHA256())),), _key_pem(key))


def _signing_key(pair: KeyPair) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pair.key_pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("must hold a key of an elliptic curve")  # noqa: TRY004 - of a file
    return key


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: float, until: float
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_instant(now) - timedelta(seconds=_SKEW_SECONDS))
        .not_valid_after(_instant(until))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _instant(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
