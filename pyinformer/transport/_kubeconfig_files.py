"""Kubeconfig files in, one merged view out: as in kubectl, the first that sets a thing wins.

Every entry remembers the file that it came from, for relative paths and for errors. What an entry
says is checked when it is asked for, so that what nobody uses may be wrong; no error shows a value.
"""

from __future__ import annotations

import base64
import binascii
import codecs
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, final

from pyinformer.apimachinery import ConfigurationError

if TYPE_CHECKING:
    import yaml

_Entry: TypeAlias = Mapping[str, object]

LISTS: Final = ("clusters", "contexts", "users")
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_MAX_DEPTH: Final = 100  # of which a kubeconfig needs 6, and its extensions a few more
_MAX_VALUES: Final = 500_000  # 15,000 clusters with their contexts and users
_LONGEST_STEP = 64  # of a path, before it is taken for a key or a token that must not be shown


@final
@dataclass(frozen=True, slots=True)
class Section:
    """A named entry of a kubeconfig: a cluster, a context, or a user."""

    file: str
    """The file that it stands in."""

    where: str
    """What it is, and what leads to it: `context 'prod': users 'jane'`."""

    content: _Entry = field(repr=False)
    """What it says."""

    def problem(self, reason: str) -> ConfigurationError:
        """Return the error that says what is wrong here."""
        return ConfigurationError(self.file, f"{self.where}: {reason}")

    def text(self, key: str) -> str:
        """Return a text; empty if there is none.

        Raises:
            ConfigurationError: it is no text.
        """
        value = self.content.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.problem(f"{key}: is no text (put it in quotes)")
        return value

    def flag(self, key: str) -> bool:
        """Return a boolean; False if there is none.

        Raises:
            ConfigurationError: it is neither true nor false.
        """
        value = self.content.get(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        raise self.problem(f"{key}: is neither true nor false")

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts; empty if there is none.

        Raises:
            ConfigurationError: it is something else.
        """
        value = self.content.get(key) or []
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self.problem(f"{key}: is no list of texts")
        return tuple(value)

    def mapping(self, key: str) -> _Entry | None:
        """Return what stands below a key; None if nothing does.

        Raises:
            ConfigurationError: it has no keys.
        """
        value = self.content.get(key)
        if value is None or isinstance(value, dict):
            return value
        raise self.problem(f"{key}: is no mapping")

    def path(self, key: str) -> str:
        """Return the path of a file that is there, relative to this one; empty if none is named.

        Raises:
            ConfigurationError: there is no such file.
        """
        name = self.text(key)
        if not name:
            return ""
        path = Path(self.file).parent / name
        try:
            if path.is_file():
                return str(path)
        except OSError as error:  # no right to look, or longer than a name can be
            raise self.problem(f"{key}: {error.strerror}") from None
        if any(len(step) > _LONGEST_STEP for step in Path(name).parts):
            raise self.problem(f"{key}: names no file; is it what the file should hold?")
        raise self.problem(f"{key}: no such file: {path}")

    def file_content(self, key: str) -> bytes:
        """Return what a file that is named here holds; nothing if none is named.

        Raises:
            ConfigurationError: there is no such file, or it cannot be read.
        """
        name = self.path(key)
        try:
            return Path(name).read_bytes() if name else b""
        except OSError as error:
            raise self.problem(f"{key}: cannot be read: {error.strerror}") from None

    def data(self, key: str) -> str:
        """Return what is kept in base64, as text; empty if there is nothing.

        Raises:
            ConfigurationError: it is no base64.
        """
        encoded = self.text(key)
        try:
            content = base64.b64decode("".join(encoded.split()), validate=True)
        except (binascii.Error, ValueError):
            raise self.problem(f"{key}: is no base64 of a text") from None
        return content.decode("utf-8", "replace")  # remarks beside PEM may be in any encoding


@final
class KubeconfigFiles:
    """What several kubeconfig files say together.

    Args:
        files: their paths, of files that exist; the first that sets a thing wins.

    Raises:
        ConfigurationError: one cannot be read, or is no kubeconfig.
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
            name: which one; None for the current one.

        Raises:
            ConfigurationError: there is none, or none is current.
        """
        contexts = self._entries["contexts"]
        if name is None:
            file = self._current_context_file
            if not self.current_context:
                reason = f"has no current-context; name one of its contexts: {_names(contexts)}"
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
        return name, Section(file, f"context {name!r}", content)

    def referred(self, context: Section, kind: str, name: str) -> Section:
        """Return what a context refers to.

        Args:
            context: the context.
            kind: `clusters` or `users`.
            name: its name.

        Raises:
            ConfigurationError: there is no such entry.
        """
        entries = self._entries[kind]
        if name not in entries:
            raise context.problem(
                f"no entry named {name} in its {kind}; there are: {_names(entries)}"
            )
        file, content = entries[name]
        return Section(file, f"{context.where}: {kind} {name!r}", content)

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
    import yaml

    try:
        raw = Path(file).read_bytes()
        # PowerShell's `>` writes UTF-16, and kubectl reads it.
        text = raw.decode("utf-16" if raw[:2] in _UTF_16 else "utf-8-sig")
        # The quick loader, where PyYAML was built with it; both make plain values only.
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        _check_shape(file, yaml.parse(text, loader))
        content = yaml.load(text, loader)  # noqa: S506 - a safe one
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        last = text.rstrip().count("\n")  # what was not closed is missed behind the end
        line = f" (line {min(mark.line, last) + 1})" if mark else ""
        raise ConfigurationError(file, f"is no YAML{line}") from None  # its words quote the file
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise ConfigurationError(file, f"cannot be read: {reason}") from error
    if content is None and may_be_empty:
        return {}
    if not isinstance(content, dict):
        raise ConfigurationError(file, "is no kubeconfig with clusters, contexts and users")
    return content


def _check_shape(file: str, events: Iterable[yaml.Event]) -> None:
    """Refuse what would end the process if it were loaded: deep nesting, and aliases of aliases.

    The loader is recursive, in C, and copies what merge keys name: forty short lines may become
    more values than there is memory.

    Raises:
        ConfigurationError: it is nested too deep, or has too many values once aliases are replaced.
    """
    import yaml

    sizes: dict[str, int] = {}
    open_ones: list[tuple[str | None, int]] = [(None, 0)]  # the anchor, and the size so far
    for event in events:
        size = 0
        if isinstance(event, yaml.CollectionStartEvent):
            open_ones.append((event.anchor, 1))
        elif isinstance(event, yaml.AliasEvent):
            size = sizes.get(event.anchor or "", 1)
        elif isinstance(event, yaml.ScalarEvent):
            size = 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size = open_ones.pop()
            if anchor is not None:
                sizes[anchor] = size
        anchor, before = open_ones[-1]
        open_ones[-1] = (anchor, before + size)
        _check_limits(file, len(open_ones), before + size)


def _check_limits(file: str, depth: int, size: int) -> None:
    if depth > _MAX_DEPTH:
        reason = f"must not be nested deeper than {_MAX_DEPTH} levels; no kubeconfig is"
        raise ConfigurationError(file, reason)
    if size > _MAX_VALUES:
        reason = f"must not have more than {_MAX_VALUES} values, those of its aliases included"
        raise ConfigurationError(file, reason)


def _list_of(file: str, content: _Entry, kind: str) -> list[object]:
    found = content.get(kind)
    if found is None:
        return []
    if not isinstance(found, list):
        raise ConfigurationError(file, f"{kind}: is no list of named entries")
    return found


def _named(file: str, kind: str, entry: object) -> tuple[str, _Entry]:
    name = entry.get("name") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(name, str) or not name:
        raise ConfigurationError(file, f"{kind}: an entry has no name")
    inner = entry.get(kind.removesuffix("s"))
    if inner is not None and not isinstance(inner, dict):
        raise ConfigurationError(file, f"{kind} {name!r}: {kind.removesuffix('s')} is no mapping")
    return name, inner or {}


def _names(entries: Mapping[str, object]) -> str:
    return ", ".join(sorted(entries)) or "none"
