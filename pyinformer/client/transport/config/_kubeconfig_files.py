"""Merge kubeconfig files: as in kubectl, the first file that sets a value wins.

Every entry knows its file, for relative paths and for errors. A value is checked when it is read,
so an entry that is not used may be malformed. No error shows a value.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import base64
import binascii
import codecs
import errno
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, cast, final

from pyinformer.client.transport.config._error_reasons import (
    LONGEST_TOKEN_STEP,
    is_content,
    reason_of,
)
from pyinformer.errors import ConfigurationError

if TYPE_CHECKING:
    import yaml

_Entry: TypeAlias = Mapping[str, object]

_IDENTITY: Final = {"apiVersion": "v1", "kind": "Config"}  # or absent, as kubectl has it
LISTS: Final = ("clusters", "contexts", "users")
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_MAX_DEPTH: Final = 100  # of which a kubeconfig needs 6, and its extensions a few more
_MAX_VALUES: Final = 500_000  # 15,000 clusters with their contexts and users


@final
@dataclass(frozen=True, slots=True)
class Section:
    """A named entry of a kubeconfig: a cluster, a context, or a user."""

    file: str
    """The file that holds it."""

    where: str
    """Its kind and name, and the context that refers to it: `context 'prod': users 'jane'`."""

    content: _Entry = field(repr=False)
    """Its keys and values."""

    name: str = ""
    """Its name in the file."""

    def problem(self, reason: str) -> ConfigurationError:
        """Return the error for a problem in this entry."""
        return ConfigurationError(self.file, f"{self.where}: {reason}")

    def text(self, key: str) -> str:
        """Return a string; empty if the key is absent.

        Raises:
            ConfigurationError: the value is not a string.
        """
        value = self.content.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.problem(f"{key}: must be a string (put it in quotes)")
        return value

    def flag(self, key: str) -> bool:
        """Return a boolean; False if the key is absent.

        Raises:
            ConfigurationError: the value is neither true nor false.
        """
        value = self.content.get(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        raise self.problem(f"{key}: must be true or false")

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings; empty if the key is absent.

        Raises:
            ConfigurationError: the value is not a list of strings.
        """
        value = self.content.get(key)
        value = [] if value is None else value
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self.problem(f"{key}: must be a list of strings (put numbers in quotes)")
        return tuple(value)

    def mapping(self, key: str) -> _Entry | None:
        """Return the mapping below a key; None if the key is absent.

        Raises:
            ConfigurationError: the value is not a mapping.
        """
        value = self.content.get(key)
        if value is None or isinstance(value, dict):
            return value
        raise self.problem(f"{key}: must be a mapping")

    def path(self, key: str) -> str:
        """Return the path of an existing file; empty if the key is absent.

        A relative path is relative to the folder of this kubeconfig.

        Raises:
            ConfigurationError: the file does not exist.
        """
        name = self.text(key)
        if not name:
            return ""
        path = Path(self.file).parent / name
        try:
            if path.is_file():
                return str(path)
        except OSError as error:  # such as no permission; the content of a file is too long
            if error.errno != errno.ENAMETOOLONG:
                raise self.problem(f"{key}: {error.strerror}") from None
        if is_content(name, longest_step=LONGEST_TOKEN_STEP):
            raise self.problem(f"{key}: must name a file; is it the content of the file?")
        raise self.problem(f"{key}: no such file: {path}")

    def check_alternatives(self, key: str) -> None:
        """Refuse a key that is given both as a path and as data, as kubectl.

        Raises:
            ConfigurationError: as described.
        """
        if self.text(key) and self.text(f"{key}-data"):
            raise self.problem(f"{key}: must not be beside {key}-data")

    def file_content(self, key: str) -> bytes:
        """Return the content of the file that a key names; empty if the key is absent.

        Raises:
            ConfigurationError: the file does not exist, or cannot be read.
        """
        name = self.path(key)
        try:
            return Path(name).read_bytes() if name else b""
        except OSError as error:
            raise self.problem(f"{key}: cannot be read: {error.strerror}") from None

    def data(self, key: str) -> str:
        """Return the text of a base64 value; empty if the key is absent.

        Raises:
            ConfigurationError: the value is not base64.
        """
        encoded = self.text(key)
        try:
            content = base64.b64decode("".join(encoded.split()), validate=True)
        except (binascii.Error, ValueError):
            raise self.problem(f"{key}: must be base64") from None
        return content.decode("utf-8", "replace")  # remarks beside PEM may be in any encoding


