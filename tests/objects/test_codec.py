"""From bytes to records: every shape a server may write gives the same object.

The truth is Python's own json module: whatever the order, the spaces, the escapes or the
duplicates, `to_dict()` is what it reads, with kind and apiVersion, and without
`metadata.managedFields` if those are stripped.
"""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer.errors import InvalidObjectError
from pyinformer.objects import (
    BytesTransform,
    GroupVersionKind,
    GroupVersionResource,
    JSONObject,
    KubeObject,
    MetadataReader,
    ObjectCodec,
    View,
    diff,
)
from tests.objects.samples import POD, PODS, decode, meta, pod, text_of
from tests.soak import examples

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = '{"kind":"Pod","apiVersion":"v1","metadata":{'
MANAGED = [{"manager": "kubelet", "fieldsV1": {"f:metadata": {"f:labels": {}}}}]


class Spec(View):
    """Where a pod runs."""

    node_name: str = ""


class SpecView(View):
    """A projection of it."""

    spec: Spec = Spec()


def without_managed_fields(body: JSONObject) -> JSONObject:
    """Return a body as it is kept when managed fields are stripped."""
    kept = {name: value for name, value in body["metadata"].items() if name != "managedFields"}
    return {**body, "metadata": kept}


def taught(**options: Any) -> ObjectCodec[Any]:
    """Return a codec that knows its kind and both ways of writing it: it takes the fast path."""
    codec: ObjectCodec[Any] = ObjectCodec(PODS, **options)
    decode(codec, meta())
    decode(codec, '{"metadata":{"name":"a"}}')
    return codec


GO = text_of(POD).decode()
SORTED = json.dumps(POD, sort_keys=True, separators=(",", ":"))
ITEM = text_of({name: POD[name] for name in ("metadata", "spec", "status")}).decode()
LATE = text_of({name: POD[name] for name in ("spec", "status", "metadata", "kind", "apiVersion")})
SHAPES = [
    pytest.param(GO, id="go"),
    pytest.param(SORTED, id="sorted"),
    pytest.param(ITEM, id="list-item"),
    pytest.param(LATE.decode(), id="metadata-late"),
    pytest.param(json.dumps(POD), id="spaces"),
    pytest.param(json.dumps(POD, indent="\t"), id="lines"),
    pytest.param(f" \n{GO}\t ", id="space-around"),
    pytest.param(GO.replace('"managedFields"', '"managed\\u0046ields"'), id="escaped-key"),
    pytest.param(GO.replace('"metadata"', '"m\\u0065tadata"'), id="escaped-metadata"),
    pytest.param(GO.replace('"kind":"Pod"', '"kind":"\\u0050od"', 1), id="escaped-kind"),
]


@pytest.mark.parametrize("share", [True, False], ids=["shared", "apart"])
def test_labels_are_kept_in_a_table_only_if_they_are_shared(share: bool) -> None:
    codec: ObjectCodec[None] = ObjectCodec(PODS, share_labels=share)
    codec.learn_kind("Pod")
    for number in range(5):
        meta = {"name": "a", "labels": {"n": str(number)}}
        text = json.dumps({"metadata": meta, "kind": "Pod", "apiVersion": "v1"})
        assert decode(codec, text).metadata.labels == {"n": str(number)}
    assert codec.statistics()["labels"].entries == (5 if share else 1)


OWNERS = POD["metadata"]["ownerReferences"]


@pytest.mark.parametrize("text", SHAPES)
@pytest.mark.parametrize("strip", [True, False], ids=["strip", "raw"])
@pytest.mark.parametrize("view", [None, SpecView], ids=["plain", "view"])
def test_list_and_watch_formats_give_the_same_object(
    text: str, strip: bool, view: type[View] | None
) -> None:
    first: ObjectCodec[Any] = ObjectCodec(PODS, strip_managed_fields=strip, view=view)
    first.learn_kind("Pod")
    for codec in (first, taught(strip_managed_fields=strip, view=view)):
        obj = decode(codec, text)
        assert obj.to_dict() == (without_managed_fields(POD) if strip else POD)
        assert (obj.metadata, obj.gvk) == (pod().metadata, GroupVersionKind("", "v1", "Pod"))
        assert obj.problem == ""
        if view is not None:
            assert obj.view.spec.node_name == "node-1"


def test_the_body_of_a_go_server_is_kept_byte_for_byte() -> None:
    managed = text_of({"x": POD["metadata"]["managedFields"]}).decode()[5:-1]
    kept = GO.replace(f',"managedFields":{managed}', "")
    assert decode(taught(), GO).raw.decode() == kept
    assert decode(taught(strip_managed_fields=False), GO).raw.decode() == GO
    assert decode(taught(), ITEM).raw.decode() == kept
    assert decode(taught(strip_managed_fields=False), ITEM).raw.decode() == GO


