"""What a public entry point is given by mistake is refused by an error of the library.

A bare TypeError or ValueError of the code inside names neither the argument nor what it must be.
The names are those that the package exports: a new one is checked as soon as it is public.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import re
import traceback
import typing
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import anyio
import msgspec
import pytest
from kubernetes_asyncio.client import CoreV1Api

import pyinformer
from pyinformer import admission, cache, client, operator, policies, telemetry, workqueue
from pyinformer import controller as controllers
from pyinformer.blocking import BlockingCluster, timeout
from pyinformer.client import ClusterConfig
from pyinformer.client.cluster import Cluster
from pyinformer.controller.sources import PrimarySource
from pyinformer.errors import InformerError, InvalidArgumentError, InvalidTypeError
from pyinformer.testing import APIServer, World
from tests.gates.test_exports import PUBLIC

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

_WRONG: Final[tuple[Any, ...]] = (
    5,
    -1,
    0.5,
    float("nan"),
    float("inf"),
    True,
    object(),
    {},
    {"a": "b"},
    {5: 5},
    [],
    ["a"],
    [5],
    [None],
    [["a"]],
    "",
    "text",
    "a\x00\n",
    "\ud800",
    b"x",
    lambda: 0,
    APIServer,
    None,
)
_URL: Final = "http://127.0.0.1:1"
_BODY: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "namespace": "default"},
}
_OWNER: Final = {**_BODY, "metadata": {"name": "o", "namespace": "default", "uid": "u"}}
_PLACE: Final = {"api_version": "v1", "plural": "configmaps"}
_POD: Final = {**_BODY, "kind": "Pod"}
_PODS: Final = [("v1", "pods")]


def _hooked() -> pyinformer.Operator:
    app = pyinformer.Operator("a")
    app.validate("v1", "configmaps")(lambda _obj, _review: None)
    return app


_CONDITION: Final = {"type": "Ready", "status": "True", "observedGeneration": 3}


@operator.custom_resource("acme.io/v1", "things", kind="Thing")
class _Thing(msgspec.Struct):
    """A custom resource."""

    spec: dict[str, str] = {}


async def _attempt() -> None:
    """Do nothing."""


_OPTIONAL: Final = (
    "pyinformer.telemetry.",  # of packages that may not be installed
    "pyinformer.kopf",
    "pyinformer.errors",  # the library raises them
    "pyinformer.telemetry.tracing",  # protocols, and the values of their calls
)

_MADE_HERE: Final = "the library makes it"
_PER_EVENT: Final = "called for each event or item: a check would cost on the hot path"
_PART: Final = "a part of a reflector or a cache, driven by the other parts"
_KIT: Final = "a call of the test kit, which fails the test that makes it"
_RUNS: Final = "runs until it is cancelled; its argument is anyio's"

_NOT_CHECKED: Final[dict[str, str]] = {
    "Change()": _MADE_HERE,
    "Review()": _MADE_HERE,
    "Review.*": _MADE_HERE,
    "Reviewed()": _MADE_HERE,
    "User()": _MADE_HERE,
    "Operator.webhook_configurations": "needs webhooks: tests/admission/test_configurations.py",
    "DecodedObject()": _MADE_HERE,
    "DecodedObject.*": _MADE_HERE,
    "DecodedObjects()": _MADE_HERE,
    "DecodedObjects.*": _MADE_HERE,
    "EventStream()": _MADE_HERE,
    "EventStream.*": _MADE_HERE,
    "Children()": _MADE_HERE,
    "Children.*": "needs a reconcile that runs: tests/children/test_sets.py",
    "FinalizerContext()": _MADE_HERE,
    "DiagnosticJournal()": _MADE_HERE,
    "DiagnosticJournal.*": _MADE_HERE,
    "Lister()": _MADE_HERE,
    "Lister.read_from_nowait": _MADE_HERE,
    "Listers()": _MADE_HERE,
    "Listers.*": _MADE_HERE,
    "LogStream()": _MADE_HERE,
    "LogStream.*": _MADE_HERE,
    "NamespaceLister()": _MADE_HERE,
    "ObjectList()": _MADE_HERE,
    "OperatorRun()": _MADE_HERE,
    "OwnerKind()": _MADE_HERE,
    "OwnerKind.*": _MADE_HERE,
    "Recording()": _MADE_HERE,
    "Registration()": _MADE_HERE,
    "Registration.*": _MADE_HERE,
    "ServerReplica()": _MADE_HERE,
    "ServerReplica.*": _MADE_HERE,
    "Term()": _MADE_HERE,
    "Term.*": _MADE_HERE,
    "WrittenVersions.*": _MADE_HERE,
    "DeltaFIFO.*": _PART,
    "Discovery.*": _PART,
    "Indexer()": _PART,
    "Indexer.*": _PART,
    "Labels.*": _PART,
    "FollowedServer()": _PART,
    "FollowedServer.*": _PART,
    "ListWatch.*": _PART,
    "OwnedSource.*": _PART,
    "PrimarySource.*": _PART,
    "RealFIFO.*": _PART,
    "Reflector()": _PART,
    "Reflector.*": _PART,
    "Scope.*": _PART,
    "SessionConnection()": _PART,
    "SessionConnection.*": _PART,
    "TimerSource.*": _PART,
    "WatchedSource.*": _PART,
    "ClusterConfig.ssl_context": _PART,
    "ControllerGroup.run_one": _PART,
    "FieldSelector.matches": _PART,
    "MutationDetector.run": _PART,
    "Watches.mapping_with": _PART,
    "DecodedLister.of": _PER_EVENT,
    "KubeObject.same_content": _PER_EVENT,
    "PriorityQueue.*": _PER_EVENT,
    "Queue.*": _PER_EVENT,
    "BucketRateLimiter.*": _PER_EVENT,
    "ItemExponentialFailureRateLimiter.*": _PER_EVENT,
    "ItemFastSlowRateLimiter.*": _PER_EVENT,
    "MaxOfRateLimiter.*": _PER_EVENT,
    "WithMaxWaitRateLimiter.*": _PER_EVENT,
    "Controller.requests_for:event": _KIT,
    "APIServer.*": _KIT,
    "Fault.applies_to": _KIT,
    "ChangingFacts()": _KIT,
    "ChangingFacts.*": _KIT,
    "EtcdRelay.*": _KIT,
    "FaultLab()": _KIT,
    "FaultLab.*": _KIT,
    "FaultProxy()": _KIT,
    "FaultProxy.*": _KIT,
    "FaultRun.*": _KIT,
    "FaultSchedule()": _KIT,
    "FaultSchedule.*": _KIT,
    "KubeAPIServer():etcd_relays": _KIT,
    "FaultScript.*": _KIT,
    "KubeAPIServer.*": _KIT,
    "EtcdTruth()": _KIT,
    "EtcdTruth.*": _KIT,
    "History()": _KIT,
    "History.*": _KIT,
    "Recorder()": _KIT,
    "Recorder.*": _KIT,
    "ServerTruth()": _KIT,
    "ServerTruth.*": _KIT,
    "assert_lossless": "a property test, in tests/admission",
    "check_history": _KIT,
    "Replay.*": _KIT,
    "World.*": _KIT,
    "Controller.run": _RUNS,
    "ControllerGroup.run": _RUNS,
    "LeaderElector.run": _RUNS,
    "Operator.run_async": "its arguments are those of running()",
    "Operator.run": "tested as a program, in tests/operator",
    "OperatorRun.run": _RUNS,
    "Runner.call": "its arguments are those of the function",
    "Runner.connect": "its arguments are those of connect()",
    "SharedInformer.run": _RUNS,
    "SharedInformerFactory.run": _RUNS,
    "JSONValue()": "an alias",
    "config_from_client": "tested with the clients of other packages, in tests/client/transport",
}
"""Calls that are not checked, and why: `Name()` is the constructor, `Name.*` the methods, and
`Name.method:argument` one argument."""

_ARGUMENTS: Final[dict[str, dict[str, Any]]] = {
    "BucketRateLimiter()": {"items_per_second": 1.0, "burst": 1},
    "BytesTransform()": {"function": bytes.strip},
    "FieldRequirement()": {"path": "a", "operator": "=", "value": "b"},
    "LabelRequirement()": {"key": "a", "operator": "=", "values": ("b",)},
    "ClusterConfig()": {"server": _URL},
    "Cluster.apply_if_changed": {"current": None},
    "Cluster.create": {
        "dry_run": True,
        "obj": {**_BODY, "metadata": {**_BODY["metadata"], "name": "b"}},
    },
    "Cluster.delete": {"obj": "v1", "plural": "configmaps", "key": "default/a", "dry_run": True},
    "Cluster.delete_collection": {"namespace": "default", "dry_run": True},
    "Cluster.api": {"api_class": CoreV1Api},
    "Cluster.exec": {"pod": "default/a", "command": ["ls"]},
    "Cluster.find_resource": {"name": "pods"},
    "Cluster.patch": {"edited": {**_BODY}},
    "Cluster.record_delete": {"uid": "u"},
    "Cluster.request": {"method": "GET", "path": "/api"},
    "Cluster.status": {"obj": _POD, "status": {}},
    "ClusterPool()": {"open": lambda _cluster: None},
    "Controller()": {"reconcile": lambda _request, _obj: None},
    "Controller.add_source": {"source": PrimarySource(SimpleNamespace(scope="a"))},
    "Controller.enqueue": {"request": "default/a"},
    "Controller.every": {"keys": "default/a"},
    "Controller.reconcile_once": {"request": "default/a"},
    "Controller.watches": {"mapping": lambda _obj: None},
    "compile_policies": {"policies": []},
    "policies_yaml": {"policies": []},
    "Readiness()": {"state": "Ready", "reason": "is complete"},
    "Policy()": {"on": _PODS, "rules": [policies.Rule("true")]},
    "MutatingPolicy()": {"on": _PODS, "mutations": [policies.Mutation("Object{}")]},
    "Mutation()": {"expression": "Object{}"},
    "Webhooks()": {"service": "a/b"},
    "review": {"operation": "create", "app": _hooked()},
    "policies:Rule()": {"expression": "true"},
    "DecodedLister.by_index": {"name": "by"},
    "EventRecorder()": {"controller": "a"},
    "HealthServer()": {"checks": {}},
    "ItemExponentialFailureRateLimiter()": {"base_seconds": 1.0, "max_seconds": 2.0},
    "ItemFastSlowRateLimiter()": {"fast_seconds": 1.0, "slow_seconds": 2.0, "max_fast_attempts": 1},
    "KubeObject.as_type": {"model": dict},
    "KubeObject.at": {"path": "data"},
    "Lister.by_index": {"name": "by"},
    "Lister.fresh": {"max_age_seconds": 1000.0},
    "Lister.index_values": {"name": "by"},
    "MetricSpec()": {"type": "gauge"},
    "MetricsRegistry.counter": {"name": "a_total", "labels": {}},
    "MetricsRegistry.gauge": {"name": "a", "labels": {}},
    "MetricsRegistry.histogram": {"name": "b", "labels": {}},
    "Operator.every": {"name": None},
    "Operator.index": {"by": "metadata.name"},
    "Operator.object_of": {"model": object()},
    "RetryAfter()": {"retry_after_seconds": 1.0},
    "Rule()": {"expression": "self > 1"},
    "Shard()": {"index": 0, "total": 2},
    "SharedInformer.add_event_handler": {"handler": lambda _event: None},
    "SharedInformer.add_index": {"by": "metadata.name"},
    "SharedInformer.has_seen": {"resource_version": "1"},
    "SharedInformer.record": {"path": "recorded"},
    "SharedInformer.wait_until": {"resource_version": "1"},
    "SharedInformerFactory.informer": {"private": True},
    "StaticToken()": {"token": "a", "user": "a"},
    "Token()": {"value": "a"},
    "Watches()": {"mapping": lambda _obj: None},
    "WithMaxWaitRateLimiter()": {
        "limiter": workqueue.default_controller_rate_limiter(),
        "max_seconds": 1.0,
    },
    "admission_policy_yaml": {"lease": "a/b", "service_account": "a/b"},
    "sharing_policy_yaml": {"lease": "a/b", "service_account": "a/b"},
    "custom_resource": {"api_version": "acme.io/v1", "plural": "things"},
    "custom_resource_definition": {"model": _Thing},
    "connect": {"server": _URL},
    "diff": {"old": {}, "new": {}},
    "fenced": {"metrics": telemetry.NO_METRICS},
    "finalizer": {"obj": None, "name": "acme.io/a"},
    "in_thread": {"function": print},
    "filtered": {"function": lambda _obj: True, "handler": print},
    "matches": {"function": lambda _obj: True},
    "matches_labels": {"label_selector": "app=web"},
    "TimerSource()": {"keys": "default/a"},
    "WatchedSource()": {"mapping": lambda _obj: None},
    "Request.with_reasons": {"reasons": ()},
    "all_of": {"predicates": controllers.generation_changed},
    "any_of": {"predicates": controllers.generation_changed},
    "MaxOfRateLimiter()": {"limiters": workqueue.default_controller_rate_limiter()},
    "negate": {"predicate": controllers.generation_changed},
    "Predicate()": {"function": lambda _old, _new: True},
    "replay": {"path": "missing"},
    "Replay()": {"path": "missing"},
    "retry_on_conflict": {"attempt": _attempt},
    "set_condition": {"status": True, "reason": "Made"},
}
"""What a call is given where its arguments have no default: by its name. Others are in _values."""


def _values(cluster: Any, factory: Any, maps: Any) -> dict[str, Any]:
    """Return arguments by their names."""
    obj = maps.lister.get("default/a")
    return {
        "cluster": cluster,
        "factory": factory,
        "informer": maps,
        "primary": maps,
        "config": cluster.config,
        "api_version": "v1",
        "plural": "configmaps",
        "resource": pyinformer.GroupVersionResource.of("v1", "configmaps"),
        "obj": _BODY,
        "desired": _BODY,
        "key": "default/a",
        "name": "a",
        "namespace": "default",
        "index": "by",
        "value": "a",
        "kind": "ConfigMap",
        "managers": ["old"],
        "conditions": [_CONDITION],
        "condition_type": "Ready",
        "owner": _OWNER,
        "regarding": obj,
        "predicate": lambda _obj: True,
        "callback": lambda _change: None,
        "observer": lambda *_: None,
        "timeout_seconds": 0.01,
        "period_seconds": 1.0,
        "seconds": 1.0,
        "selector": "a=b",
    }


_NO_BASE: Final = {
    "Operator.object_of",  # needs a reconcile that runs
    "SharedInformer.set_namespaces",  # needs an informer of some namespaces
}
_ENTERED: Final = {
    "contextlib",
    "pyinformer.blocking._runner",
    "pyinformer.client.cluster._connect",
}


def _special(cluster: Any, factory: Any, maps: Any) -> dict[str, dict[str, Any]]:
    """Return arguments of single calls, as in _ARGUMENTS."""
    obj = maps.lister.get("default/a")
    return {
        "Fleet()": {
            "pool": pyinformer.ClusterPool(lambda _cluster: None),  # type: ignore[arg-type, return-value]
            "names": ["a"],
            "name": "",
        },
        "ControllerGroup.engage": {
            "controller": pyinformer.Controller("engaged", lambda _request, _obj: None),
            "cluster": "a",
        },
        "ControllerGroup.disengage": {"cluster": "a"},
        "ControllerGroup.engaged": {"cluster": "a"},
        "ControllerGroup.wait_disengaged": {"cluster": "a"},
        "Fleet.set_names": {"names": ["a"]},
        "Controller.requests_for": {"informer": maps, "event": pyinformer.Added(obj)},
        "Cluster.record_write": {"obj": obj.to_dict()},
        "Health.add": {"watched": factory},
        "MutationDetector.watch": {"obj": obj},
        "Operator.controllers": {"factory": pyinformer.SharedInformerFactory(cluster)},
        "SharedInformer.remove_event_handler": {"registration": maps.add_event_handler(print)},
    }


def _receivers(cluster: Any, factory: Any, maps: Any) -> dict[str, Any]:
    """Return an object of each class whose methods are called."""
    app = pyinformer.Operator("a")
    app.reconcile("v1", "configmaps")(_reconcile)
    controller = pyinformer.Controller("a", lambda _request, _obj: None, maps)
    return {
        "Cluster": cluster,
        "SharedInformerFactory": factory,
        "SharedInformer": maps,
        "Lister": maps.lister,
        "DecodedLister": maps.lister.decoded,
        "NamespaceLister": maps.lister.namespace("default"),
        "KubeObject": maps.lister.get("default/a"),
        "Controller": controller,
        "Operator": app,
        "OperatorRun": app.running(cluster),
        "ClusterPool": pyinformer.ClusterPool(lambda _cluster: None),  # type: ignore[arg-type, return-value]
        "ControllerGroup": pyinformer.ControllerGroup(),
        "Fleet": pyinformer.Fleet(pyinformer.ClusterPool(lambda _cluster: None), None, ["a"]),  # type: ignore[arg-type, return-value]
        "LeaderElector": pyinformer.LeaderElector(cluster, "a", namespace="default"),
        "MutationDetector": pyinformer.MutationDetector(),
        "Request": pyinformer.Request("default/a"),
        "EventRecorder": controllers.EventRecorder(cluster, "a"),
        "Health": operator.Health(factory),
        "MetricsRegistry": telemetry.MetricsRegistry(),
    }


async def _reconcile(_request: object, _obj: object, _cluster: object) -> None:
    """Do nothing."""


def _reason(label: str) -> str | None:
    """Return why a call is not checked: it, or all calls of its class."""
    owner, dot, _ = label.partition(".")
    if label.endswith("_nowait"):
        return _PER_EVENT
    if label.startswith("Blocking") and label.endswith("()"):
        return _MADE_HERE
    return _NOT_CHECKED.get(label) or (_NOT_CHECKED.get(f"{owner}.*") if dot else None)


def _exports() -> dict[str, Any]:
    """Return the public functions and classes, by names; and their folder if the name is taken."""
    found: dict[str, Any] = {}
    for namespace in PUBLIC:
        if namespace.startswith(_OPTIONAL):
            continue
        module = importlib.import_module(namespace)
        for name in module.__all__:
            value = getattr(module, name)
            if any(one is value for one in found.values()) or not _takes_arguments(value):
                continue
            qualified = f"{namespace.removeprefix('pyinformer.')}:{name}"
            found[qualified if name in found else name] = value
    return found


def _takes_arguments(value: object) -> bool:
    if inspect.isroutine(value) or value is pyinformer.RetryAfter:
        return True
    return (
        inspect.isclass(value)
        and typing.get_origin(value) is None
        and not issubclass(value, BaseException | enum.Enum | dict)
        and not getattr(value, "_is_protocol", False)
    )


def _signature(function: Any) -> inspect.Signature:
    """Return a signature in which the options of a record are arguments of their own."""
    found = inspect.signature(function)
    arguments = []
    for one in found.parameters.values():
        record = re.fullmatch(r"Unpack\[(\w+)\]", str(one.annotation))
        if record is None:
            arguments.append(one)
        else:
            home = cache if hasattr(cache, record[1]) else admission
            for name in getattr(home, record[1]).__annotations__:
                option = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
                arguments.append(option)
    return found.replace(parameters=arguments)


def _calls_of(name: str, value: Any) -> dict[str, inspect.Signature]:
    """Return what is called of a public name: `Cluster()`, `Cluster.get`, `diff`."""
    if not inspect.isclass(value):
        return {name: _signature(value)}
    found = {}
    if not issubclass(value, str):
        found[f"{name}()"] = _signature(value)
    for member in dir(value):
        made = inspect.getattr_static(value, member)
        function = getattr(made, "__func__", made)
        if not member.startswith("_") and inspect.isfunction(function):
            found[f"{name}.{member}"] = _signature(getattr(value, member))
    return found


_ALL: Final = _exports()
_CALLS: Final = {
    name: {
        label: signature
        for label, signature in _calls_of(name, value).items()
        if set(signature.parameters) - {"self"} and not _reason(label)
    }
    for name, value in _ALL.items()
}


@asynccontextmanager
async def _place() -> AsyncIterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield arguments by their names and by calls, and receivers by their classes."""
    with APIServer() as server:
        server.create(_BODY)
        async with (
            pyinformer.connect(server=server.url, field_manager="test") as cluster,
            pyinformer.SharedInformerFactory(cluster) as factory,
        ):
            maps = factory.informer("v1", "configmaps", sharing="decoded")
            maps.add_index("by", "metadata.name")
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=100)
            values = {
                **_ARGUMENTS,
                **_special(cluster, factory, maps),
                "": _values(cluster, factory, maps),
            }
            yield values, _receivers(cluster, factory, maps)


