"""The reasons that errors of this folder give: words of a fixed vocabulary.

A foreign exception may quote what it was given: a token, a key, a whole kubeconfig. Errors of this
folder therefore never contain the text of one, and never have one as their cause. A path or a URL
is shown, unless a secret may have been given in its place.
"""

from __future__ import annotations

import errno
import os
import re
import ssl
from typing import Final

_CONTENT: Final = "(not shown: it may be the content of a file)"
_LONGEST_PATH: Final = 255  # of what is shown; a key in base64 has 300 characters and more
_LONGEST_STEP: Final = 64  # a longer part of a path may be a key or a token
LONGEST_TOKEN_STEP: Final = 31
"""The same where a token is expected: a short one has 32 hexadecimal digits."""

_NO_FILE: Final = {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG}
_ENDS_URL: Final = re.compile(r"[?#{\r\n]")  # of what is shown: the rest may have a token


def is_content(path: str, *, longest_step: int = _LONGEST_STEP) -> bool:
    """Return whether the path of a file that does not exist may be the content of a file."""
    return (
        not path.isprintable()
        or len(path) > _LONGEST_PATH
        or path.startswith(("{", "-----BEGIN"))
        or any(len(step) > longest_step for step in re.split(r"[/\\]", path))
    )


def path_text(
    path: str, error: BaseException | None = None, *, longest_step: int = _LONGEST_STEP
) -> str:
    """Return a path for an error, or words in its place if it may be the content of a file.

    Args:
        path: as it was given.
        error: why the file cannot be used, which may say that it exists; None if it does not.
        longest_step: how many characters each part of a path may have.
    """
    is_absent = error is None or type(error) is ValueError  # has a null character
    if isinstance(error, OSError):
        is_absent = error.errno in _NO_FILE
    return _CONTENT if is_absent and is_content(path, longest_step=longest_step) else path


def url_text(url: str) -> str:
    """Return a URL for an error: without a login, and without a query, which may have a token."""
    login, at, host = url.rpartition("@")
    if _ENDS_URL.search(login):  # it may belong to a password, or the `@` to a query
        return "..."
    shown = f"...@{host}" if at else url
    end = _ENDS_URL.search(shown)
    return f"{shown[: end.start()]}..." if end else shown


def reason_of(error: BaseException) -> str:
    """Return what went wrong, by the number or the code of an error; its class if it has neither.

    Args:
        error: what the operating system, TLS or a library raised.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message or "the certificate cannot be verified"
    if isinstance(error, ssl.SSLError):
        return (error.reason or "").replace("_", " ").lower() or "TLS cannot read it"
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number else type(error).__name__
