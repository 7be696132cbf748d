"""Projects of operators: the files that `pyinformer init` and `pyinformer manifests` write."""

from pyinformer.cli.project._init import init_project
from pyinformer.cli.project._manifest_settings import ManifestSettings, read_settings
from pyinformer.cli.project._manifests import manifests_of
from pyinformer.cli.project._manifests_command import update_manifests
from pyinformer.cli.project._names import ProjectNames

__all__ = [
    "ManifestSettings",
    "ProjectNames",
    "init_project",
    "manifests_of",
    "read_settings",
    "update_manifests",
]
