"""A certificate in a folder: what is refused at the start, and what follows a change."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import anyio
import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from pyinformer.admission.certificates import FolderCertificate
from pyinformer.errors import ConfigurationError, ConfigurationNotFoundError, LifecycleError
from tests.admission.certificates.issuing import HOST, issue, serial_of, served, write
from tests.virtual_time import elapse
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from pyinformer.admission.certificates import ServingCertificate

_LOGGER = "pyinformer.admission.certificates"
_DAY = 86_400.0


@pytest.fixture
def authority() -> trustme.CA:
    """An authority of cert-manager."""
    return trustme.CA()


def _lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        one.getMessage()
        for one in caplog.records
        if one.name == _LOGGER and one.levelno == logging.WARNING
    ]


def _serial(authority: trustme.CA, certificate: ServingCertificate) -> str:
    """Return which certificate a context shows, by a handshake in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    authority.configure_trust(context)
    client = context.wrap_bio(to_client, to_server, server_hostname=HOST)
    server = certificate.context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(5):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    found = client.getpeercert()
    assert found is not None
    return str(found["serialNumber"])


async def test_the_certificate_and_its_authority_are_read(
    tmp_path: Path, authority: trustme.CA
) -> None:
    write(tmp_path, issue(authority), authority)
    certificate = FolderCertificate(tmp_path, [HOST])
    assert list(certificate.problems) == ["no certificate is there yet"]
    async with certificate:
        assert certificate.bundle == authority.cert_pem.bytes().decode()
        assert not certificate.problems
        assert not certificate.warnings
        async with served(certificate.context) as port:
            assert await serial_of(port, certificate.bundle)
        assert certificate.context.minimum_version == ssl.TLSVersion.TLSv1_2
    with pytest.raises(LifecycleError):
        await certificate.start()


async def test_the_authority_need_not_be_there(tmp_path: Path, authority: trustme.CA) -> None:
    write(tmp_path, issue(authority))
    async with FolderCertificate(tmp_path, [HOST]) as certificate:
        assert certificate.bundle == ""


async def _failure(folder: Path) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as raised:
        await FolderCertificate(folder, [HOST]).start()
    return raised.value


async def test_a_folder_without_a_certificate_fails_the_start(tmp_path: Path) -> None:
    error = await _failure(tmp_path / "tls")
    assert isinstance(error, ConfigurationNotFoundError)
    assert error.source == str(tmp_path / "tls/tls.crt")
    assert str(error).endswith("does not exist: mount the Secret of the certificate there")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("tls.crt", b"", "must hold certificates as PEM"),
        ("tls.crt", b"\xff", "must hold certificates as PEM"),
        ("ca.crt", b"-", "must hold certificates as PEM"),
        ("tls.key", b"-", "must hold a private key as PEM in tls.crt"),
    ],
)
async def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, authority: trustme.CA, name: str, content: bytes, reason: str
) -> None:
    write(tmp_path, issue(authority), authority)
    (tmp_path / name).write_bytes(content)
    error = await _failure(tmp_path)
    assert (error.source, error.reason) == (str(tmp_path / name), reason)


async def test_a_file_that_is_a_folder_is_named(tmp_path: Path, authority: trustme.CA) -> None:
    write(tmp_path, issue(authority))
    (tmp_path / "tls.key").unlink()
    (tmp_path / "tls.key").mkdir()
    assert (await _failure(tmp_path)).reason == "cannot be read: Is a directory"


async def test_a_key_of_another_certificate_is_refused(
    tmp_path: Path, authority: trustme.CA
) -> None:
    write(tmp_path, issue(authority))
    (tmp_path / "tls.key").write_bytes(issue(authority).private_key_pem.bytes())
    error = await _failure(tmp_path)
    assert error.source == str(tmp_path / "tls.key")
    assert error.reason.startswith("must hold the key of the certificate, but holds another one")


def _with_rsa(bits: int, *, password: bytes | None = None) -> tuple[bytes, bytes]:
    """Return a certificate that signs itself, and its key."""
    key = rsa.generate_private_key(65537, bits)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    encryption = (
        serialization.NoEncryption()
        if password is None
        else serialization.BestAvailableEncryption(password)
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, encryption)
    return made.public_bytes(pem), secret


async def test_a_key_with_a_password_is_refused(tmp_path: Path) -> None:
    for name, content in zip(("tls.crt", "tls.key"), _with_rsa(2048, password=b"x"), strict=True):
        (tmp_path / name).write_bytes(content)
    error = await _failure(tmp_path)
    assert str(error).endswith("tls.key: must hold a private key without a password in tls.crt")


async def test_a_certificate_that_openssl_refuses_is_named(tmp_path: Path) -> None:
    for name, content in zip(("tls.crt", "tls.key"), _with_rsa(1024), strict=True):
        (tmp_path / name).write_bytes(content)
    error = await _failure(tmp_path)
    assert error.source == str(tmp_path / "tls.crt")
    assert error.reason == "OpenSSL refuses the certificate: EE_KEY_TOO_SMALL"


