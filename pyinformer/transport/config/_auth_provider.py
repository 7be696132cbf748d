"""Log in by a kubeconfig's auth provider, OpenID Connect and others, with kubernetes_asyncio.

Its loader is imported only when it is needed: it takes more memory than a small program.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING

import msgspec

from pyinformer.errors import ConfigurationError
from pyinformer.transport.config._renewing_credentials import Login

if TYPE_CHECKING:
    from pyinformer.transport.config._credentials import ClientCertificate
    from pyinformer.transport.config._kubeconfig_files import Section

# What the loader raises, beside its own exception, for YAML files that are not kubeconfigs.
_MALFORMED = (ValueError, LookupError, TypeError, AttributeError, AssertionError)


class _Claims(msgspec.Struct):
    exp: float | None = None


async def log_in_by_provider(
    user: Section, files: list[str], context: str, certificate: ClientCertificate | None
) -> Login:
    """Log in by a user's `auth-provider`: OpenID Connect, gcp, azure.

    Args:
        user: the user's entry.
        files: the kubeconfig files; a provider may write new refresh tokens to them.
        context: the context's name.
        certificate: the client certificate that the entry holds as data.

    Raises:
        ConfigurationError: the provider failed, or gave no token.

    Cancellation:
        Safe; the next call logs in again.
    """
    import aiohttp
    import yaml
    from kubernetes_asyncio.config.config_exception import ConfigException
    from kubernetes_asyncio.config.kube_config import KubeConfigLoader, KubeConfigMerger

    def problem(reason: str) -> ConfigurationError:
        name = (user.mapping("auth-provider") or {}).get("name") or ""
        return user.problem(f"auth-provider {name}: {reason}")

    found = SimpleNamespace(api_key={}, host="")
    try:
        merger = KubeConfigMerger(os.pathsep.join(files))
        loader = KubeConfigLoader(
            merger.config,
            active_context=context,
            config_base_path=None,
            config_persister=merger.save_changes,  # as kubectl: OIDC refresh tokens rotate
        )
        await loader.load_and_set(found)
    except (ConfigException, aiohttp.ClientError, RuntimeError) as error:
        raise problem(f"login failed: {error}") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise problem(f"cannot read a file: {type(error).__name__}") from error
    except _MALFORMED as error:  # their texts are about the loader's code
        raise problem(f"malformed config ({type(error).__name__})") from error
    authorization = str(found.api_key.get("BearerToken") or "").strip()
    if not authorization:
        raise problem("returned no token")
    return Login(
        {"Authorization": authorization},
        certificate=certificate,
        expires_at=_expiry(authorization),
    )


def _expiry(authorization: str) -> float | None:
    """Return when an OpenID Connect token expires; None if it has no `exp` claim."""
    import base64
    import binascii

    parts = authorization.rpartition(" ")[2].split(".")
    try:
        text = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(text, type=_Claims).exp
    except (IndexError, binascii.Error, ValueError, msgspec.DecodeError):
        return None
