"""The fence around functions of the user's that a source calls: predicates, mappings, key lists.

What enters is a call; what leaves is its result, or None if it raised. A failure is counted, and
logged the first time for each type of error, with the object's key and the place but never the
error's text, which may quote an object. Nothing else is delayed by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar, final

from pyinformer._logging import get_logger
from pyinformer.tasks import name_of, place_of

if TYPE_CHECKING:
    from pyinformer.metrics import Metrics

_log = get_logger("pyinformer.controller")

_P = ParamSpec("_P")
_T = TypeVar("_T")
_TYPES_MAX: Final = 64  # error types logged per function; types made on the fly must not add up


@final
class SourceFence:
    """Calls one function of the user's.

    Args:
        source: names the source.
        role: what the function is: `mapping`.
        function: the function, for its name.
        consequence: what happens after a failure, for the log.
        metrics: where failures are counted.
        controller: whose source it is; empty for nobody's.
    """

    def __init__(
        self,
        source: str,
        role: str,
        function: object,
        *,
        consequence: str,
        metrics: Metrics,
        controller: str = "",
    ) -> None:
        self._name = name_of(function)
        self._consequence = consequence
        self._source = source
        self._controller = controller
        self._role = role
        self._metrics = metrics
        self._logged: set[type[BaseException]] = set()
        self.failures: int = 0
        """How often it raised."""
        self.last_failure: str | None = None
        """The function, the type of the last error and its place."""

    def call(
        self, key: str, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T | None:
        """Call a function that calls the user's, and return its result; None if it raised.

        Args:
            key: the object that it is called for; empty if there is none.
            function: calls the user's.
            args: are handed on.
            kwargs: are handed on.
        """
        try:
            return function(*args, **kwargs)
        except (GeneratorExit, KeyboardInterrupt, SystemExit):
            raise  # not the function's alone
        except BaseException as error:  # noqa: BLE001 - the fence; test tools raise these
            self._failed(key, error)
            return None

    def _failed(self, key: str, error: BaseException) -> None:
        self.failures += 1
        self.last_failure = f"{self._role} {self._name}: {type(error).__name__} {place_of(error)}"
        labels = {
            "controller": self._controller,
            "source": self._source,
            "function": self._role,
        }
        self._metrics.increment("controller_source_failures_total", labels)
        if type(error) in self._logged or len(self._logged) >= _TYPES_MAX:
            return
        self._logged.add(type(error))
        _log.error(
            "%s%s: %s failed on %s; %s. Further failures of this type are only counted",
            f"controller {self._controller}: " if self._controller else "",
            self._source,
            self.last_failure,
            key or "no object in particular",
            self._consequence,
        )
