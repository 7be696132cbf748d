"""Every error that pyinformer raises, in one tree.

Each class is a situation that a caller can handle. It has the data as typed attributes, builds its
own text, and derives from the builtin exception that fits. Errors can be pickled and copied.

    InformerError
      InternalError                          (RuntimeError)
      InvalidArgumentError                   (ValueError)
        InvalidSelectorError, InvalidResourceVersionError, InformerConflictError,
        MetricConflictError, OwnerScopeError
        DefinitionsNotFoundError             (FileNotFoundError)
      InvalidTypeError                       (TypeError)
        InvalidModelError
      FrozenObjectError                      (TypeError, AttributeError)
      CacheMutatedError                      (RuntimeError)
      InvalidObjectError                     (ValueError)
        ModelMismatchError (of TerminalError, too), WriteAnswerError
      ConfigurationError                     (ValueError)
        ConfigurationNotFoundError           (FileNotFoundError)
      TransportError                         (ConnectionError)
        TLSVerificationError
        RequestTimeoutError                  (TimeoutError)
      ConnectionEndedError                   (ConnectionError)
      ProtocolError                          (ValueError)
        ListInconsistentError
      OutputLimitError                       (RuntimeError)
      APIStatusError
        BadRequestError, UnauthorizedError, ForbiddenError, NotFoundError, ConflictError,
        ResourceExpiredError, InvalidError, TooManyRequestsError, ServerError
          ApplyConflictError (of ConflictError), ResourceVersionTooLargeError (of ServerError)
      CacheNotSyncedError                    (RuntimeError)
      CacheSyncTimeoutError                  (TimeoutError)
      StaleCacheError, WaitTimeoutError      (TimeoutError)
      ReadyTimeoutError                      (TimeoutError)
      ClusterUnavailableError                (ConnectionError)
      NotCachedError                         (LookupError)
      ObjectNotFoundError, IndexNotFoundError, FieldNotFoundError   (KeyError)
      UnknownResourceError                   (LookupError)
      AlreadyOwnedError                      (RuntimeError)
      LifecycleError                         (RuntimeError)
      EventStreamOverflowError               (RuntimeError)
      QueueClosedError                       (RuntimeError)
      TerminalError, RetryAfter, ChildrenNotReadyError
        FencedError
      ReconcileTimeoutError                  (TimeoutError)
      RecordingFileError                     (OSError)
      RecordingFormatError                   (ValueError)
        RecordingVersionError
      ReplayDivergedError                    (RuntimeError)
      KubeAPIServerError                     (RuntimeError)
        KubeAPIServerNotFoundError           (FileNotFoundError)
"""

from __future__ import annotations

import math
from copy import copy
from typing import TYPE_CHECKING, NamedTuple, Self, final

from pyinformer._known_tokens import without_tokens
from pyinformer._printable import Lines, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "APIStatusError",
    "AlreadyOwnedError",
    "ApplyConflictError",
    "BadRequestError",
    "CacheMutatedError",
    "CacheNotSyncedError",
    "CacheSyncTimeoutError",
    "ChildrenNotReadyError",
    "ClusterUnavailableError",
    "ConfigurationError",
    "ConfigurationNotFoundError",
    "ConflictError",
    "ConnectionEndedError",
    "DefinitionsNotFoundError",
    "EventStreamOverflowError",
    "FencedError",
    "FieldConflict",
    "FieldNotFoundError",
    "ForbiddenError",
    "FrozenObjectError",
    "IndexNotFoundError",
    "InformerConflictError",
    "InformerError",
    "InternalError",
    "InvalidArgumentError",
    "InvalidError",
    "InvalidModelError",
    "InvalidObjectError",
    "InvalidResourceVersionError",
    "InvalidSelectorError",
    "InvalidTypeError",
    "KubeAPIServerError",
    "KubeAPIServerNotFoundError",
    "LifecycleError",
    "ListInconsistentError",
    "MetricConflictError",
    "ModelMismatchError",
    "NotCachedError",
    "NotFoundError",
    "ObjectNotFoundError",
    "OutputLimitError",
    "OwnerScopeError",
    "ProtocolError",
    "QueueClosedError",
    "ReadyTimeoutError",
    "ReconcileTimeoutError",
    "RecordingFileError",
    "RecordingFormatError",
    "RecordingVersionError",
    "RefusalCause",
    "ReplayDivergedError",
    "RequestTimeoutError",
    "ResourceExpiredError",
    "ResourceVersionTooLargeError",
    "RetryAfter",
    "ServerError",
    "StaleCacheError",
    "TLSVerificationError",
    "TerminalError",
    "TooManyRequestsError",
    "TransportError",
    "UnauthorizedError",
    "UnknownResourceError",
    "WaitTimeoutError",
    "WriteAnswerError",
]