async def test_a_certificate_without_names_is_a_warning(tmp_path: Path) -> None:
    for name, content in zip(("tls.crt", "tls.key"), _with_rsa(2048), strict=True):
        (tmp_path / name).write_bytes(content)
    async with FolderCertificate(tmp_path, [HOST]) as certificate:
        assert "is not of db.acme.svc" in certificate.warnings[0]


async def test_a_system_without_files_in_memory_has_temporary_ones(
    tmp_path: Path, authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    write(tmp_path, issue(authority), authority)
    async with FolderCertificate(tmp_path, [HOST]) as certificate:
        assert _serial(authority, certificate)


def test_without_cryptography_the_error_names_the_extra() -> None:
    program = "import sys; sys.modules['cryptography'] = None\n"
    program += "import pyinformer.admission.certificates"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=100
    )
    assert "InvalidArgumentError: webhooks: " in done.stderr
    assert "pip install 'pyinformer[webhooks]'" in done.stderr


async def test_a_certificate_that_has_expired_or_has_not_begun_is_refused(
    tmp_path: Path, authority: trustme.CA
) -> None:
    now = time.time()
    write(tmp_path, issue(authority, since=now - 2 * _DAY, until=now - _DAY))
    error = await _failure(tmp_path)
    assert error.source == str(tmp_path / "tls.crt")
    assert error.reason.startswith("expired at 20")
    write(tmp_path, issue(authority, since=now + _DAY, until=now + 2 * _DAY))
    assert (await _failure(tmp_path)).reason.startswith("is valid from 20")


async def test_a_certificate_of_another_host_is_one_warning(
    tmp_path: Path, authority: trustme.CA, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, issue(authority, "other.acme.svc", "10.0.0.2"))
    async with FolderCertificate(tmp_path, [HOST]) as certificate:
        assert not certificate.problems
        assert list(certificate.warnings) == _lines(caplog)
        assert "is not of db.acme.svc, by which the API server calls" in certificate.warnings[0]
    for name in ("other.acme.svc", "OTHER.acme.svc", "10.0.0.2"):
        async with FolderCertificate(tmp_path, [name]) as certificate:
            assert not certificate.warnings
    write(tmp_path, issue(authority, "*.acme.svc"))
    async with FolderCertificate(tmp_path, [HOST]) as certificate:
        assert not certificate.warnings
    async with FolderCertificate(tmp_path, ["a.b.acme.svc"]) as certificate:
        assert len(certificate.warnings) == 1


@pytest.mark.virtual_time
async def test_a_new_certificate_is_shown_a_moment_after_it_was_written(
    tmp_path: Path, authority: trustme.CA
) -> None:
    write(tmp_path, issue(authority), authority)
    async with FolderCertificate(tmp_path, [HOST]) as certificate:
        first = _serial(authority, certificate)
        await elapse(60)
        assert _serial(authority, certificate) == first
        write(tmp_path, issue(authority), authority)
        await elapse(6)
        assert _serial(authority, certificate) != first


class _Published:
    """What an API server trusts."""

    def __init__(self) -> None:
        self.bundle = ""
        self.woken = 0

    def is_published(self, authority: str) -> bool:
        """Return whether it is in the bundle."""
        return authority in self.bundle

    def wake(self) -> None:
        """Count."""
        self.woken += 1


@pytest.mark.virtual_time
async def test_a_new_authority_is_published_before_its_certificate_is_shown(
    tmp_path: Path, authority: trustme.CA
) -> None:
    now, other = time.time(), trustme.CA()
    old, new = (one.cert_pem.bytes().decode() for one in (authority, other))
    write(tmp_path, issue(authority), authority)
    clock, server = [now], _Published()
    certificate = FolderCertificate(tmp_path, [HOST], wall_clock=lambda: clock[0])
    certificate.publish_with(server)
    async with certificate:
        first = _serial(authority, certificate)
        server.bundle = certificate.bundle
        write(tmp_path, issue(other), other)
        await elapse(3600)
        assert certificate.bundle == new + old
        assert server.woken == 2
        assert _serial(authority, certificate) == first
        assert not certificate.warnings
        server.bundle = certificate.bundle
        await elapse(6)
        assert _serial(other, certificate) != first
        assert certificate.bundle == new + old  # other replicas may show the old one
        clock[0] += 601
        await elapse(6)
        assert certificate.bundle == new


@pytest.mark.virtual_time
async def test_what_is_never_published_is_shown_when_the_last_certificate_has_expired(
    tmp_path: Path, authority: trustme.CA
) -> None:
    now = time.time()
    clock, other = [now], trustme.CA()
    write(tmp_path, issue(authority, until=now + 60), authority)
    certificate = FolderCertificate(tmp_path, [HOST], wall_clock=lambda: clock[0])
    certificate.publish_with(_Published())
    async with certificate:
        write(tmp_path, issue(other), other)
        await elapse(6)
        assert _serial(authority, certificate)
        clock[0] += 61
        await elapse(6)
        assert _serial(other, certificate)
        assert not certificate.problems


