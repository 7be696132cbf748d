"""No secret is written to a recording, and what hides it has the same keys and sizes."""

from __future__ import annotations

import base64
import json
import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyinformer.cache.recording import Mask, RecordingWriter
from pyinformer.cache.recording._line_buffer import LineBuffer
from pyinformer.cache.recording._writer import Contents, Ended, NextFile, Opened
from pyinformer.objects import GroupVersionResource
from tests.soak import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_PODS = GroupVersionResource.of("v1", "pods")
_SECRETS = GroupVersionResource.of("v1", "secrets")
_MAPS = GroupVersionResource.of("v1", "configmaps")
_SECRET = "hunter2hunter2"
_ENCODED = base64.b64encode(_SECRET.encode()).decode()
_LAST_HANDLED = "kopf.zalando.org/last-handled-configuration"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def _secret(**more: Any) -> dict[str, Any]:
    metadata = {"name": "a", "namespace": "default", "resourceVersion": "7", "uid": "u"}
    return {"kind": "Secret", "apiVersion": "v1", "metadata": metadata, **more}


def _event(obj: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"type": "MODIFIED", "object": obj})


def _escaped(text: bytes) -> bytes:
    """Write each letter of the JSON as an escape, as a hostile server may."""
    found = text.decode()
    for word in ("Secret", "last-applied", "annotations"):
        found = found.replace(word, "".join(f"\\u{ord(one):04x}" for one in word))
    return found.encode()


def _line(mask: Mask, text: bytes) -> bytes:
    found = mask.line(text)
    assert found is not None
    return found


@pytest.mark.parametrize("field", ["data", "stringData"])
@pytest.mark.parametrize("resource", [_SECRETS, _PODS], ids=["secrets", "pods"])
@pytest.mark.parametrize("is_escaped", [False, True], ids=["plain", "escaped"])
def test_values_of_a_secret_are_hidden_and_its_keys_and_sizes_kept(
    field: str, resource: GroupVersionResource, *, is_escaped: bool
) -> None:
    text = _event(_secret(**{field: {"password": _ENCODED, "user": _SECRET}}))
    text = _escaped(text) if is_escaped else text

    found = _line(Mask(resource), text)

    assert _ENCODED.encode() not in found
    assert _SECRET.encode() not in found
    shown = msgspec.json.decode(found)["object"]
    assert shown["metadata"] == _secret()["metadata"]
    sizes = {name: len(value) for name, value in shown[field].items()}
    assert sizes == {"password": len(_ENCODED), "user": len(_SECRET)}
    assert base64.b64decode(shown[field]["password"])  # still base64


def test_secrets_inside_of_a_list_object_are_hidden() -> None:
    items = [_secret(data={"password": _ENCODED})]
    text = _event({"kind": "List", "metadata": {}, "items": items})

    assert _ENCODED.encode() not in _line(Mask(_PODS), text)


def test_items_of_a_list_of_secrets_that_name_no_kind_are_hidden() -> None:
    item = {"metadata": {"name": "a"}, "data": {"password": _ENCODED}}

    found = Mask(_PODS).item(msgspec.json.encode(item), "SecretList")

    assert found is not None
    assert _ENCODED.encode() not in found


def test_a_copy_of_what_was_applied_is_hidden_in_any_object() -> None:
    pod = {"kind": "Pod", "metadata": {"annotations": {_LAST_APPLIED: _SECRET, "team": "blue"}}}

    found = _line(Mask(_PODS), _event(pod))

    assert _SECRET.encode() not in found
    annotations = msgspec.json.decode(found)["object"]["metadata"]["annotations"]
    assert annotations == {_LAST_APPLIED: "A" * len(_SECRET), "team": "blue"}


def test_a_line_without_secrets_is_kept_as_it_arrived() -> None:
    fields: dict[str, Any] = {"f:metadata": {"f:annotations": {f"f:{_LAST_APPLIED}": {}}}}
    pod = {"kind": "Pod", "metadata": {"managedFields": [{"fieldsV1": fields}]}, "spec": "<&>"}
    text = _event(pod).replace(b":{", b": {").replace(b"<&>", rb"\u003c\u0026\u003e")

    assert _line(Mask(_PODS), text) == text


def test_an_item_of_several_lines_is_kept_as_one_line() -> None:
    pod = {"metadata": {"name": "a"}, "spec": {"text": "a\nb"}}
    text = msgspec.json.format(msgspec.json.encode(pod), indent=2)

    assert Mask(_PODS).item(text, "PodList") == msgspec.json.encode(pod)