_SHOWN = 64  # characters of a foreign text in a message; the attribute has all of it


def _rebuild(
    cls: type[InformerError], message: str, attributes: dict[str, object]
) -> InformerError:
    # An OSError beside another builtin: only OSError's own __new__ makes the right layout.
    error = OSError.__new__(cls) if issubclass(cls, OSError) else cls.__new__(cls)
    error.args = (message,)
    error.__dict__.update(attributes)
    return error


class InformerError(Exception):
    """The root: `except InformerError` catches every error of this library.

    The text is one line. Unprintable characters in it are escaped and credentials in use are
    removed, also in texts of objects and servers. The attributes have the data unchanged.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(without_tokens(message)))

    def __str__(self) -> str:
        # KeyError and OSError among the bases would print the repr or an errno instead.
        return str(self.args[0]) if self.args else type(self).__name__

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), str(self), dict(self.__dict__))


@final
class InternalError(InformerError, RuntimeError):
    """An invariant of pyinformer itself is broken."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}. This is a bug in pyinformer: please report this.")


class InvalidArgumentError(InformerError, ValueError):
    """An argument has a value that cannot work.

    Attributes:
        argument: the parameter's name.
        reason: what the value must be, and what it is.
        given: the text as given, of a path that cannot be read; empty for other arguments.
    """

    def __init__(self, argument: str, reason: str, *, given: str = "") -> None:
        self.argument = argument
        self.reason = reason
        self.given = given
        super().__init__(f"{argument}: {reason}")


@final
class InvalidSelectorError(InvalidArgumentError):
    """A label or field selector cannot be parsed.

    Attributes:
        selector: the text as given.
    """

    def __init__(self, selector: str, reason: str, *, argument: str = "label_selector") -> None:
        self.selector = selector
        self._problem = reason
        super().__init__(argument, f"cannot parse {selector!r}: {reason}")

    def at(self, argument: str) -> InvalidSelectorError:
        """Return the same error of another argument."""
        return InvalidSelectorError(self.selector, self._problem, argument=argument)


@final
class InvalidResourceVersionError(InvalidArgumentError):
    """A resource version that is not a positive decimal number was compared.

    Attributes:
        resource_version: the text as given.
    """

    def __init__(self, resource_version: str) -> None:
        self.resource_version = resource_version
        super().__init__(
            "resource_version",
            # It comes from the network: up to the length of a line.
            f"must be a decimal number without leading zeros, got {resource_version[:_SHOWN]!r};"
            " other resource versions can only be compared for equality: for the cache of such a"
            ' server set ReflectorOptions(order="opaque")',
        )


@final
class InformerConflictError(InvalidArgumentError):
    """One informer was requested twice with different options.

    Attributes:
        informer: the informer.
        option: the first option that differs.
        first_call_site: `file:line` of the call that created the informer.
        second_call_site: `file:line` of the call that conflicts with it.
    """

    def __init__(
        self, *, informer: str, option: str, first_call_site: str, second_call_site: str
    ) -> None:
        self.informer = informer
        self.option = option
        self.first_call_site = first_call_site
        self.second_call_site = second_call_site
        super().__init__(
            option,
            f"the informer for {informer} exists with another {option} (created at"
            f" {first_call_site}, requested again at {second_call_site}); use the same options"
            " in both places, or private=True for a separate informer",
        )


@final
class MetricConflictError(InvalidArgumentError):
    """A metric was bound or defined differently than before.

    Attributes:
        metric: the name of the metric.
    """

    def __init__(self, metric: str, reason: str) -> None:
        self.metric = metric
        super().__init__("name", f"metric {metric!r}: {reason}; use another name")


@final
class OwnerScopeError(InvalidArgumentError):
    """An object cannot have an owner in another namespace.

    Attributes:
        owner_namespace: the owner's namespace; never empty, a cluster-scoped owner may own all.
        namespace: the object's namespace; empty if it has none.
    """

    def __init__(self, *, owner_namespace: str, namespace: str) -> None:
        self.owner_namespace = owner_namespace
        self.namespace = namespace
        found = f"it is in {namespace!r}" if namespace else "it has no namespace"
        super().__init__(
            "obj", f"must be in the namespace of its owner, {owner_namespace!r}, but {found}"
        )


@final
class DefinitionsNotFoundError(InvalidArgumentError, FileNotFoundError):
    """There are no CustomResourceDefinitions at a path.

    Attributes:
        path: the file or the folder.
    """

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        InvalidArgumentError.__init__(self, "paths", f"{path} {reason}", given=path)


class InvalidTypeError(InformerError, TypeError):
    """An argument has a type that cannot work.

    Attributes:
        argument: the parameter's name.
        reason: what the argument must be, and what it is.
        given: the name of a function or of a view that cannot be used; empty for other arguments.
    """

    def __init__(self, argument: str, reason: str, *, given: str = "") -> None:
        self.argument = argument
        self.reason = reason
        self.given = given
        super().__init__(f"{argument}: {reason}")