@pytest.mark.covers("controller-runtime pkg/cache: should strip managed fields from an object")
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(meta(labels={"a": "b"}), id="none"),
        pytest.param({**meta(), "spec": {"managedFields": MANAGED}}, id="in-spec"),
        pytest.param({**meta(), "spec": {"a": 1, "managedFields": [1]}}, id="late-in-spec"),
        pytest.param({**meta(), "managedFields": MANAGED}, id="at-the-root"),
        pytest.param(meta(annotations={"a": ',"managedFields":['}), id="in-an-annotation"),
        pytest.param(
            meta(annotations={"last": '{"metadata":{"name":"x","managedFields":[1]}}'}),
            id="json-in-an-annotation",
        ),
        pytest.param(
            {**meta(), "spec": {"template": {"metadata": {"a": 1, "managedFields": MANAGED}}}},
            id="in-a-template",
        ),
    ],
)
@pytest.mark.parametrize("managed", [None, MANAGED, [], ["]}", '"'], [1] * 50_000, "null"])
@pytest.mark.parametrize("first", [True, False])
def test_only_metadatas_own_managed_fields_are_stripped(
    body: JSONObject, managed: Any, first: bool
) -> None:
    expected = body
    if managed is not None:
        field = {"managedFields": None if managed == "null" else managed}
        fields = {**field, **body["metadata"]} if first else {**body["metadata"], **field}
        body = {**body, "metadata": fields}
    for codec in (taught(), taught(view=SpecView)):
        assert decode(codec, body).to_dict() == expected
    assert decode(taught(strip_managed_fields=False), body).to_dict() == body


@pytest.mark.parametrize(
    ("members", "leftover"),
    [
        pytest.param('"managedFields":12,"managedFields":1', False, id="number-begins-alike"),
        pytest.param('"managedFields":1,"managedFields":12', False, id="number-ends-alike"),
        pytest.param('"managedFields":[1],"managedFields":[2]', False, id="differ"),
        pytest.param('"managedFields":[1],"managedFields":[1]', True, id="equal"),
    ],
)
def test_duplicate_managed_fields_corrupt_nothing(members: str, leftover: bool) -> None:
    """Of two equal ones the second may stay: no server writes two, and it does no harm."""
    text = f'{HEAD}"name":"web",{members},"uid":"u"}},"spec":{{}}}}'
    body = decode(taught(), text).to_dict()
    assert ("managedFields" in body["metadata"]) is leftover
    assert without_managed_fields(body) == {**meta(uid="u"), "spec": {}}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f'{HEAD}"name":"a","name":"web","uid":"u"}}}}', id="name"),
        pytest.param(f'{HEAD}"name":"a"}},"metadata":{{"name":"web","uid":"u"}}}}', id="metadata"),
        pytest.param(f'{HEAD}"name":"web","uid":"u","uid":"u"}},"kind":"Pod"}}', id="kind"),
        pytest.param('{"metadata":{},"metadata":{"name":"web","uid":"u"}}', id="item"),
    ],
)
def test_the_last_of_duplicate_keys_is_read_everywhere(text: str) -> None:
    for codec in (taught(), taught(strip_managed_fields=False)):
        obj = decode(codec, text)
        assert obj.to_dict() == meta(uid="u")
        assert (obj.metadata.name, obj.metadata.uid, obj.key) == ("web", "u", "web")
        assert obj.at("metadata.name", str) == "web"


@pytest.mark.covers("controller-runtime pkg/cache: should strip managed fields from an object")
def test_managed_fields_are_found_wherever_they_were_in_the_objects_before() -> None:
    codec = taught()
    for length in (500, 5, 5_000, 0, 50, 50_000, 1):
        body = meta(annotations={"a": "x" * length}, managedFields=MANAGED, uid="u")
        kept = meta(annotations={"a": "x" * length}, uid="u")
        for text in (text_of(body), text_of({"metadata": body["metadata"]})):
            assert decode(codec, text).to_dict() == kept
            assert decode(codec, text).raw == text_of(kept)