def test_only_metadata_of_a_redacted_kind_is_kept() -> None:
    mask = Mask(_MAPS, ["ConfigMap"])
    item = {"metadata": {"name": "a"}, "data": {"key": _SECRET}, "immutable": True}

    found = mask.item(msgspec.json.encode(item), "ConfigMapList")

    assert found is not None
    hidden = {"data": {"key": "A" * len(_SECRET)}, "immutable": True}
    assert msgspec.json.decode(found) == {"metadata": {"name": "a"}, **hidden}


@pytest.mark.parametrize("resource", [_SECRETS, _MAPS])
def test_an_item_before_the_kind_of_its_list_is_hidden(resource: GroupVersionResource) -> None:
    mask = Mask(resource, () if resource == _SECRETS else ["ConfigMap"])

    found = mask.item(msgspec.json.encode({"data": {"key": _SECRET}}), "")

    assert found is not None
    assert msgspec.json.decode(found) == {"data": {"key": "A" * len(_SECRET)}}


@pytest.mark.parametrize("kind", [{}, {"kind": ""}, {"kind": None}], ids=["none", "empty", "null"])
def test_an_object_of_a_watch_that_names_no_kind_is_hidden(kind: dict[str, Any]) -> None:
    obj = {**kind, "metadata": {"name": "a"}, "data": {"key": _SECRET}}

    for resource, kinds in ((_MAPS, ["ConfigMap"]), (_SECRETS, [])):
        found = msgspec.json.decode(_line(Mask(resource, kinds), _event(obj)))
        assert found == {"type": "MODIFIED", "object": {**obj, "data": {"key": "A" * len(_SECRET)}}}


def test_an_item_is_hidden_that_has_a_field_of_watch_events() -> None:
    item = {"metadata": {"name": "a"}, "data": {"key": _SECRET}, "object": {"key": _SECRET}}

    found = Mask(_MAPS, ["ConfigMap"]).item(msgspec.json.encode(item), "ConfigMapList")

    assert found is not None
    assert _SECRET.encode() not in found


@pytest.mark.parametrize("kinds", [[], ["Secret"]], ids=["default", "redacted"])
def test_the_code_of_an_error_event_is_kept(kinds: list[str]) -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired"}

    assert msgspec.json.decode(_line(Mask(_SECRETS, kinds), _event(status)))["object"] == status


@pytest.mark.parametrize("text", [b'"hunter2"', b'{"password":"hunter2"}', b'{"object":"hunter2"}'])
def test_a_line_that_is_no_event_is_not_kept_where_each_is_looked_at(text: bytes) -> None:
    assert Mask(_SECRETS).line(text) is None
    assert Mask(_MAPS, ["ConfigMap"]).line(text) is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b'{"type":"MODIFIED","object":{"kind":"Secret","data":{"a":"hun', id="cut"),
        pytest.param(b'{"kind":"Secret","data":{"a":"\xff"}}', id="not-utf-8"),
        pytest.param(b'{"kind":"Secret","data":' + b"[" * 5000, id="deep"),
    ],
)
def test_a_line_that_cannot_be_read_is_not_kept(text: bytes) -> None:
    assert Mask(_SECRETS).line(text) is None
    assert Mask(_PODS).line(text) is None


def test_an_error_event_of_secrets_quotes_nothing() -> None:
    words = f"unable to decode {_SECRET}"
    details = {"causes": [{"reason": "Invalid", "message": words}]}
    status = {"kind": "Status", "code": 500, "message": words, "details": details}
    text = msgspec.json.encode({"type": "ERROR", "object": status})

    found = _line(Mask(_SECRETS), text)

    assert _SECRET.encode() not in found
    assert msgspec.json.decode(found)["object"]["code"] == 500


_names = st.text(max_size=5) | st.sampled_from(["kind", "data", "metadata", "items", "object"])
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=6,
)
_values = st.recursive(
    st.just(_SECRET),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_names, inner, max_size=2),
    max_leaves=4,
)


@st.composite
def _carriers(draw: st.DrawFn) -> bytes:
    """Return JSON with a secret value anywhere in it."""
    if draw(st.booleans()):
        hidden = {"kind": "Secret", draw(st.sampled_from(["data", "stringData"])): draw(_values)}
    else:
        name = draw(
            st.sampled_from(
                [_LAST_APPLIED, _LAST_HANDLED, "x.io/last-applied", "original", "a/applied"]
            )
        )
        hidden = {"metadata": {"annotations": {name: draw(_values)}}}
    found: Any = {
        **draw(st.dictionaries(_names.filter(lambda x: x not in hidden), _json)),
        **hidden,
    }
    for _ in range(draw(st.integers(0, 3))):
        name = draw(st.sampled_from(["items", "object", "spec", "x"]))
        found = {name: [found] if draw(st.booleans()) else found}
    text = msgspec.json.encode(found)
    if draw(st.booleans()):
        text = msgspec.json.format(text, indent=draw(st.integers(1, 2)))
    return _escaped(text) if draw(st.booleans()) else text


