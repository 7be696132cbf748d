"""What a public entry point is given by mistake is refused by an error of the library.

A bare TypeError or ValueError of the code inside names neither the argument nor what it must be.
"""

from __future__ import annotations

import inspect
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final

import pytest

import pyinformer
from pyinformer import cache, config
from pyinformer.cluster import Cluster
from pyinformer.config import ClusterConfig
from pyinformer.controllerutil import EventRecorder, upgrade_managed_fields
from pyinformer.crd import custom_resource
from pyinformer.errors import InformerError, InvalidArgumentError, InvalidTypeError
from pyinformer.testing import APIServer, KubeAPIServer, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_WRONG: Final = (
    5,
    -1,
    0.5,
    float("nan"),
    True,
    object(),
    {"a": "b"},
    ["a"],
    [5],
    [None],
    [["a"]],
    "text",
    b"x",
    lambda: 0,
    APIServer,
)
_NOT_CHECKED: Final = {
    "Request": {"reasons"},  # set by sources only, for each event
}
_URL: Final = "http://127.0.0.1:1"
_BODY: Final = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "namespace": "default"},
}
_PLACE: Final = {"api_version": "v1", "plural": "configmaps"}


def _cluster() -> Cluster:
    return Cluster(ClusterConfig(server=_URL))


def _options() -> Iterator[Any]:
    for module in (config, cache, pyinformer):
        for name in module.__all__:
            found = getattr(module, name)
            if inspect.isclass(found) and name.endswith("Options"):
                yield pytest.param(found, {}, id=name)


def _informer() -> pyinformer.SharedInformer:
    return pyinformer.SharedInformer(_cluster(), "v1", "pods")


_CONSTRUCTORS: Final = [
    *_options(),
    pytest.param(ClusterConfig, {"server": _URL}, id="ClusterConfig"),
    pytest.param(Cluster, {"config": ClusterConfig(server=_URL)}, id="Cluster"),
    pytest.param(
        pyinformer.SharedInformer,
        {"cluster": _cluster(), "api_version": "v1", "plural": "pods"},
        id="SharedInformer",
    ),
    pytest.param(pyinformer.SharedInformerFactory, {"cluster": _cluster()}, id="Factory"),
    pytest.param(
        pyinformer.SharedInformerFactory(_cluster()).informer,
        {"api_version": "v1", "plural": "pods", "private": True},
        id="informer",
    ),
    pytest.param(
        pyinformer.Controller,
        {"name": "a", "reconcile": lambda _request, _obj: None, "primary": _informer()},
        id="Controller",
    ),
    pytest.param(pyinformer.ControllerGroup, {}, id="ControllerGroup"),
    pytest.param(EventRecorder, {"cluster": _cluster(), "controller": "a"}, id="EventRecorder"),
    pytest.param(pyinformer.ClusterPool, {"open": lambda _cluster: None}, id="ClusterPool"),
    pytest.param(pyinformer.Operator, {"name": "a"}, id="Operator"),
    pytest.param(
        pyinformer.Operator("a").reconcile, {"api_version": "v1", "plural": "pods"}, id="reconcile"
    ),
    pytest.param(pyinformer.Operator("a").every, {"period_seconds": 1.0}, id="every"),
    pytest.param(
        pyinformer.Operator("a").follow, {"api_version": "v1", "plural": "pods"}, id="follow"
    ),
    pytest.param(pyinformer.LeaderElection, {}, id="LeaderElection"),
    pytest.param(pyinformer.Request, {"key": "default/a"}, id="Request"),
    pytest.param(pyinformer.Result, {}, id="Result"),
    pytest.param(pyinformer.RetryAfter, {"retry_after_seconds": 1.0}, id="RetryAfter"),
    pytest.param(pyinformer.diff, {"old": {}, "new": {}}, id="diff"),
    pytest.param(pyinformer.redacted, {"obj": {}}, id="redacted"),
    pytest.param(World, {}, id="World"),
    pytest.param(APIServer, {}, id="APIServer"),
    pytest.param(KubeAPIServer, {}, id="KubeAPIServer"),
    pytest.param(
        custom_resource, {"api_version": "acme.io/v1", "plural": "things"}, id="custom_resource"
    ),
    pytest.param(_informer().record, {"path": "a.jsonl"}, id="record"),
    pytest.param(_cluster().list, _PLACE, id="list"),
    pytest.param(_cluster().logs, {"key": "default/a"}, id="logs"),
]


def _named(function: Callable[..., Any]) -> list[str]:
    kinds = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    parameters = inspect.signature(function).parameters.values()
    unchecked = _NOT_CHECKED.get(getattr(function, "__name__", ""), set())
    return [one.name for one in parameters if one.kind in kinds and one.name not in unchecked]


def _check_named(name: str, wrong: object, error: InformerError) -> None:
    if isinstance(error, InvalidArgumentError | InvalidTypeError) and name not in str(error):
        pytest.fail(f"{name}={wrong!r}: names another argument: {error}")


