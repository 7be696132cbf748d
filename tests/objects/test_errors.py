"""Errors: each carries its data, says its sentence, is what people catch, and can be sent on."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from pyinformer import errors
from tests.hostile import HOSTILE, assert_shown_safely

_APIStatus = type[errors.APIStatusError]


def _status(cls: _APIStatus, status: int, *causes: str) -> errors.APIStatusError:
    return cls(
        status=status,
        reason="Why",
        message="words",
        request="list pods",
        causes=list(causes),
        retry_after_seconds=1.5,
    )


_NOT_SYNCED = (
    "the cache of pods is not synced (state: LISTING; last error: 403 Forbidden); await"
    " wait_for_cache_sync() first, or read with allow_unsynced=True"
)
_CONFLICT = (
    "resync: the informer for pods exists with another resync (created at a.py:1, requested again"
    " at b.py:2); use the same options in both places, or private=True for a separate informer"
)
_FROZEN = (
    "object['spec'] is not possible on 'ns/web': cached objects are shared and immutable; read one"
    " field with at('spec.nodeName'), or take a private dict with to_dict()"
)
_VERSION = (
    "resource_version: must be a decimal number without leading zeros, got '01'; other resource"
    " versions can only be compared for equality: for the cache of such a server set"
    ' ReflectorOptions(order="opaque")'
)
_OVERFLOW = (
    "the event stream of pods holds 8 events and its consumer is slower than that; the cache is"
    " intact: open a new stream, read faster or raise max_events"
)
_NOT_CACHED = (
    "pods does not watch namespace 'kube-system', so its cache has no objects of it; add an"
    " informer for that namespace, or read with allow_unsynced=True"
)
_NO_APISERVER = (
    "kube-apiserver and etcd are needed and were not found: nothing there. Set KUBEBUILDER_ASSETS"
    " to a folder that holds both, or allow them to be built once: build=True, `pyinformer serve"
    " --real --build`, or `pytest --pyinformer-build-kube-apiserver` (minutes; needs Go in PATH,"
    " or pip install 'pyinformer[kube-apiserver]')"
)

_SCOPE = "obj: must be in the namespace of its owner, 'a', but it is in 'b'"
_OWNED = (
    "'a/b' is controlled by Deployment x and cannot be controlled by Database y as well;"
    " choose another name, or let its controller release it first"
)

_STALE = (
    "the cache of pods.v1 is at 7 after 5.0 s and has not reached resource version 9 of ns/web"
    " (state: watching; no error); it keeps trying: read it as it is, or retry later"
)

_MUTATED = (
    "the shared decoded object of 'ns/web' in pods.v1 was changed in place (spec.x: absent became"
    " str). It was read by handler h, a.py:1. Shared objects are read-only: take a private"
    " dict with to_dict() before you change it"
)

SAMPLES: list[tuple[errors.InformerError, type[Exception], str]] = [
    (
        errors.UnknownResourceError(
            name="podz", near=["pods"], unavailable=["metrics.k8s.io/v1beta1"]
        ),
        LookupError,
        (
            "the server does not serve 'podz'; it serves pods; it currently cannot list"
            " metrics.k8s.io/v1beta1"
        ),
    ),
    (
        errors.ClusterUnavailableError(
            cluster="prod",
            reason="refused",
            waited_seconds=0.5,
            attempts=1,
            retry_after_seconds=1.25,
        ),
        ConnectionError,
        (
            "cluster 'prod' is unavailable (cannot be opened, 1 failed attempt): refused; the next"
            " one may begin in 1.2 s"
        ),
    ),
    (
        errors.ClusterUnavailableError(
            cluster="prod",
            reason="no answer yet",
            waited_seconds=1.0,
            attempts=0,
            retry_after_seconds=None,
        ),
        ConnectionError,
        (
            "cluster 'prod' is unavailable (not open after 1.0 s, 0 failed attempts): no answer"
            " yet; pyinformer keeps trying: try again later"
        ),
    ),
    (errors.InformerError("root"), Exception, "root"),
    (
        errors.InternalError("two owners"),
        RuntimeError,
        "two owners. This is a bug in pyinformer: please report this.",
    ),
    (
        errors.CacheMutatedError(
            informer="pods.v1",
            key="ns/web",
            what="the shared decoded object",
            paths=("spec.x: absent became str",),
            readers=("handler h", "a.py:1"),
        ),
        RuntimeError,
        _MUTATED,
    ),
    (errors.InvalidArgumentError("limit", "is negative"), ValueError, "limit: is negative"),
    (
        errors.InvalidSelectorError("a=", "why", argument="field_selector"),
        ValueError,
        "field_selector: cannot parse 'a=': why",
    ),
    (errors.InvalidResourceVersionError("01"), ValueError, _VERSION),
    (
        errors.InformerConflictError(
            informer="pods", option="resync", first_call_site="a.py:1", second_call_site="b.py:2"
        ),
        ValueError,
        _CONFLICT,
    ),
    (
        errors.MetricConflictError("up", "it is a gauge, not a counter"),
        ValueError,
        "name: metric 'up': it is a gauge, not a counter; use another name",
    ),
    (
        errors.TerminalError("no such zone"),
        Exception,
        "no such zone; not retried until something changes",
    ),
    (
        errors.FencedError(lease="ops/db", reason="b leads", may_have_left=True),
        errors.TerminalError,
        (
            "not allowed without a valid term of the Lease ops/db: b leads; the server may have"
            " carried out what was sent before; another replica may lead; do not retry it here"
        ),
    ),
    (
        errors.FencedError(lease="ops/db", reason="clocks", has_ended=False),
        errors.TerminalError,
        (
            "not allowed without a valid term of the Lease ops/db: clocks; it is retried when the"
            " Lease has been renewed"
        ),
    ),
    (
        errors.ChildrenNotReadyError(["Pod a/b: is not scheduled", "Pod a/c: too"]),
        Exception,
        "Pod a/b: is not scheduled, and 1 more",
    ),
    (
        errors.ReadyTimeoutError(shown="Pod a/b", reason="is not scheduled", waited_seconds=30.0),
        TimeoutError,
        "Pod a/b was not ready within 30.0 s: is not scheduled",
    ),
    (
        errors.OutputLimitError("exec in shop/web", 5),
        RuntimeError,
        (
            "exec in shop/web: the output is longer than 5 bytes; the connection is closed, and the"
            " command may still run: pass a larger max_bytes, or let the command write less"
        ),
    ),
    (
        errors.DefinitionsNotFoundError("crds", "does not exist"),
        FileNotFoundError,
        "paths: crds does not exist",
    ),
    (errors.RetryAfter(2.5), Exception, "to be retried after 2.5 s"),
    (errors.RetryAfter(30, "quota"), Exception, "to be retried after 30 s: quota"),
    (
        errors.ReconcileTimeoutError(request="ns/web", timeout_seconds=5.0),
        TimeoutError,
        "the reconcile of ns/web took longer than 5 s",
    ),
    (errors.InvalidTypeError("limit", "must be an int"), TypeError, "limit: must be an int"),
    (
        errors.OwnerScopeError(owner_namespace="a", namespace="b"),
        ValueError,
        _SCOPE,
    ),
    (
        errors.AlreadyOwnedError(key="a/b", controller="Deployment x", owner="Database y"),
        RuntimeError,
        _OWNED,
    ),
    (errors.invalid_handler("on_pod", "why"), TypeError, "handler: on_pod cannot be used: why"),
    (errors.FrozenObjectError(key="ns/web", operation="object['spec']"), AttributeError, _FROZEN),
    (errors.FrozenObjectError(key="ns/web", operation="object['spec']"), TypeError, _FROZEN),
    (errors.InvalidObjectError("pods 'ns/web'", "no JSON"), ValueError, "pods 'ns/web': no JSON"),
    (
        errors.ModelMismatchError("Pod 'ns/web'", "no int", key="ns/web", path="spec.replicas"),
        ValueError,
        (
            "Pod 'ns/web': no int; it can be read again when it changes; other objects are not"
            " affected"
        ),
    ),
    (
        errors.InvalidModelError("Database", "spec.size", "is recursive"),
        TypeError,
        "model: Database, field spec.size: is recursive",
    ),
    (errors.ConfigurationError("context", "no such"), ValueError, "context: no such"),
    (
        errors.ConfigurationNotFoundError("~/.kube/config", "no file"),
        FileNotFoundError,
        "~/.kube/config: no file",
    ),
    (errors.TransportError("https://a", "reset"), ConnectionError, "https://a: reset"),
    (errors.TransportError("https://a", "reset"), OSError, "https://a: reset"),
    (errors.TLSVerificationError("https://a", "wrong CA"), OSError, "https://a: wrong CA"),
    (
        errors.ConnectionEndedError("no login"),
        ConnectionError,
        "the connection has ended for good: no login",
    ),
    (
        errors.RequestTimeoutError("https://a", "slow", waited_seconds=2.0),
        TimeoutError,
        "https://a: slow",
    ),
    (errors.ProtocolError("list pods", "no JSON"), ValueError, "list pods: no JSON"),
    (
        errors.line_too_long("watch pods", limit_bytes=9),
        ValueError,
        "watch pods: longer than 9 bytes; the connection is closed and the cache stays",
    ),
    (errors.ListInconsistentError("list pods", "why"), ValueError, "list pods: why"),
    (errors.APIStatusError(status=418), Exception, "418"),
    (_status(errors.APIStatusError, 418), Exception, "list pods: 418 Why: words"),
    (_status(errors.BadRequestError, 400), Exception, "list pods: 400 Why: words"),
    (_status(errors.UnauthorizedError, 401), Exception, "list pods: 401 Why: words"),
    (_status(errors.ForbiddenError, 403), Exception, "list pods: 403 Why: words"),
    (_status(errors.NotFoundError, 404), Exception, "list pods: 404 Why: words"),
    (_status(errors.ConflictError, 409), Exception, "list pods: 409 Why: words"),
    (
        errors.ApplyConflictError(
            status=409,
            conflicts=[errors.FieldConflict(".spec.replicas", "kubectl")],
            message="conflict",
            request="PATCH /x",
        ),
        errors.ConflictError,
        "PATCH /x: 409: conflict",
    ),
    (_status(errors.ResourceExpiredError, 410), Exception, "list pods: 410 Why: words"),
    (_status(errors.InvalidError, 422), Exception, "list pods: 422 Why: words"),
    (_status(errors.TooManyRequestsError, 429), Exception, "list pods: 429 Why: words"),
    (_status(errors.ServerError, 503), Exception, "list pods: 503 Why: words"),
    (
        _status(errors.ResourceVersionTooLargeError, 504, "ResourceVersionTooLarge"),
        Exception,
        "list pods: 504 Why: words",
    ),
    (
        errors.CacheNotSyncedError(informer="pods", state="LISTING", last_error="403 Forbidden"),
        RuntimeError,
        _NOT_SYNCED,
    ),
    (
        errors.CacheSyncTimeoutError(waited_seconds=30.0, pending=["pods: 403", "nodes: 401"]),
        TimeoutError,
        (
            "not synced after 30.0 s: pods: 403; nodes: 401. Every informer whose state"
            " is not failed retries until it is closed"
        ),
    ),
    (
        errors.StaleCacheError(
            informer="pods.v1",
            wanted="resource version 9 of ns/web",
            position="7",
            waited_seconds=5.0,
            state="watching",
        ),
        TimeoutError,
        _STALE,
    ),
    (
        errors.StaleCacheError(
            informer="pods.v1",
            wanted="an age of 90 s at most",
            position="7",
            waited_seconds=0.0,
            state="backoff",
            reason="503 Service Unavailable",
            max_age_seconds=90.0,
            age_seconds=120.25,
        ),
        TimeoutError,
        (
            "the cache of pods.v1 was last proven 120.2 s ago, and its reader allows 90 s"
            " (state: backoff; 503 Service Unavailable); it keeps trying: read it as it is, or"
            " retry later"
        ),
    ),
    (
        errors.WriteAnswerError("POST pods.v1", "not JSON"),
        errors.InvalidObjectError,
        (
            "POST pods.v1: the server carried out the write, but its response cannot be read: not"
            " JSON; do not send the write again"
        ),
    ),
    (
        errors.WaitTimeoutError(
            informer="pods.v1",
            key="ns/web",
            waited_seconds=5.0,
            exists=True,
            resource_version="7",
            state="watching",
        ),
        TimeoutError,
        (
            "'ns/web' of pods.v1 did not reach the wanted state within 5.0 s: it exists at 7"
            " (state: watching; no error); the informer keeps running: wait again, or longer"
        ),
    ),
    (errors.NotCachedError(informer="pods", namespace="kube-system"), LookupError, _NOT_CACHED),
    (
        errors.ObjectNotFoundError(resource="pods", key="ns/web"),
        KeyError,
        "pods 'ns/web' is not in the cache",
    ),
    (
        errors.IndexNotFoundError(index="nod", known=["node", "owner"]),
        KeyError,
        "no index has the name 'nod'; existing: node, owner",
    ),
    (
        errors.FieldNotFoundError(key="ns/web", path="spec.nodeName"),
        KeyError,
        "'ns/web' has no spec.nodeName; pass default= if it may be absent",
    ),
    (errors.LifecycleError("start() was called twice"), RuntimeError, "start() was called twice"),
    (errors.EventStreamOverflowError(informer="pods", limit=8), RuntimeError, _OVERFLOW),
    (errors.QueueClosedError("closed, and empty"), RuntimeError, "closed, and empty"),
    (errors.RecordingFileError("a", "full"), OSError, "the recording 'a': full"),
    (errors.RecordingFormatError("a", 3, "cut"), ValueError, "'a', line 3: cut"),
    (
        errors.RecordingVersionError("a", found=2, supported=1, written_by="9"),
        ValueError,
        (
            "'a', line 1: the recording has format version 2, written by pyinformer 9, and this"
            " library reads versions up to 1: install a later pyinformer"
        ),
    ),
    (
        errors.ReplayDivergedError(request="list", at_seconds=1.0, expected=""),
        RuntimeError,
        (
            "the replay diverged after 1.000 s: the informer sent list, and the recording has no"
            " further request; give replayed.informer() the options of the recorded informer"
        ),
    ),
    (errors.KubeAPIServerError("build", "no Go"), RuntimeError, "build: no Go"),
    (errors.KubeAPIServerNotFoundError("nothing there"), FileNotFoundError, _NO_APISERVER),
]

each_error = pytest.mark.parametrize(
    ("error", "builtin", "text"),
    [
        pytest.param(*sample, id=f"{type(sample[0]).__name__}-{sample[1].__name__}")
        for sample in SAMPLES
    ],
)


def _tree(root: type[errors.InformerError]) -> Iterator[type[errors.InformerError]]:
    yield root
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:  # tests elsewhere may have errors of their own
            yield from _tree(child)


def test_every_error_has_a_sample() -> None:
    assert {type(error) for error, _, _ in SAMPLES} == set(_tree(errors.InformerError))


def test_the_drawing_of_the_tree_names_every_error() -> None:
    drawing = errors.__doc__ or ""
    assert [
        cls.__name__ for cls in _tree(errors.InformerError) if cls.__name__ not in drawing
    ] == []


@each_error
def test_each_error_has_its_text(
    error: errors.InformerError, builtin: type[Exception], text: str
) -> None:
    assert str(error) == text


@each_error
def test_is_caught_as_its_builtin_and_as_ours(
    error: errors.InformerError, builtin: type[Exception], text: str
) -> None:
    assert isinstance(error, builtin)
    assert isinstance(error, errors.InformerError)


@each_error
@pytest.mark.parametrize("protocol", [0, pickle.HIGHEST_PROTOCOL])
def test_pickles_with_its_attributes(
    error: errors.InformerError, builtin: type[Exception], text: str, protocol: int
) -> None:
    restored = pickle.loads(pickle.dumps(error, protocol))  # noqa: S301 - our own bytes
    _assert_same(restored, error)


@each_error
def test_copies_with_its_attributes(
    error: errors.InformerError, builtin: type[Exception], text: str
) -> None:
    _assert_same(copy.copy(error), error)
    _assert_same(copy.deepcopy(error), error)


def _assert_same(clone: object, error: errors.InformerError) -> None:
    assert clone is not error
    assert type(clone) is type(error)
    assert str(clone) == str(error)
    assert vars(clone) == vars(error)


def test_notes_travel_with_an_error() -> None:
    error = errors.LifecycleError("closed")
    error.add_note("while stopping")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["while stopping"]  # noqa: S301


def test_lists_given_to_an_error_are_not_shared_with_it() -> None:
    pending = ["pods: 403"]
    error = errors.CacheSyncTimeoutError(waited_seconds=1.0, pending=pending)
    pending.append("nodes: 401")
    assert error.pending == ("pods: 403",)
    assert _status(errors.ServerError, 500, "a").causes == ("a",)


def test_an_error_without_known_names_says_none() -> None:
    assert str(errors.IndexNotFoundError(index="a", known=())).endswith("existing: none")
    unknown = errors.CacheNotSyncedError(informer="pods", state="NEW", last_error=None)
    assert "last error: none" in str(unknown)


@pytest.mark.covers("controller-runtime pkg/client: should return nil on a 'NotFound' error")
@pytest.mark.parametrize(
    ("status", "causes", "expected"),
    [
        pytest.param(400, (), errors.BadRequestError, id="400"),
        pytest.param(401, (), errors.UnauthorizedError, id="401"),
        pytest.param(403, (), errors.ForbiddenError, id="403"),
        pytest.param(404, (), errors.NotFoundError, id="404"),
        pytest.param(409, (), errors.ConflictError, id="409"),
        pytest.param(410, (), errors.ResourceExpiredError, id="410"),
        pytest.param(418, (), errors.APIStatusError, id="418"),
        pytest.param(422, (), errors.InvalidError, id="422"),
        pytest.param(429, (), errors.TooManyRequestsError, id="429"),
        pytest.param(500, (), errors.ServerError, id="500"),
        pytest.param(504, (), errors.ServerError, id="504"),
        pytest.param(
            504, ("ResourceVersionTooLarge",), errors.ResourceVersionTooLargeError, id="too-large"
        ),
    ],
)
def test_each_status_has_its_error(
    status: int, causes: tuple[str, ...], expected: _APIStatus
) -> None:
    assert errors.status_error_class(status, causes) is expected


_VALUES: dict[str, object] = {
    "float": 1.0,
    "float | None": None,
    "int": 500,
    "bool | None": None,
    "Sequence[FieldConflict]": [],
    "Sequence[RefusalCause]": [],
}


def _holding(cls: type[errors.InformerError], text: str) -> errors.InformerError:
    """Make an error each of whose texts is what a tenant wrote."""
    given = {}
    for name, parameter in inspect.signature(cls).parameters.items():
        kind = str(parameter.annotation)
        is_list = kind in {"Sequence[str]", "tuple[str, ...]"}
        given[name] = _VALUES.get(kind, (text,) if is_list else text)
    make = cast("Callable[..., errors.InformerError]", cls)
    return make(**given)


def _raw(text: str) -> set[object]:
    return {text, (text,), *(value for value in _VALUES.values() if value != []), ()}


def _all_errors() -> list[type[errors.InformerError]]:
    found, waiting = list[type[errors.InformerError]](), [errors.InformerError]
    while waiting:
        found.append(waiting.pop())
        waiting += [one for one in found[-1].__subclasses__() if one.__module__ == errors.__name__]
    return found


@pytest.mark.parametrize("cls", _all_errors(), ids=lambda cls: cls.__name__)
def test_the_text_of_an_error_is_one_printable_line_and_its_data_is_raw(
    cls: type[errors.InformerError],
) -> None:
    for text in HOSTILE:
        error = _holding(cls, text)
        if issubclass(cls, errors.KubeAPIServerError):  # it shows the output of a program
            assert all(line.isprintable() for line in str(error).split("\n"))
        else:
            assert_shown_safely(str(error))
        given = inspect.signature(cls).parameters.keys() - {"reason"}  # some put theirs together
        assert {vars(error)[name] for name in given & vars(error).keys()} <= _raw(text)
        assert str(copy.copy(error)) == str(error)