@final
class InvalidModelError(InvalidTypeError):
    """A model cannot become a CustomResourceDefinition, or its objects cannot be read or written.

    Attributes:
        model: the model's name.
        path: the field, such as `spec.backup.targets[]`; empty for the model as a whole.
    """

    def __init__(self, model: str, path: str, reason: str) -> None:
        self.model = model
        self.path = path
        super().__init__("model", f"{model}{path and f', field {path}'}: {reason}")


@final
class FrozenObjectError(InformerError, TypeError, AttributeError):
    """User code tried to index or change a cached object, or read an attribute it does not have.

    Attributes:
        key: the object's key, `namespace/name` or `name`.
        operation: the expression that failed, such as `object['spec']`.
    """

    def __init__(self, *, key: str, operation: str, instead: str = "") -> None:
        self.key = key
        self.operation = operation
        advice = "read one field with at('spec.nodeName'), or take a private dict with to_dict()"
        super().__init__(
            f"{operation} is not possible on {key!r}: "
            + (
                f"read {instead}"
                if instead
                else f"cached objects are shared and immutable; {advice}"
            )
        )


@final
class CacheMutatedError(InformerError, RuntimeError):
    """User code changed a shared object in place; raised in `debug` mode only.

    Attributes:
        informer: what the informer follows.
        key: the object's key, `namespace/name` or `name`.
        what: what was changed, such as `the shared decoded object`.
        paths: where, and the types before and after: `metadata.labels.x: absent became str`; no
            values. Empty if it is unknown.
        readers: the handlers and the places in the code that read it.
    """

    def __init__(
        self,
        *,
        informer: str,
        key: str,
        what: str,
        paths: tuple[str, ...] = (),
        readers: tuple[str, ...] = (),
    ) -> None:
        self.informer = informer
        self.key = key
        self.what = what
        self.paths = paths
        self.readers = readers
        where = f" ({'; '.join(paths)})" if paths else ""
        whose = f" It was read by {', '.join(readers)}." if readers else ""
        super().__init__(
            f"{what} of {key!r} in {informer} was changed in place{where}.{whose} Shared objects"
            " are read-only: take a private dict with to_dict() before you change it"
        )


class InvalidObjectError(InformerError, ValueError):
    """The bytes of one object cannot be decoded as requested.

    Attributes:
        what: the object or the frame, as far as it can be named.
        reason: what is wrong with it.
        shown: the same without the words of a validator or another piece of user code, which may
            quote the object. Only this is in the text of the error, and in logs.
    """

    def __init__(self, what: str, reason: str, *, shown: str = "") -> None:
        self.what = what
        self.reason = reason
        self.shown: str = shown or reason
        super().__init__(f"{what}: {self.shown}")


@final
class WriteAnswerError(InvalidObjectError):
    """The server carried out a write, but its response cannot be read: do not send it again.

    Attributes:
        what: the write: `POST configmaps.v1`.
        reason: what is wrong with the response.
    """

    def __init__(self, what: str, reason: str) -> None:
        self.what = what
        self.reason = reason
        self.shown: str = reason
        InformerError.__init__(
            self,
            f"{what}: the server carried out the write, but its response cannot be read: {reason};"
            " do not send the write again",
        )


class ConfigurationError(InformerError, ValueError):
    """The configuration of a cluster cannot be used.

    Attributes:
        source: the file, the variable or the argument that holds it.
        reason: what it must be, and what it is.
    """

    def __init__(self, source: str, reason: str) -> None:
        self.source = source
        self.reason = reason
        super().__init__(f"{source}: {reason}")


@final
class ConfigurationNotFoundError(ConfigurationError, FileNotFoundError):
    """No configuration of a cluster was found, or a file that was named does not exist."""

    def __init__(self, source: str, reason: str) -> None:
        ConfigurationError.__init__(self, source, reason)


class TransportError(InformerError, ConnectionError):
    """The server could not be reached, or the connection broke.

    Attributes:
        url: the requested URL, without its query.
        reason: what happened.
        is_unreachable: no connection was made, so the server has not seen the request.
    """

    def __init__(self, url: str, reason: str, *, is_unreachable: bool = False) -> None:
        self.url = url
        self.reason = reason
        self.is_unreachable = is_unreachable
        super().__init__(f"{url}: {reason}")


@final
class TLSVerificationError(TransportError):
    """The server's certificate could not be verified."""


@final
class RequestTimeoutError(TransportError, TimeoutError):
    """The server did not answer within the deadline.

    Attributes:
        waited_seconds: the deadline that passed.
    """

    def __init__(self, url: str, reason: str, *, waited_seconds: float) -> None:
        self.waited_seconds = waited_seconds
        TransportError.__init__(self, url, reason)


