"""What a user's type checker must see; read by the two of them, never run.

Every `reveal_type(...)` carries the expected type in a comment behind it, without module names.
test_reveal_types.py asks mypy and pyright and compares. To add a case, add a line to the function
of its station, or a function for a new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, reveal_type

from pyinformer.apimachinery import KubeObject, ObjectMeta, View

if TYPE_CHECKING:
    from pyinformer.apimachinery import GroupVersionResource, ObjectKey


class PodStatus(View):
    """A nested part of the view."""

    phase: str = ""


class PodView(View):
    """What these cases project of a pod."""

    status: PodStatus


class Model:
    """A model of the user's own."""


def objects(plain: KubeObject, viewed: KubeObject[PodView]) -> None:
    """KubeObject: generic in its view, and every read has a type of its own."""
    reveal_type(plain.view)  # None
    reveal_type(viewed.view)  # PodView
    reveal_type(viewed.view.status.phase)  # str
    reveal_type(plain.key)  # ObjectKey
    reveal_type(plain.raw)  # bytes
    reveal_type(plain.at("spec.nodeName", str))  # str
    reveal_type(plain.at("spec.nodeName", str, default=None))  # str | None
    reveal_type(plain.as_type(Model))  # Model


def names(key: ObjectKey, resource: GroupVersionResource, meta: ObjectMeta) -> None:
    """Keys, resources and metadata."""
    reveal_type(key.namespace)  # str
    reveal_type(resource.api_version)  # str
    reveal_type(meta.labels)  # Labels
    reveal_type(meta.finalizers)  # tuple[str, ...]
    reveal_type(meta.deletion_timestamp)  # str | None
