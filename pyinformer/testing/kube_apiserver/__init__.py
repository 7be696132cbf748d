"""A real kube-apiserver with etcd for tests: it is built once, and runs in child processes."""

from pyinformer.testing.kube_apiserver._build import find_go, find_or_build, user_cache_folder
from pyinformer.testing.kube_apiserver._etcd import SavedEtcd
from pyinformer.testing.kube_apiserver._kube_apiserver import KubeAPIServer, StaticToken

__all__ = [
    "KubeAPIServer",
    "SavedEtcd",
    "StaticToken",
    "find_go",
    "find_or_build",
    "user_cache_folder",
]
