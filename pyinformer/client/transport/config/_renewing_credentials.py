"""Credentials of a login that expires: of an exec plug-in, an auth provider, a kubeconfig.

A login is renewed before it expires and when the server refused it. However many requests wait,
one login runs. A login that could not be renewed stays in use until it expires.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, final
from weakref import WeakKeyDictionary

from pyinformer._runtime.clock import wall_time
from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.client.transport.config._login_metrics import LoginMetrics
from pyinformer.errors import ConfigurationError

if TYPE_CHECKING:
    from pyinformer.client.transport.config._credentials import ClientCertificate

_log = get_logger(__name__)

_MARGIN_SECONDS: Final = 60.0  # a login must not expire while a request is on its way
_MARGIN_SHARE: Final = 0.2  # of a short lifetime: a login of a minute is not renewed all the time
_RETRY_SECONDS: Final = 10.0  # between failing logins while the old one is valid
_REFUSED_AGAIN_SECONDS: Final = 10.0  # between logins that an API keeps refusing
_LEAST_SECONDS: Final = 1.0  # between logins that have expired on arrival: a clock is wrong


@final
class Login:
    """The result of one login; never shown.

    Args:
        headers: what authenticates a request; empty if only the certificate does.
        certificate: what authenticates a connection; None if only the headers do.
        expires_at: when the login expires, in Unix seconds; None if that is not known.
    """

    __slots__ = ("certificate", "expires_at", "headers")

    def __init__(
        self,
        headers: Mapping[str, str],
        *,
        certificate: ClientCertificate | None = None,
        expires_at: float | None = None,
    ) -> None:
        self.headers: Mapping[str, str] = headers
        self.certificate: ClientCertificate | None = certificate
        self.expires_at: float | None = expires_at


@final
class RenewingCredentials:
    """The latest login, renewed in time.

    Args:
        log_in: logs in; raises ConfigurationError if that fails.
        first: a login that has been made; None to log in when credentials are first needed.
        each_request: log in before every request, since only `log_in` knows what has expired;
            requests that wait at the same time share a login.
        wall_clock: returns the Unix time in seconds; logins expire by that clock.
        outcomes: receives whether each login succeeded; None for new ones.
    """

    def __init__(
        self,
        log_in: Callable[[], Awaitable[Login]],
        *,
        first: Login | None = None,
        each_request: bool = False,
        wall_clock: Callable[[], float] = wall_time,
        outcomes: LoginMetrics | None = None,
    ) -> None:
        self.outcomes: LoginMetrics = outcomes or LoginMetrics()
        """The outcomes of logins, except for logins before each request."""
        self._log_in = log_in
        self._each_request = each_request
        self._wall_clock = wall_clock
        self._login: Login | None = None
        self._due_at: float | None = None
        self._is_refused = False  # by some API; the others may accept it
        self._is_invalid = False
        self._ignores_refusals_until = float("-inf")
        # One login at a time, however many requests wait. A lock belongs to one event loop; a
        # configuration may serve several, at the same time in threads or one after another.
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            WeakKeyDictionary()
        )
        self._attempts = 0
        self._failure: ConfigurationError | None = None
        if first is not None:
            self._take(first)

    def __repr__(self) -> str:
        return "RenewingCredentials()"

    @property
    def certificate(self) -> ClientCertificate | None:
        """The client certificate of the last login."""
        return None if self._login is None else self._login.certificate

    @property
    def expires_at(self) -> float | None:
        """When the last login expires, in Unix seconds; None without one, or if that is unknown."""
        return None if self._login is None else self._login.expires_at

    async def begin(self) -> None:
        """Log in for the first time, if there is no login yet; that is not a renewal.

        Raises:
            ConfigurationError: logging in failed.

        Cancellation:
            Safe; the login is ended.
        """
        if self._login is None:
            self._take(await self._log_in())

    async def headers(self) -> Mapping[str, str]:
        """Return the headers of the last login; log in first if that is due.

        Raises:
            ConfigurationError: logging in failed, and the last login is not valid any more.

        Cancellation:
            Safe; the login is ended, and the next call begins again: a little later if the last
            login is still valid.
        """
        if self._login is None or self._is_due():
            attempts = self._attempts
            lock = self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())
            is_valid = not self._is_refused and self._valid_until() is not None
            in_time = is_valid and not self._each_request
            if self._login is not None and lock.locked() and in_time:
                return self._login.headers  # another task is renewing it in time
            async with lock:
                is_shared = self._each_request and attempts != self._attempts
                # Else done by the task before this one.
                if self._login is None or (self._is_due() and not is_shared):
                    self._raise_if_failed_since(attempts)
                    await self._renew()
        return {} if self._login is None else self._login.headers

    def on_unauthorized(self, headers: Mapping[str, str]) -> None:
        """Log in again before the next request, if `headers` are the current ones.

        Of many concurrent requests that were refused, only the first has an effect. Refusals are
        ignored for ten seconds after one that had an effect, and while the login cannot be renewed:
        an aggregated API may refuse credentials that the API server accepts.
        """
        if self._login is None or headers is not self._login.headers:
            return
        left = self._ignores_refusals_until - self._wall_clock()
        counts = not 0 < left <= _REFUSED_AGAIN_SECONDS  # the clock may have gone back
        self._is_refused = self._is_refused or (counts and self._failure is None)

    def invalidate(self) -> None:
        """Log in again before the next request; the last login is not used any more."""
        self._is_invalid = True

    def _is_due(self) -> bool:
        due = self._due_at is not None and self._wall_clock() >= self._due_at
        return due or self._is_refused or self._is_invalid

    def _raise_if_failed_since(self, attempts: int) -> None:
        failure = self._failure
        if attempts != self._attempts and failure is not None:
            raise type(failure)(failure.source, failure.reason) from failure

    async def _renew(self) -> None:
        was_refused = self._is_refused
        if was_refused:
            self._ignores_refusals_until = self._wall_clock() + _REFUSED_AGAIN_SECONDS
        try:
            login = await self._log_in()
            self._attempts, self._failure = self._attempts + 1, None
            self._record(is_success=True)
            self._take(login)
        except asyncio.CancelledError:
            self._put_off()  # else every request with too short a timeout would start a login
            raise
        except ConfigurationError as error:
            is_news, self._failure = self._failure is None, error
            self._attempts += 1
            self._record(is_success=False)
            if not self._put_off():
                raise
            if is_news:
                state = "were refused, and stay in use" if was_refused else "are still valid"
                _log.warning("could not renew credentials (the current ones %s): %s", state, error)

    def _record(self, *, is_success: bool) -> None:
        if not self._each_request:
            self.outcomes.logged_in(is_success=is_success)

    def _put_off(self) -> bool:
        """Postpone the renewal; return whether the login is valid until then."""
        ends_at = self._valid_until()
        if ends_at is not None:
            self._due_at = min(self._wall_clock() + _RETRY_SECONDS, ends_at)
            self._is_refused = False
        return ends_at is not None

    def _valid_until(self) -> float | None:
        login = self._login
        if login is None or self._is_invalid:
            return None
        ends_at = math.inf if login.expires_at is None else login.expires_at
        return ends_at if self._wall_clock() < ends_at else None

    def _take(self, login: Login) -> None:
        now = self._wall_clock()
        self._login, self._due_at = login, None
        self._is_refused = self._is_invalid = False
        if self._each_request:
            self._due_at = -math.inf
        elif login.expires_at is not None:
            life = login.expires_at - now
            margin = min(_MARGIN_SECONDS, max(life, 0.0) * _MARGIN_SHARE)
            self._due_at = max(login.expires_at - margin, now + _LEAST_SECONDS)
