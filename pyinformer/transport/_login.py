"""Credentials that somebody else hands out for a while: an exec plug-in, a provider, a file.

What enters is a way to log in; what leaves are the headers and the client certificate of the last
login, renewed before it expires and when the server refused it. However many requests wait, one
login runs; while one that could not be renewed in time is still good, it stays in use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, final
from weakref import WeakKeyDictionary

from pyinformer._clock import wall_time
from pyinformer._logging import get_logger
from pyinformer.apimachinery import ConfigurationError

if TYPE_CHECKING:
    from pyinformer.transport._client_certificate import ClientCertificate

_log = get_logger("pyinformer.transport")

_MARGIN_SECONDS: Final = 60.0  # a request must not arrive with what expires on its way
_MARGIN_SHARE: Final = 0.2  # of a short life; else one of a minute would be renewed all the time
_RETRY_SECONDS: Final = 10.0  # while the old login is good, one that fails is not run per request
_LEAST_SECONDS: Final = 1.0  # between logins that are expired when they come: whose clock is wrong?


@final
class Login:
    """What one login gave; never shown.

    Args:
        headers: what authenticates a request; empty if only the certificate does.
        certificate: what authenticates a connection; None if only the headers do.
        expires_at: when it ends, in seconds since 1970; None if nobody says so.
    """

    __slots__ = ("certificate", "expires_at", "headers")

    def __init__(
        self,
        headers: Mapping[str, str],
        *,
        certificate: ClientCertificate | None = None,
        expires_at: float | None = None,
    ) -> None:
        self.headers = headers
        self.certificate = certificate
        self.expires_at = expires_at


@final
class LoginCredentials:
    """The last login, renewed in time.

    Args:
        log_in: logs in; raises ConfigurationError if that fails.
        first: a login that has been made; None to make one when it is needed.
        wall_clock: tells the seconds since 1970; logins expire by that clock.
    """

    def __init__(
        self,
        log_in: Callable[[], Awaitable[Login]],
        *,
        first: Login | None = None,
        wall_clock: Callable[[], float] = wall_time,
    ) -> None:
        self._log_in = log_in
        self._wall_clock = wall_clock
        self._login: Login | None = None
        self._due_at: float | None = None
        self._is_refused = False
        # One plug-in at a time, however many requests wait. A lock belongs to one event loop, a
        # configuration may serve several, at once in threads or one after another.
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            WeakKeyDictionary()
        )
        self._attempts = 0
        self._failure: ConfigurationError | None = None
        if first is not None:
            self._take(first)

    def __repr__(self) -> str:
        return "LoginCredentials()"

    @property
    def certificate(self) -> ClientCertificate | None:
        """The client certificate of the last login."""
        return None if self._login is None else self._login.certificate

    async def headers(self) -> Mapping[str, str]:
        """Return the headers of the last login, after a new one if that is due.

        Raises:
            ConfigurationError: logging in failed, and the last login is not good any more.

        Cancellation:
            Safe; what logs in is ended, and the next call begins again: a little later if the
            last login is still good.
        """
        if self._login is None or self._is_due():
            attempts = self._attempts
            lock = self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())
            if self._login is not None and lock.locked() and self._still_good_until() is not None:
                return self._login.headers  # one renews it in time: nobody else has to wait
            async with lock:
                if self._login is None or self._is_due():  # who waited finds it done, or failed
                    self._raise_if_failed_since(attempts)
                    await self._renew()
        return {} if self._login is None else self._login.headers

    def refused(self, headers: Mapping[str, str]) -> None:
        """Take note that the server refused headers of ours: log in again, if it was these.

        Of many requests that were under way together, the first brings the new login about.
        """
        if self._login is not None and headers is self._login.headers:
            self._is_refused = True

    def invalidate(self) -> None:
        """Log in again before the next request."""
        self._is_refused = True

    def _is_due(self) -> bool:
        due = self._due_at is not None and self._wall_clock() >= self._due_at
        return due or self._is_refused

    def _raise_if_failed_since(self, attempts: int) -> None:
        failure = self._failure
        if attempts != self._attempts and failure is not None:
            raise type(failure)(failure.source, failure.reason) from failure

    async def _renew(self) -> None:
        try:
            login = await self._log_in()
            self._attempts, self._failure = self._attempts + 1, None
            self._take(login)
        except asyncio.CancelledError:
            self._put_off()  # or each request would begin, and end, what takes longer than it has
            raise
        except ConfigurationError as error:
            is_news, self._failure = self._failure is None, error
            self._attempts += 1
            if not self._put_off():
                raise
            if is_news:
                _log.warning("credentials cannot be renewed, they are good for now: %s", error)

    def _put_off(self) -> bool:
        """Renew the login a little later; tell whether it is good until then."""
        ends_at = self._still_good_until()
        if ends_at is not None:
            self._due_at = min(self._wall_clock() + _RETRY_SECONDS, ends_at)
        return ends_at is not None

    def _still_good_until(self) -> float | None:
        login = self._login
        if login is None or login.expires_at is None or self._is_refused:
            return None
        return login.expires_at if self._wall_clock() < login.expires_at else None

    def _take(self, login: Login) -> None:
        now = self._wall_clock()
        self._login, self._is_refused, self._due_at = login, False, None
        if login.expires_at is not None:
            life = login.expires_at - now
            margin = min(_MARGIN_SECONDS, max(life, 0.0) * _MARGIN_SHARE)
            self._due_at = max(login.expires_at - margin, now + _LEAST_SECONDS)
