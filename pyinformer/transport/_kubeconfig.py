"""A kubeconfig in, a ClusterConfig out, through kubernetes_asyncio's loader.

The loader knows tokens, certificates, exec plug-ins and OpenID Connect; it is imported when it is
needed, since it costs more memory than a small program. Its errors leave as ConfigurationError
with the file's name. Token files are ours, because the loader reads them only once.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, final

from pyinformer.apimachinery import ConfigurationError, ConfigurationNotFoundError
from pyinformer.transport._config import ClusterConfig
from pyinformer.transport._credentials import (
    Credentials,
    NoCredentials,
    StaticCredentials,
    TokenFileCredentials,
)

# What the loader raises for files that are YAML and no kubeconfig, beside its own exception.
_MALFORMED = (ValueError, LookupError, TypeError, AttributeError, AssertionError)


async def kubeconfig_config(
    paths: str, *, context: str | None = None, named_by: str = ""
) -> ClusterConfig:
    """Read a kubeconfig.

    Args:
        paths: a file, or several joined by the separator of KUBECONFIG; as in kubectl, the first
            that sets a thing wins, and of several some may be missing.
        context: the context to use; None for the current one.
        named_by: what named the paths, for errors: `KUBECONFIG=`.

    Raises:
        ConfigurationNotFoundError: no such file.
        ConfigurationError: malformed, or a name in it leads nowhere.

    Cancellation:
        Safe; an exec plug-in that was started may be left to end by itself.
    """
    source = f"{named_by}{paths}"
    present = _present_files(paths)
    if not present:
        raise ConfigurationNotFoundError(source, "no such kubeconfig file")
    reader = _Reader(present, context, source)
    loaded = await reader.load()
    return _cluster_config(loaded, reader, source)


def _present_files(paths: str) -> list[str]:
    files = [Path(path).expanduser() for path in paths.split(os.pathsep) if path]
    return [str(file) for file in files if file.exists()]


@final
class _Reader:
    """Loads one kubeconfig, as often as its credentials have to be renewed."""

    def __init__(self, files: list[str], context: str | None, source: str) -> None:
        self._files = files
        self._context = context
        self._source = source
        self.namespace = "default"
        self.token_file = ""

    async def load(self) -> SimpleNamespace:
        """Run the loader; what it sets is on what this returns."""
        import aiohttp
        import yaml
        from kubernetes_asyncio.config.config_exception import ConfigException
        from kubernetes_asyncio.config.kube_config import (
            ConfigNode,
            KubeConfigLoader,
            KubeConfigMerger,
        )

        found = SimpleNamespace(api_key={}, host="")
        try:
            merger = KubeConfigMerger(os.pathsep.join(self._files))
            loader = KubeConfigLoader(
                merger.config,
                active_context=self._context_to_use(merger),
                config_base_path=None,
                config_persister=merger.save_changes,  # as kubectl: OIDC refresh tokens rotate
            )
            self._note_context(merger.config, loader.current_context)
            if loader._user is None:  # noqa: SLF001 - anonymous, which the loader cannot do over TLS
                loader._user = ConfigNode("user", {})  # noqa: SLF001 - as above
            await loader.load_and_set(found)
        except ConfigException as error:
            raise ConfigurationError(self._source, str(error)) from error
        except yaml.YAMLError as error:
            where = getattr(error, "problem_mark", None)
            line = f" (line {where.line + 1})" if where else ""
            raise ConfigurationError(self._source, f"is no YAML{line}") from error
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(self._source, f"cannot be read: {error}") from error
        except (aiohttp.ClientError, RuntimeError) as error:
            raise ConfigurationError(self._source, f"its login failed: {error}") from error
        except _MALFORMED as error:
            # What TypeErrors say is about the loader's code, not about the file.
            detail = "" if isinstance(error, TypeError | AttributeError) else f" ({error!r})"
            reason = f"is no kubeconfig with clusters, contexts and users{detail}"
            raise ConfigurationError(self._source, reason) from error
        return found

    def _context_to_use(self, merger: Any) -> str | None:  # noqa: ANN401 - the loader has no types
        """Name the one asked for, else the first file's current one: the merger takes the last."""
        from kubernetes_asyncio.config.config_exception import ConfigException

        if self._context is None:
            currents = (file.get("current-context") for file in merger.config_files.values())
            return next((current for current in currents if current), None)
        names = [entry.value.get("name") for entry in merger.config.value["contexts"]]
        if self._context not in names:
            there = ", ".join(sorted(str(name) for name in names if name)) or "none"
            message = f"has no context {self._context!r}; there are: {there}"
            raise ConfigException(message)
        return self._context

    def _note_context(self, config: Any, current: Any) -> None:  # noqa: ANN401 - the loader's tree has no types
        """Take what the loader does not hand on: the namespace, and where a token file is."""
        entry = current["context"]
        self.namespace = entry.get("namespace") or "default"
        user = config["users"].get_with_name(entry["user"]) if entry.get("user") else None
        token_file = user["user"].safe_get("tokenFile") if user else None
        if user and token_file:
            self.token_file = str(Path(user.path or self._files[0]).parent / token_file)


def _cluster_config(loaded: SimpleNamespace, reader: _Reader, source: str) -> ClusterConfig:
    if not loaded.host:
        raise ConfigurationError(source, "the context's cluster has no server")
    return ClusterConfig(
        server=loaded.host,
        ca_file=getattr(loaded, "ssl_ca_cert", None),
        client_certificate_file=getattr(loaded, "cert_file", None),
        client_key_file=getattr(loaded, "key_file", None),
        verify_tls=getattr(loaded, "verify_ssl", True),
        tls_server_name=getattr(loaded, "tls_server_name", None),
        proxy_url=getattr(loaded, "proxy", None),
        credentials=_credentials(loaded, reader),
        namespace=reader.namespace,
        source=source,
    )


def _credentials(loaded: SimpleNamespace, reader: _Reader) -> Credentials:
    if reader.token_file:  # goes before a token, as in client-go
        return TokenFileCredentials(reader.token_file)
    authorization = loaded.api_key.get("BearerToken")
    if not authorization:
        return NoCredentials()
    return _LoaderCredentials(reader, StaticCredentials(authorization.strip()))


@final
class _LoaderCredentials:
    """What the loader found; loaded again after the server refused it."""

    def __init__(self, reader: _Reader, current: StaticCredentials) -> None:
        self._reader = reader
        self._current: StaticCredentials | None = current
        self._loading = asyncio.Lock()  # one plug-in at a time, however many requests wait

    async def headers(self) -> Mapping[str, str]:
        """Return the header, from the kubeconfig as it is now if the last one was refused.

        Raises:
            ConfigurationError: the kubeconfig has become unusable.

        Cancellation:
            Safe; the next call loads again.
        """
        async with self._loading:
            if self._current is None:
                loaded = await self._reader.load()
                self._current = StaticCredentials(loaded.api_key.get("BearerToken", "").strip())
            return await self._current.headers()

    def invalidate(self) -> None:
        """Load the kubeconfig again before the next request."""
        self._current = None