@final
class ConnectionEndedError(InformerError, ConnectionError):
    """A connection will never work again, so its reflectors end instead of trying again.

    Attributes:
        reason: why, such as that no credentials are left.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the connection has ended for good: {reason}")


class ProtocolError(InformerError, ValueError):
    """The server's response does not follow the Kubernetes API.

    Attributes:
        what: the request or the frame.
        reason: what is wrong with the response.
        limit_bytes: the limit that a line of a watch or an item of a list exceeds; else None.
    """

    def __init__(self, what: str, reason: str, *, limit_bytes: int | None = None) -> None:
        self.what = what
        self.reason = reason
        self.limit_bytes = limit_bytes
        super().__init__(f"{what}: {reason}")


class ListInconsistentError(ProtocolError):
    """A list is inconsistent: its pages, its items or its count do not agree."""


@final
class OutputLimitError(InformerError, RuntimeError):
    """A command in a container has written more than its caller takes.

    Attributes:
        what: the command's place: `exec in shop/web-0`.
        limit_bytes: the limit that its output exceeds.
    """

    def __init__(self, what: str, limit_bytes: int) -> None:
        self.what = what
        self.limit_bytes = limit_bytes
        super().__init__(
            f"{what}: the output is longer than {limit_bytes} bytes; the connection is closed, and"
            " the command may still run: pass a larger max_bytes, or let the command write less"
        )


class FieldConflict(NamedTuple):
    """A field that another manager owns."""

    field: str
    """Its path, as the server writes it: `.spec.replicas`."""

    manager: str
    """Its manager; empty if the server does not name it."""


class RefusalCause(NamedTuple):
    """Why a server refused a request, without any value of the object."""

    reason: str
    """Such as `FieldValueInvalid`, or `field not declared in schema`; may be empty."""

    field: str
    """The path of the field, such as `spec.replicas`; empty if it is not about one."""

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.field, self.reason)))


class APIStatusError(InformerError):
    """The server refused a request.

    Attributes:
        status: the HTTP status code, or the code of a watch's ERROR event.
        reason: the machine-readable reason of the Status, such as `NotFound`; may be empty.
        message: the server's message, shortened.
        request: the request, such as `list pods`, or its method and path.
        causes: the reasons in the Status's details.
        retry_after_seconds: how long the server asks to wait, at most 120; or None. A gateway's
            page or a wrong clock may say an hour, and every delay follows this attribute.
        needed: of a 403, the missing right in the terms of RBAC; empty if it is unknown.
        conflicts: of a 409 to a server-side apply, the fields of other managers.
        names_object: whether the Status names the object of the request. A 404 that does not says
            nothing about the object: the server does not serve the resource, or a proxy answered.
        refusal_causes: the reasons with the fields that they are about, at most eight; logs show
            them and `hint`, but not `message`, which may quote the object.
        hint: advice for the caller, at the end of `message`; empty without one.
    """

    def __init__(
        self,
        *,
        status: int,
        reason: str = "",
        message: str = "",
        request: str = "",
        causes: Sequence[str] = (),
        retry_after_seconds: float | None = None,
        needed: str = "",
        conflicts: Sequence[FieldConflict] = (),
        names_object: bool = False,
        refusal_causes: Sequence[RefusalCause] = (),
    ) -> None:
        self.status = status
        self.reason = reason
        self.message = message
        self.request = request
        self.causes: tuple[str, ...] = tuple(causes)
        if retry_after_seconds is not None:
            retry_after_seconds = min(retry_after_seconds, _MAX_RETRY_AFTER_SECONDS)
        self.retry_after_seconds = retry_after_seconds
        self.needed = needed
        self.conflicts: tuple[FieldConflict, ...] = tuple(conflicts)
        self.names_object = names_object
        self.refusal_causes: tuple[RefusalCause, ...] = tuple(refusal_causes)
        self.hint = ""
        label = f"{status} {reason}".rstrip()
        if message.startswith(f"{label} "):  # Go's own handler says "404 page not found"
            label = ""
        text = ": ".join(part for part in (request, label, message) if part)
        super().__init__(f"{text}; {needed}" if needed else text)

    def with_hint(self, hint: str) -> Self:
        """Return a copy of this error whose message ends with advice for the caller."""
        found = copy(self)
        found.message = f"{self.message}; {hint}"
        found.hint = f"{self.hint}; {hint}" if self.hint else hint
        found.args = (f"{self}; {printable(hint)}",)
        return found


@final
class BadRequestError(APIStatusError):
    """400: the server does not understand the request, a field selector for example."""


@final
class UnauthorizedError(APIStatusError):
    """401: the credentials are missing, wrong or expired."""


@final
class ForbiddenError(APIStatusError):
    """403: the credentials are valid and the right is missing; `needed` names it."""

    @property
    def is_terminating(self) -> bool:
        """Whether the namespace refuses new objects because it is being deleted.

        No right cures that: it ends with the namespace.
        """
        return "NamespaceTerminating" in self.causes


@final
class NotFoundError(APIStatusError):
    """404: the object does not exist, or the server does not have the resource.

    The object is gone only if `names_object` is true.
    """


class ConflictError(APIStatusError):
    """409: the object exists already, or has changed since it was read."""


@final
class ApplyConflictError(ConflictError):
    """409: a server-side apply would change fields that other managers own; see `conflicts`."""


@final
class ResourceExpiredError(APIStatusError):
    """410: the position or the continue token is too old; only a new list helps."""


@final
class InvalidError(APIStatusError):
    """422: the server understood the request and refused its content."""


@final
class TooManyRequestsError(APIStatusError):
    """429: the server asks to retry later."""


class ServerError(APIStatusError):
    """5xx: the server failed."""


@final
class ResourceVersionTooLargeError(ServerError):
    """504 with the cause ResourceVersionTooLarge: the server has not reached the position yet."""


@final
class CacheNotSyncedError(InformerError, RuntimeError):
    """A cache was read before its first sync.

    Attributes:
        informer: which informer.
        state: its state.
        last_error: its last error's text, or None.
    """

    def __init__(self, *, informer: str, state: str, last_error: str | None) -> None:
        self.informer = informer
        self.state = state
        self.last_error = last_error
        super().__init__(
            f"the cache of {informer} is not synced (state: {state}; last error:"
            f" {last_error or 'none'}); await wait_for_cache_sync() first, or read with"
            " allow_unsynced=True"
        )


@final
class CacheSyncTimeoutError(InformerError, TimeoutError):
    """Some caches did not sync before the deadline.

    Attributes:
        waited_seconds: how long was waited.
        pending: a line for each informer that is not synced: what it is, its state, its
            attempts, its last error and its age.
    """

    def __init__(self, *, waited_seconds: float, pending: Sequence[str]) -> None:
        self.waited_seconds = waited_seconds
        self.pending: tuple[str, ...] = tuple(pending)
        super().__init__(
            f"not synced after {waited_seconds:.1f} s: {'; '.join(self.pending)}. Every"
            " informer whose state is not failed retries until it is closed"
        )


@final
class StaleCacheError(InformerError, TimeoutError):
    """A cache did not reach a write before the deadline, or is older than its reader allows.

    Attributes:
        informer: which informer.
        wanted: the resource version that was waited for, and the object if one was named; or how
            old the cache may be.
        position: the resource version up to which the cache holds every change.
        waited_seconds: how long was waited; 0 for a read, which never waits.
        state: the state of the informer's reflector.
        reason: its last error, or why waiting cannot succeed; empty if there is none.
        max_age_seconds: how old the cache may be for this reader; None after a wait for a write.
        age_seconds: how long ago the cache was last proven; None if never, or after a wait.
    """

    def __init__(
        self,
        *,
        informer: str,
        wanted: str,
        position: str,
        waited_seconds: float,
        state: str,
        reason: str = "",
        max_age_seconds: float | None = None,
        age_seconds: float | None = None,
    ) -> None:
        self.informer = informer
        self.wanted = wanted
        self.position = position
        self.waited_seconds = waited_seconds
        self.state = state
        self.reason = reason
        self.max_age_seconds = max_age_seconds
        self.age_seconds = age_seconds
        if max_age_seconds is None:
            found = (
                f"is at {position or 'nothing'} after {waited_seconds:.1f} s and has not reached"
                f" {wanted}"
            )
        else:
            age = "never" if age_seconds is None else f"{age_seconds:.1f} s ago"
            found = f"was last proven {age}, and its reader allows {max_age_seconds:g} s"
        super().__init__(
            f"the cache of {informer} {found} (state: {state}; {reason or 'no error'}); it keeps"
            " trying: read it as it is, or retry later"
        )


@final
class WaitTimeoutError(InformerError, TimeoutError):
    """An object did not reach the wanted state before the deadline.

    Attributes:
        informer: which informer.
        key: the object's key.
        waited_seconds: how long was waited.
        exists: whether the object is cached; None if the cache has not synced.
        resource_version: of the cached object; empty if there is none.
        state: the state of the informer's reflector.
        last_error: its last error, if any.
    """

    def __init__(
        self,
        *,
        informer: str,
        key: str,
        waited_seconds: float,
        exists: bool | None,
        resource_version: str,
        state: str,
        last_error: str | None = None,
    ) -> None:
        self.informer = informer
        self.key = key
        self.waited_seconds = waited_seconds
        self.exists = exists
        self.resource_version = resource_version
        self.state = state
        self.last_error = last_error
        if exists is None:
            found = "the cache has not synced"
        else:
            found = f"it exists at {resource_version or '?'}" if exists else "it does not exist"
        super().__init__(
            f"{key!r} of {informer} did not reach the wanted state within"
            f" {waited_seconds:.1f} s: {found} (state: {state}; {last_error or 'no error'}); the"
            " informer keeps running: wait again, or longer"
        )


@final
class ReadyTimeoutError(InformerError, TimeoutError):
    """An object did not become ready in time.

    Attributes:
        shown: its kind and key: `Deployment shop/web`.
        reason: what was missing when it was read last.
        waited_seconds: how long was waited.
    """

    def __init__(self, *, shown: str, reason: str, waited_seconds: float) -> None:
        self.shown = shown
        self.reason = reason
        self.waited_seconds = waited_seconds
        super().__init__(f"{shown} was not ready within {waited_seconds:.1f} s: {reason}")


@final
class NotCachedError(InformerError, LookupError):
    """A namespace was read that the informer does not watch.

    Attributes:
        informer: which informer.
        namespace: the namespace that was read.
    """

    def __init__(self, *, informer: str, namespace: str) -> None:
        self.informer = informer
        self.namespace = namespace
        super().__init__(
            f"{informer} does not watch namespace {namespace!r}, so its cache has no objects of"
            " it; add an informer for that namespace, or read with allow_unsynced=True"
        )


@final
class ObjectNotFoundError(InformerError, KeyError):
    """No object with this key is cached.

    Attributes:
        resource: the resource that was read.
        key: `namespace/name`, or `name` if cluster-scoped.
    """

    def __init__(self, *, resource: str, key: str) -> None:
        self.resource = resource
        self.key = key
        super().__init__(f"{resource} {key!r} is not in the cache")


@final
class IndexNotFoundError(InformerError, KeyError):
    """No index has this name.

    Attributes:
        index: the requested name.
        known: the names that exist.
    """

    def __init__(self, *, index: str, known: Sequence[str]) -> None:
        self.index = index
        self.known: tuple[str, ...] = tuple(known)
        super().__init__(f"no index has the name {index!r}; existing: {', '.join(known) or 'none'}")


@final
class FieldNotFoundError(InformerError, KeyError):
    """An object has no value at a path that was read without a default.

    Attributes:
        key: the object's key.
        path: the path that was read.
    """

    def __init__(self, *, key: str, path: str) -> None:
        self.key = key
        self.path = path
        super().__init__(f"{key!r} has no {path}; pass default= if it may be absent")


@final
class UnknownResourceError(InformerError, LookupError):
    """The server does not serve a resource with this name.

    Attributes:
        name: the name as given.
        near: resources with similar names.
        unavailable: groups and versions whose resources the server currently cannot list.
    """

    def __init__(
        self, *, name: str, near: Sequence[str] = (), unavailable: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.near: tuple[str, ...] = tuple(near)
        self.unavailable: tuple[str, ...] = tuple(unavailable)
        hint = f"; it serves {', '.join(near)}" if near else ""
        silent = f"; it currently cannot list {', '.join(unavailable)}" if unavailable else ""
        super().__init__(f"the server does not serve {name[:_SHOWN]!r}{hint}{silent}")


@final
class AlreadyOwnedError(InformerError, RuntimeError):
    """Another object controls this one already, and an object has only one controller.

    Attributes:
        key: the object's key, `namespace/name` or `name`.
        controller: the kind and name of its controller.
        owner: the kind and name of the owner that was to control it.
    """

    def __init__(self, *, key: str, controller: str, owner: str) -> None:
        self.key = key
        self.controller = controller
        self.owner = owner
        super().__init__(
            f"{key!r} is controlled by {controller} and cannot be controlled by {owner} as well;"
            " choose another name, or let its controller release it first"
        )


@final
class LifecycleError(InformerError, RuntimeError):
    """A method was called in the wrong state: not started, already started, or closed."""


@final
class EventStreamOverflowError(InformerError, RuntimeError):
    """A consumer of events() fell too far behind.

    Attributes:
        informer: which informer.
        limit: the number of events the stream holds.
    """

    def __init__(self, *, informer: str, limit: int) -> None:
        self.informer = informer
        self.limit = limit
        super().__init__(
            f"the event stream of {informer} holds {limit} events and its consumer is slower"
            " than that; the cache is intact: open a new stream, read faster or raise max_events"
        )


@final
class QueueClosedError(InformerError, RuntimeError):
    """A queue is closed and empty."""


class TerminalError(InformerError):
    """Raised by a reconcile: retrying is useless until something changes.

    Attributes:
        reason: why; it is logged, so it must not contain secrets.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"{reason}; not retried until something changes")


