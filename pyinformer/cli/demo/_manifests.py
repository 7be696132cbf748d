"""The objects of the demo's cluster, as JSON dicts such as a kubelet or a controller would write.

Every call returns a new dict.
"""

from __future__ import annotations

from pyinformer.objects import JSONObject

_IMAGE = "registry.example.com/{app}:v{version}"


def namespace(name: str) -> JSONObject:
    """Return a namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def node(name: str, zone: str) -> JSONObject:
    """Return a node that accepts pods."""
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": f"demo://{zone}/{name}"},
        "status": {
            "capacity": {"cpu": "16", "memory": "64Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "nodeInfo": {"kubeletVersion": "v1.36.0", "osImage": "Demo Linux"},
        },
    }


def deployment(app: str, namespace: str, replicas: int, version: int) -> JSONObject:
    """Return a deployment whose pods all run."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": app, "namespace": namespace, "labels": {"app": app}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": app}},
            "strategy": {"type": "RollingUpdate"},
            "template": template(app, version),
        },
        "status": {"replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas},
    }


def replica_set(
    name: str, *, app: str, namespace: str, version: int, replicas: int, owner: JSONObject
) -> JSONObject:
    """Return a replica set of a deployment."""
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app": app, "version": f"v{version}"},
            "ownerReferences": [_owner(owner)],
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": app, "version": f"v{version}"}},
            "template": template(app, version),
        },
        "status": {"replicas": replicas, "readyReplicas": replicas},
    }


def pod(
    name: str, app: str, namespace: str, version: int, owner: JSONObject | None = None
) -> JSONObject:
    """Return a pod that is not scheduled yet."""
    shape = template(app, version)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": shape["metadata"]["labels"],
            "annotations": {"example.com/team": f"team-{app}"},
            "ownerReferences": [_owner(owner)] if owner else [],
        },
        "spec": {
            **shape["spec"],
            "restartPolicy": "Always" if owner else "Never",
            "tolerations": [
                {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoExecute"}
                for taint in ("not-ready", "unreachable")
            ],
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


def running(pod_ip: str) -> JSONObject:
    """Return the status of a pod whose containers have started."""
    return {
        "phase": "Running",
        "podIP": pod_ip,
        "conditions": [
            {"type": kind, "status": "True"}
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ],
    }


def template(app: str, version: int) -> JSONObject:
    """Return the pod template of a version."""
    return {
        "metadata": {"labels": {"app": app, "version": f"v{version}"}},
        "spec": {
            "serviceAccountName": app,
            "containers": [
                {
                    "name": app,
                    "image": _IMAGE.format(app=app, version=version),
                    "ports": [{"name": "http", "containerPort": 8080}],
                    "env": [
                        {"name": "VERSION", "value": f"v{version}"},
                        {"name": "LISTEN", "value": "0.0.0.0:8080"},
                    ],
                    "resources": {
                        "requests": {"cpu": "100m", "memory": "128Mi"},
                        "limits": {"memory": "256Mi"},
                    },
                    "readinessProbe": {"httpGet": {"path": "/healthz", "port": "http"}},
                }
            ],
        },
    }


def _owner(owner: JSONObject) -> JSONObject:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