@pytest.mark.parametrize(("function", "arguments"), _CONSTRUCTORS)
def test_a_constructor_refuses_wrong_arguments_by_its_own_errors(
    function: Callable[..., Any], arguments: dict[str, Any]
) -> None:
    function(**arguments)
    for name in _named(function):
        for wrong in _WRONG:
            try:
                found = function(**{**arguments, name: wrong})
            except InformerError as error:
                _check_named(name, wrong, error)
                continue
            except Exception as error:
                pytest.fail(f"{name}={wrong!r}: {type(error).__name__}: {error}")
            if isinstance(found, World):
                found.close()


_CALLS: Final = [
    pytest.param(Cluster.get, {**_PLACE, "key": "default/a"}, id="get"),
    pytest.param(
        Cluster.create,
        {"obj": {**_BODY, "metadata": {"name": "b", "namespace": "default"}}},
        id="create",
    ),
    pytest.param(Cluster.replace, {"obj": _BODY}, id="replace"),
    pytest.param(Cluster.patch, {"obj": _BODY, "edited": _BODY}, id="patch"),
    pytest.param(Cluster.status, {"obj": _BODY, "status": {}}, id="status"),
    pytest.param(Cluster.apply, {"desired": _BODY}, id="apply"),
    pytest.param(Cluster.apply_if_changed, {"desired": _BODY, "current": None}, id="if-changed"),
    pytest.param(
        Cluster.delete_collection,
        {**_PLACE, "namespace": "default", "dry_run": True},
        id="delete-collection",
    ),
    pytest.param(Cluster.request, {"method": "GET", "path": "/api"}, id="request"),
    pytest.param(Cluster.find_resource, {"name": "pods"}, id="find-resource"),
    pytest.param(pyinformer.create_or_update, {"desired": _BODY}, id="create-or-update"),
    pytest.param(
        upgrade_managed_fields,
        {**_PLACE, "key": "default/a", "managers": ["old"]},
        id="upgrade-managed-fields",
    ),
]


@pytest.mark.parametrize(("function", "arguments"), _CALLS)
async def test_a_call_refuses_wrong_arguments_by_its_own_errors(
    apiserver: APIServer, function: Callable[..., Any], arguments: dict[str, Any]
) -> None:
    apiserver.create(_BODY)
    async with pyinformer.connect(server=apiserver.url, field_manager="test") as cluster:
        first = next(iter(inspect.signature(function).parameters))
        for name in set(_named(function)) - {"self"}:
            for wrong in _WRONG:
                try:
                    await function(**{first: cluster, **arguments, name: wrong})
                except InformerError as error:
                    _check_named(name, wrong, error)
                    continue
                except Exception as error:
                    pytest.fail(f"{name}={wrong!r}: {type(error).__name__}: {error}")


async def test_connect_refuses_wrong_arguments_by_its_own_errors() -> None:
    for base in ({"server": _URL}, {}):
        for name in _named(pyinformer.connect):
            for wrong in _WRONG:
                where: AbstractAsyncContextManager[Any] = pyinformer.connect(
                    **{**base, name: wrong}  # type: ignore[arg-type]
                )
                try:
                    async with where:
                        pass
                except InformerError as error:
                    _check_named(name, wrong, error)
                    continue
                except Exception as error:
                    pytest.fail(f"{name}={wrong!r}: {type(error).__name__}: {error}")


@pytest.mark.parametrize("attempt", [value for value in _WRONG if not inspect.isfunction(value)])
async def test_retry_on_conflict_refuses_what_is_not_an_async_function(attempt: Any) -> None:
    with pytest.raises(InvalidTypeError):
        await pyinformer.retry_on_conflict(attempt)
    with pytest.raises(InvalidTypeError):
        await pyinformer.retry_on_conflict(lambda: 0)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    ("value", "cure"),
    [
        pytest.param(ClusterConfig(server=_URL), "pass it as config=", id="config"),
        pytest.param(APIServer(), "pass the URL of a server as server=", id="test-server"),
        pytest.param(5, "must be a path, got int", id="number"),
    ],
)
async def test_connect_names_the_argument_that_was_meant(value: Any, cure: str) -> None:
    with pytest.raises(InvalidTypeError, match=cure):
        async with pyinformer.connect(value):
            pass


def test_headers_of_a_configuration_name_the_form() -> None:
    headers: Any = {"X-Team": "a"}
    with pytest.raises(pyinformer.errors.ConfigurationError, match=r"tuple\(headers.items\(\)\)"):
        ClusterConfig(server=_URL, headers=headers)


@pytest.mark.parametrize("value", ["http://127.0.0.1:8080", "https://kube.example.com"])
async def test_connect_names_the_argument_of_a_url(value: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"kubeconfig: .*as server=.*config="):
        async with pyinformer.connect(value):
            pass
