"""A plugin for pytest: oscrypto, which kopf makes certificates with, then accepts OpenSSL 3.0.19.

The released oscrypto looks for a version of three single digits. kopf's own suite installs a commit
of oscrypto instead, which no package index has.
"""

import importlib
import re
from unittest import mock

_search = re.search
_SINGLE_DIGITS = r"\b(\d\.\d\.\d[a-z]*)\b"


def _search_versions(pattern: str, string: str, flags: int = 0) -> re.Match[str] | None:
    """Search for numbers where oscrypto searches for digits."""
    return _search(
        r"\b(\d+\.\d+\.\d+[a-z]*)\b" if pattern == _SINGLE_DIGITS else pattern, string, flags
    )


with mock.patch("re.search", _search_versions):
    importlib.import_module("certbuilder")  # it imports oscrypto