@given(_carriers())
@settings(max_examples=examples(150))
def test_a_line_with_a_secret_is_suspect_among_others(text: bytes) -> None:
    mask, buffer = Mask(_PODS), LineBuffer(10_000)
    line = text.replace(b"\n", b" ")
    for one in (b"{}", line, b"[]"):
        assert buffer.add(b"", one, 0, len(one))

    middle = (3 + 1, 3 + 1 + len(line) + 2)
    assert mask.suspects(buffer) == [middle] or mask.is_clean(line)


@pytest.mark.parametrize("escapes", [3, 100], ids=["few escapes", "many escapes"])
def test_an_escaped_letter_is_found_among_harmless_escapes(escapes: int) -> None:
    harmless = b'{"a":"' + b"\\u003c\\u003e\\u0026" * escapes + b'"}'
    suspect = harmless[:-2] + b'\\u0053"}'
    buffer = LineBuffer(10_000)
    for one in (harmless, suspect, harmless):
        assert buffer.add(b"", one, 0, len(one))

    start = len(harmless) + 2
    assert Mask(_PODS).suspects(buffer) == [(start, start + len(suspect) + 2)]


@given(_carriers())
@settings(max_examples=examples(150))
def test_no_secret_byte_survives(text: bytes) -> None:
    mask = Mask(_PODS)

    for found in (mask.line(text), mask.item(text, ""), mask.body(text)):
        assert found is None or _SECRET.encode() not in found


_PRIVATE = "of-a-redacted-kind"


class _Sent(NamedTuple):
    """A line of a watch, or an item of a list, and how it arrives."""

    text: bytes
    way: str
    is_plain: bool


class _Redaction(NamedTuple):
    """A mask, and what it must hide wherever it occurs in hostile lines."""

    mask: Mask
    hidden: tuple[str, ...]
    reads_all: bool

    def shown(self, text: bytes) -> Any:
        """Return JSON as it must be shown."""
        return _replaced(json.loads(text), self.hidden)


