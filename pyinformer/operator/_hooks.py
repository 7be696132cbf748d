"""What an operator declares for its webhooks: hooks, conversions, and how they are reached.

Loaded by the first of these declarations, so that operators without webhooks do not pay for them.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

from pyinformer.admission import Hook, HookKind, HookOptions, HookSet, Webhooks
from pyinformer.admission.conversion import Conversions, with_conversion
from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import (
    GroupVersionResource,
    JSONObject,
    check_text,
    check_type,
)
from pyinformer.operator._conversions import add_conversion, check_conversions
from pyinformer.operator._custom_resource import (
    CustomResource,
    declaration_of,
    definitions_of,
)
from pyinformer.operator._reconciler import Reconciler, checked_model

if TYPE_CHECKING:
    from pyinformer.client.cluster import Cluster
    from pyinformer.objects import Access
    from pyinformer.operator._registrations import Registrations
    from pyinformer.operator._served_hooks import ServedHooks
    from pyinformer.telemetry.metrics import Metrics

_NO_WEBHOOKS: Final = (
    "must be given: how does the API server reach the hooks?"
    ' Operator(..., webhooks=pyinformer.Webhooks(service="namespace/name"))'
)


@final
class OperatorHooks:
    """The hooks and the conversions of one operator.

    Args:
        operator: its name.
        webhooks: how they are reached; None if they are not served.
        registrations: of the operator.

    Raises:
        InvalidTypeError: `webhooks` is none.
    """

    def __init__(
        self, operator: str, webhooks: Webhooks | None, registrations: Registrations
    ) -> None:
        if webhooks is not None:
            check_type("webhooks", webhooks, Webhooks)
        self._operator = operator
        self._webhooks = webhooks
        self._registrations = registrations
        self.hooks: HookSet = HookSet(operator)
        """The functions of `validate` and `default`."""
        self.conversions: Conversions = Conversions()
        """The functions of `convert`."""

    def registering(
        self,
        kind: HookKind,
        api_version: str,
        plural: str,
        model: type[object] | None,
        options: HookOptions,
    ) -> Callable[[Any], Any]:
        """Return a decorator that registers a hook; see `Operator.validate`.

        Raises:
            InvalidArgumentError: an argument is invalid.
            InvalidTypeError: an object cannot be decoded into the model.
        """
        check_text("plural", plural)
        path, _, subresource = plural.partition("/")
        resource = GroupVersionResource.of(api_version, path)
        checked = checked_model(model, resource)
        unknown = [name for name in options if name not in HookOptions.__annotations__]
        if unknown:
            known = ", ".join(HookOptions.__annotations__)
            raise InvalidArgumentError(
                unknown[0], f"must be left out: the options of a hook are {known}"
            )

        def register(function: Any, /) -> Any:  # noqa: ANN401 - the overloads are RegisterHook's
            self._registrations.refuse_if_running(f"{kind}()")
            self.hooks.add(
                Hook(
                    kind=kind,
                    resource=resource,
                    subresource=subresource,
                    function=function,
                    model=checked,
                    **options,
                )
            )
            return function

        return register

    def add_conversion(self, function: Callable[[Any], Any], source: type, target: type) -> None:
        """Register a function between two models; see `Operator.convert`.

        Raises:
            InvalidArgumentError: the models are not versions of one resource, or are converted so
                already.
            InvalidTypeError: a model declares no custom resource, or the function cannot be called
                so.
            LifecycleError: the operator runs.
        """
        self._registrations.refuse_if_running("convert()")
        add_conversion(self.conversions, function, source, target)

    def check(self) -> None:
        """Refuse a version that cannot be converted to another, if there are functions.

        Raises:
            InvalidArgumentError: naming the pair of versions.
        """
        check_conversions(self.conversions, (one.model for one in self._reconcilers if one.model))

    @property
    def _reconcilers(self) -> Iterable[Reconciler]:
        return self._registrations.reconcilers.values()

    def definitions(self, declared: Sequence[tuple[type, CustomResource]]) -> list[JSONObject]:
        """Return the definitions of models, and of those between which functions convert.

        Raises:
            InvalidArgumentError: a version cannot be converted to another one.
            InvalidModelError: a definition cannot describe a field.
        """
        self.check()
        converted = [(each.model, declaration_of(each.model)) for each in self.conversions.versions]
        found = definitions_of([*declared, *converted])
        if self._webhooks is None:
            return found
        return with_conversion(found, self.conversions, self._webhooks)

    def configurations(
        self, *, service_account: str | None, ca_bundle: bytes | None
    ) -> list[JSONObject]:
        """Return the configurations of webhooks; see `Operator.webhook_configurations`.

        Raises:
            InvalidArgumentError: the operator has no `webhooks`, or an argument is invalid.
            InvalidTypeError: an argument is of another type.
        """
        if self._webhooks is None:
            raise InvalidArgumentError("webhooks", _NO_WEBHOOKS)
        if service_account is not None:
            check_text("service_account", service_account)
            if service_account.count("/") != 1 or not all(service_account.split("/")):
                reason = f"must be namespace/name, got {service_account!r}"
                raise InvalidArgumentError("service_account", reason)
        if ca_bundle is not None:
            check_type("ca_bundle", ca_bundle, bytes)
        encoded = "" if ca_bundle is None else base64.b64encode(ca_bundle).decode()
        return self.hooks.configurations(
            self._webhooks, service_account=service_account, ca_bundle=encoded
        )

    def accesses(self, namespace: str) -> Sequence[Access]:
        """Return the rights that webhooks need.

        Args:
            namespace: that of the pod, for a Secret without a Service.
        """
        if self._webhooks is None:
            return ()
        from pyinformer.operator._webhook_rights import accesses_of

        return accesses_of(self._webhooks, self._operator, self.hooks, self._converted, namespace)

    @property
    def _converted(self) -> list[str]:
        """The names of the definitions whose objects are converted."""
        return list(dict.fromkeys(one.name for one in self.conversions.versions))

    def serving(
        self, cluster: Cluster, *, lingers: bool, metrics: Metrics
    ) -> Callable[[Callable[[], bool]], ServedHooks] | None:
        """Return what makes the server of a run; None if nothing is declared.

        Args:
            cluster: of the run.
            lingers: whether it serves for some seconds more at the end.
            metrics: where figures go.

        Raises:
            ConfigurationError: a package is not installed.
            InvalidArgumentError: there are functions without `webhooks`, or the other way round.
        """
        has_functions = bool(self.hooks or self.conversions.versions)
        if self._webhooks is None and not has_functions:
            return None
        if self._webhooks is None:
            raise InvalidArgumentError("webhooks", _NO_WEBHOOKS)
        if not has_functions:
            reason = "must be left out, or a hook registered: @app.validate, default or convert"
            raise InvalidArgumentError("webhooks", reason)
        from pyinformer.operator._served_hooks import ServedHooks
        from pyinformer.operator._webhook_rights import targets_of

        return partial(
            ServedHooks,
            cluster,
            self._operator,
            self._webhooks,
            self.hooks,
            targets=targets_of(self.hooks, self._converted),
            convert=self.conversions.answer if self.conversions.versions else None,
            lingers=lingers and self._webhooks.service is not None,
            metrics=metrics,
        )
