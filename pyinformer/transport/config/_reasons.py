"""The reasons that errors of this folder give: words of a fixed vocabulary.

A foreign exception may quote what it was given: a token, a key, a whole kubeconfig. Errors of this
folder therefore never contain the text of one, and never have one as their cause.
"""

from __future__ import annotations

import os
import ssl


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