@final
class KubeconfigFiles:
    """The merged contexts, clusters and users of several kubeconfig files.

    Args:
        files: the paths of existing files; the first that sets a value wins.

    Raises:
        ConfigurationError: a file cannot be read, or is not a kubeconfig.
    """

    def __init__(self, files: list[str]) -> None:
        self.files = files
        self.current_context = ""
        self._current_context_file = files[0]
        self._entries: dict[str, dict[str, tuple[str, _Entry]]] = {name: {} for name in LISTS}
        for file in dict.fromkeys(files):
            self._merge(file, _read(file, may_be_empty=len(files) > 1))

    def context(self, name: str | None) -> tuple[str, Section]:
        """Return a context and its name.

        Args:
            name: the context; None for the current one.

        Raises:
            ConfigurationError: there is no such context, or no current one.
        """
        contexts = self._entries["contexts"]
        if name is None:
            file = self._current_context_file
            if not self.current_context:
                reason = f"current-context is missing; name one of the contexts: {_names(contexts)}"
                raise ConfigurationError(file, reason)
            if self.current_context not in contexts:
                reason = (
                    f"current-context: no entry named {self.current_context} in its contexts;"
                    f" there are: {_names(contexts)}"
                )
                raise ConfigurationError(file, reason)
            name = self.current_context
        if name not in contexts:
            reason = f"has no context {name!r}; there are: {_names(contexts)}"
            raise ConfigurationError(":".join(self.files), reason)
        file, content = contexts[name]
        return name, Section(file, f"context {name!r}", content, name)

    def referred(self, context: Section, kind: str, name: str) -> Section:
        """Return the cluster or the user that a context refers to.

        Args:
            context: the context.
            kind: `clusters` or `users`.
            name: the name of the entry.

        Raises:
            ConfigurationError: there is no such entry.
        """
        entries = self._entries[kind]
        if name not in entries:
            raise context.problem(
                f"no entry named {name} in its {kind}; there are: {_names(entries)}"
            )
        file, content = entries[name]
        return Section(file, f"{context.where}: {kind} {name!r}", content, name)

    def has_entry(self, kind: str, name: str) -> bool:
        """Return whether there is such an entry; one without a name has the name ""."""
        return name in self._entries[kind]

    def _merge(self, file: str, content: _Entry) -> None:
        current = content.get("current-context")
        if current and not self.current_context:
            self.current_context, self._current_context_file = str(current), file
        for kind in LISTS:
            found: dict[str, tuple[str, _Entry]] = {}
            for entry in _list_of(file, content, kind):
                name, inner = _named(file, kind, entry)
                if name in found:
                    raise ConfigurationError(file, f"{kind}: two entries are named {name!r}")
                found[name] = (file, inner)
            for name, one in found.items():
                self._entries[kind].setdefault(name, one)


def _read(file: str, *, may_be_empty: bool) -> _Entry:
    try:
        text, _ = decoded(Path(file).read_bytes())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(file, f"cannot be read: {reason_of(error)}") from None
    content = first_document(file, text)
    if content is None and may_be_empty:
        return {}
    if not isinstance(content, dict):
        raise ConfigurationError(file, "is not a kubeconfig with clusters, contexts and users")
    for key, usual in _IDENTITY.items():
        if (found := content.get(key)) not in (None, "", usual):
            raise ConfigurationError(
                file, f"{key}: is {found!r:.60}; that of a kubeconfig is {usual!r}"
            )
    return content


def decoded(raw: bytes) -> tuple[str, str]:
    """Return a file's text and its encoding; PowerShell's `>` writes UTF-16, and kubectl reads it.

    Raises:
        UnicodeDecodeError: the file is not text.
    """
    if raw.startswith(_UTF_16):
        encoding = "utf-16"
    else:
        encoding = "utf-8-sig" if raw.startswith(codecs.BOM_UTF8) else "utf-8"
    return raw.decode(encoding), encoding


def first_document(file: str, text: str) -> object:
    """Return the content of the first YAML document, as kubectl; None if it is empty.

    What follows that document is not read.

    Args:
        file: the file, for errors.
        text: its text.

    Raises:
        ConfigurationError: the document is not YAML, or too deep or too large to be loaded.
    """
    from pyinformer.objects import YAMLError, YAMLLimitError, load_yaml

    try:
        content: object = load_yaml(text, max_depth=_MAX_DEPTH, max_values=_MAX_VALUES)
    except YAMLLimitError as error:
        raise ConfigurationError(file, error.problem) from None
    except YAMLError as error:  # what the parser says may quote the file
        line = f" (line {error.line})" if error.line else ""
        raise ConfigurationError(file, f"is not YAML{line}") from None
    return content


def first_node(file: str, text: str) -> yaml.Node | None:
    """Return the node of the first YAML document, with its place in the text.

    Args:
        file: the file, for errors.
        text: a text that `first_document` has read, so that it is neither too deep nor too large.

    Raises:
        ConfigurationError: an anchor has two values, which Go reads and PyYAML does not.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        return cast("yaml.Node", loader.get_node()) if loader.check_node() else None
    except yaml.YAMLError:
        raise ConfigurationError(file, "must not use an anchor twice") from None
    finally:
        loader.dispose()


def _list_of(file: str, content: _Entry, kind: str) -> list[object]:
    found = content.get(kind)
    if found is None:
        return []
    if not isinstance(found, list):
        raise ConfigurationError(file, f"{kind}: must be a list of named entries")
    return found


def _named(file: str, kind: str, entry: object) -> tuple[str, _Entry]:
    entry = {} if entry is None else entry
    name = (entry.get("name") or "") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(name, str):
        reason = f"{kind}: an entry must be a mapping with a name (put numbers in quotes)"
        raise ConfigurationError(file, reason)
    inner = entry.get(kind.removesuffix("s"))
    if inner is not None and not isinstance(inner, dict):
        raise ConfigurationError(
            file, f"{kind} {name!r}: {kind.removesuffix('s')} must be a mapping"
        )
    return name, inner or {}


def _names(entries: Mapping[str, object]) -> str:
    return ", ".join(sorted(filter(None, entries))) or "none"
