"""Impersonation: every request has the headers of the impersonated user."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import pyinformer
from pyinformer.client.transport import ClusterConfig
from pyinformer.errors import ConfigurationError, InvalidArgumentError
from tests.client.transport.serving import CHUNKED, chunk, connected, response, serving

if TYPE_CHECKING:
    import asyncio

    from tests.client.transport.serving import Request

JANE = "system:serviceaccount:shop:jane"


async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
    """Answer a watch with an empty stream, everything else with an object."""
    watched = CHUNKED + chunk(b"")
    writer.write(watched if "watch=true" in request.target else response())


@pytest.mark.covers(
    "client-go transport: TestImpersonationRoundTripper",
    "kube-client src: impersonate_user_extra_no_unnecessary_escape",
)
@pytest.mark.parametrize("http_client", ["direct", "aiohttp"])
async def test_every_request_has_the_impersonation_headers(http_client: str) -> None:
    async with serving(answer) as server:
        config = ClusterConfig(
            server=server.url,
            impersonate_user=JANE,
            impersonate_groups=("dévs", "system:authenticated"),
            impersonate_uid="7",
            impersonate_extra=(
                ("acme.org/Project", "a"),
                ("scopes", "b"),
                ("scopes", "c"),
                ("50%", "d"),
            ),
        )
        async with connected("", config=config, http_client=http_client) as connection:
            await connection.request("GET", "/write")
            async with connection.stream("/list", watch=False, accept="application/x") as body:
                await body.read()
            async with connection.stream("/watch", [("watch", "true")], watch=True) as body:
                await body.read()

    assert len(server.requests) == 3
    for request in server.requests:
        said = {k: v for k, v in request.headers.items() if k.startswith("impersonate-")}
        assert said == {
            "impersonate-user": JANE,
            "impersonate-uid": "7",
            "impersonate-group": "dévs, system:authenticated".encode().decode("latin-1"),
            "impersonate-extra-acme.org%2fproject": "a",
            "impersonate-extra-scopes": "b, c",
            "impersonate-extra-50%25": "d",
        }
        assert request.headers["user-agent"].startswith("pyinformer/")
    assert [one.headers["accept"] for one in server.requests] == [
        "application/json",
        "application/x",
        "application/json",
    ]


async def test_impersonation_passed_to_connect_overrides_the_configuration() -> None:
    async with serving(answer) as server:
        config = ClusterConfig(
            server=server.url, impersonate_user="other", impersonate_uid="7", source="mine"
        )
        async with pyinformer.connect(
            config=config, impersonate_user=JANE, impersonate_groups=["a", "b"]
        ) as cluster:
            assert cluster.config.impersonate_groups == ("a", "b")
            assert cluster.config.source == "mine"
            await cluster.connection.request("GET", "/x")

    headers = server.requests[0].headers
    assert (headers["impersonate-user"], headers["impersonate-group"]) == (JANE, "a, b")
    assert "impersonate-uid" not in headers


@pytest.mark.parametrize(
    ("user", "groups", "argument"),
    [
        pytest.param(None, ["a"], "impersonate_groups", id="groups-alone"),
        pytest.param("", [], "impersonate_user", id="empty"),
        pytest.param("jane", "admins", "impersonate_groups", id="text"),
    ],
)
async def test_an_empty_user_to_impersonate_is_refused_at_the_call(
    user: str | None, groups: list[str] | str, argument: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^{argument}: "):
        async with pyinformer.connect(
            server="http://127.0.0.1:1", impersonate_user=user, impersonate_groups=groups
        ):
            pytest.fail("connected")


@pytest.mark.covers("client-go tools/clientcmd: TestValidateAuthInfoImpersonateUser")
@pytest.mark.parametrize(
    "whom",
    [
        {"impersonate_groups": ("a",)},
        {"impersonate_uid": "7"},
        {"impersonate_extra": (("a", "b"),)},
        {"impersonate_user": "a\r\nX-Evil: 1"},
        {"impersonate_user": "a", "impersonate_groups": "admins"},
    ],
)
def test_an_incomplete_impersonation_is_refused(whom: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=r"^my file: "):
        ClusterConfig(server="http://host", source="my file", **whom)  # type: ignore[arg-type] # each of its own kind
