"""What is fuzzed: readers of bytes that a stranger wrote, each beside a plain reader of the whole.

A target gets any bytes. It raises AssertionError where the two readers differ, and lets through an
error that the reader does not promise; both are findings.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from pyinformer.cache.recording import Mask, read_recording
from pyinformer.client.transport import (
    LineSplitter,
    ListMetadata,
    ListSplitter,
    find_config,
    read_frame,
)
from pyinformer.errors import (
    ConfigurationError,
    InvalidObjectError,
    InvalidSelectorError,
    ProtocolError,
    RecordingFormatError,
)
from pyinformer.objects import (
    FieldSelector,
    GroupVersionResource,
    LabelSelector,
    ObjectCodec,
    YAMLError,
    dump_yaml,
    json_as_yaml,
    json_for_yaml,
    load_yaml,
    masked,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

Target: TypeAlias = Callable[[bytes], None]

_PODS: Final = GroupVersionResource.of("v1", "pods")
_SHORT: Final = 64  # chunks this short cut everything that there is
_FOLDER: Final = Path(tempfile.mkdtemp(prefix="pyinformer-fuzz-"))


def whole(text: bytes) -> Any:
    """Return what a plain reader of JSON reads; `...` for what it refuses.

    Python's own, and so not ours: a number that is not finite is not JSON, and a text that is
    nested too deeply, or not UTF-8, is refused by each of ours.
    """
    try:
        return json.loads(text.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return ...


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _with_whole_characters(value: Any) -> Any:
    """Return a value with U+FFFD for each half of a character, as Go reads it, and our reader."""
    match value:
        case str():
            return re.sub("[\ud800-\udfff]", "\ufffd", value)
        case list():
            return [_with_whole_characters(one) for one in value]
        case dict():
            return {
                _with_whole_characters(name): _with_whole_characters(one)
                for name, one in value.items()
            }
    return value


def _chunks(data: bytes) -> Iterator[bytes]:
    """Cut the data by its own first byte: the fuzzer chooses the cuts."""
    size, body = data[0] % _SHORT + 1, data[1:]
    for begin in range(0, len(body), size):
        yield body[begin : begin + size]


def split_list(data: bytes) -> None:
    """A list in chunks has the items and the metadata of its whole body."""
    if not data:
        return
    items: list[Any] = []
    splitter = ListSplitter(
        lambda buffer, begin, end: items.append(whole(bytes(buffer[begin:end]))), what="list"
    )
    try:
        for chunk in _chunks(data):
            splitter.feed(chunk)
        found: ListMetadata = splitter.finish()
    except (ProtocolError, InvalidObjectError):
        return
    if not _is_text(data[1:]):
        return  # what is not text stays in the items, whose readers refuse it
    body = whole(data[1:])
    assert body is not ..., "a body that is not JSON was read"
    assert items == (body.get("items") or []), "other items"
    meta = body.get("metadata") or {}
    assert found.kind == (body.get("kind") or ""), "another kind"
    assert found.resource_version == (meta.get("resourceVersion") or ""), "another version"
    assert found.continue_token == (meta.get("continue") or ""), "another place to continue"


def split_lines(data: bytes) -> None:
    """The lines of a stream are those of its whole body, and the rest is pending."""
    if not data:
        return
    lines: list[bytes] = []
    splitter = LineSplitter(lambda buffer, begin, end: lines.append(bytes(buffer[begin:end])))
    for chunk in _chunks(data):
        splitter.feed(chunk)
    *ended, rest = data[1:].split(b"\n")
    assert lines == [line for line in ended if line]
    assert splitter.pending_bytes == len(rest)


def frame_of_event(data: bytes) -> None:
    """The frame of a line is its type and its object, however it is read."""
    try:
        kind, text, begin, end = read_frame(data, 0, len(data))
    except ProtocolError:
        return
    line, body = whole(data), whole(bytes(text[begin:end]))
    if not isinstance(line, dict) or set(line) != {"type", "object"} or body is ...:
        return  # what is not an object is refused by its reader
    assert (kind, body) == (line["type"], line["object"])


def decode_object(data: bytes) -> None:
    """A decoded object says what its JSON says, without its managedFields."""
    body = _with_whole_characters(whole(data))
    for size in (None, len(data) // 2):  # in an immutable and in a mutable buffer
        buffer = data if size is None else bytearray(data)
        codec: ObjectCodec[None] = ObjectCodec(_PODS)
        try:
            found = codec.decode(buffer, 0, len(buffer))
        except InvalidObjectError:
            continue
        if not _is_text(data):
            with contextlib.suppress(InvalidObjectError):
                found.to_dict()
            continue
        assert isinstance(body, dict), "what is not an object was read"
        assert found.metadata.name == body["metadata"]["name"]
        if not found.problem:
            meta = {k: v for k, v in body["metadata"].items() if k != "managedFields"}
            kept = {name: each for name, each in found.to_dict().items() if name != "metadata"}
            wanted = {name: each for name, each in body.items() if name != "metadata"}
            filled = {"apiVersion": "v1", "kind": kept.get("kind")}
            assert kept in (wanted, {**filled, **wanted}), "another object"
            assert found.to_dict()["metadata"] == meta, "other metadata"


def mask_line(data: bytes) -> None:
    """A recorded line hides what the whole event hides, and is one line."""
    for resource in (_PODS, GroupVersionResource.of("v1", "secrets")):
        shown = Mask(resource).line(data)
        event = whole(data)
        if (
            shown is None
            or event is ...
            or (isinstance(event, dict) and event.get("type") == "ERROR")
        ):
            continue
        kind = "Secret" if resource.resource == "secrets" else ""
        assert whole(shown) == masked(event, kind=kind), "something is shown"


def recording(data: bytes) -> None:
    """A recording is read, or refused as damaged; its entries are those of its lines."""
    path = _FOLDER / f"recording-{os.getpid()}"
    path.write_bytes(data)
    try:
        found = read_recording(path)
    except RecordingFormatError:
        return
    lines = data.split(b"\n")[1:-1]
    assert len(found.entries) == len(lines)
    for entry, line in zip(found.entries, lines, strict=True):
        plain = whole(line)
        if isinstance(plain, dict):
            assert math.isclose(entry.at_seconds, plain.get("t") or 0, abs_tol=1e-9)


def kubeconfig(data: bytes) -> None:
    """A kubeconfig from a stranger is used, or refused with a typed error; nothing is executed."""
    path = _FOLDER / f"kubeconfig-{os.getpid()}"
    path.write_bytes(data)
    reading = find_config(path, policy="data-only", trust_env=False, environ={}, home=_FOLDER)
    try:
        config = asyncio.run(reading)
    except ConfigurationError as error:
        _check_words(error)
        return
    assert config.server.lower().startswith(("https://", "http://"))


def apply_yaml(data: bytes) -> None:
    """YAML that was read is written as YAML and JSON that are read as the same value."""
    try:
        value = load_yaml(data, max_values=10_000)
    except YAMLError:
        return
    plain = whole(data)
    if isinstance(plain, dict) and b"\\ud" not in data.lower():  # half of a surrogate pair
        assert _same(value, plain), "JSON was read as another value"
    raw = msgspec.json.encode(value)
    assert _same(load_yaml(json_for_yaml(raw)), value), "JSON for YAML"
    assert _same(load_yaml(json_as_yaml(raw)), value), "one line of YAML"
    assert _same(load_yaml(dump_yaml(value)), value), "printed YAML"


def selectors(data: bytes) -> None:
    """A selector that was read is written as a text that is read as the same selector."""
    text = data.decode("utf-8", "replace")
    for kind in (LabelSelector, FieldSelector):
        try:
            found = kind.parse(text)
        except InvalidSelectorError as error:
            _check_words(error)
            continue
        assert kind.parse(str(found)) == found


TARGETS: Final[dict[str, Target]] = {
    "list": split_list,
    "lines": split_lines,
    "event": frame_of_event,
    "object": decode_object,
    "mask": mask_line,
    "recording": recording,
    "kubeconfig": kubeconfig,
    "yaml": apply_yaml,
    "selectors": selectors,
}

_POD: Final = (
    b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"b","uid":"u",'
    b'"resourceVersion":"7","labels":{"x":"\\u00e9"},"managedFields":[{"manager":"m","fieldsV1":'
    b'{"f:data":{}}}]},"spec":{"n":[1,2.5,null,true]}}'
)
_SECRET: Final = (
    b'{"type":"MODIFIED","object":{"kind":"Secret","metadata":{"name":"s","annotations":'
    b'{"x/last-applied":"{}"}},"data":{"k":"aHVudGVyMg=="}}}'
)
_RECORDING: Final = (
    b'{"pyinformer_recording":1,"pyinformer":"0.1.0","started_at":"2026-11-27T00:03:34+00:00","api_version":"v1",'
    b'"plural":"pods","namespaces":null,"label_selector":"","field_selector":"","memory":"raw",'
    b'"has_transform":false,"options":{"page_size":500},"redacted":[],"file_number":1}\n'
    b'{"t":0.1,"request":1,"path":"/api/v1/pods","snapshot":true}\n{"t":0.1,"of":1,"item":{}}\n'
    b'{"t":0.2,"of":1,"end":"ended"}\n{"t":1.0,"of":2,"line":{"type":"ADDED"}}\n{"t":2,"stop":true}\n'
)
_KUBECONFIG: Final = (
    b"apiVersion: v1\nkind: Config\ncurrent-context: c\n"
    b"contexts: [{name: c, context: {cluster: k, user: u, namespace: ns}}]\n"
    b"clusters:\n- name: k\n  cluster: {server: 'https://a.example/x', tls-server-name: b}\n"
    b"users:\n- name: u\n  user: {token: abc}\n"
)
_YAML: Final = (
    b"a: &x {b: [1, 0x1f, 1e3, y, ~, '2']}\nc: *x\n? d\n: |\n  text\n<<: {e: .inf}\n---\nf: 1\n"
)
SEEDS: Final[dict[str, tuple[bytes, ...]]] = {
    "list": (
        b'\x07{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5","continue":"c"},'
        b'"items":[' + _POD + b"," + _POD + b"]}",
        b'\x01{"apiVersion":"v1","items":[{"metadata":{"name":"x"}}],"kind":"L","metadata":null}\n',
        b'\x20{ "items" : null , "metadata" : { "resourceVersion" : "1" } }',
    ),
    "lines": (b'\x02{"a":1}\n\n{"b":"\xc3\xa9"}\r\nrest', b"\x00\n"),
    "event": (b'{"type":"ADDED","object":' + _POD + b"}", b'{"object":{},"type":"X"}', _SECRET),
    "object": (_POD, b'{"metadata":{"name":"a"},"items":[[[{}]]]}'),
    "mask": (_SECRET, b'{"type":"ADDED","object":' + _POD + b"}"),
    "recording": (_RECORDING,),
    "kubeconfig": (_KUBECONFIG,),
    "yaml": (_YAML, _POD),
    "selectors": (b"app=web,tier in (a,b),!canary,weight>5", b"metadata.name=a,spec.x!=b\\,c"),
}
"""What each target begins with, so that a fuzzer without a corpus finds the way in."""


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _check_words(error: Exception) -> None:
    assert str(error).isprintable(), "an error is not one printable line"


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are equal, with 1 and 1.0 apart only where JSON has them apart."""
    return bool(one == other) or (
        isinstance(one, float)
        and isinstance(other, float)
        and math.isnan(one)
        and math.isnan(other)
    )