def _replaced(value: Any, hidden: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {name: _replaced(each, hidden) for name, each in value.items()}
    if isinstance(value, list):
        return [_replaced(each, hidden) for each in value]
    return "A" * len(value) if value in hidden else value


_REDACTIONS = (
    _Redaction(Mask(_PODS), (_SECRET,), reads_all=False),
    _Redaction(Mask(_MAPS, ["ConfigMap"]), (_SECRET, _PRIVATE), reads_all=True),
)
_small = st.integers(0, 3)
_of_server = re.compile(rb'\{"t":1\.0+,"of":(\d+),"(?:line|item)":(.*)\}').fullmatch


@st.composite
def _hostile(draw: st.DrawFn) -> bytes:
    """Return a watch event with something to hide, written as no server of today does."""
    obj: dict[str, Any] = {"metadata": {"name": "a", "annotations": {}}}
    match draw(_small):
        case 0:
            obj |= {"kind": "Secret", draw(st.sampled_from(["data", "stringData"])): draw(_values)}
        case 1:
            obj |= {"kind": "Pod"}
            obj["metadata"]["annotations"][_LAST_APPLIED] = draw(_values)
        case 2:
            obj |= {"kind": "ConfigMap", "data": {"key": _PRIVATE}, "object": _PRIVATE}
        case _:
            obj |= {"data": {"key": _PRIVATE}}  # names no kind
    if "kind" in obj and draw(st.booleans()):
        obj = {"kind": "List", "items": [obj, {"kind": "Pod"}]}
    names = draw(st.permutations(list(obj)))
    event = {"object": {name: obj[name] for name in names}, "type": "ADDED"}
    text = json.dumps(event, separators=draw(st.sampled_from([(",", ":"), (" , ", " : ")])))
    if draw(st.booleans()):  # of keys with the same name, the last one counts
        text = text.replace('"kind":', '"kind":"Pod","kind":')
    if word := draw(st.sampled_from(["", "Secret", "ata", "kind", "applied", "annotations"])):
        code = draw(st.sampled_from(["\\u{:04X}", "\\u{:04x}"])).format(ord(word[0]))
        text = text.replace(word, code + word[1:])
    return text.encode()


@st.composite
def _sent(draw: st.DrawFn) -> _Sent:
    way = draw(st.sampled_from(["line", "line", "line", "pieces", "snapshot", "noise"]))
    if way == "noise":  # where a search for a text of C ends
        return _Sent(b'"\0', way, is_plain=True)
    if draw(st.booleans()):
        text = draw(_hostile())
        if way == "snapshot":
            text = json.dumps(json.loads(text)["object"]).encode()
        return _Sent(text, way, is_plain=False)
    words = draw(st.text('a\\"<é\0', max_size=4)) * draw(st.sampled_from([1, 1, 40]))
    pod = {"kind": "Pod", "metadata": {"name": "a"}, "spec": {"data": words, "n": 1.50}}
    found = pod if way == "snapshot" else {"type": "ADDED", "object": pod}
    text = json.dumps(found, ensure_ascii=False).encode().replace(b"<", b"\\u003c")
    return _Sent(text, way, is_plain=True)


def _put(writer: RecordingWriter, number: int, sent: _Sent) -> None:
    """Put a line as the event loop does, from memory that is used again."""
    memory = bytearray(b"{}\n" + sent.text + b"\n{}")
    match sent.way:
        case "line" | "noise":
            writer.put_line(1.0, number, memory, 3, 3 + len(sent.text))
            memory[:] = b"#" * len(memory)
        case "pieces":
            writer.put(1.0, number, Opened({"path": "/"}, "watch"))
            middle = 3 + len(sent.text) // 2
            writer.put(1.0, number, bytes(memory[3:middle]))
            writer.put(1.0, number, bytes(memory[middle:-2]))
            writer.put(1.0, number, Ended({"end": "ended"}, is_complete=True))
        case _:
            writer.put(1.0, number, Contents(iter([sent.text]), {"kind": "List"}))


def _write(writers: list[RecordingWriter], lines: list[_Sent], rotates_at: int) -> None:
    """Write lines to several recordings at once."""
    asked: list[Callable[[], object]] = []  # what the loop would do
    for writer in writers:
        writer.create(b"{}\n")
        writer.start(asked.append, on_full=asked.clear, on_room=asked.clear)
    for number, sent in enumerate(lines):
        for writer in writers:
            if number == rotates_at:
                writer.put(1.0, 0, NextFile(b"{}\n"))
            if number % 10 == 9:
                writer.end_gap()
            _put(writer, number, sent)
    for writer in writers:
        writer.begin_close()
    for writer in writers:
        writer.join(100)


def _written(folder: Path) -> Iterator[tuple[int, bytes]]:
    """Return each text of the server in the files of a recording, by its number."""
    for path in sorted(folder.iterdir()):
        for line in path.read_bytes().split(b"\n")[:-1]:
            if found := _of_server(line):
                yield int(found[1]), found[2]
            else:
                json.loads(line)


@given(
    lines=st.lists(_sent(), max_size=30),
    buffer_bytes=st.sampled_from([200, 600, 1 << 20]),
    waiting_bytes=st.sampled_from([1500, 32 << 20]),
    rotates_at=st.integers(0, 40),
)
@settings(max_examples=examples(60), deadline=None)
def test_of_mixed_lines_only_the_hidden_texts_are_changed(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[_Sent],
    buffer_bytes: int,
    waiting_bytes: int,
    rotates_at: int,
) -> None:
    folders = [tmp_path_factory.mktemp("recording") for _ in _REDACTIONS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pyinformer.cache.recording._writer._BUFFER_BYTES", buffer_bytes)
        patch.setattr("pyinformer.cache.recording._writer._MOST_WAITING_BYTES", waiting_bytes)
        writers = [
            RecordingWriter(folder / "a.jsonl", one.mask, max_bytes=1 << 20)
            for folder, one in zip(folders, _REDACTIONS, strict=True)
        ]
        usual = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)  # or the threads seldom meet
        try:
            _write(writers, lines, rotates_at)
        finally:
            sys.setswitchinterval(usual)

    for redaction, folder, writer in zip(_REDACTIONS, folders, writers, strict=True):
        statistics = writer.statistics()
        found = list(_written(folder))
        numbers = [number for number, _ in found]
        assert statistics.error == ""
        assert numbers == sorted(set(numbers))
        kept = [
            n for n, one in enumerate(lines) if not (redaction.reads_all and one.way == "noise")
        ]
        assert statistics.dropped_bytes or numbers == kept
        assert statistics.lines == len(numbers)
        for number, text in found:
            if lines[number].is_plain and not redaction.reads_all:
                assert text == lines[number].text
            else:
                assert json.loads(text) == redaction.shown(lines[number].text)
        files = b"".join(path.read_bytes() for path in folder.iterdir())
        assert not any(one.encode() in files for one in redaction.hidden)
