"""kubectl of Debian, six years older than the server, and the one that is installed.

Each test is a few commands that people type. The same have to hold on a real kube-apiserver.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer.objects import dump_yaml
from pyinformer.testing import APIServer
from tests.foreign import clients
from tests.foreign.kubectl import Kubectl

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.servers import Server

pytestmark = [pytest.mark.foreign, pytest.mark.timeout(120)]

_GADGET = {"apiVersion": "gadgets.example.com/v1", "kind": "Gadget"}


def config_map(name: str = "conf", **data: str) -> dict[str, Any]:
    """Return a config map."""
    metadata = {"name": name, "labels": {"app": "web"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def deployment(image: str = "nginx:1") -> dict[str, Any]:
    """Return a deployment of two."""
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [_container("c", image)]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }


def _container(name: str, image: str) -> dict[str, Any]:
    return {"name": name, "image": image}


def _pod(name: str) -> dict[str, Any]:
    spec = {"containers": [_container("c", "i")]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _definition() -> dict[str, Any]:
    """Return the definition of gadgets: scaled, printed with a column, called by a short name."""
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    numbers = {"size": {"type": "integer"}, "replicas": {"type": "integer"}}
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}, "scale": scale},
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "properties": {
                    "spec": {"type": "object", "properties": numbers},
                    "status": anything,
                },
            }
        },
    }
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "shortNames": ["gd"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.gadgets.example.com"},
        "spec": {
            "group": "gadgets.example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
        },
    }


@pytest.fixture(params=["debian", "path"])
def kubectl(
    request: pytest.FixtureRequest, server: Server, kubeconfig: Path, tmp_path: Path
) -> Kubectl:
    """A kubectl in a namespace of its own."""
    program = clients.kubectl(request.param)
    if isinstance(program, str):
        pytest.skip(program)
    return Kubectl(program, kubeconfig, tmp_path, server.namespace())


def test_the_kubeconfig_of_an_open_server_over_tls_asks_for_no_name(tmp_path: Path) -> None:
    program = clients.kubectl("debian")
    if isinstance(program, str):
        pytest.skip(program)
    with APIServer(tls=True) as api:
        kubeconfig = api.write_kubeconfig(tmp_path / "kubeconfig")
        kubectl = Kubectl(program, kubeconfig, tmp_path, "default")
        assert kubectl("get", "namespaces", "default", "-o", "name") == "namespace/default\n"


def test_create_and_get_in_every_form(kubectl: Kubectl) -> None:
    assert kubectl("create", "-f", "-", body=config_map(a="1")) == "configmap/conf created\n"
    said = kubectl.fails("create", "-f", "-", body=config_map())
    assert '(AlreadyExists): error when creating "STDIN": configmaps "conf" already' in said
    assert kubectl.rows("get", "cm", "conf")[1][:2] == ["conf", "1"]
    assert kubectl.rows("get", "configmap", "-l", "app=web")[0] == ["NAME", "DATA", "AGE"]
    assert kubectl.rows("get", "cm", "conf", "--show-labels")[1][-1] == "app=web"
    assert 'a: "1"' in kubectl("get", "cm", "conf", "-o", "yaml")
    assert kubectl.json("get", "cm", "conf")["data"] == {"a": "1"}
    assert kubectl("get", "cm/conf", "-o", "name") == "configmap/conf\n"
    assert kubectl("get", "cm", "conf", "-o", "jsonpath={.data.a}") == "1"
    listed = json.loads(
        kubectl("get", "--raw", f"/api/v1/namespaces/{kubectl.namespace}/configmaps")
    )
    assert listed["kind"] == "ConfigMapList"


def test_create_without_a_file(kubectl: Kubectl) -> None:
    """Newer kubectls send these in protobuf."""
    name = f"{kubectl.namespace}-2"
    assert kubectl("create", "namespace", name) == f"namespace/{name} created\n"
    kubectl("create", "configmap", "c", "--from-literal=a=b")
    kubectl("create", "secret", "generic", "s", "--from-literal=k=v")
    kubectl("create", "deployment", "d", "--image=nginx", "--replicas=2")
    assert kubectl.json("get", "cm", "c")["data"] == {"a": "b"}
    assert kubectl.rows("get", "secret", "s")[1][:3] == ["s", "Opaque", "1"]
    spec = kubectl.json("get", "deploy", "d")["spec"]
    assert spec["replicas"] == 2
    assert spec["template"]["spec"]["containers"][0]["image"] == "nginx"
    assert kubectl("expose", "deploy", "d", "--port=80", "--target-port=http").endswith("exposed\n")
    assert kubectl.json("get", "svc", "d")["spec"]["ports"][0]["targetPort"] == "http"


def test_refusals_are_shown_with_the_message_of_the_server(kubectl: Kubectl) -> None:
    said = kubectl.fails("get", "cm", "absent")
    assert said == 'Error from server (NotFound): configmaps "absent" not found\n'
    said = kubectl.fails("get", "cm", "--field-selector", "data.a=1")
    assert '"data.a" is not a known field selector: only "metadata.name"' in said
    assert kubectl.fails("get", "nonsense") == (
        'error: the server doesn\'t have a resource type "nonsense"\n'
    )


def test_lists_are_read_in_pages(kubectl: Kubectl) -> None:
    items = [config_map(f"many-{number}") for number in range(7)]
    kubectl("create", "-f", "-", body={"apiVersion": "v1", "kind": "List", "items": items})
    names = kubectl("get", "cm", "-l", "app=web", "--chunk-size=3", "-o", "name").split()
    assert names == [f"configmap/many-{number}" for number in range(7)]
    assert len(kubectl.rows("get", "cm", "-l", "app=web", "--chunk-size=2")) == 8


def test_pods_and_deployments_have_their_columns(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", body=_pod("p"))
    kubectl("create", "-f", "-", body=deployment())
    assert kubectl.rows("get", "pods")[0] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert kubectl.rows("get", "po", "p")[1][:4] == ["p", "0/1", "Pending", "0"]
    assert kubectl.rows("get", "deploy", "web", "-o", "wide")[1][:4] == ["web", "0/2", "0", "0"]
    assert kubectl.rows("get", "deploy", "web", "-o", "wide")[1][5:] == ["c", "nginx:1", "app=web"]
    everything = kubectl("get", "all", "-o", "name").split()
    assert {"pod/p", "deployment.apps/web"} <= set(everything)
    assert "Image:" in kubectl("describe", "pod", "p")


def test_apply_merges_what_others_have_added(kubectl: Kubectl) -> None:
    assert kubectl("apply", "-f", "-", body=deployment()) == "deployment.apps/web created\n"
    assert kubectl("apply", "-f", "-", body=deployment()) == "deployment.apps/web unchanged\n"
    sidecar = {"spec": {"template": {"spec": {"containers": [_container("d", "e:1")]}}}}
    assert kubectl("patch", "deploy", "web", "-p", json.dumps(sidecar)).endswith(" patched\n")
    assert kubectl("apply", "-f", "-", body=deployment("nginx:2")).endswith(" configured\n")
    images = kubectl("get", "deploy", "web", "-o", "jsonpath={..image}").split()
    assert sorted(images) == ["e:1", "nginx:2"]


def test_what_is_printed_as_yaml_is_applied_as_the_same_values(
    kubectl: Kubectl, tmp_path: Path
) -> None:
    data = {
        "y": "n",
        "on": "off",
        "zip": "08",
        "rev": "1e3",
        "time": "22:22",
        "odd": "a\x85\x7f\u2028",
    }
    path = tmp_path / "printed.yaml"
    path.write_text(dump_yaml(config_map(**data)), encoding="utf-8")

    kubectl("apply", "-f", str(path))

    assert kubectl.json("get", "configmap", "conf")["data"] == data


def test_server_side_apply_names_the_owner_of_a_field(kubectl: Kubectl) -> None:
    apply = ("apply", "--server-side", "-f", "-")
    assert kubectl(*apply, body=config_map(a="1")) == "configmap/conf serverside-applied\n"
    said = kubectl.fails(*apply, "--field-manager", "other", body=config_map(a="2"))
    assert 'Apply failed with 1 conflict: conflict with "kubectl": .data.a' in said
    kubectl(*apply, "--field-manager", "other", "--force-conflicts", body=config_map(a="2"))
    assert kubectl.json("get", "cm", "conf")["data"] == {"a": "2"}


def test_patches_of_three_kinds(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", body=config_map(a="1"))
    kubectl("patch", "cm", "conf", "--type", "merge", "-p", '{"data":{"b":"2"}}')
    kubectl("patch", "cm", "conf", "--type", "json", "-p", '[{"op":"remove","path":"/data/a"}]')
    kubectl("patch", "cm", "conf", "-p", '{"data":{"c":"3"}}')
    assert kubectl.json("get", "cm", "conf")["data"] == {"b": "2", "c": "3"}


def test_replace_of_an_older_version_is_a_conflict(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", body=config_map(a="1"))
    old = kubectl.json("get", "cm", "conf")
    assert kubectl("replace", "-f", "-", body=config_map(a="2")) == "configmap/conf replaced\n"
    said = kubectl.fails("replace", "-f", "-", body=old)
    assert '(Conflict): error when replacing "STDIN": Operation cannot be fulfilled' in said


def test_labels_and_annotations(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", body=config_map())
    assert kubectl("label", "cm", "conf", "tier=front") == "configmap/conf labeled\n"
    kubectl.fails("label", "cm", "conf", "tier=back")
    kubectl("label", "cm", "conf", "tier=back", "--overwrite")
    assert kubectl("annotate", "cm", "conf", "note=x") == "configmap/conf annotated\n"
    metadata = kubectl.json("get", "cm", "conf")["metadata"]
    assert metadata["labels"] == {"app": "web", "tier": "back"}
    assert metadata["annotations"] == {"note": "x"}


def test_scale_and_rollout(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", body=deployment())
    assert kubectl("scale", "deploy", "web", "--replicas=5") == "deployment.apps/web scaled\n"
    said = kubectl.fails("scale", "deploy", "web", "--current-replicas=1", "--replicas=6")
    assert "xpected replicas to be 1, was 5" in said
    assert kubectl("set", "image", "deploy/web", "c=nginx:9").endswith("image updated\n")
    assert kubectl("rollout", "restart", "deploy/web") == "deployment.apps/web restarted\n"
    generation = kubectl.json("get", "deploy", "web")["metadata"]["generation"]
    assert generation == 4
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas"), 5)
    status = {"observedGeneration": generation, "availableReplicas": 5, **counts}
    path = f"/apis/apps/v1/namespaces/{kubectl.namespace}/deployments/web/status"
    body = {**kubectl.json("get", "deploy", "web"), "status": status}
    kubectl("replace", "--raw", path, "-f", "-", body=body)
    assert "successfully rolled out" in kubectl("rollout", "status", "deploy/web")


def test_deletions_wait_and_select(kubectl: Kubectl) -> None:
    for name in ("a", "b", "c"):
        kubectl("create", "-f", "-", body=config_map(name))
    assert kubectl("delete", "cm", "a", "--wait").startswith('configmap "a" deleted')
    assert kubectl("delete", "cm", "-l", "app=web").count("deleted") == 2
    assert "not found" in kubectl.fails("delete", "cm", "a")
    assert kubectl("delete", "cm", "a", "--ignore-not-found") == ""
    kubectl("create", "-f", "-", body=_pod("p"))
    assert 'pod "p" deleted' in kubectl("delete", "pod", "p", "--now")
    kubectl("apply", "-f", "-", body=deployment())
    kubectl("delete", "deploy", "web", "--cascade=foreground", "--wait=false")
    held = kubectl.json("get", "deploy", "web")["metadata"]
    assert held["finalizers"] == ["foregroundDeletion"]


def test_a_watch_prints_rows_as_they_come(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", body=config_map("first", a="1"))
    with kubectl.stream("get", "cm", "-w", "-l", "app=web") as lines:
        assert next(lines).split() == ["NAME", "DATA", "AGE"]
        assert next(lines).split()[:2] == ["first", "1"]
        kubectl("create", "-f", "-", body=config_map("second", a="1", b="2"))
        assert next(lines).split()[:2] == ["second", "2"]
        kubectl("delete", "cm", "first")
        assert next(lines).split()[:2] == ["first", "1"]


def test_custom_resources_are_like_any_other(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", body=_definition())
    kubectl("wait", "crd/gadgets.gadgets.example.com", "--for=condition=Established")
    gadget = {**_GADGET, "metadata": {"name": "g"}, "spec": {"size": 3, "replicas": 1}}
    assert kubectl("apply", "-f", "-", body=gadget) == "gadget.gadgets.example.com/g created\n"
    assert kubectl.rows("get", "gd") == [["NAME", "SIZE"], ["g", "3"]]
    kubectl("patch", "gadget", "g", "--type", "merge", "-p", '{"spec":{"size":4}}')
    said = kubectl.fails("patch", "gadget", "g", "-p", '{"spec":{"size":5}}')
    assert "accepted media types include: application/json-patch+json, application/merge" in said
    kubectl("scale", "gadget", "g", "--replicas=3")
    assert kubectl.json("get", "gadgets", "g")["spec"] == {"size": 4, "replicas": 3}
    applied = {**_GADGET, "metadata": {"name": "h"}, "spec": {"size": 1}}
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", "-", body=applied)
    assert kubectl("delete", "gadget", "g", "h").count("deleted") == 2


def test_discovery_and_access_reviews_are_answered(kubectl: Kubectl) -> None:
    by_name = {row[0]: row for row in kubectl.rows("api-resources", "--api-group=apps")}
    assert by_name["deployments"][1:] == ["deploy", "apps/v1", "true", "Deployment"]
    assert {"v1", "apps/v1", "batch/v1"} <= set(kubectl("api-versions").split())
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert kubectl("get", "--raw", "/readyz") == "ok"


def test_a_dry_run_stores_nothing(kubectl: Kubectl) -> None:
    created = kubectl("create", "--dry-run=server", "-f", "-", "-o", "name", body=config_map())
    assert created == "configmap/conf\n"
    kubectl("apply", "-f", "-", body=config_map(a="1"))
    done = kubectl.fails("diff", "-f", "-", body=config_map(a="2"))
    assert done == ""  # what differs is on the other stream; an error would be here
    assert kubectl.json("get", "cm", "conf")["data"] == {"a": "1"}
