"""Conversions of an operator's custom resources, by the models that declare them."""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pyinformer.admission.conversion import Conversions, ConvertedVersion
from pyinformer.operator._custom_resource import declaration_of, declared_resource


def add_conversion(
    conversions: Conversions, function: Callable[[Any], Any], source: type, target: type
) -> None:
    """Register a function between two models.

    Raises:
        InvalidArgumentError: the models are not versions of one resource, or are converted so
            already.
        InvalidTypeError: a model declares no custom resource, or the function cannot be called so.
    """
    conversions.add(function, _version_of(source), _version_of(target))


def _version_of(model: type) -> ConvertedVersion:
    declared = declaration_of(model)
    return ConvertedVersion(declared.resource, declared.kind, model)


def check_conversions(conversions: Conversions, models: Iterable[type]) -> None:
    """Refuse a converted resource of which a version cannot be converted to another.

    Args:
        conversions: of the operator.
        models: other models that it uses.

    Raises:
        InvalidArgumentError: names the pair of versions.
    """
    known = [*models, *(one.model for one in conversions.versions)]
    others = [
        other
        for model in known
        if (declared := declared_resource(model)) is not None
        for other in (model, *declared.versions)
    ]
    conversions.check(_version_of(one) for one in dict.fromkeys(others))
