"""After a refusal credentials are renewed once, those of users' own classes as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinformer.transport import ClusterConfig, TokenFileCredentials
from pyinformer.transport.http._authenticator import Authenticator

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Counted:
    """Credentials of a user's class, with only what the protocol requires."""

    def __init__(self) -> None:
        self.number = 0

    async def headers(self) -> Mapping[str, str]:
        """Return another mapping each time."""
        return {"Authorization": f"Bearer {self.number}"}

    def invalidate(self) -> None:
        """Count the call."""
        self.number += 1


async def test_a_late_refusal_of_old_headers_does_not_renew_the_new_ones() -> None:
    credentials = Counted()
    authenticator = Authenticator(ClusterConfig(server="http://host", credentials=credentials))
    old, same = await authenticator.headers(), await authenticator.headers()
    authenticator.on_unauthorized(old)
    new = await authenticator.headers()
    authenticator.on_unauthorized(same)
    authenticator.on_unauthorized(old)

    assert credentials.number == 1
    assert (await authenticator.headers()) == new


async def test_a_token_file_is_read_once_for_many_refusals(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    credentials = TokenFileCredentials(path)
    authenticator = Authenticator(ClusterConfig(server="http://host", credentials=credentials))
    old = await authenticator.headers()
    path.write_text("new")
    authenticator.on_unauthorized(old)
    new = await authenticator.headers()
    path.write_text("newer")
    for _ in range(3):
        authenticator.on_unauthorized(old)

    assert new == {"Authorization": "Bearer new"}
    assert await authenticator.headers() is new


def test_plain_http_has_no_tls() -> None:
    assert Authenticator(ClusterConfig(server="http://host")).ssl_context(0.0) is None