@final
class FencedError(TerminalError):
    """A write or a reconcile was refused, since this replica may not lead at this moment.

    Attributes:
        lease: the Lease, `namespace/name`.
        reason: why.
        may_have_left: the server may have received the request before it was cut off.
        has_ended: the term is over. If not, the next renewal of the Lease ends the refusal.
    """

    def __init__(
        self, *, lease: str, reason: str, may_have_left: bool = False, has_ended: bool = True
    ) -> None:
        self.lease = lease
        self.reason = reason
        self.may_have_left = may_have_left
        self.has_ended = has_ended
        outlook = (
            "another replica may lead; do not retry it here"
            if has_ended
            else "it is retried when the Lease has been renewed"
        )
        fate = "; the server may have carried out what was sent before" if may_have_left else ""
        InformerError.__init__(
            self,
            f"not allowed without a valid term of the Lease {lease}: {reason}{fate}; {outlook}",
        )


class RetryAfter(InformerError):  # noqa: N818 - what it says, as the HTTP header of that name
    """Raised by a reconcile: retry it, but not before a time.

    Attributes:
        retry_after_seconds: how long to wait.
        reason: why; it is logged, so it must not contain secrets.
    """

    def __init__(self, retry_after_seconds: float, reason: str = "") -> None:
        is_number = isinstance(retry_after_seconds, int | float)
        if not is_number or not 0 <= retry_after_seconds < math.inf:
            reason = f"must be seconds >= 0, got {retry_after_seconds!r}"
            raise InvalidArgumentError("retry_after_seconds", reason)
        self.retry_after_seconds = retry_after_seconds
        self.reason = reason
        because = f": {reason}" if reason else ""
        super().__init__(f"to be retried after {retry_after_seconds:g} s{because}")


