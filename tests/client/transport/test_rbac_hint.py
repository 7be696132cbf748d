"""A refusal names the RBAC rule that the request needs, and where the Role belongs."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING

import pytest

from pyinformer.client.transport import ListWatch
from pyinformer.errors import ForbiddenError
from pyinformer.objects import GroupVersionResource
from tests.client.transport.serving import always, connected, response, serving

if TYPE_CHECKING:
    from typing import Any

IN_SHOP = "/api/v1/namespaces/shop"


@pytest.mark.parametrize(
    ("method", "path", "more", "words"),
    [
        pytest.param(
            "GET",
            f"{IN_SHOP}/pods",
            {},
            '"list" is missing; needs: apiGroups: [""], resources: ["pods"],'
            ' verbs: ["list", "watch"] in namespace shop',
            id="list",
        ),
        pytest.param(
            "GET",
            "/apis/apps/v1/deployments",
            {"watch": True},
            '"watch" is missing; needs: apiGroups: ["apps"], resources: ["deployments"],'
            ' verbs: ["list", "watch"] in a ClusterRole',
            id="watch-everywhere",
        ),
        pytest.param(
            "PATCH",
            "/apis/apps/v1/namespaces/shop/deployments/web/status",
            {},
            '"patch" is missing; needs: apiGroups: ["apps"], resources: ["deployments/status"],'
            ' verbs: ["patch"] in namespace shop',
            id="subresource",
        ),
        pytest.param(
            "PATCH",
            "/apis/apps/v1/namespaces/shop/deployments/web",
            {"refusal": 'User "x" cannot create resource "deployments" in API group ...'},
            '"create" is missing; needs: apiGroups: ["apps"], resources: ["deployments"],'
            ' verbs: ["create"] in namespace shop',
            id="apply-that-creates",
        ),
        pytest.param(
            "DELETE",
            f"{IN_SHOP}/pods",
            {},
            '"deletecollection" is missing; needs: apiGroups: [""], resources: ["pods"],'
            ' verbs: ["deletecollection"] in namespace shop',
            id="collection",
        ),
        pytest.param(
            "GET",
            IN_SHOP,
            {},
            '"get" is missing; needs: apiGroups: [""], resources: ["namespaces"],'
            ' verbs: ["get"] in a ClusterRole',
            id="a-namespace",
        ),
        pytest.param(
            "PUT",
            f"{IN_SHOP}/finalize",
            {},
            '"update" is missing; needs: apiGroups: [""], resources: ["namespaces/finalize"],'
            ' verbs: ["update"] in a ClusterRole',
            id="of-a-namespace",
        ),
        pytest.param(
            "GET",
            f"{IN_SHOP}/pods/a/log",
            {"watch": True},
            '"get" is missing; needs: apiGroups: [""], resources: ["pods/log"],'
            ' verbs: ["get"] in namespace shop',
            id="a-log-that-is-followed",
        ),
        pytest.param(
            "GET",
            "/version",
            {},
            '"get" is missing; needs: nonResourceURLs: ["/version"], verbs: ["get"] in a'
            " ClusterRole",
            id="no-resource",
        ),
        pytest.param(
            "GET",
            "/apis",
            {},
            '"get" is missing; needs: nonResourceURLs: ["/apis"], verbs: ["get"] in a ClusterRole',
            id="discovery",
        ),
    ],
)
async def test_a_request_needs_a_rule(method: str, path: str, more: Any, words: str) -> None:
    message = more.get("refusal", "not you")
    body = json.dumps({"kind": "Status", "reason": "Forbidden", "message": message}).encode()
    async with (
        serving(always(response(body, status=403))) as server,
        connected(server.url) as connection,
    ):
        with pytest.raises(ForbiddenError) as refused:
            if more.get("watch"):
                async with connection.stream(path, [("watch", "true")], watch=True):
                    pass
            else:
                await connection.request(method, path)
    assert refused.value.needed == words


async def test_a_page_of_a_gateway_names_no_rule() -> None:
    page = response(b"<html>Blocked by WAF</html>", status=403)
    async with serving(always(page)) as server, connected(server.url) as connection:
        with pytest.raises(ForbiddenError, match="Blocked by WAF") as refused:
            await connection.request("POST", f"{IN_SHOP}/pods", body=b"{}")
    assert "missing" not in str(refused.value)


async def test_a_refusal_names_the_missing_rule_and_survives_a_pickle() -> None:
    body = b'{"kind":"Status","reason":"Forbidden","message":"not you"}'
    async with (
        serving(always(response(body, status=403))) as server,
        connected(server.url) as connection,
    ):
        with pytest.raises(ForbiddenError) as refused:
            async with connection.stream(f"{IN_SHOP}/pods", watch=False, what="list pods.v1"):
                pass

    error: ForbiddenError = pickle.loads(pickle.dumps(refused.value))  # noqa: S301 - our own
    assert error.message == "not you"
    assert error.needed.startswith('"list" is missing; needs: apiGroups: [""]')
    assert str(error) == f"list pods.v1: 403 Forbidden: not you; {error.needed}"


async def test_a_list_with_a_connection_of_its_own_lacks_the_right_to_list() -> None:
    body = b'{"kind":"Status","reason":"Forbidden","message":"not you"}'
    async with (
        serving(always(response(body, status=403))) as server,
        connected(server.url) as connection,
    ):
        pods = ListWatch(connection, GroupVersionResource("", "v1", "pods"))
        with pytest.raises(ForbiddenError, match='"list" is missing'):
            async with pods.list(own_connection_seconds=10.0):
                pass
        with pytest.raises(ForbiddenError, match='"watch" is missing'):
            async with pods.watch(resource_version="1", timeout_seconds=10.0):
                pass


@pytest.mark.parametrize(
    ("why", "is_right"),
    [
        pytest.param('User "x" cannot create resource "pods"', True, id="rbac"),
        pytest.param(
            "unable to create new content in namespace shop because it is being terminated",
            False,
            id="namespace-terminating",
        ),
        pytest.param("exceeded quota: small, requested: pods=1", False, id="quota"),
        pytest.param('user "x" is attempting to grant RBAC permissions', False, id="escalation"),
    ],
)
async def test_only_a_missing_right_is_named_as_one(why: str, *, is_right: bool) -> None:
    body = f'{{"kind":"Status","reason":"Forbidden","message":{json.dumps(_FORBIDDEN + why)}}}'
    async with (
        serving(always(response(body.encode(), status=403))) as server,
        connected(server.url) as connection,
    ):
        with pytest.raises(ForbiddenError) as refused:
            await connection.request("POST", f"{IN_SHOP}/pods", body=b"{}")
    assert bool(refused.value.needed) == is_right
    assert ("is missing" in str(refused.value)) == is_right


_FORBIDDEN = 'pods "a" is forbidden: '
