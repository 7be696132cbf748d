"""What both servers refuse or accept of the content of an object, and of its metadata.

No client of ours stands between test and wire; each test passes on the real server, too.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.test_server_strictness import fields, refused
from tests.integration.test_server_writes import APPLY, MERGE, Place, config_map
from tests.testing.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.apimachinery import JSONObject
    from tests.integration.servers import Server

LEASES = "coordination.k8s.io/v1"


@pytest.fixture
def place(server: Server) -> Iterator[Place]:
    context = ssl.create_default_context(cafile=str(server.api.ca_file))
    with Wire(server.api.url, token=server.token, context=context) as wire:
        yield Place(server, wire)


def lease(name: str = "a", metadata: JSONObject | None = None, **spec: Any) -> JSONObject:
    """Return a Lease."""
    return {
        "apiVersion": LEASES,
        "kind": "Lease",
        "metadata": {"name": name, **(metadata or {})},
        "spec": spec,
    }


class TestResourceVersions:
    """Versions in the body of a write: 0 is none, and a number is compared as a number."""

    @pytest.fixture
    def path(self, place: Place) -> str:
        path = place.path("configmaps")
        place.created(path, config_map({"a": "b"}))
        return f"{path}/a"

    def test_a_put_with_version_0_is_unconditional(self, place: Place, path: str) -> None:
        body = config_map({"a": "c"}, resourceVersion="0")

        assert place.send("PUT", path, body).status == 200
        assert place.get(path)["data"] == {"a": "c"}

    @pytest.mark.parametrize("kind", [MERGE, APPLY])
    def test_so_is_a_patch(self, place: Place, path: str, kind: str) -> None:
        body = config_map({"c": "d"}, resourceVersion="0")

        patched = place.patched(path, body, kind, fieldManager="me")

        assert patched["data"] == {"a": "b", "c": "d"}

    def test_zeros_in_front_do_not_count(self, place: Place, path: str) -> None:
        version = "00" + place.get(path)["metadata"]["resourceVersion"]

        assert place.send("PUT", path, config_map({}, resourceVersion=version)).status == 200

    @pytest.mark.parametrize("version", ["abc", "-1", str(1 << 64)])
    def test_one_that_is_not_a_number_is_refused(
        self, place: Place, path: str, version: str
    ) -> None:
        put = place.send("PUT", path, config_map({}, resourceVersion=version))
        patched = place.patch(path, {"metadata": {"resourceVersion": version}, "data": None}, MERGE)

        assert f'strconv.ParseUint: parsing "{version}": ' in refused(put, 500)
        assert f'strconv.ParseUint: parsing "{version}": ' in refused(patched, 500)
        assert place.get(path)["data"] == {"a": "b"}

    def test_a_lease_needs_one_that_is_not_0(self, place: Place) -> None:
        path = place.path("leases", api_version=LEASES)
        place.created(path, lease())

        answer = place.send("PUT", f"{path}/a", lease(metadata={"resourceVersion": "0"}))

        assert fields(answer) == ["metadata.resourceVersion"]

    @pytest.mark.parametrize("version", ["0", "abc"])
    def test_a_create_ignores_one_that_is_none(self, place: Place, version: str) -> None:
        body = config_map({}, resourceVersion=version)

        created = place.created(place.path("configmaps"), body)

        assert created["metadata"]["resourceVersion"] != version


class TestEmptyNamespaces:
    """An empty namespace in a body is that of the URL, as encoders of Go structs write it."""

    def test_of_a_create_and_an_update(self, place: Place) -> None:
        path = place.path("configmaps")
        body = config_map({"a": "b"}, namespace="")

        created = place.created(path, body)
        replaced = place.send("PUT", f"{path}/a", {**body, "data": {"a": "c"}})
        patched = place.patched(f"{path}/a", {"metadata": {"namespace": ""}}, MERGE)
        applied = place.applied(f"{path}/b", config_map({}, "b", namespace=""), "me")

        assert replaced.status == 200, replaced.json
        found = [one["metadata"] for one in (created, replaced.json, patched, applied)]
        assert {one["namespace"] for one in found} == {place.namespace}


class TestImmutableData:
    """The data of an immutable ConfigMap or Secret, and the type of a Secret."""

    @pytest.mark.parametrize(
        ("change", "refused_fields"),
        [
            pytest.param({"immutable": False}, ["immutable"], id="mutable-again"),
            pytest.param({"immutable": None}, ["immutable"], id="without-the-mark"),
            pytest.param({"data": {"a": "Yw=="}}, ["data"], id="data"),
            pytest.param({"data": None, "immutable": None}, ["data", "immutable"], id="both"),
        ],
    )
    @pytest.mark.parametrize(
        ("plural", "kind"), [("configmaps", "ConfigMap"), ("secrets", "Secret")]
    )
    def test_it_stays(
        self, place: Place, plural: str, kind: str, change: JSONObject, refused_fields: list[str]
    ) -> None:
        path = place.path(plural)
        body = {**config_map({"a": "Yg=="}), "kind": kind, "immutable": True}
        created = place.created(path, body)

        patched = place.patch(f"{path}/a", change, MERGE)
        put = place.send("PUT", f"{path}/a", {**created, **change})
        labelled = place.patched(f"{path}/a", {"metadata": {"labels": {"x": "y"}}}, MERGE)

        assert fields(patched) == refused_fields
        assert fields(put) == refused_fields
        assert labelled["data"] == {"a": "Yg=="}

    def test_binary_data_and_text_for_a_secret_are_data(self, place: Place) -> None:
        maps, secrets = place.path("configmaps"), place.path("secrets")
        body = {**config_map({"a": "Yg=="}), "immutable": True}
        place.created(maps, body)
        place.created(secrets, {**body, "kind": "Secret"})

        binary = place.patch(f"{maps}/a", {"binaryData": {"b": "Yg=="}}, MERGE)
        text = place.patch(f"{secrets}/a", {"stringData": {"a": "c"}}, MERGE)
        applied = place.apply(f"{maps}/a", config_map({"a": "c"}), "me", force="true")

        assert fields(binary) == ["binaryData"]
        assert fields(text) == ["data"]
        assert fields(applied) == ["data"]

    @pytest.mark.parametrize("change", [{"type": "a/c"}, {"type": None}])
    def test_the_type_of_a_secret_stays(self, place: Place, change: JSONObject) -> None:
        path = place.path("secrets")
        place.created(path, {**config_map({}), "kind": "Secret", "type": "a/b"})

        assert fields(place.patch(f"{path}/a", change, MERGE)) == ["type"]
