"""Finds the configuration of a cluster and opens a Cluster: the first line of every program.

Exactly one source of configuration is used; if it fails, no other one is tried.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from os import PathLike, fspath

from pyinformer.client.cluster._cluster import Cluster
from pyinformer.client.cluster._rate_limited_requests import WriteOptions
from pyinformer.client.transport import (
    ClusterConfig,
    ConnectionOptions,
    ForeignClient,
    KubeconfigPolicy,
    OnWarning,
    check_policy,
    config_from_client,
    find_config,
)
from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.objects import check_iterable, check_text
from pyinformer.telemetry.metrics import NO_METRICS, Metrics
from pyinformer.telemetry.tracing import Tracing


@asynccontextmanager
async def connect(
    kubeconfig: str | PathLike[str] | None = None,
    *,
    context: str | None = None,
    server: str | None = None,
    config: ClusterConfig | ForeignClient | None = None,
    impersonate_user: str | None = None,
    impersonate_groups: Sequence[str] = (),
    kubeconfig_policy: KubeconfigPolicy = "trusted",
    trust_env: bool = True,
    name: str = "",
    options: ConnectionOptions | None = None,
    write_options: WriteOptions | None = None,
    metrics: Metrics = NO_METRICS,
    tracing: Tracing | None = None,
    field_manager: str | None = None,
    on_warning: OnWarning | None = None,
) -> AsyncIterator[Cluster]:
    """Connect to a cluster: `async with pyinformer.connect() as cluster`.

    Nothing is sent yet: an unreachable server shows when an informer starts.

    Args:
        kubeconfig: a kubeconfig file, or several joined as in KUBECONFIG. None: KUBECONFIG, else
            `~/.kube/config`, else the service account of the pod this runs in.
        context: the context in the kubeconfig; None for its current one.
        server: the URL of a server that needs no credentials, instead of a kubeconfig.
        config: a ready configuration, instead of a kubeconfig; or the `Configuration` or
            `ApiClient` of kubernetes_asyncio, kubernetes or kubernetes.aio, see
            `config_from_client`.
        impersonate_user: the user to impersonate on every request, as kubectl's `--as`; the
            credentials need the right to `impersonate`. It replaces any impersonation in the
            kubeconfig or the config.
        impersonate_groups: the groups of that user, as kubectl's `--as-group`; they need an
            `impersonate_user`.
        kubeconfig_policy: `data-only` is for a kubeconfig that another party wrote, a tenant for
            example: entries in use that run a command, name a file of this host, or name another
            host than the server are refused. `trusted` allows all that kubectl does.
        trust_env: False ignores HTTPS_PROXY, HTTP_PROXY and NO_PROXY, which otherwise apply as for
            kubectl; the `proxy-url` of a kubeconfig takes precedence over them.
        name: what to call the cluster beside other clusters, such as `prod`; requests carry it.
        options: how many connections it uses, and what reads them.
        write_options: the rate of writes, and how long a busy server is retried.
        metrics: where its requests are counted until it is closed; also where informers, factories
            and operators of this cluster record their figures, unless they are given others.
        tracing: traces reconciles of the cluster's objects, and the requests that they send, such
            as `pyinformer.telemetry.opentelemetry.OpenTelemetryTracing()`; None for no traces.
        field_manager: the program's name, which owns the fields that its writes set, where a write
            does not name another; programs that apply to the same objects need different names.
            None for the name of the Operator in whose function a write is made.
        on_warning: a plain function, called on the event loop with the text and the request of each
            warning of the server, about unknown fields or deprecated versions for example; each
            text is also logged once. None for no function.

    Raises:
        ConfigurationNotFoundError: nothing was found, or a file that was named does not exist.
        ConfigurationError: what was found cannot be used; or the environment names a proxy that
            is not an HTTP proxy.
        InvalidArgumentError: more than one of kubeconfig, server and config was given, or groups
            to impersonate without a user, or the policy `data-only` without a kubeconfig; or
            `field_manager` is empty or too long.
        InvalidTypeError: `config` is neither a configuration nor a client that has one, or
            `tracing` is not a tracing system, or `on_warning` cannot be called with two texts.
        LifecycleError: the ApiClient is closed, or belongs to another event loop.

    Cancellation:
        Safe; the connection is closed.
    """
    _check_impersonation(impersonate_user, impersonate_groups)
    check_policy(kubeconfig_policy, has_kubeconfig=kubeconfig is not None)
    found = await _config_of(
        kubeconfig, context, server, config, policy=kubeconfig_policy, trust_env=trust_env
    )
    if impersonate_user is not None:
        found = replace(
            found,
            impersonate_user=impersonate_user,
            impersonate_groups=tuple(impersonate_groups),
            impersonate_uid=None,
            impersonate_extra=(),
        )
    if not trust_env:
        found = replace(found, trust_env=False)
    async with Cluster(
        found,
        name=name,
        options=options,
        write_options=write_options,
        metrics=metrics,
        tracing=tracing,
        field_manager=field_manager,
        on_warning=on_warning,
    ) as cluster:
        yield cluster


def _check_impersonation(user: str | None, groups: Sequence[str]) -> None:
    if user == "":
        raise InvalidArgumentError(
            "impersonate_user", "must not be empty; pass None to disable impersonation"
        )
    if user is not None:
        check_text("impersonate_user", user)
    if isinstance(groups, str):
        raise InvalidArgumentError("impersonate_groups", f"must be a list of texts, got {groups!r}")
    check_iterable("impersonate_groups", groups, shown="a sequence of texts", items=str)
    if groups and user is None:
        raise InvalidArgumentError("impersonate_groups", "need an impersonate_user")


async def _config_of(
    kubeconfig: str | PathLike[str] | None,
    context: str | None,
    server: str | None,
    config: ClusterConfig | ForeignClient | None,
    *,
    policy: KubeconfigPolicy,
    trust_env: bool,
) -> ClusterConfig:
    given = [value for value in (kubeconfig, server, config) if value is not None]
    if len(given) > 1 or (context is not None and (server is not None or config is not None)):
        reason = "pass one of kubeconfig (with its context), server and config"
        raise InvalidArgumentError("kubeconfig", reason)
    if config is not None:
        return config if isinstance(config, ClusterConfig) else config_from_client(config)
    if server is not None:
        check_text("server", server)
        return ClusterConfig(server=server, source="server=")
    if kubeconfig is not None and not isinstance(kubeconfig, str | PathLike):
        cure = ""
        if isinstance(kubeconfig, ClusterConfig):
            cure = ": pass it as config="
        elif hasattr(type(kubeconfig), "url"):  # a test server
            cure = ": pass the URL of a server as server="
        reason = f"must be a path, got {type(kubeconfig).__name__}{cure}"
        raise InvalidTypeError("kubeconfig", reason)
    path = None if kubeconfig is None else fspath(kubeconfig)
    if path is not None and path.startswith(("http://", "https://")):
        reason = (
            "must be a path, got a URL: pass that of a server without credentials as server=, and"
            " others with their credentials as config=ClusterConfig(...)"
        )
        raise InvalidArgumentError("kubeconfig", reason)
    return await find_config(path, context=context, policy=policy, trust_env=trust_env)
