"""ListWatch: the exact path and query of every request."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

import pytest

from pyinformer.client.transport import ListWatch
from pyinformer.errors import ForbiddenError, InvalidArgumentError, ResourceExpiredError
from pyinformer.objects import GroupVersionResource
from tests.client.transport.serving import always, connected, response, serving

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from pyinformer.client.transport import Body

PODS = GroupVersionResource.of("v1", "pods")
DEPLOYMENTS = GroupVersionResource.of("apps/v1", "deployments")


async def asked(
    resource: GroupVersionResource = PODS,
    *,
    namespace: str | None = None,
    label_selector: str | None = None,
    field_selector: str | None = None,
    shard_selector: str | None = None,
    **question: object,
) -> tuple[str, dict[str, str]]:
    """Return the path and the query of a request."""
    async with serving(always(response())) as server, connected(server.url) as connection:
        source = ListWatch(
            connection,
            resource,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            shard_selector=shard_selector,
        )
        name = "watch" if "timeout_seconds" in question else "list"
        stream: AbstractAsyncContextManager[Body] = getattr(source, name)(**question)
        async with stream as body:
            while await body.read():
                pass
    target = urlsplit(server.requests[0].target)
    return target.path, dict(parse_qsl(target.query, strict_parsing=bool(target.query)))


@pytest.mark.covers("client-go rest: TestRequestPreservesBaseTrailingSlash")
@pytest.mark.parametrize(
    ("resource", "namespace", "path"),
    [
        (PODS, None, "/api/v1/pods"),
        (PODS, "", "/api/v1/pods"),
        (PODS, "team-a", "/api/v1/namespaces/team-a/pods"),
        (DEPLOYMENTS, None, "/apis/apps/v1/deployments"),
        (DEPLOYMENTS, "x", "/apis/apps/v1/namespaces/x/deployments"),
        (PODS, "../../x?y", "/api/v1/namespaces/..%2F..%2Fx%3Fy/pods"),
    ],
)
async def test_the_path_is_that_of_the_resource_and_its_namespace(
    resource: GroupVersionResource, namespace: str | None, path: str
) -> None:
    assert await asked(resource, namespace=namespace) == (path, {})


NOT_OLDER = {"resourceVersionMatch": "NotOlderThan"}


@pytest.mark.parametrize(
    ("question", "query"),
    [
        pytest.param({}, {}, id="newest"),
        pytest.param({"limit": 500}, {"limit": "500"}, id="page"),
        pytest.param(
            {"limit": 500, "continue_token": "a+b/="},
            {"limit": "500", "continue": "a+b/="},
            id="next-page",
        ),
        pytest.param(
            {"resource_version": "0"}, {"resourceVersion": "0", **NOT_OLDER}, id="any-age"
        ),
        pytest.param(
            {"resource_version": "7", "limit": 1},
            {"resourceVersion": "7", "limit": "1", **NOT_OLDER},
            id="a-version-always-says-how-it-is-meant",
        ),
        pytest.param(
            {"resource_version": "7", "resource_version_match": "Exact"},
            {"resourceVersion": "7", "resourceVersionMatch": "Exact"},
            id="exact",
        ),
    ],
)
async def test_a_list_has_its_query_parameters(
    question: dict[str, object], query: dict[str, str]
) -> None:
    assert (await asked(**question))[1] == query  # type: ignore[arg-type] # none of the named ones


@pytest.mark.covers("kube-runtime src: test_mode_watch_waits_before_returning_next_event")
@pytest.mark.parametrize(
    ("question", "query"),
    [
        pytest.param(
            {"resource_version": "7", "timeout_seconds": 199.6},
            {"resourceVersion": "7", "timeoutSeconds": "200"},
            id="resume",
        ),
        pytest.param(
            {"resource_version": "7", "timeout_seconds": 0.2},
            {"resourceVersion": "7", "timeoutSeconds": "1"},
            id="never-zero-seconds",
        ),
        pytest.param(
            {"resource_version": "", "timeout_seconds": 5, "send_initial_events": True},
            {"sendInitialEvents": "true", "timeoutSeconds": "5", **NOT_OLDER},
            id="watch-list",
        ),
        pytest.param(
            {"resource_version": "0", "timeout_seconds": 5, "send_initial_events": True},
            {"resourceVersion": "0", "sendInitialEvents": "true", "timeoutSeconds": "5"}
            | NOT_OLDER,
            id="watch-list-of-any-age",
        ),
    ],
)
async def test_a_watch_has_its_query_parameters(
    question: dict[str, object], query: dict[str, str]
) -> None:
    always_sent = {"watch": "true", "allowWatchBookmarks": "true"}
    assert (await asked(**question))[1] == always_sent | query  # type: ignore[arg-type] # none of the named ones


async def test_selectors_go_with_lists_and_watches() -> None:
    selectors = {"label_selector": "app in (a, b),!x", "field_selector": "spec.nodeName=n"}
    wanted = {"labelSelector": "app in (a, b),!x", "fieldSelector": "spec.nodeName=n"}
    _, listed = await asked(**selectors)  # type: ignore[arg-type] # these are the named ones
    _, watched = await asked(resource_version="1", timeout_seconds=1.0, **selectors)  # type: ignore[arg-type] # as above

    assert listed == wanted
    assert watched.items() >= wanted.items()


@pytest.mark.covers("client-go util/watchlist: TestPrepareWatchListOptionsFromListOptions")
@pytest.mark.parametrize(
    ("question", "argument"),
    [
        ({"limit": -1}, "limit"),
        ({"continue_token": "x", "resource_version": "1"}, "continue_token"),
        ({"continue_token": "x", "resource_version_match": "Exact"}, "continue_token"),
        ({"resource_version_match": "Exact"}, "resource_version_match"),
        ({"resource_version": "1", "timeout_seconds": 0}, "timeout_seconds"),
        ({"resource_version": "1", "timeout_seconds": -3.0}, "timeout_seconds"),
        ({"resource_version": "1", "timeout_seconds": float("nan")}, "timeout_seconds"),
        ({"resource_version": "", "timeout_seconds": 5.0}, "resource_version"),
        ({"resource_version": "0", "timeout_seconds": 5.0}, "resource_version"),
    ],
)
async def test_contradictory_list_options_are_refused_at_the_call(
    question: dict[str, object], argument: str
) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        await asked(**question)  # type: ignore[arg-type] # none of the named ones

    assert caught.value.argument == argument


async def test_a_shard_goes_with_every_request() -> None:
    shard = "shardRange(object.metadata.uid, '0x0', '0x8000000000000000')"
    _, listed = await asked(shard_selector=shard)
    _, watched = await asked(resource_version="1", timeout_seconds=1.0, shard_selector=shard)
    assert listed["shardSelector"] == watched["shardSelector"] == shard


async def test_a_refusal_names_the_request_and_the_resource() -> None:
    async with (
        serving(always(response(b"", status=403))) as server,
        connected(server.url) as connection,
    ):
        source = ListWatch(connection, DEPLOYMENTS)
        with pytest.raises(ForbiddenError, match=r"^list deployments\.v1\.apps: 403"):
            async with source.list():
                pass
        with pytest.raises(ForbiddenError, match=r"^watch deployments\.v1\.apps: 403"):
            async with source.watch(resource_version="1", timeout_seconds=1):
                pass


async def test_an_expired_continue_token_is_a_410() -> None:
    body = b'{"kind":"Status","code":410,"reason":"Expired","metadata":{"continue":"inconsistent"}}'
    async with (
        serving(always(response(body, status=410))) as server,
        connected(server.url) as connection,
    ):
        with pytest.raises(ResourceExpiredError, match="Expired"):
            async with ListWatch(connection, PODS).list(continue_token="old"):
                pass
