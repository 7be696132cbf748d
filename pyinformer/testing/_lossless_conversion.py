"""A property test of an operator's conversions: there and back again, an object is the same.

Objects are made from the schemas of the CustomResourceDefinition by Hypothesis.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pyinformer.errors import InvalidArgumentError, InvalidObjectError
from pyinformer.objects import ABSENT, JSONObject, check_type, decode_object, diff, re2_compiled
from pyinformer.operator import Operator

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from pyinformer.admission.conversion import ConvertedVersion

_INT64: Final = (-(1 << 63), (1 << 63) - 1)
_INT32: Final = (-(1 << 31), (1 << 31) - 1)
_MOST_CHANGES: Final = 10
_MAPS: Final = ("labels", "annotations")
_HOST: Final = r"[a-z][a-z0-9]{0,8}\.[a-z]{2,5}"


def assert_lossless(app: Operator, old: type, new: type) -> None:
    """Assert that objects of two versions survive a conversion to the other version and back.

        def test_no_version_loses_a_field():
            assert_lossless(app, OldDatabase, Database)

    Hypothesis makes objects of both versions from the schemas of their models; CEL rules are not
    evaluated. It needs the package hypothesis, whose settings and profiles apply.

    Args:
        app: has the functions that convert, by `Operator.convert`.
        old: the model of one version.
        new: the model of another version of the same resource.

    Raises:
        AssertionError: an object came back with changes; the smallest one that was found is named.
        InvalidArgumentError: the operator does not convert between the models, or not all versions
            lead to each other; or hypothesis is not installed.
        InvalidModelError: a definition cannot describe a field of a model.
    """
    try:
        from hypothesis import assume, given, settings
    except ImportError as error:
        reason = "needs the package hypothesis: pip install hypothesis"
        raise InvalidArgumentError("assert_lossless", reason) from error
    check_type("app", app, Operator)
    conversions = app.conversions
    versions = _version("old", app, old), _version("new", app, new)
    definitions = app.custom_resource_definitions()

    def check(source: ConvertedVersion, target: ConvertedVersion) -> None:
        @settings(deadline=None, report_multiple_bugs=False)
        @given(_objects(source, definitions))
        def survives(obj: JSONObject) -> None:
            try:
                before = conversions.rewrite(msgspec.json.encode(obj))
            except InvalidObjectError:  # a validator of the model refuses it
                assume(False)
                raise
            there = conversions.convert(before, target.resource.api_version)
            back = conversions.convert(there, source.resource.api_version)
            _compare(before, back, f"{source} -> {target} -> {source}")

        survives()

    check(*versions)
    check(*reversed(versions))


def _version(argument: str, app: Operator, model: type) -> ConvertedVersion:
    found = next((one for one in app.conversions.versions if one.model is model), None)
    if found is None:
        name = getattr(model, "__name__", repr(model))
        raise InvalidArgumentError(argument, f"no function of {app.name} converts {name}")
    return found


def _compare(before: bytes, after: bytes, way: str) -> None:
    changes = diff(_as_stored(before), _as_stored(after))
    if changes:
        shown = [
            f"    {one}: {_shown(one.old)} -> {_shown(one.new)}" for one in changes[:_MOST_CHANGES]
        ]
        raise AssertionError("\n".join((f"{way} changes {before.decode()}:", *shown)))


def _shown(value: object) -> str:
    return "absent" if value is ABSENT else repr(value)


def _as_stored(text: bytes) -> JSONObject:
    """Return an object without empty labels or annotations, which the server removes."""
    obj = decode_object(text, "an object")
    metadata = {name: one for name, one in obj["metadata"].items() if one or name not in _MAPS}
    return {**obj, "metadata": metadata}


def _objects(
    version: ConvertedVersion, definitions: list[JSONObject]
) -> SearchStrategy[JSONObject]:
    from hypothesis import strategies as st

    resource = version.resource
    schema = next(
        one["schema"]["openAPIV3Schema"]
        for definition in definitions
        if definition["metadata"]["name"] == f"{resource.resource}.{resource.group}"
        for one in definition["spec"]["versions"]
        if one["name"] == resource.version
    )
    words = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["", "x"]), max_size=2)
    names = {"name": st.just("example"), "namespace": st.just("default")}
    fixed = {
        "apiVersion": st.just(resource.api_version),
        "kind": st.just(version.kind),
        "metadata": st.fixed_dictionaries(names, optional={"labels": words, "annotations": words}),
    }
    own = {name: one for name, one in schema["properties"].items() if name not in fixed}
    body = _values({**schema, "properties": own})
    return st.tuples(st.fixed_dictionaries(fixed), body).map(lambda pair: {**pair[0], **pair[1]})


def _values(schema: JSONObject) -> SearchStrategy[Any]:
    """Return the strategy of the values that a structural schema allows."""
    from hypothesis import strategies as st

    if "enum" in schema:
        found: SearchStrategy[Any] = st.sampled_from(schema["enum"])
    elif schema.get("x-kubernetes-int-or-string"):
        found = st.integers(*_INT32) | st.text(max_size=5)
    elif (kind := schema.get("type")) == "object":
        found = _mappings(schema)
    elif kind == "array":
        found = _lists(schema)
    elif kind == "string":
        found = _texts(schema)
    elif kind in {"integer", "number"}:
        found = _numbers(schema)
    elif kind == "boolean":
        found = st.booleans()
    else:
        found = _anything()
    return st.none() | found if schema.get("nullable") else found


def _anything() -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    single = st.booleans() | st.integers(*_INT64) | st.text(max_size=5)
    return st.recursive(
        single,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        ),
        max_leaves=8,
    )


def _mappings(schema: JSONObject) -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    if "properties" in schema:
        fields: Mapping[str, JSONObject] = schema["properties"]
        values = {name: _values(one) for name, one in fields.items()}
        required = {name: values.pop(name) for name in schema.get("required", ())}
        return st.fixed_dictionaries(required, optional=values)
    inner = schema.get("additionalProperties")
    least, most = schema.get("minProperties", 0), schema.get("maxProperties")
    each = _values(inner) if isinstance(inner, dict) else _anything()
    return st.dictionaries(st.text(max_size=5), each, min_size=least, max_size=most)


def _lists(schema: JSONObject) -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    least, most = schema.get("minItems", 0), schema.get("maxItems")
    is_set = schema.get("x-kubernetes-list-type") == "set"
    return st.lists(_values(schema["items"]), min_size=least, max_size=most, unique=is_set)


def _texts(schema: JSONObject) -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    least, most = schema.get("minLength", 0), schema.get("maxLength")
    named = schema.get("format")
    found: SearchStrategy[str]
    if "pattern" in schema:
        pattern = str(schema["pattern"])
        # The server matches as Go does, whose $ is before no line feed, and whose \d is ASCII.
        found = st.from_regex(re2_compiled(pattern) or pattern)
    elif named == "date":
        found = st.dates().map(str)
    elif named == "date-time":
        found = st.datetimes(timezones=st.timezones()).map(lambda one: one.isoformat())
    elif named == "uuid":
        found = st.uuids().map(str)
    elif named in {"ipv4", "ipv6"}:
        found = st.ip_addresses(v=4 if named == "ipv4" else 6).map(lambda one: f"{one}")
    elif named == "email":
        found = st.emails()
    elif named in {"hostname", "uri"}:
        found = st.from_regex(_HOST if named == "hostname" else f"https://{_HOST}", fullmatch=True)
    else:
        return st.text(min_size=least, max_size=most)
    return found.filter(lambda text: least <= len(text) and (most is None or len(text) <= most))


def _numbers(schema: JSONObject) -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    least, most = schema.get("minimum"), schema.get("maximum")
    over, under = schema.get("exclusiveMinimum", False), schema.get("exclusiveMaximum", False)
    factor = schema.get("multipleOf")
    if schema["type"] == "number" and factor is None:
        return st.floats(
            least,
            most,
            exclude_min=over,
            exclude_max=under,
            allow_nan=False,
            allow_infinity=False,
        )
    lowest, highest = _INT32 if schema.get("format") == "int32" else _INT64
    unit = 1 if factor is None else factor
    first = -(-(lowest if least is None else least + over) // unit)
    last = (highest if most is None else most - under) // unit
    return st.integers(int(first), int(last)).map(lambda number: number * unit)