def _base(label: str, signature: inspect.Signature, values: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call that works."""
    own, common = values.get(label, {}), values[""]
    empty = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    return {
        name: own[name] if name in own else common.get(name)
        for name, one in signature.parameters.items()
        if name in own
        or name == "timeout_seconds"
        or (one.default is inspect.Parameter.empty and one.kind not in empty)
    }


def _call(function: Any, signature: inspect.Signature, given: dict[str, Any]) -> Any:
    keyword = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    kinds = {name: signature.parameters[name].kind for name in given}
    positional = [value for name, value in given.items() if kinds[name] not in keyword]
    return function(*positional, **{n: v for n, v in given.items() if kinds[n] in keyword})


async def _finish(found: Any, limit_seconds: float) -> None:
    """Await what a call returns, as far as it does not wait for something, and close it."""
    with anyio.move_on_after(limit_seconds):
        if inspect.isawaitable(found):
            found = await found
        if isinstance(found, AbstractAsyncContextManager) and type(found).__module__ in _ENTERED:
            async with found:
                pass
        if isinstance(found, client.ObjectList):
            await found.next_page()
    if isinstance(found, World):
        found.close()


async def _answer(
    function: Any, signature: inspect.Signature, given: dict[str, Any], limit_seconds: float
) -> Exception | None:
    """Return the error of a call."""
    try:
        await _finish(_call(function, signature, given), limit_seconds)
    except Exception as error:
        return error
    return None


def _explained(error: Exception) -> str:
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error!s:.100} at {at.filename[-40:]}:{at.lineno}"


_NAMED_BY_PARTS: Final = {
    "Cluster.delete:obj",  # is the apiVersion, if more follow
    "Controller():metrics_label",
    "Controller.enqueue:request",
    "Controller.every:keys",
    "Controller.reconcile_once:request",
    "KubeObject.at:path",
    "Operator.index:by",
    "Operator.running:health_port",
    "SharedInformer.add_index:by",
    "TimerSource():keys",
}
"""Arguments whose error names a part of it, such as a key of several. A function that cannot be
called is named itself, as a handler."""


def _names_another(error: Exception | None, label: str, name: str) -> bool:
    if not isinstance(error, InvalidArgumentError | InvalidTypeError):
        return False
    is_named = name in str(error) or error.argument == "handler"
    return not is_named and f"{label}:{name}" not in _NAMED_BY_PARTS


def _wrong_for(name: str, cluster: Cluster) -> Iterator[Any]:
    """Yield wrong values; for a cluster also that of a plain function."""
    yield from _WRONG
    if name == "cluster":
        yield BlockingCluster(SimpleNamespace(), cluster)


async def _problems(
    label: str, function: Any, signature: inspect.Signature, values: dict[str, Any]
) -> list[str]:
    """Call with each wrong value for each argument; return what the library does not answer."""
    base = _base(label, signature, values)
    limit_seconds = 0.02 if "timeout_seconds" in signature.parameters else 10.0
    found = []
    error = await _answer(function, signature, base, limit_seconds)
    if isinstance(error, TypeError | ValueError | AttributeError) and label not in _NO_BASE:
        found.append(f"{label} has no working arguments in _ARGUMENTS: {_explained(error)}")
    for name in set(signature.parameters) - {"self"}:
        if _reason(f"{label}:{name}"):
            continue
        for wrong in _wrong_for(name, values[""]["cluster"]):
            error = await _answer(function, signature, {**base, name: wrong}, limit_seconds)
            if error is not None and not isinstance(error, InformerError):
                found.append(f"{label}({name}={wrong!r:.30}): {_explained(error)}")
            elif _names_another(error, label, name):
                found.append(f"{label}({name}={wrong!r:.30}) does not name the argument: {error}")
    return found


def _bound(label: str, receivers: dict[str, Any]) -> Any:
    """Return what a label stands for, of a receiver if it is a method."""
    name, dot, member = label.partition(".")
    owner = _ALL[name.removesuffix("()")]
    if not dot:
        return owner
    is_method = inspect.isfunction(inspect.getattr_static(owner, member))
    assert not is_method or name in receivers, f"{label}: add a {name} to _receivers, or a reason"
    return getattr(receivers[name] if is_method else owner, member)


_LABELS: Final = [label for calls in _CALLS.values() for label in calls]
_PARTS: Final = 8


@pytest.mark.parametrize("part", range(_PARTS))
async def test_a_call_refuses_wrong_arguments_by_its_own_errors(
    part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some values are paths of files
    found = []
    async with _place() as (values, receivers):
        # What controllers() makes counts as a run, so that readers would have to name its cluster.
        for label in sorted(_LABELS[part::_PARTS], key="Operator.controllers".__eq__):
            if label.startswith(("blocking:", "Blocking")):
                continue  # below, in threads
            function = _bound(label, receivers)
            found += await _problems(label, function, _signature(function), values)
    assert not found, "\n".join(found)


def _blocking_error(function: Any, signature: inspect.Signature, given: Any) -> Exception | None:
    try:
        with timeout(10.0):
            found = _call(function, signature, given)
            if isinstance(found, AbstractContextManager) and type(found).__module__ in _ENTERED:
                with found:
                    pass
    except TimeoutError:
        return None
    except Exception as error:
        return error
    return None


def test_a_blocking_call_refuses_wrong_arguments_by_its_own_errors(
    apiserver: APIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    apiserver.create(_BODY)
    found = []
    with (
        pyinformer.run_in_thread() as runner,
        runner.connect(server=apiserver.url, field_manager="test") as cluster,
        cluster.informer_factory() as factory,
    ):
        maps = factory.informer("v1", "configmaps", sharing="decoded")
        maps.add_index("by", "metadata.name")
        factory.start()
        factory.wait_for_cache_sync(timeout_seconds=100)
        receivers = {
            "Cluster": cluster,
            "InformerFactory": factory,
            "Informer": maps,
        }
        special = _special(cluster.asynchronous, factory, maps)
        values = {**_ARGUMENTS, **special, "": _values(cluster, factory, maps)}
        for label in _LABELS:
            if not label.startswith(("blocking:", "Blocking")):
                continue
            name, dot, member = label.removeprefix("Blocking").partition(".")
            twin = {"Informer": "SharedInformer", "InformerFactory": "SharedInformerFactory"}
            known = f"{twin.get(name, name)}{dot}{member}".removeprefix("blocking:")
            if _reason(known):
                continue
            function = getattr(receivers[name], member) if dot else _ALL[label]
            signature = _signature(function)
            base = _base(known, signature, values)
            for argument in signature.parameters:
                for wrong in (5, object(), {}, [], "", "\ud800", b"x", None):
                    error = _blocking_error(function, signature, {**base, argument: wrong})
                    if error is not None and not isinstance(error, InformerError):
                        found.append(f"{label}({argument}={wrong!r:.30}): {_explained(error)}")
    assert not found, "\n".join(found)


def test_each_reason_is_of_a_public_call() -> None:
    calls = {label for name, value in _ALL.items() for label in _calls_of(name, value)}
    known = {*calls, *(f"{label.partition('.')[0]}.*" for label in calls if "." in label)}

    assert [label for label in _NOT_CHECKED if label.partition(":")[0] not in known] == []
    assert [label for label in _ARGUMENTS if label not in calls] == []


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
