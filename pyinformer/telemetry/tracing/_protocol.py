"""What a tracing system has to implement.

Attributes have the names of OpenTelemetry's semantic conventions where there is one, and otherwise
begin with `pyinformer.`. No attribute, name or event ever has the content of an object.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

AttributeValue: TypeAlias = str | int | float | bool | Sequence[str]
"""The value of an attribute."""

Attributes: TypeAlias = Mapping[str, AttributeValue]
"""The attributes of a span or of an event, by name."""


class WrittenVersion(NamedTuple):
    """The version of an object that a write made; unique among the writes to one server."""

    key: str
    """`namespace/name`, or `name`."""
    resource_version: str


class SpanError(NamedTuple):
    """The reason why a span failed."""

    type: str
    """The class of the error, such as `builtins.ValueError`, or the HTTP status, such as `409`."""
    message: str = ""
    """What happened; empty if the type says it all. The text of a foreign error is left out unless
    `log_exceptions` shows it."""
    stacktrace: str = ""
    """The calls that led to it; empty unless `log_exceptions` shows them."""


class Span(Protocol):
    """A span that was started; it ends once, in the context in which it was started."""

    @property
    @abstractmethod
    def is_recording(self) -> bool:
        """Whether the span is sampled; attributes that cost time are left out otherwise."""
        ...

    @abstractmethod
    def headers(self) -> Mapping[str, str]:
        """Return the headers that carry the span's context to a server, such as `traceparent`."""
        ...

    @abstractmethod
    def add_event(self, name: str, attributes: Attributes) -> None:
        """Record that something happened now.

        Args:
            name: what happened.
            attributes: details.
        """
        ...

    @abstractmethod
    def wrote(self, version: WrittenVersion) -> None:
        """Remember the span as the cause of a version, for links from what the version causes.

        Args:
            version: what the request of this span has written.
        """
        ...

    @abstractmethod
    def end(self, attributes: Attributes, error: SpanError | None) -> None:
        """End the span; one that is current is not current any more.

        Args:
            attributes: those that are known only at the end.
            error: why it failed; None if it did not.
        """
        ...


class Tracing(Protocol):
    """Starts spans. Its methods are called on the event loop, so they must not block."""

    @abstractmethod
    def start_reconcile(
        self, name: str, attributes: Attributes, causes: Iterable[WrittenVersion]
    ) -> Span | None:
        """Start a trace with the span of a reconcile, and make it current until it ends.

        Args:
            name: the span's name.
            attributes: of the span.
            causes: the versions because of which the object is reconciled.

        Returns:
            The span; None if the reconcile is not traced.
        """
        ...

    @abstractmethod
    def start_request(self, name: str, attributes: Attributes) -> Span | None:
        """Start the span of a request to the server as a child of the current span.

        Args:
            name: the span's name.
            attributes: of the span.

        Returns:
            The span; None if there is no current span, since no trace begins with a request.
        """
        ...

    @abstractmethod
    def suspend(self) -> Callable[[], None]:
        """Make no span current in this context, for tasks that outlive a reconcile.

        Returns:
            A function that makes the same span current again, called in the same context.
        """
        ...
