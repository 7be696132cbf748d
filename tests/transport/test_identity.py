"""What becomes of refusals: credentials are renewed once, whoever wrote them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinformer.transport import ClusterConfig, TokenFileCredentials
from pyinformer.transport._identity import Identity

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Counted:
    """Credentials of somebody else's, with nothing but what the protocol asks for."""

    def __init__(self) -> None:
        self.number = 0

    async def headers(self) -> Mapping[str, str]:
        """Return another mapping each time."""
        return {"Authorization": f"Bearer {self.number}"}

    def invalidate(self) -> None:
        """Count."""
        self.number += 1


async def test_a_late_refusal_of_old_headers_does_not_renew_the_new_ones() -> None:
    credentials = Counted()
    identity = Identity(ClusterConfig(server="http://host", credentials=credentials))
    old, same = await identity.headers(), await identity.headers()
    identity.refused(old)
    new = await identity.headers()
    identity.refused(same)
    identity.refused(old)

    assert credentials.number == 1
    assert (await identity.headers()) == new


async def test_a_token_file_is_read_once_for_many_refusals(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    credentials = TokenFileCredentials(path)
    identity = Identity(ClusterConfig(server="http://host", credentials=credentials))
    old = await identity.headers()
    path.write_text("new")
    identity.refused(old)
    new = await identity.headers()
    path.write_text("newer")
    for _ in range(3):
        identity.refused(old)

    assert new == {"Authorization": "Bearer new"}
    assert await identity.headers() is new


def test_plain_http_has_no_tls() -> None:
    assert Identity(ClusterConfig(server="http://host")).context(0.0) is None
