"""Deciding whether a value was changed: digests, paths with types, one report for each change."""

from __future__ import annotations

import dataclasses
import logging
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec
import pydantic
import pytest

from pyinformer.cache.audit import CacheMutation, MutatedPath, MutationDetector
from pyinformer.cache.audit._mutation_diff import digest_of, mutated_paths
from pyinformer.cache.audit._mutation_ledger import MutationLedger
from pyinformer.cache.store import DecodedObject
from pyinformer.objects import GroupVersionResource, KubeObject, ObjectCodec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyinformer.cache.audit import SharedValue

_CODEC: ObjectCodec[None] = ObjectCodec(GroupVersionResource.of("v1", "secrets"))

_TIME = datetime(2026, 1, 1, tzinfo=UTC)
_UID = UUID("6a1cbd3f-8d3c-4b46-8b7e-4f5f0a9a1e11")
_DECODED = "data.password: str became bytes"


class Unwritable:
    """What a model's own way to write itself may do."""

    def to_dict(self) -> dict[str, object]:
        raise KeyError("to_dict")


def secret(name: str = "s", version: int = 1) -> KubeObject[None]:
    """Return an object whose values must never be reported."""
    text = msgspec.json.encode(
        {
            "kind": "Secret",
            "apiVersion": "v1",
            "metadata": {
                "name": name,
                "namespace": "ns",
                "resourceVersion": str(version),
                "uid": str(_UID),
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "cpu": "100",
            "null": None,
            "data": {"password": "aHVudGVyMg=="},
            "list": [{"a": 1}, {"b": True}],
        }
    )
    return _CODEC.decode(text, 0, len(text))


class Source:
    """A source of one value that notes what it is asked for."""

    name = "secrets.v1"

    def __init__(self) -> None:
        self.healed: list[SharedValue] = []
        self.told: list[CacheMutation] = []

    def handlers(self) -> tuple[str, ...]:
        """Return all handlers."""
        return ("one", "two")

    def values(self) -> Iterable[SharedValue]:
        """Return nothing."""
        return ()

    def misplaced(self) -> Iterable[CacheMutation | None]:
        """Return nothing."""
        return ()

    def heal(self, value: SharedValue) -> None:
        """Note it."""
        self.healed.append(value)

    def count(self, mutation: CacheMutation) -> None:
        """Note it."""
        self.told.append(mutation)


def decoded(obj: KubeObject[None] | None = None) -> DecodedObject[None]:
    """Return an object as readers share it."""
    record = obj or secret()
    return DecodedObject(record, record.to_dict())


CHANGES: dict[str, tuple[Callable[[Any], object], str]] = {
    "set": (lambda d: d["metadata"].update(x=1), "metadata.x: absent became int"),
    "replaced": (lambda d: d["data"].update(password="x"), "data.password: changed (str)"),
    "removed": (lambda d: d.pop("data"), "data: dict became absent"),
    "another-type": (lambda d: d.update(kind=None), "kind: str became NoneType"),
    "in-a-list": (lambda d: d["list"][0].update(a=2), "list[0].a: changed (int)"),
    "longer-list": (lambda d: d["list"].append("z"), "list[2]: absent became str"),
    "bool-for-a-number": (lambda d: d["list"][0].update(a=True), "list[0].a: int became bool"),
    "no-json": (lambda d: d.update(kind=object()), "kind: str became object"),
    "a-loop": (lambda d: d.update(me=d), "me: absent became dict"),
    "decoded-base64": (lambda d: d["data"].update(password=b"hunter2"), _DECODED),
    "parsed-time": (
        lambda d: d["metadata"].update(creationTimestamp=_TIME),
        "metadata.creationTimestamp: str became datetime",
    ),
    "parsed-number": (lambda d: d.update(cpu=Decimal(100)), "cpu: str became Decimal"),
    "parsed-uid": (lambda d: d["metadata"].update(uid=_UID), "metadata.uid: str became UUID"),
    "tuple-for-a-list": (lambda d: d.update(list=tuple(d["list"])), "list: list became tuple"),
    "nan-for-null": (lambda d: d.update(null=float("nan")), "null: NoneType became float"),
    "cannot-be-written": (lambda d: d.update(kind=Unwritable()), "kind: str became Unwritable"),
}
"""Also what reads the same as JSON: to the next reader it is another type."""


@pytest.mark.parametrize(("change", "expected"), CHANGES.values(), ids=CHANGES)
def test_a_change_is_named_by_path_and_types(
    change: Callable[[Any], object], expected: str
) -> None:
    value, source = decoded(), Source()
    ledger = MutationLedger()
    assert ledger.check(value, source) is None

    change(value.current())
    mutation = ledger.check(value, source)

    assert mutation is not None
    assert [str(path) for path in mutation.paths] == [expected]
    assert source.healed == [value]
    assert source.told == [mutation]


def test_a_change_before_the_first_check_is_found() -> None:
    """The digest is of what arrived, not of what was there at the first look."""
    value = decoded()
    value.current()["kind"] = "Other"

    assert MutationLedger().check(value, Source()) is not None


def test_no_value_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    value = decoded()
    value.current()["data"] = {"password": "bmV3c2VjcmV0", "other": "aHVudGVyMg=="}

    mutation = MutationLedger().check(value, Source())

    for told in (str(mutation), repr(mutation), caplog.text):
        assert "password" in told
        assert "bmV3c2VjcmV0" not in told
        assert "aHVudGVyMg" not in told


def test_fields_in_another_order_are_not_a_change() -> None:
    value = decoded()
    body = value.current()
    body["kind"] = body.pop("kind")
    ledger = MutationLedger()

    assert ledger.check(value, Source()) is None
    assert ledger.check(value, Source()) is None
    assert ledger.mutations == 0


def test_each_change_is_reported_once_and_each_key_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    value, source, ledger = decoded(), Source(), MutationLedger()
    for number in range(3):
        value.current()[f"x{number}"] = 1
        ledger.check(value, source)
        ledger.check(value, source)

    assert (ledger.mutations, len(source.told), ledger.checked) == (3, 3, 6)
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.name for record in errors] == ["pyinformer.cache.audit"]