@final
class ChildrenNotReadyError(InformerError):
    """Raised by `children.ready()`: the reconcile ends here, and is called again when they change.

    It is not a failure of the reconcile. One that catches it still waits when it returns.

    Attributes:
        waiting_for: each child that is not ready, with the reason: `StatefulSet shop/orders: 1 of 3
            replicas are available`.
        stage: the stage of the first of them; empty for the one without a name.
        timeout_seconds: how long they may take; None without a deadline.
        has_failed: whether one of them has failed, by its own status, rather than takes time.
    """

    def __init__(
        self,
        waiting_for: Sequence[str],
        *,
        stage: str = "",
        timeout_seconds: float | None = None,
        has_failed: bool = False,
    ) -> None:
        self.waiting_for: tuple[str, ...] = tuple(waiting_for)
        self.stage = stage
        self.timeout_seconds = timeout_seconds
        self.has_failed = has_failed
        first = self.waiting_for[0] if self.waiting_for else "the children are not ready"
        others = len(self.waiting_for) - 1
        super().__init__(f"{first}, and {others} more" if others > 0 else first)


@final
class ModelMismatchError(InvalidObjectError, TerminalError):
    """An object does not fit the model of its reader or its reconcile.

    Attributes:
        key: the object's key.
        path: the field that does not fit, such as `spec.replicas`; empty if it is not a single one.
    """

    def __init__(self, what: str, reason: str, *, key: str, path: str, shown: str = "") -> None:
        self.what = what
        self.reason = reason
        self.shown: str = shown or reason
        self.key = key
        self.path = path
        outlook = "it can be read again when it changes; other objects are not affected"
        InformerError.__init__(self, f"{what}: {self.shown}; {outlook}")


