"""The names of a new project: checked before anything is written."""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from dataclasses import dataclass
from typing import Final, final

from pyinformer.cli.project._manifest_settings import LABEL
from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import guess_plural
from pyinformer.testing.apiserver.resources import BUILT_IN

_LABEL: Final = re.compile(LABEL)
_GROUP: Final = re.compile(
    r"(?=.{3,189}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+"
)
_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]{0,57}")  # with `Status`, as long as a label may be
_VERSION: Final = re.compile(r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?")
_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_RESERVED_GROUPS: Final = ("k8s.io", "kubernetes.io")
_FOLDERS: Final = frozenset({"build", "chart", "deploy", "dist", "tests"})  # .gitignore has two
_FURTHER_KINDS: Final = frozenset(
    {"APIService", "CSIDriver", "CSINode", "CSIStorageCapacity", "ClusterTrustBundle"}
    | {"ComponentStatus", "DeviceClass", "Eviction", "FlowSchema", "IPAddress", "IngressClass"}
    | {"List", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"}
    | {"MutatingWebhookConfiguration", "PodTemplate", "PriorityLevelConfiguration"}
    | {"ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "RuntimeClass", "Scale"}
    | {"ServiceCIDR", "Status", "TokenRequest", "ValidatingAdmissionPolicy"}
    | {"ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration", "VolumeAttachment"}
    | {"VolumeAttributesClass"}
)
"""Kinds of Kubernetes that the embedded server does not have."""
_IMPORTED: Final = frozenset({"Annotated", "Any"})
_VARIABLES: Final = frozenset(
    {"app", "applied", "child", "cluster", "current", "deployment", "int", "owner", "pyinformer"}
    | {"check", "complete", "downgrade", "image", "old", "os", "program", "reached", "review"}
    | {"spec", "upgrade"}
    | {"reconcile", "request", "status", "wanted"}
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectNames:
    """What a project and its custom resource are called.

    Raises:
        InvalidArgumentError: a name cannot be used; names the argument, and what to use instead.
    """

    name: str
    """The operator's name: that of the image, the Deployment and the namespace."""
    group: str
    """The group of the resource."""
    kind: str
    """The kind of its objects."""
    version: str = "v1alpha1"
    """The version of the resource."""
    plural: str = ""
    """Its plural name; empty to make one from the kind."""

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_group(self.group)
        _check_kind(self.kind)
        if not _VERSION.fullmatch(self.version):
            reason = f"must be a version such as v1, v1beta1 or v1alpha1, got {self.version!r}"
            raise InvalidArgumentError("version", reason)
        object.__setattr__(self, "plural", self.plural or guess_plural(self.kind))
        if not _LABEL.fullmatch(self.plural):
            reason = f"must be in lower case, such as databases, got {self.plural!r}"
            raise InvalidArgumentError("plural", reason)

    @property
    def package(self) -> str:
        """The name of the Python package."""
        return _package(self.name)

    @property
    def old_version(self) -> str:
        """A version before it, of a project with two."""
        return "v1alpha0" if self.version == "v1alpha1" else "v1alpha1"

    @property
    def variable(self) -> str:
        """The name of an object in the reconcile function."""
        found = _WORD.sub("_", self.kind).lower()
        is_taken = found in _VARIABLES or keyword.iskeyword(found)
        return f"{found}_object" if is_taken else found


def _package(name: str) -> str:
    return name.replace("-", "_")


def _check_name(name: str) -> None:
    if not _LABEL.fullmatch(name):
        reason = "must be lower-case letters, digits and '-', at most 63, with a letter first"
        raise InvalidArgumentError("name", f"{reason}, such as database-operator; got {name!r}")
    package = _package(name)
    if keyword.iskeyword(package) or package in _FOLDERS or _is_module(package):
        reason = f"Python has a module, a keyword or a folder of projects called {package!r}"
        raise InvalidArgumentError("name", f"{reason}; choose another, such as {name}-operator")


def _is_module(package: str) -> bool:
    if package in sys.stdlib_module_names:
        return True
    found = importlib.util.find_spec(package)
    return found is not None and found.has_location  # not any folder on the path


def _check_group(group: str) -> None:
    if not _GROUP.fullmatch(group):
        reason = f"must be a domain in lower case with a dot, such as acme.io, got {group!r}"
        raise InvalidArgumentError("group", reason)
    if any(group == one or group.endswith(f".{one}") for one in _RESERVED_GROUPS):
        reason = f"{group!r} belongs to Kubernetes; use a domain of yours, such as acme.io"
        raise InvalidArgumentError("group", reason)


def _check_kind(kind: str) -> None:
    if not _KIND.fullmatch(kind):
        reason = "must have letters and digits only, begin with a capital, and have 58 at most"
        raise InvalidArgumentError("kind", f"{reason}, such as Database; got {kind!r}")
    if kind in _IMPORTED or keyword.iskeyword(kind):
        reason = f"{kind!r} is a name in the generated program; choose another, such as My{kind}"
        raise InvalidArgumentError("kind", reason)
    known = {each.kind: f", in {f'{each.group}/{each.version}'.lstrip('/')}" for each in BUILT_IN}
    if kind in known or kind in _FURTHER_KINDS:
        reason = f"{kind!r} exists in Kubernetes{known.get(kind, '')}: kubectl would show that one"
        raise InvalidArgumentError("kind", f"{reason}; choose another, such as Acme{kind}")