def test_without_recorded_reads_all_handlers_are_named_and_with_them_only_readers() -> None:
    noted, unnoted, source = decoded(), decoded(), Source()
    noted.note_reader("two", "a.py:1")
    noted.note_reader("", "b.py:2")
    for value in (noted, unnoted):
        value.current()["x"] = 1

    found = [MutationLedger().check(value, source) for value in (noted, unnoted)]

    assert found[0] is not None
    assert found[1] is not None
    assert (found[0].handlers, found[0].call_sites) == (("two",), ("a.py:1", "b.py:2"))
    assert (found[1].handlers, found[1].call_sites) == (("one", "two"), ())


def test_recorded_readers_are_bounded_and_distinct() -> None:
    value = decoded()
    for number in range(100):
        value.note_reader("h", f"a.py:{number // 2}")

    assert len(value.readers) == 16


def test_paths_are_bounded() -> None:
    value = decoded()
    value.current().update({f"x{number}": 1 for number in range(50)})
    mutation = MutationLedger().check(value, Source())

    assert mutation is not None
    assert len(mutation.paths) == 20


@pytest.mark.parametrize(
    ("names_readers", "said"),
    [
        pytest.param(
            False, 'readers: not known: MutationDetector("debug") names them', id="sample"
        ),
        pytest.param(True, "readers: not known", id="debug"),
    ],
)
def test_the_log_names_the_option_that_records_readers(
    names_readers: bool, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    mutation = CacheMutation(informer="pods", key="ns/a", resource_version="1", what="an object")

    MutationLedger(names_readers=names_readers).take(mutation, Source())

    assert caplog.messages[0].endswith(said)


def test_a_listener_that_raises_is_logged_and_the_others_are_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ledger, heard = MutationLedger(), list[CacheMutation]()

    def broken(_: CacheMutation) -> None:
        message = "secret words"
        raise ValueError(message)

    ledger.listeners += [broken, heard.append]
    value = decoded()
    value.current().clear()
    ledger.check(value, Source())

    assert len(heard) == 1
    assert "on_mutation failed on ns/s: ValueError" in caplog.text
    assert "secret words" not in caplog.text


def test_values_that_cannot_be_compared_are_reported_without_paths() -> None:
    class Touchy:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError

        __hash__ = None  # type: ignore[assignment] # not hashable, as a class with __eq__ is

    value = decoded()
    value.current()["kind"] = Touchy()
    mutation = MutationLedger().check(value, Source())

    assert mutation is not None
    assert mutation.paths == ()


@dataclasses.dataclass
class Model:
    """A model that a program stores."""

    kind: str
    data: dict[str, str]


def test_dicts_and_models_have_digests() -> None:
    assert digest_of({"kind": "a"}) == digest_of({"kind": "a"}) != digest_of({"kind": "b"})
    assert digest_of(Model("a", {})) != digest_of(Model("b", {}))
    assert digest_of(object()) is None


def test_paths_of_models_are_those_of_their_json() -> None:
    assert mutated_paths(Model("a", {}), Model("a", {"x": "y"})) == (
        MutatedPath("data.x", "absent", "str"),
    )


def test_a_stored_model_that_is_changed_is_found_with_its_paths() -> None:
    detector, obj = MutationDetector("sample"), secret()
    model = obj.as_type(Model)
    detector.watch(obj, model, name="password cache")
    assert detector.verify_nowait() == ()

    model.data["password"] = "changed"
    (mutation,) = detector.verify_nowait()

    assert str(mutation) == (
        "the value watched as password cache of ns/s in watched values was changed at"
        " data.password: changed (str), read by password cache"
    )
    assert detector.verify_nowait() == ()


def test_a_change_before_the_digest_was_made_is_found_without_paths() -> None:
    detector, obj = MutationDetector("sample"), secret()
    own = {"summary": ["a"]}
    detector.watch(obj, own, name="summaries")
    own["summary"].append("b")

    (mutation,) = detector.verify_nowait()

    assert (mutation.paths, mutation.key) == ((), "ns/s")


def test_watched_values_are_bounded_and_replaced_by_name_and_key() -> None:
    detector, values = MutationDetector("sample", max_watched=2), list[dict[str, int]]()
    for number in range(4):
        values.append({"x": number})
        detector.watch(secret(f"s{number}"), values[-1], name="n")
    detector.watch(secret("s3"), {"x": 9}, name="n")
    for value in values:
        value["x"] = -1

    assert [mutation.key for mutation in detector.verify_nowait()] == ["ns/s2"]
    statistics = detector.statistics()
    assert (statistics.watched, statistics.watched_dropped) == (2, 2)


def test_a_value_that_was_dropped_is_no_longer_checked() -> None:
    detector, obj = MutationDetector("sample"), secret()
    detector.watch(obj, obj.as_type(Model), name="gone")

    assert detector.verify_nowait() == ()
    assert detector.statistics().watched == 0


def test_unwatched_values_and_mode_off_are_not_checked() -> None:
    value, obj = {"x": 1}, secret()
    detector = MutationDetector("sample")
    detector.watch(obj, value, name="n")
    detector.unwatch("ns/s", name="n")
    silent = MutationDetector("off")
    silent.watch(obj, value, name="n")
    value["x"] = 2

    assert detector.verify_nowait() == silent.verify_nowait() == ()


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        pytest.param({"mode": "on"}, "mode", id="mode"),
        pytest.param({"period_seconds": -1.0}, "period_seconds", id="negative"),
        pytest.param({"period_seconds": 0.0}, "period_seconds", id="no-pause"),
        pytest.param({"budget_seconds": 0.0}, "budget_seconds", id="no-budget"),
        pytest.param({"budget_seconds": 0.9}, "budget_seconds", id="more-than-half"),
        pytest.param({"max_watched": 0}, "max_watched", id="none-watched"),
        pytest.param({"max_watched": float("nan")}, "max_watched", id="not-bounded"),
        pytest.param({"mode": ""}, "mode", id="empty-mode"),
    ],
)
def test_invalid_options_fail_at_once(options: dict[str, Any], argument: str) -> None:
    with pytest.raises(ValueError, match=f"^{argument}: "):
        MutationDetector(**options)