@final
class ReconcileTimeoutError(InformerError, TimeoutError):
    """A reconcile did not end by its deadline and was cancelled; it is retried.

    Attributes:
        request: the object, `namespace/name` or `name`, with the cluster's name before it if it
            has one.
        timeout_seconds: the deadline.
    """

    def __init__(self, *, request: str, timeout_seconds: float) -> None:
        self.request = request
        self.timeout_seconds = timeout_seconds
        super().__init__(f"the reconcile of {request} took longer than {timeout_seconds:g} s")


@final
class ClusterUnavailableError(InformerError, ConnectionError):
    """A pool could not open a cluster, or not in time.

    Attributes:
        cluster: the cluster's name.
        reason: the known cause.
        waited_seconds: how long this caller waited.
        attempts: how many attempts to open it failed in a row.
        retry_after_seconds: when the next attempt may begin; None while one is under way.
    """

    def __init__(
        self,
        *,
        cluster: str,
        reason: str,
        waited_seconds: float,
        attempts: int,
        retry_after_seconds: float | None,
    ) -> None:
        self.cluster = cluster
        self.reason = reason
        self.waited_seconds = waited_seconds
        self.attempts = attempts
        self.retry_after_seconds = retry_after_seconds
        failed = f"{attempts} failed attempt{'s' * (attempts != 1)}"
        if retry_after_seconds is None:
            outlook = f"not open after {waited_seconds:.1f} s, {failed}"
            rest = "pyinformer keeps trying: try again later"
        else:
            outlook = f"cannot be opened, {failed}"
            rest = f"the next one may begin in {retry_after_seconds:.1f} s"
        super().__init__(f"cluster {cluster!r} is unavailable ({outlook}): {reason}; {rest}")