@pytest.mark.virtual_time
@pytest.mark.parametrize("harm", ["half", "gone", "expired"])
async def test_the_last_good_certificate_stays_and_what_is_repaired_is_read(
    tmp_path: Path, authority: trustme.CA, caplog: pytest.LogCaptureFixture, harm: str
) -> None:
    write(tmp_path, issue(authority), authority)
    async with FolderCertificate(tmp_path, [HOST]) as certificate:
        first = _serial(authority, certificate)
        if harm == "half":
            key = issue(authority).private_key_pem.bytes()
            (tmp_path / "tls.key").write_bytes(key)
        elif harm == "gone":
            (tmp_path / "data").unlink()
        else:
            write(tmp_path, issue(authority, until=time.time() - 1), authority)
        await elapse(60)
        assert _serial(authority, certificate) == first
        assert not certificate.problems
        assert list(certificate.warnings) == _lines(caplog)
        assert certificate.warnings[0].endswith("the last certificate stays in use")
        (tmp_path / "tls.key").unlink()
        write(tmp_path, issue(authority), authority)
        await elapse(6)
        assert _serial(authority, certificate) != first
        assert not certificate.warnings


@pytest.mark.virtual_time
async def test_an_end_that_comes_near_is_told_and_then_is_a_problem(
    tmp_path: Path, authority: trustme.CA, caplog: pytest.LogCaptureFixture
) -> None:
    now = time.time()
    write(tmp_path, issue(authority, since=now - _DAY, until=now + _DAY), authority)
    clock = [now]
    certificate = FolderCertificate(tmp_path, [HOST], wall_clock=lambda: clock[0])
    async with certificate:
        clock[0] = now + 0.7 * _DAY
        assert not certificate.warnings
        clock[0] = now + 0.9 * _DAY
        await elapse(20)
        assert "without a new one" in certificate.warnings[0]
        assert len(_lines(caplog)) == 1
        clock[0] = now + _DAY
        await elapse(20)
        assert not certificate.warnings
        assert certificate.problems[0].startswith("the certificate of the webhooks expired at 20")
        assert len(_lines(caplog)) == 2


async def test_clients_without_a_certificate_are_refused_if_theirs_is_asked_for(
    tmp_path: Path, authority: trustme.CA
) -> None:
    write(tmp_path, issue(authority), authority)
    clients = trustme.CA()
    (tmp_path / "clients.crt").write_bytes(clients.cert_pem.bytes())
    certificate = FolderCertificate(tmp_path, [HOST], client_ca=tmp_path / "clients.crt")
    async with certificate, served(certificate.context) as port:
        assert await serial_of(port, certificate.bundle, client=issue(clients, "apiserver"))
        for refused in (None, issue(authority, "apiserver")):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await serial_of(port, certificate.bundle, client=refused)


@pytest.mark.virtual_time
async def test_another_authority_of_clients_is_accepted_too(
    tmp_path: Path, authority: trustme.CA
) -> None:
    write(tmp_path, issue(authority), authority)
    file = tmp_path / "clients.crt"
    with pytest.raises(ConfigurationNotFoundError):
        await FolderCertificate(tmp_path, [HOST], client_ca=file).start()
    file.write_bytes(b"none")
    with pytest.raises(ConfigurationError, match="must hold the authorities of clients as PEM"):
        await FolderCertificate(tmp_path, [HOST], client_ca=file).start()
    file.write_bytes(trustme.CA().cert_pem.bytes())
    async with FolderCertificate(tmp_path, [HOST], client_ca=file) as certificate:
        file.write_bytes(b"none")
        await elapse(6)
        assert certificate.warnings[0].endswith("the last authorities of clients stay in use")
        file.write_bytes(trustme.CA().cert_pem.bytes())
        await elapse(6)
        assert not certificate.warnings
        assert len(certificate.context.get_ca_certs()) == 2


@pytest.mark.parametrize("by", ["task", "scope"])
async def test_a_cancelled_end_has_ended(tmp_path: Path, authority: trustme.CA, by: str) -> None:
    write(tmp_path, issue(authority))
    certificate = FolderCertificate(tmp_path, [HOST])
    await certificate.start()
    await _cancelled(certificate, by)
    await certificate.aclose()


async def _cancelled(certificate: FolderCertificate, by: str) -> None:
    if by == "scope":
        with anyio.CancelScope() as scope:
            scope.cancel()
            await certificate.aclose()
        return
    closing = asyncio.ensure_future(certificate.aclose())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait((closing,))


def _has(shown: set[str], count: int) -> bool:
    return len(shown) == count


@pytest.mark.every_loop
async def test_ten_rotations_under_load_fail_no_handshake(
    tmp_path: Path, authority: trustme.CA
) -> None:
    write(tmp_path, issue(authority), authority)
    shown: set[str] = set()
    async with (
        FolderCertificate(tmp_path, [HOST]) as certificate,
        served(certificate.context) as port,
        anyio.create_task_group() as group,
    ):

        async def connect() -> None:
            while not _has(shown, 11):
                shown.add(await serial_of(port, certificate.bundle))

        for _ in range(4):
            group.start_soon(connect)
        for rotation in range(10):
            await until(partial(_has, shown, rotation + 1))
            write(tmp_path, issue(authority), authority)
            certificate.wake()
    assert len(shown) == 11