def test_watching_a_value_without_a_digest_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^value: "):
        MutationDetector("sample").watch(secret(), object(), name="n")
    with pytest.raises(TypeError, match=r"^obj: "):
        MutationDetector("sample").watch({}, {}, name="n")  # type: ignore[arg-type] # refused
    with pytest.raises(TypeError, match=r"on_mutation\(mutation\), got a int"):
        MutationDetector(on_mutation=3)  # type: ignore[arg-type] # refused


async def _report(mutation: CacheMutation) -> None: ...


def test_an_asynchronous_listener_is_refused() -> None:
    with pytest.raises(TypeError, match=r"_report.*`def on_mutation\(mutation\)`"):
        MutationDetector(on_mutation=_report)  # type: ignore[arg-type] # refused


def test_pydantic_and_client_models_have_digests() -> None:
    class Pydantic(pydantic.BaseModel):
        data: dict[str, str]

    class Generated:
        def __init__(self) -> None:
            self.data = {"password": "x"}

        def to_dict(self) -> dict[str, object]:
            return {"data": self.data}

    detector, obj = MutationDetector("sample"), secret()
    first, second = obj.as_type(Pydantic), Generated()
    detector.watch(obj, first, name="pydantic")
    detector.watch(obj, second, name="generated")
    assert detector.verify_nowait() == ()
    first.data.clear()
    second.data.clear()

    assert [(found.what[-8:], len(found.paths)) for found in detector.verify_nowait()] == [
        ("pydantic", 1),
        ("enerated", 0),
    ]
