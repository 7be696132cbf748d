"""What both servers refuse or accept of the content of an object, and of its metadata.

No client of ours stands between test and wire; each test passes on the real server, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.places import APPLY, JSON_PATCH, MERGE, Place
from tests.integration.test_server_strictness import fields, refused
from tests.integration.test_server_writes import config_map, deployment
from tests.testing.wire import pod

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject

LEASES = "coordination.k8s.io/v1"
EVENTS = "events.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1"
FORMATTED = "formatted.example.com/v1"
_RESOURCE: JSONObject = {"resourceAttributes": {"verb": "get", "resource": "pods"}}
_PATH: JSONObject = {"nonResourceAttributes": {"verb": "get", "path": "/x"}}
_SERIES: JSONObject = {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}


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


class TestMetadata:
    """Metadata that no server stores."""

    @pytest.mark.parametrize(
        ("metadata", "refused_field"),
        [
            pytest.param({"generation": -1}, "metadata.generation", id="generation"),
            pytest.param({"finalizers": ["a b/c"]}, "metadata.finalizers", id="prefix"),
            pytest.param({"finalizers": ["a/b/c"]}, "metadata.finalizers", id="two-slashes"),
            pytest.param({"finalizers": ["a.b/"]}, "metadata.finalizers", id="no-name"),
            pytest.param(
                {
                    "ownerReferences": [
                        {"apiVersion": "v1", "kind": "Event", "name": "a", "uid": "1"}
                    ]
                },
                "metadata.ownerReferences[0]",
                id="owned-by-an-event",
            ),
        ],
    )
    def test_it_is_refused(self, place: Place, metadata: JSONObject, refused_field: str) -> None:
        path = place.path("configmaps")

        answer = place.send("POST", path, config_map({}, **metadata))

        assert fields(answer) == [refused_field]

    def test_the_finalizers_of_a_custom_resource_are_qualified_names(self, place: Place) -> None:
        _serve_formatted(place)
        path = place.path("formatteds", api_version=FORMATTED)

        answer = place.send("POST", path, formatted("a", finalizers=["a b/c"]))

        assert fields(answer) == ["metadata.finalizers"]

    def test_a_generation_that_no_server_counts_stays(self, place: Place) -> None:
        path = place.path("configmaps")

        created = place.created(path, config_map({"a": "b"}, generation=7))
        replaced = place.send("PUT", f"{path}/a", config_map({"a": "c"}, generation=9))

        assert created["metadata"]["generation"] == 7
        assert replaced.json["metadata"]["generation"] == 7

    @pytest.mark.parametrize("manager", ["a\nb", "\tab", "zero\u200bwidth"])
    def test_a_field_manager_has_no_control_characters(self, place: Place, manager: str) -> None:
        path = place.path("configmaps")

        created = place.send("POST", path, config_map({}), fieldManager=manager)
        applied = place.apply(f"{path}/a", config_map({}), manager)

        assert fields(created) == ["fieldManager"]
        assert fields(applied) == ["fieldManager"]
        assert place.send("GET", f"{path}/a").status == 404

    def test_a_job_has_63_characters(self, place: Place) -> None:
        path = place.path("jobs", api_version="batch/v1")
        template = {"spec": {**pod()["spec"], "restartPolicy": "Never"}}
        body = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": template}}

        place.created(path, {**body, "metadata": {"name": "j" * 63}})
        longer = place.send("POST", path, {**body, "metadata": {"name": "j" * 64}})

        assert fields(longer) == ["spec.template.labels"]


class TestLeases:
    """The content of a Lease."""

    @pytest.mark.parametrize(
        ("spec", "refused_field"),
        [
            ({"leaseDurationSeconds": 0}, "spec.leaseDurationSeconds"),
            ({"leaseDurationSeconds": -5}, "spec.leaseDurationSeconds"),
            ({"leaseTransitions": -1}, "spec.leaseTransitions"),
        ],
    )
    def test_its_numbers_have_a_least_value(
        self, place: Place, spec: JSONObject, refused_field: str
    ) -> None:
        path = place.path("leases", api_version=LEASES)
        place.created(path, lease(leaseDurationSeconds=1, leaseTransitions=0))

        assert fields(place.send("POST", path, lease("b", **spec))) == [refused_field]
        assert fields(place.patch(f"{path}/a", {"spec": spec}, MERGE)) == [refused_field]


class TestEvents:
    """Events of both API versions, written by hand."""

    def core(self, place: Place, **more: Any) -> JSONObject:
        """Return an Event of `v1`."""
        about = {"namespace": place.namespace, "kind": "Pod", "name": "p"}
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "a"},
            "reason": "Tested",
            "involvedObject": about,
            **more,
        }

    def event(self, place: Place, **more: Any) -> JSONObject:
        """Return an Event of `events.k8s.io/v1`."""
        about = {"namespace": place.namespace, "kind": "Pod", "name": "p"}
        return {
            "apiVersion": EVENTS,
            "kind": "Event",
            "metadata": {"name": "a"},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "example.com/tests",
            "reportingInstance": "one",
            "action": "Testing",
            "reason": "Tested",
            "type": "Normal",
            "regarding": about,
            **more,
        }

    def test_one_of_the_core_is_about_its_own_namespace(self, place: Place) -> None:
        about = {"namespace": "other", "kind": "Pod", "name": "p"}

        core = place.send("POST", place.path("events"), self.core(place, involvedObject=about))

        assert fields(core) == ["involvedObject.namespace"]
        path = place.path("events", api_version=EVENTS)
        place.created(path, self.event(place, regarding=about))

    def test_one_about_no_namespace_is_in_the_default_one(self, place: Place) -> None:
        about = {"kind": "Node", "name": "n"}
        core = self.core(place, involvedObject=about)
        event = self.event(place, regarding=about)

        for answer in (
            place.send("POST", place.path("events"), core),
            place.send("POST", place.path("events", api_version=EVENTS), event),
        ):
            assert fields(answer) == ["involvedObject.namespace"]
        core["metadata"] = {"generateName": "about-a-node-"}
        place.created("/api/v1/namespaces/default/events", core)

    @pytest.mark.parametrize(
        ("change", "refused_fields"),
        [
            ({"eventTime": None}, ["eventTime"]),
            ({"type": "Error"}, ["type"]),
            ({"reason": ""}, ["reason"]),
            ({"reason": "x" * 129}, ["reason"]),
            ({"action": ""}, ["action"]),
            ({"action": "x" * 129}, ["action"]),
            ({"note": "x" * 1025}, ["message"]),
            ({"reportingController": ""}, ["reportingController"]),
            ({"reportingController": "a b"}, ["reportingController"]),
            ({"reportingInstance": ""}, ["reportingInstance"]),
            ({"reportingInstance": "x" * 129}, ["reportingInstance"]),
            ({"series": {**_SERIES, "count": 1}}, ["series.count"]),
            ({"series": {"count": 2}}, ["series.lastObservedTime"]),
            ({"deprecatedCount": 3}, ["count"]),
            ({"deprecatedFirstTimestamp": "2026-01-01T00:00:00Z"}, ["firstTimestamp"]),
            ({"deprecatedSource": {"component": "c"}}, ["source"]),
        ],
    )
    def test_a_new_one_is_complete(
        self, place: Place, change: JSONObject, refused_fields: list[str]
    ) -> None:
        path = place.path("events", api_version=EVENTS)

        answer = place.send("POST", path, self.event(place, **change))

        assert fields(answer) == refused_fields

    def test_one_of_the_core_with_a_time_is_complete(self, place: Place) -> None:
        time = "2026-01-01T00:00:00.000000Z"

        answer = place.send("POST", place.path("events"), self.core(place, eventTime=time))

        assert fields(answer) == ["action", "reportingComponent", "reportingInstance"]

    def test_only_the_series_of_one_changes(self, place: Place) -> None:
        path = place.path("events", api_version=EVENTS)
        place.created(path, self.event(place))

        counted = place.patched(f"{path}/a", {"series": _SERIES}, MERGE)
        reason = place.patch(f"{path}/a", {"reason": "Other"}, MERGE)
        note = place.patch(f"{path}/a", {"note": "other"}, MERGE)

        assert counted["series"]["count"] == 2
        assert fields(reason) == ["reason"]
        assert fields(note) == ["message"]


class TestRequests:
    """Requests that are not complete, or too large."""

    def test_a_json_patch_has_10_000_operations(self, place: Place) -> None:
        path = place.path("configmaps")
        place.created(path, config_map({"a": "b"}))
        test = {"op": "test", "path": "/data/a", "value": "b"}

        assert place.patch(f"{path}/a", [test] * 10_000, JSON_PATCH).status == 200
        message = refused(place.patch(f"{path}/a", [test] * 10_001, JSON_PATCH), 413)

        assert message.endswith("operations in a JSON patch is 10000, got 10001")

    @pytest.mark.parametrize(
        ("spec", "metadata", "refused_fields"),
        [
            pytest.param({}, {}, ["spec"], id="empty"),
            pytest.param({**_RESOURCE, **_PATH}, {}, ["spec"], id="both"),
            pytest.param(_RESOURCE, {"name": "a"}, ["metadata"], id="name"),
            pytest.param(_RESOURCE, {"labels": {"a": "b"}}, ["metadata"], id="labels"),
        ],
    )
    def test_a_review_asks_for_one_thing(
        self, place: Place, spec: JSONObject, metadata: JSONObject, refused_fields: list[str]
    ) -> None:
        own = {"kind": "SelfSubjectAccessReview", "spec": spec, "metadata": metadata}
        others = {"kind": "SubjectAccessReview", "spec": {**spec, "user": "a"}}
        version = {"apiVersion": "authorization.k8s.io/v1"}

        own_answer = place.send("POST", f"{REVIEWS}/selfsubjectaccessreviews", {**own, **version})
        answer = place.send(
            "POST", f"{REVIEWS}/subjectaccessreviews", {**others, **version, "metadata": metadata}
        )

        assert fields(own_answer) == refused_fields
        assert fields(answer) == refused_fields

    def test_a_review_of_others_names_one(self, place: Place) -> None:
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": _RESOURCE,
        }
        groups = {**body, "spec": {**_RESOURCE, "groups": ["a"]}}

        assert fields(place.send("POST", f"{REVIEWS}/subjectaccessreviews", body)) == ["spec.user"]
        place.created(f"{REVIEWS}/subjectaccessreviews", groups)

    def test_a_local_review_is_about_resources(self, place: Place) -> None:
        path = place.path("localsubjectaccessreviews", api_version="authorization.k8s.io/v1")
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "LocalSubjectAccessReview",
            "metadata": {"namespace": place.namespace},
            "spec": {"user": "a", **_PATH},
        }

        assert fields(place.send("POST", path, body)) == ["spec.nonResourceAttributes"]

    def test_a_review_of_rules_names_a_namespace(self, place: Place) -> None:
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {},
        }

        answer = place.send("POST", f"{REVIEWS}/selfsubjectrulesreviews", body)

        assert refused(answer, 400) == "no namespace on request"

    def test_a_pod_is_bound_to_a_node_only(self, place: Place) -> None:
        place.created(place.path("pods"), pod())
        path = place.path("pods", "a/binding")
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}}

        other = place.send("POST", path, {**body, "target": {"kind": "Pod", "name": "n"}})

        assert 'target.kind: Unsupported value: "Pod"' in refused(other, 500)
        place.created(path, {**body, "target": {"kind": "Node", "name": "n"}})


def _serve_formatted(place: Place) -> None:
    texts = {"byte": "byte", "duration": "duration"}
    properties = {name: {"type": "string", "format": form} for name, form in texts.items()}
    spec = {"type": "object", "properties": properties}
    schema = {"type": "object", "properties": {"spec": spec}}
    place.server.api.register(FORMATTED, "Formatted", "formatteds", schema=schema)


def formatted(name: str, spec: JSONObject | None = None, **metadata: Any) -> JSONObject:
    """Return an object whose fields have formats."""
    return {
        "apiVersion": FORMATTED,
        "kind": "Formatted",
        "metadata": {"name": name, **metadata},
        "spec": spec or {},
    }


class TestFormats:
    """Formats of texts, and numbers that may be texts."""

    @pytest.mark.parametrize(
        ("field", "fitting", "unfit"),
        [
            pytest.param(
                "byte",
                ["YQ==", "YR==", "YWI=", "YWJj"],
                ["", "?", "YQ", "YQ==\n", "_-==", "Y Q=="],
                id="byte",
            ),
            pytest.param(
                "duration",
                [
                    *("1h30m", "-1.5s", "0", "1us", "1\u00b5s", "1\u03bcs", ".5s", "1.s"),
                    *("PT1H", "P1D", "2 weeks", "1 hour", "1HR", "3 days", "1e3s", "9999999999h"),
                ],
                ["", "90", "ns", "1 Hrs", "10 foo", "h1", "1.", f"{1 << 63}h"],
                id="duration",
            ),
        ],
    )
    def test_texts_have_the_format_of_their_schema(
        self, place: Place, field: str, fitting: list[str], unfit: list[str]
    ) -> None:
        _serve_formatted(place)
        path = place.path("formatteds", api_version=FORMATTED)

        for number, text in enumerate(fitting):
            place.created(path, formatted(f"a{number}", {field: text}))
        for text in unfit:
            answer = place.send("POST", path, formatted("b", {field: text}))
            assert (text, fields(answer)) == (text, [f"spec.{field}"])

    @pytest.mark.parametrize("value", [1.5, 1 << 31, True])
    def test_a_number_or_a_text_is_a_whole_number(self, place: Place, value: JSONObject) -> None:
        path = place.path("deployments", api_version="apps/v1")
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": value}}

        created = place.send("POST", path, deployment("main", strategy=rolling))
        applied = place.apply(f"{path}/a", deployment("main", strategy=rolling), "me")

        assert "of type int32" in refused(created, 400)
        assert "int32" in refused(applied, 500)
