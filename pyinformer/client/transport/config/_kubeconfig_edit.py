"""Write new tokens of an auth provider into the kubeconfig file that they came from.

Only the characters of these values change: comments, order and all other entries stay as they are.
The file is replaced as a whole, with its owner and its mode, so no reader sees half of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyinformer.client.transport.config._error_reasons import reason_of
from pyinformer.client.transport.config._kubeconfig_files import decoded, first_document, first_node
from pyinformer.errors import ConfigurationError

if TYPE_CHECKING:
    import yaml

_LOCK_TRIES: Final = 20
_LOCK_SECONDS: Final = 0.1  # kubectl holds its lock while it writes one file
_PATH: Final = ("user", "auth-provider", "config")


def write_provider_values(file: str, user: str, values: Mapping[str, str]) -> str:
    """Write values below `auth-provider: config` of a user; blocks while another program writes.

    Args:
        file: the kubeconfig file; a link is followed, and stays.
        user: the name of the user's entry in the file.
        values: keys and their new values, printable ASCII.

    Returns:
        Why nothing was written; empty if it was.
    """
    try:
        with _locked(file):
            path = Path(os.path.realpath(file))
            raw = path.read_bytes()
            text, encoding = decoded(raw)
            changed = _edited(file, text, user, values)
            if changed is None:
                return "the entry cannot be changed without changing others"
            if not os.access(path, os.W_OK):  # to rename over it needs no such right
                return "the file is read-only"
            _replace(path, changed.encode(encoding))
    except ConfigurationError as error:
        return error.reason
    except FileExistsError:
        return f"another program holds {file}.lock, or has left it behind"
    except (OSError, UnicodeError) as error:
        return reason_of(error)
    return ""


@contextlib.contextmanager
def _locked(file: str) -> Iterator[None]:
    """Hold kubectl's lock of a kubeconfig.

    Raises:
        OSError: another program holds it, or it cannot be created.

    Source:
        client-go tools/clientcmd/loader.go, lockFile.
    """
    lock, pause = f"{file}.lock", threading.Event()
    for tries in range(1, _LOCK_TRIES + 1):
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL, 0))
            break
        except FileExistsError:
            if tries == _LOCK_TRIES:
                raise
            pause.wait(_LOCK_SECONDS)
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            Path(lock).unlink()


def _replace(path: Path, content: bytes) -> None:
    """Replace a file with one of the same owner and mode.

    Raises:
        OSError: that is not possible; the file is as it was.
    """
    now = path.stat()
    handle, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "wb") as file:  # noqa: PTH123 - opens a file descriptor
            made = os.fstat(handle)
            if (made.st_uid, made.st_gid) != (now.st_uid, now.st_gid):
                os.chown(beside, now.st_uid, now.st_gid)
            Path(beside).chmod(stat.S_IMODE(now.st_mode))
            file.write(content)
            file.flush()
            os.fsync(handle)
        Path(beside).replace(path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise


def _edited(file: str, text: str, user: str, values: Mapping[str, str]) -> str | None:
    """Return a kubeconfig with new values; None if more than these would change.

    Raises:
        ConfigurationError: the text is not YAML.
    """
    before, root = first_document(file, text), first_node(file, text)
    after = before
    try:
        for key, value in values.items():
            config = _config_node(root, user)
            if config is None:
                return None
            text = _with_value(text, config, key, json.dumps(value))
            after, root = first_document(file, text), first_node(file, text)
    except ConfigurationError:  # such as an anchor that was part of the old value
        return None
    found = _config_of(after, user)
    if found is None or any(found.get(key) != value for key, value in values.items()):
        return None
    is_same = _without(before, user, values) == _without(after, user, values)
    return text if is_same else None


def _with_value(text: str, config: yaml.MappingNode, key: str, written: str) -> str:
    """Return the text with a value of a mapping, replaced or added."""
    found = [(name, value) for name, value in config.value if name.value == key]
    if found:
        name, value = found[-1]
        begin, end = value.start_mark.index, value.end_mark.index
        if value.style in {"|", ">"}:  # its end mark is behind what follows it
            end = _end_of_block(text, begin, name.start_mark.column)
        blank = "" if text[begin - 1 : begin].isspace() else " "  # `id-token:` without a value
        return f"{text[:begin]}{blank}{written}{text[end:]}"
    if config.flow_style:
        begin = text.index("{", config.start_mark.index) + 1
        return f"{text[:begin]}{json.dumps(key)}: {written}, {text[begin:]}"
    first = config.value[0][0].start_mark
    return f"{text[: first.index]}{key}: {written}\n{' ' * first.column}{text[first.index :]}"


def _end_of_block(text: str, begin: int, column: int) -> int:
    """Return the end of a block scalar, without its last line break.

    Args:
        text: the file.
        begin: where its `|` or `>` stands.
        column: that of its key; its lines are indented further.
    """
    lines = text[begin:].splitlines(keepends=True)
    end, place = len(lines[0].rstrip("\r\n")), len(lines[0])
    for line in lines[1:]:
        if line.strip():
            if len(line) - len(line.lstrip(" ")) <= column:
                break
            end = place + len(line.rstrip("\r\n"))
        place += len(line)
    return begin + end


def _config_node(root: yaml.Node | None, user: str) -> yaml.MappingNode | None:
    """Return the node of a user's `auth-provider: config`; None if there is none with keys."""
    import yaml

    users = _child(root, "users")
    for entry in users.value if isinstance(users, yaml.SequenceNode) else ():
        name = _child(entry, "name")
        if name is not None and name.value == user:
            node: yaml.Node | None = entry
            for key in _PATH:
                node = _child(node, key)
            return node if isinstance(node, yaml.MappingNode) and node.value else None
    return None


def _child(node: yaml.Node | None, key: str) -> yaml.Node | None:
    import yaml

    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for name, value in reversed(node.value) if name.value == key), None)


def _config_of(content: object, user: str) -> dict[str, Any] | None:
    """Return a user's `auth-provider: config` in a file's content."""
    found: Any = None
    for entry in _users_of(content):
        if isinstance(entry, dict) and entry.get("name") == user:
            found = entry
            break
    for key in _PATH:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None


def _users_of(content: object) -> list[Any]:
    users = content.get("users") if isinstance(content, dict) else None
    return users if isinstance(users, list) else []


def _without(content: object, user: str, values: Mapping[str, str]) -> object:
    """Return a file's content without these values of a user; everything else is kept."""
    config = _config_of(content, user)
    kept = {key: value for key, value in (config or {}).items() if key not in values}

    def replaced(value: Any, path: tuple[str, ...]) -> Any:  # noqa: ANN401 - YAML
        if not path:
            return kept
        return {**value, path[0]: replaced(value[path[0]], path[1:])}

    users, is_done = [], False
    for entry in _users_of(content):
        is_it = not is_done and isinstance(entry, dict) and entry.get("name") == user
        users.append(replaced(entry, _PATH) if is_it and config is not None else entry)
        is_done = is_done or is_it
    return {**content, "users": users} if isinstance(content, dict) else content