class Hostile:
    """Writes pods as no server should: any order, spaces, escapes, duplicates, look-alikes."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def pod(self) -> str:
        """Return the text of one object; it can be identified and is valid JSON."""
        chance = self._random
        members = [("metadata", self._metadata())]
        named = [("kind", '"Pod"'), ("apiVersion", '"v1"')]
        style = chance.choice(("go", "go", "sorted", "item", "item", "late", "behind"))
        if style == "go":
            members = [*named, *members]
        elif style == "sorted":
            members = [*reversed(named), *members]
        elif style == "behind":
            members = [*members, *named]
        keys = {self._key() for _ in range(chance.randrange(4))} - {"metadata"}
        rest = [(key, self._value(2)) for key in sorted(keys)]
        members = [*rest, *members] if style == "late" else [*members, *rest]
        if chance.random() < 0.04:
            members.append(("metadata", self._metadata()))
        if chance.random() < 0.04:
            members.append(("kind", '"Pod"'))
        return self._object(members, spaces=style == "late" or chance.random() < 0.1)

    def _metadata(self) -> str:
        chance = self._random
        members = [("name", '"web"'), ("uid", f'"u{chance.randrange(9)}"')]
        members.extend(self._field() for _ in range(chance.randrange(5)))
        chance.shuffle(members)
        return self._object(members, spaces=chance.random() < 0.1)

    def _field(self) -> tuple[str, str]:
        chance = self._random
        fields = (
            ("managedFields", self._managed()),
            ("managedFields", self._managed()),
            ("labels", self._texts()),
            ("annotations", self._texts()),
            ("generation", str(chance.randrange(99))),
            ("namespace", '"default"'),
            ("finalizers", '["a","managedFields"]'),
            (self._key(), self._value(2)),
        )
        return chance.choice(fields)

    def _managed(self) -> str:
        return self._random.choice(
            ("[]", '[{"manager":"a"}]', '["]}"]', "null", "1", "12", '[{"managedFields":[1]}]')
        )

    def _texts(self) -> str:
        members = [
            (self._key(), json.dumps(self._random.choice(_TEXTS)))
            for _ in range(self._random.randrange(4))
        ]
        return self._object(members)

    def _value(self, depth: int) -> str:
        chance = self._random
        if depth and chance.random() < 0.5:
            members = [(self._key(), self._value(depth - 1)) for _ in range(chance.randrange(4))]
            return self._object(members)
        if depth and chance.random() < 0.3:
            return f"[{','.join(self._value(depth - 1) for _ in range(chance.randrange(3)))}]"
        return chance.choice((*_SCALARS, json.dumps(chance.choice(_TEXTS)), self._managed()))

    def _key(self) -> str:
        return self._random.choice(
            ("managedFields", "metadata", "spec", "a", "é", 'qu"ote', "back\\slash", "labels")
        )

    def _object(self, members: list[tuple[str, str]], *, spaces: bool = False) -> str:
        colon, comma = (" : ", ",\n") if spaces else (":", ",")
        return f"{{{comma.join(f'{self._quoted(key)}{colon}{value}' for key, value in members)}}}"

    def _quoted(self, key: str) -> str:
        if self._random.random() < 0.03:
            return '"' + "".join(f"\\u{ord(letter):04x}" for letter in key) + '"'
        return json.dumps(key, ensure_ascii=self._random.random() < 0.5)


_TEXTS = (
    "",
    "web",
    ',"managedFields":[',
    '{"metadata":{"managedFields":[]}}',
    "]}",
    "日本",
    '"',
    "\\",
    "\n",
)
_SCALARS = ("0", "-1.5", "1e3", "true", "false", "null", "12345678901234567890", '"\\ud83d\\ude00"')


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.soak
def test_hostile_objects_read_as_json_reads_them(seed: int) -> None:
    """1,000 objects, by four codecs each, of which not one may differ; far more in make soak."""
    hostile = Hostile(seed)
    codecs = [taught(strip_managed_fields=strip, view=v) for strip in (True, False) for v in VIEWS]
    for _ in range(examples(500)):
        text = hostile.pod()
        body = {"kind": "Pod", "apiVersion": "v1", **json.loads(text)}
        for codec in codecs:
            for found in (decode(codec, text), decode_in_place(codec, text)):
                _compare(found, body, text, stripped=codec in codecs[: len(VIEWS)])


def decode_in_place(codec: ObjectCodec[Any], text: str | bytes) -> KubeObject[Any]:
    """Decode out of a buffer that is used again; it is the same afterwards."""
    whole = b"[" + (text.encode() if isinstance(text, str) else text) + b"}]"
    buffer = bytearray(whole)
    try:
        obj = codec.decode(buffer, 1, len(buffer) - 2)
    finally:
        assert buffer == whole
    buffer[:] = b"\0" * len(buffer)  # what was taken from it is a copy
    return obj


@pytest.mark.parametrize("text", [pytest.param(GO, id="go"), pytest.param(ITEM, id="list-item")])
@pytest.mark.parametrize("view", [None, SpecView])
@pytest.mark.exhaustive
def test_invalid_bytes_are_not_kept(text: str, view: type[View] | None) -> None:
    """Bytes are changed, lost and added around managedFields, as no honest server does.

    What stands in the list itself is thrown away unread; all that is kept is whole, and the same
    as in a text without the list.
    """
    codec = taught(view=view)
    chance = Random(7)
    first = text.index('"managedFields"') - 40
    last = text.index('"spec":{') + 20
    refused = 0
    for _ in range(4_000):
        place = chance.randrange(first, last)
        new = chance.choice(("", "", *'{}[]",:\\ x1', text[place] + "}", '"managedFields":[],'))
        broken = text[:place] + new + text[place + chance.randrange(2) :]
        body = _loads(broken)
        for decode_one in (decode, decode_in_place):
            try:
                found = decode_one(codec, broken)
            except InvalidObjectError:
                refused += 1
                continue
            expected = body or _loads(_without_the_list(broken))
            assert expected is not None, broken
            kept = without_managed_fields(found.to_dict())
            assert kept == without_managed_fields(expected), broken

    assert refused > 1_000


def _loads(text: str) -> JSONObject | None:
    try:
        return {"kind": "Pod", "apiVersion": "v1", **json.loads(text)}
    except ValueError:
        return None


def _without_the_list(text: str) -> str:
    before, _, rest = text.partition(',"managedFields":[')
    return before + rest.partition("]")[2]


class AnyView(View):
    """A projection that most hostile objects do not have."""

    status: tuple[str, ...] = ()


VIEWS: tuple[type[View] | None, ...] = (None, AnyView)


def _compare(obj: KubeObject[Any], body: JSONObject, text: str, *, stripped: bool) -> None:
    found, expected = obj.to_dict(), body
    if stripped:
        twice = text.count("anaged") > 1 or text.count("\\u006d") > 0
        kept = "managedFields" in found["metadata"]
        assert not kept or twice, text
        found, expected = without_managed_fields(found), without_managed_fields(body)
    assert found == expected, text
    assert json.loads(obj.raw) == obj.to_dict(), text
    metadata = body["metadata"]
    assert obj.metadata.uid == metadata["uid"] == obj.at("metadata.uid", str), text
    assert obj.metadata.namespace == metadata.get("namespace", ""), text
    if not obj.problem:
        assert obj.metadata.labels == (metadata.get("labels") or {}), text
        assert obj.metadata.generation == metadata.get("generation", 0), text


@pytest.mark.parametrize("strip", [True, False])
def test_text_that_is_not_utf8_is_a_problem_of_its_object_alone(strip: bool) -> None:
    codec = taught(strip_managed_fields=strip)
    bad = decode(codec, f'{HEAD}"name":"bad","uid":"u"}},"spec":"'.encode() + b'\xff\xfe"}')

    assert (bad.key, bad.metadata.uid) == ("bad", "u")
    assert "utf-8" in bad.problem
    with pytest.raises(InvalidObjectError, match="Pod 'bad': cannot be decoded"):
        bad.to_dict()
    assert decode(codec, POD).to_dict()["spec"] == POD["spec"]


@pytest.mark.covers("apimachinery pkg/util/json: TestEvaluateTypes")
def test_an_integer_beyond_64_bits_is_kept() -> None:
    obj = decode(taught(), f'{HEAD}"name":"a"}},"spec":123456789012345678901234567890}}')
    assert obj.to_dict()["spec"] == 123456789012345678901234567890


@pytest.mark.covers("apimachinery pkg/util/json: TestUnmarshalNil")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(f'{HEAD}"name":"deep"}},"spec":{"[" * 1_000_000}', "cut off", id="depth"),
        pytest.param(f'{HEAD}"name":"deep"}},"spec":nope}}', "malformed", id="malformed"),
        pytest.param(f'{HEAD}"name":"deep"}},"spec":"', "truncated", id="cut-off"),
        pytest.param(
            f'{HEAD}"name":"deep","managedFields":[]}},}}', "malformed", id="comma-behind-metadata"
        ),
    ],
)
def test_an_object_that_is_not_json_is_refused_by_name(text: str, reason: str) -> None:
    codec = taught()
    with pytest.raises(InvalidObjectError, match=rf"pods.v1 'deep': .*{reason}"):
        decode(codec, text)
    assert decode(codec, meta()).to_dict() == meta()


def test_metadata_that_is_nested_deeply_instead_of_an_object_is_refused() -> None:
    deep = f'"metadata":{"[" * 10_000}{"]" * 10_000}'
    with pytest.raises(InvalidObjectError, match=r"pods.v1: .* metadata that cannot be decoded"):
        decode(taught(), f'{HEAD}"name":"x","namespace":"y"}},{deep}}}')


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("[]", "cannot be decoded", id="list"),
        pytest.param("", "cannot be decoded", id="nothing"),
        pytest.param('{"kind":"Pod","apiVersion":"v1"}', "has no metadata", id="no-metadata"),
        pytest.param(f"{HEAD}}}}}", "has no name", id="no-name"),
        pytest.param(f'{HEAD}"name":""}}}}', "has no name", id="empty-name"),
        pytest.param(f'{HEAD}"name":null}}}}', "has no name", id="null-name"),
        pytest.param('{"metadata":null}', "has no metadata", id="null-metadata"),
        pytest.param(f'{HEAD}"name":"a","uid":1}}}}', "identity that cannot be decoded", id="uid"),
        pytest.param(
            '{"kind":"Node","apiVersion":"v1","metadata":{"name":"a"}}',
            "is v1/Node where v1/Pod was expected",
            id="other-kind",
        ),
        pytest.param(
            '{"kind":"Pod","apiVersion":"v2","metadata":{"name":"a"}}',
            "is v2/Pod where v1/Pod was expected",
            id="other-version",
        ),
        pytest.param(
            '{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"rows":[]}',
            "is meta.k8s.io/v1/Table where",
            id="table",
        ),
        pytest.param(
            '{"metadata":{"name":"a"},"kind":"Node"}', "is v1/Node where", id="kind-behind"
        ),
        pytest.param(f'{HEAD}"name":"a"}},"kind":"Node"}}', "is v1/Node where", id="second-kind"),
        pytest.param(
            f'{HEAD}"name":"a"}},"apiVersion":"v2"}}', "is v2/Pod where", id="second-version"
        ),
        pytest.param('{"kind":7,"metadata":{"name":"a"}}', "a kind that cannot", id="kind-number"),
    ],
)
def test_an_object_of_another_kind_or_shape_is_refused(text: str, reason: str) -> None:
    for codec in (taught(), taught(view=SpecView)):
        with pytest.raises(InvalidObjectError, match=f"^pods.v1.*an object .*{reason}"):
            decode(codec, text)
        assert decode(codec, meta()).to_dict() == meta()


def test_an_object_without_a_kind_is_refused_while_its_kind_is_unknown() -> None:
    codec: ObjectCodec[Any] = ObjectCodec(PODS)
    with pytest.raises(InvalidObjectError, match="an object of v1 was expected"):
        decode(codec, '{"metadata":{"name":"a"}}')


def test_the_kind_is_learned_from_the_first_object() -> None:
    codec: ObjectCodec[Any] = ObjectCodec(GroupVersionResource.of("apps/v1", "deployments"))
    obj = decode(codec, '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"}}')
    assert obj.gvk == codec.gvk == GroupVersionKind("apps", "v1", "Deployment")
    assert decode(codec, '{"metadata":{"name":"b"}}').gvk is codec.gvk


def test_a_lists_kind_holds_until_an_object_names_its_own() -> None:
    """A custom resource chooses its listKind freely; its items always name theirs."""
    codec: ObjectCodec[Any] = ObjectCodec(GroupVersionResource.of("e.com/v1", "foos"))
    codec.learn_kind("Everything")
    obj = decode(codec, '{"apiVersion":"e.com/v1","kind":"Foo","metadata":{"name":"a"}}')
    assert obj.gvk.kind == "Foo"
    with pytest.raises(InvalidObjectError, match=r"Bar where e.com/v1/Foo was expected"):
        decode(codec, '{"apiVersion":"e.com/v1","kind":"Bar","metadata":{"name":"a"}}')


def test_only_a_custom_resource_may_come_back_as_another_kind() -> None:
    codec: ObjectCodec[Any] = ObjectCodec(GroupVersionResource.of("e.com/v1", "foos"))
    pods: ObjectCodec[Any] = ObjectCodec(PODS)
    bar = '{"apiVersion":"e.com/v1","kind":"Bar","metadata":{"name":"a"},"spec":{"a":1}}'
    decode(codec, bar.replace("Bar", "Foo"))
    decode(pods, POD)

    codec.forget_kind()
    pods.forget_kind()
    codec.keep_kind()

    with pytest.raises(InvalidObjectError, match=r"Bar where e.com/v1/Foo was expected"):
        decode(codec, bar)
    codec.forget_kind()
    assert decode(codec, '{"metadata":{"name":"b"}}').gvk.kind == "Foo"
    codec.forget_kind()
    assert decode(codec, bar).gvk.kind == decode(codec, bar).gvk.kind == "Bar"
    with pytest.raises(InvalidObjectError, match=r"Foo where e.com/v1/Bar was expected"):
        decode(codec, bar.replace("Bar", "Foo"))
    with pytest.raises(InvalidObjectError, match="is v1/Node"):
        decode(pods, '{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}}')


def test_a_lists_kind_is_certain_once_an_item_took_it() -> None:
    codec: ObjectCodec[Any] = ObjectCodec(PODS)
    codec.learn_kind("Pod")
    assert decode(codec, '{"metadata":{"name":"a"}}').to_dict() == meta(name="a")
    with pytest.raises(InvalidObjectError, match="is v1/Node"):
        decode(codec, '{"kind":"Node","apiVersion":"v1","metadata":{"name":"a"}}')


def test_a_kind_of_any_spelling_is_filled_in() -> None:
    codec: ObjectCodec[Any] = ObjectCodec(PODS)
    codec.learn_kind('P"od\\')
    for name in ("a", "b"):
        body = decode(codec, {"metadata": {"name": name}}).to_dict()
        assert body["kind"] == 'P"od\\'


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(meta(uid="u", resourceVersion="3", labels={"a": 1}), id="labels"),
        pytest.param(meta(uid="u", resourceVersion="3", labels=["a"]), id="labels-list"),
        pytest.param(meta(uid="u", resourceVersion="3", ownerReferences=[1]), id="owners"),
        pytest.param(meta(uid="u", resourceVersion="3", finalizers=[None]), id="finalizers"),
        pytest.param(meta(uid="u", resourceVersion="3", generation="1"), id="generation"),
        pytest.param(meta(uid="u", resourceVersion="3", creationTimestamp=1), id="timestamp"),
    ],
)
def test_metadata_of_wrong_types_leaves_the_object_with_a_problem(body: JSONObject) -> None:
    codec = taught()
    obj = decode(codec, body)
    assert (obj.metadata.name, obj.metadata.uid, obj.metadata.resource_version) == (
        ("web", "u", "3")
    )
    assert obj.problem.startswith("cannot be read as asked: ")
    assert obj.metadata.labels == {}
    assert obj.to_dict() == body
    assert decode(codec, meta()).problem == ""


def test_nulls_in_metadata_are_absent_fields() -> None:
    nothing = dict.fromkeys(
        ("labels", "ownerReferences", "finalizers", "creationTimestamp", "deletionTimestamp")
    )
    obj = decode(taught(), meta(**nothing))
    assert (obj.problem, obj.metadata) == ("", decode(taught(), meta()).metadata)


def test_an_object_without_uid_and_version_is_kept() -> None:
    """Objects of metrics.k8s.io have neither."""
    found = decode(taught(), meta()).metadata
    assert (found.uid, found.resource_version) == ("", "")


def test_reading_a_view_that_does_not_fit_raises() -> None:
    codec = taught(view=SpecView)
    obj = decode(codec, {**meta(labels={"a": "b"}), "spec": {"nodeName": 5}})

    assert "nodeName" in obj.problem
    assert obj.metadata.labels == {"a": "b"}
    assert obj.to_dict()["spec"] == {"nodeName": 5}
    with pytest.raises(InvalidObjectError, match=r"Pod 'web': .*nodeName"):
        _ = obj.view
    assert decode(codec, POD).view == SpecView(spec=Spec(node_name="node-1"))


class Strict(View):
    """A projection with an opinion."""

    spec: Spec = Spec()

    def __post_init__(self) -> None:
        if self.spec.node_name == "bad":
            raise LookupError("no such node")


def test_a_view_that_raises_is_a_problem_of_its_object_alone() -> None:
    codec = taught(view=Strict)
    obj = decode(codec, {**meta(), "spec": {"nodeName": "bad"}})
    with pytest.raises(InvalidObjectError, match=r"Pod 'web': .*LookupError, whose words"):
        _ = obj.view
    assert decode(codec, POD).view.spec.node_name == "node-1"


def _drop_spec(body: JSONObject) -> JSONObject:
    del body["spec"]
    return body


@pytest.mark.covers(
    "client-go tools/cache: TestTransformingInformer",
    "controller-runtime pkg/cache: should apply transformers to explicitly specified GVKS",
)
@pytest.mark.parametrize(
    "transform",
    [
        pytest.param(_drop_spec, id="dict"),
        pytest.param(
            BytesTransform(lambda raw: json.dumps(_drop_spec(json.loads(raw))).encode()), id="bytes"
        ),
    ],
)
def test_a_transform_decides_what_is_kept(transform: Any) -> None:
    expected = without_managed_fields(POD)
    del expected["spec"]
    codec: ObjectCodec[Any] = ObjectCodec(PODS, transform=transform)
    for _ in range(3):
        obj = decode(codec, POD)
        assert (obj.to_dict(), obj.problem) == (expected, "")
        assert obj.metadata == pod().metadata


@pytest.mark.covers(
    "client-go tools/cache: TestTransformingInformer",
    "controller-runtime pkg/cache: should apply transformers to explicitly specified GVKS",
)
def test_a_transform_changes_metadata_and_view() -> None:
    def change(body: JSONObject) -> JSONObject:
        body["metadata"]["labels"] = {"changed": "yes"}
        body["spec"]["nodeName"] = "other"
        return body

    obj = pod(POD, transform=change, view=SpecView)
    assert obj.metadata.labels == {"changed": "yes"}
    assert obj.view.spec.node_name == "other"


@pytest.mark.covers(
    "client-go tools/cache: TestTransformingInformer",
    "client-go tools/cache: TestStoreResourceVersionWithNonMetaTransform",
    "controller-runtime pkg/cache: should apply transformers to explicitly specified GVKS",
)
@pytest.mark.parametrize(
    "result",
    [
        pytest.param({}, id="nothing-left"),
        pytest.param(
            {
                "kind": "Node",
                "apiVersion": "v9",
                "metadata": {"name": "x", "namespace": "y", "uid": "z", "resourceVersion": "0"},
            },
            id="another-object",
        ),
    ],
)
def test_a_transform_cannot_change_the_identity_of_an_object(result: JSONObject) -> None:
    sent = pod().metadata
    obj = pod(POD, transform=lambda _: result)
    found = obj.metadata
    assert (found.namespace, found.name, found.uid) == (sent.namespace, sent.name, sent.uid)
    assert (found.resource_version, obj.gvk) == (sent.resource_version, pod().gvk)
    body = obj.to_dict()
    assert (body["kind"], body["apiVersion"]) == ("Pod", "v1")
    assert body["metadata"]["uid"] == "u-1"


@pytest.mark.covers(
    "client-go tools/cache: TestTransformingInformer",
    "controller-runtime pkg/cache: should apply transformers to explicitly specified GVKS",
)
def test_a_transform_cannot_move_a_cluster_scoped_object_into_a_namespace() -> None:
    obj = pod(meta(), transform=lambda _: {"metadata": {"namespace": "x", "uid": "y"}})
    assert (obj.key, obj.metadata.uid, obj.to_dict()) == ("web", "", meta())


class _WordlessError(Exception):
    """An error that cannot be shown."""

    def __str__(self) -> str:
        raise ZeroDivisionError


def _raise_without_words(obj: JSONObject) -> JSONObject:
    raise _WordlessError


def _raise(_: Any) -> Any:
    raise RuntimeError("no")


_RAISED = f"transform failed: RuntimeError at {__file__}:"


@pytest.mark.covers(
    "client-go tools/cache: TestTransformingInformer",
    "controller-runtime pkg/cache: should apply transformers to explicitly specified GVKS",
)
@pytest.mark.parametrize(
    ("transform", "reason"),
    [
        pytest.param(_raise, _RAISED, id="raises"),
        pytest.param(_raise_without_words, "transform failed: _WordlessError", id="no-words"),
        pytest.param(BytesTransform(_raise), _RAISED, id="bytes"),
        pytest.param(lambda _: None, "must return a dict, not NoneType", id="none"),
        pytest.param(lambda _: {"metadata": None}, "must leave metadata a dict", id="no-metadata"),
        pytest.param(lambda _: {"metadata": {}, "x": object()}, "transform failed", id="no-json"),
        pytest.param(BytesTransform(lambda _: b"["), "cannot be decoded", id="no-json-bytes"),
    ],
)
def test_a_transform_that_fails_loses_its_change_and_not_the_object(
    transform: Any, reason: str
) -> None:
    obj = pod(POD, transform=transform)
    assert reason in obj.problem
    assert obj.to_dict() == without_managed_fields(POD)
    assert obj.metadata == pod().metadata


def test_an_object_that_a_transform_makes_unreadable_is_kept_with_a_problem() -> None:
    obj = pod(POD, transform=lambda body: {**body, "metadata": {"labels": {"a": 1}}})
    assert "cannot be read as asked" in obj.problem
    assert obj.key == "default/web"


@pytest.mark.covers(
    "client-go tools/cache: TestTransformingInformer",
    "client-go tools/cache: TestCacheWithTransformer",
    "controller-runtime pkg/cache: should apply transformers to explicitly specified GVKS",
    "kube-runtime src: eventmodify_modifies_inner_value_of_event",
)
@pytest.mark.parametrize("text", SHAPES)
def test_a_transform_is_called_once_for_each_received_object(text: str) -> None:
    seen: list[str] = []

    def note(body: JSONObject) -> JSONObject:
        seen.append(body["metadata"]["name"])
        return body

    codec: ObjectCodec[Any] = ObjectCodec(PODS, transform=note, view=SpecView)
    codec.learn_kind("Pod")
    for count in (1, 2, 3):
        decode(codec, text)
        assert seen == ["web"] * count


def test_equal_labels_owners_and_namespaces_are_one_object() -> None:
    codec = taught()
    one, other = decode(codec, POD).metadata, decode(codec, SORTED.replace("u-1", "u-2")).metadata
    again = decode(codec, POD).metadata
    assert one.labels is again.labels
    assert one.owner_references is again.owner_references
    assert one.namespace is other.namespace


def test_shared_values_are_bounded_and_counted() -> None:
    codec = taught()
    for number in range(100):
        body = meta(labels={"n": str(number)}, namespace=f"n{number}", ownerReferences=OWNERS)
        assert decode(codec, body).metadata.namespace == f"n{number}"
        decode(codec, body)
    namespaces = codec.statistics()["namespaces"]
    assert (namespaces.entries, namespaces.misses, namespaces.clears) == (101, 101, 0)
    labels, owners = codec.statistics()["labels"], codec.statistics()["owners"]
    assert (labels.entries, labels.misses, labels.clears) == (100, 100, 0)
    assert (owners.entries, owners.misses) == (1, 1)


def test_shared_namespaces_are_bounded() -> None:
    codec = taught()
    text = text_of(meta(namespace="n-------"))
    for number in range(70_000):
        raw = text.replace(b"n-------", b"n%07d" % number)
        codec.decode(raw, 0, len(raw))
    namespaces = codec.statistics()["namespaces"]
    assert namespaces.clears == 1
    assert namespaces.entries <= 65_536


def _head(**changes: Any) -> bytes:
    """Return what is read of a pod that is too long."""
    return read_head(json.dumps({**POD, **changes}).encode())


def read_head(text: bytes) -> bytes:
    """Return the kind and the metadata of an object."""
    reader = MetadataReader()
    reader.feed(text)
    return reader.head()


def test_of_an_object_that_is_too_long_the_metadata_is_kept_with_a_problem() -> None:
    told: list[str] = []
    codec: ObjectCodec[None] = ObjectCodec(PODS, on_problem=lambda obj: told.append(obj.problem))
    text = json.dumps(POD).encode()
    whole = codec.decode(text, 0, len(text))

    record = codec.decode_head(_head(), 99_000_000)

    assert record.key == whole.key
    assert record.metadata == whole.metadata
    assert "99000000 bytes" in record.problem
    assert told == [record.problem]
    assert set(record.to_dict()) == {"kind", "apiVersion", "metadata"}
    assert "managedFields" not in record.to_dict()["metadata"]


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        pytest.param(_head()[:40], "cannot be decoded", id="cut-off-in-metadata"),
        pytest.param(b'{"kind":"Pod","apiVersion":"v1"}', "has no metadata", id="no-metadata"),
        pytest.param(_head(kind="Status"), "is v1/Status", id="another-kind"),
        pytest.param(_head(metadata={"uid": "1"}), "has no name", id="no-name"),
        pytest.param(_head(metadata={"name": 5}), "cannot be decoded", id="name-is-no-text"),
        pytest.param(_head(metadata=[]), "cannot be decoded", id="metadata-is-no-object"),
        pytest.param(_head(metadata={"name": "x" * (2 << 20)}), "has no name", id="endless-name"),
        pytest.param(_head(metadata={"namespace": 5, "name": "a"}), "identity", id="namespace"),
        pytest.param(b"xxxx", "cannot be decoded", id="no-json"),
        pytest.param(b"", "cannot be decoded", id="nothing"),
    ],
)
def test_a_beginning_that_does_not_identify_its_object_is_refused(head: bytes, reason: str) -> None:
    codec: ObjectCodec[None] = ObjectCodec(PODS)
    text = json.dumps(POD).encode()
    codec.decode(text, 0, len(text))

    with pytest.raises(InvalidObjectError, match=reason):
        codec.decode_head(head, 99)


def test_metadata_fields_that_are_too_long_are_named_and_left_out() -> None:
    codec: ObjectCodec[None] = ObjectCodec(PODS)
    owner = {"name": "<" * 2_000_000, "uid": "u"}
    metadata = {"name": "a", "labels": {"a": "b"}, "ownerReferences": [owner], "uid": "5"}

    record = codec.decode_head(_head(metadata=metadata), 2_000_000)

    assert record.problem.endswith("only its metadata is kept, without ownerReferences")
    assert record.metadata.owner_references == ()
    assert dict(record.metadata.labels) == {"a": "b"}
    assert record.metadata.uid == "5"
    assert len(record.raw) < 1_000


DEEP = {
    "object": ('{"a":', "}"),
    "array": ("[", "]"),
    "both": ('{"f:a":[', "]}"),
}


@pytest.mark.parametrize("levels", [2_000, 9_994])
@pytest.mark.parametrize("shape", DEEP)
@pytest.mark.parametrize("place", ["before", "behind", "managedFields"])
def test_an_object_that_is_nested_deeply_is_known_by_its_metadata(
    place: str, shape: str, levels: int
) -> None:
    """Wherever the nesting is; managedFields repeat that of the fields that they list."""
    opening, closing = DEEP[shape]
    deep = opening * levels + "1" + closing * levels
    at = {place: deep}
    text = f'{{"aaa":{at.get("before", 0)},"apiVersion":"e.io/v1","kind":"Widget","metadata":{{'
    text += '"annotations":{"x":"{[\\"y"},"finalizers":["f"],"labels":{"a":"b"},"managedFields":'
    text += f'[{{"fieldsV1":{at.get("managedFields", "{}")}}}],"name":"n","namespace":"ns",'
    text += f'"resourceVersion":"5","uid":"u"}},"spec":{{"x":{at.get("behind", 0)},"n":3}}}}'
    problems: list[str] = []
    codec: ObjectCodec[None] = ObjectCodec(
        GroupVersionResource.of("e.io/v1", "widgets"), on_problem=lambda o: problems.append(o.key)
    )

    record = decode(codec, text)

    assert record.key == "ns/n"
    meta = record.metadata
    assert (meta.uid, meta.resource_version, meta.finalizers) == ("u", "5", ("f",))
    assert dict(meta.labels) == {"a": "b"}
    assert dict(record.annotations) == {"x": '{["y'}
    assert record.at("spec.n", int) == 3
    if place == "managedFields":
        assert "managedFields" not in record.to_dict()["metadata"]
        return
    assert problems == ["ns/n"]
    path = "aaa" if place == "before" else "spec.x"
    for read in (record.to_dict, lambda: record.at(path), lambda: diff(record, record)):
        _refuses(read)
    assert record.same_content(record)


def _refuses(read: Callable[[], object]) -> None:
    with pytest.raises(InvalidObjectError, match="nested too deeply"):
        read()


def test_a_deep_object_that_is_cut_off_is_refused() -> None:
    codec: ObjectCodec[None] = ObjectCodec(PODS)
    text = '{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":' + "[" * 9_999
    for end in ("", "]" * 9_998 + "}", "]" * 9_999, "]" * 9_999 + "}}"):
        with pytest.raises(InvalidObjectError, match="cannot be decoded"):
            decode(codec, text + end)