@final
class RecordingFileError(InformerError, OSError):
    """A recording cannot be written or read: the file exists, the disk is full, a right is missing.

    Attributes:
        path: the file.
        reason: why.
    """

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"the recording {path!r}: {reason}")


class RecordingFormatError(InformerError, ValueError):
    """A file is not a recording, or is damaged before its end.

    Attributes:
        path: the file.
        line: the number of the line, from 1.
        reason: what is wrong.
    """

    def __init__(self, path: str, line: int, reason: str) -> None:
        self.path = path
        self.line = line
        self.reason = reason
        super().__init__(f"{path!r}, line {line}: {reason}")


@final
class RecordingVersionError(RecordingFormatError):
    """A recording has a later format than this library reads.

    Attributes:
        found: the version of the format.
        supported: the latest version that this library reads.
        written_by: the version of pyinformer that wrote it.
    """

    def __init__(self, path: str, *, found: int, supported: int, written_by: str) -> None:
        self.found = found
        self.supported = supported
        self.written_by = written_by
        super().__init__(
            path,
            1,
            f"the recording has format version {found}, written by pyinformer {written_by}, and"
            f" this library reads versions up to {supported}: install a later pyinformer",
        )


@final
class ReplayDivergedError(InformerError, RuntimeError):
    """A replayed informer sent a request that its recording has no response for.

    Attributes:
        request: the request.
        at_seconds: when, in seconds of the recording.
        expected: what the recording has instead; empty if it has nothing more.
    """

    def __init__(self, *, request: str, at_seconds: float, expected: str) -> None:
        self.request = request
        self.at_seconds = at_seconds
        self.expected = expected
        instead = f"has {expected}" if expected else "has no further request"
        super().__init__(
            f"the replay diverged after {at_seconds:.3f} s: the informer sent {request}, and the"
            f" recording {instead}; give replayed.informer() the options of the recorded informer"
        )


class KubeAPIServerError(InformerError, RuntimeError):
    """The test kit could not build, start or keep a real kube-apiserver.

    Attributes:
        what: what could not be done.
        reason: why, with the last lines of the program's output if there are any.
    """

    def __init__(self, what: str, reason: str) -> None:
        self.what = what
        self.reason = reason
        Exception.__init__(self, Lines(f"{what}: {reason}"))


@final
class KubeAPIServerNotFoundError(KubeAPIServerError, FileNotFoundError):
    """There are no kube-apiserver and etcd programs, and building them was not allowed."""

    def __init__(self, reason: str) -> None:
        KubeAPIServerError.__init__(
            self,
            "kube-apiserver and etcd are needed and were not found",
            f"{reason}. Set KUBEBUILDER_ASSETS to a folder that holds both, or allow them to be"
            " built once: build=True, `pyinformer serve --real --build`, or"
            " `pytest --pyinformer-build-kube-apiserver` (minutes; needs Go in PATH, or"
            " pip install 'pyinformer[kube-apiserver]')",
        )


def invalid_handler(name: str, reason: str) -> InvalidTypeError:
    """Return the error for a function that cannot be called as a handler, mapping or reconcile."""
    return InvalidTypeError("handler", f"{name} cannot be used: {reason}", given=name)


def line_too_long(what: str, *, limit_bytes: int) -> ProtocolError:
    """Return the error for a line of a watch, or an item of a list, over the limit."""
    reason = f"longer than {limit_bytes} bytes; the connection is closed and the cache stays"
    return ProtocolError(what, reason, limit_bytes=limit_bytes)


def status_error_class(status: int, causes: Sequence[str] = ()) -> type[APIStatusError]:
    """Return the class that stands for an HTTP status.

    Args:
        status: the HTTP status code.
        causes: reasons in the Status's details; one of them singles out a server that has not
            reached a resource version yet.
    """
    if "ResourceVersionTooLarge" in causes:
        return ResourceVersionTooLargeError
    if status >= _FIRST_SERVER_ERROR:
        return ServerError
    return _BY_STATUS.get(status, APIStatusError)


_FIRST_SERVER_ERROR = 500
_MAX_RETRY_AFTER_SECONDS = 120.0  # of a server that is healed within seconds, two minutes are lost
_BY_STATUS: Mapping[int, type[APIStatusError]] = {
    400: BadRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: ResourceExpiredError,
    422: InvalidError,
    429: TooManyRequestsError,
}
