"""Projects of operators: the files that `pyinformer init` and `pyinformer manifests` write."""

from pyinformer.cli.project._init import init_project
from pyinformer.cli.project._manifests import manifests_of
from pyinformer.cli.project._names import ProjectNames
from pyinformer.cli.project._settings import ManifestSettings, read_settings
from pyinformer.cli.project._update import update_manifests

__all__ = [
    "ManifestSettings",
    "ProjectNames",
    "init_project",
    "manifests_of",
    "read_settings",
    "update_manifests",
]
