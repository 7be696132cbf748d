"""With `data-only`, a kubeconfig makes this process connect, and do nothing else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import trustme

import pyinformer
from pyinformer.client.transport import find_config
from pyinformer.errors import ConfigurationError, InvalidArgumentError
from tests.client.transport.test_kubeconfig import entries, whole, write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """Return the file that a plug-in makes if it is run."""
    return tmp_path / "ran"


def was_run(ran: Path) -> bool:
    return ran.exists()


def plugin(ran: Path) -> dict[str, Any]:
    version = "client.authentication.k8s.io/v1"
    known = {"apiVersion": version, "interactiveMode": "Never"}
    return {**known, "command": "touch", "args": [str(ran)]}


@pytest.mark.covers("client-go plugin/pkg/client/auth/exec: TestPluginPolicy")
@pytest.mark.parametrize(
    "key",
    ["exec", "auth-provider", "tokenFile", "client-certificate", "client-key"],
)
async def test_entries_beyond_plain_data_are_refused_and_nothing_is_executed(
    tmp_path: Path, ran: Path, key: str
) -> None:
    file = tmp_path / "there"
    file.write_text("a-token-of-the-operator")
    value = {"exec": plugin(ran), "auth-provider": {"name": "oidc"}}.get(key, str(file))
    path = whole(tmp_path / "config", {"token": "t", key: value})

    with pytest.raises(ConfigurationError, match="users 'jane': " + re.escape(key)) as caught:
        await find_config(path, policy="data-only")

    assert "kubeconfig_policy='data-only' does not allow it" in str(caught.value)
    assert not was_run(ran)


@pytest.mark.parametrize("key", ["certificate-authority", "proxy-url"])
async def test_a_cluster_names_neither_files_nor_other_hosts(tmp_path: Path, key: str) -> None:
    path = whole(tmp_path / "config", {"token": "t"}, **{key: "http://127.0.0.1:1"})
    with pytest.raises(ConfigurationError, match=f"clusters 'one': {key}"):
        await find_config(path, policy="data-only")


async def test_a_kubeconfig_of_plain_data_is_accepted(tmp_path: Path) -> None:
    import base64

    authority = trustme.CA()
    pem = base64.b64encode(authority.cert_pem.bytes()).decode()
    user = {"token": "t", "as": "jane", "as-groups": ["a"]}
    path = whole(tmp_path / "config", user, **{"certificate-authority-data": pem})
    found = await find_config(path, policy="data-only")
    assert await found.credentials.headers() == {"Authorization": "Bearer t"}
    assert (found.ca_data is not None, found.impersonate_user) == (True, "jane")


@pytest.mark.covers("client-go tools/clientcmd: TestConfirmUsableBadInfoButOkConfig")
async def test_unused_entries_are_not_checked_by_the_policy(tmp_path: Path, ran: Path) -> None:
    path = write(
        tmp_path / "config",
        clusters=entries("clusters", one={"server": "https://one.example"}),
        users=entries("users", jane={"token": "t"}, joe={"exec": plugin(ran)}),
        contexts=entries("contexts", prod={"cluster": "one", "user": "jane"}),
        current_context="prod",
    )
    found = await find_config(path, policy="data-only")
    assert found.server == "https://one.example"


async def test_a_kubeconfig_that_changes_later_is_held_to_the_policy(
    tmp_path: Path, ran: Path
) -> None:
    """The file is read again when the server refuses its token."""
    path = whole(tmp_path / "config", {"token": "old"})
    found = await find_config(path, policy="data-only")
    whole(tmp_path / "config", {"token": "new", "exec": plugin(ran)})
    found.credentials.invalidate()
    with pytest.raises(ConfigurationError, match="exec: runs a command"):
        await found.credentials.headers()
    assert not was_run(ran)


async def test_connect_takes_the_policy(tmp_path: Path, ran: Path) -> None:
    path = whole(tmp_path / "config", {"exec": plugin(ran)})
    with pytest.raises(ConfigurationError, match="data-only"):
        async with pyinformer.connect(path, kubeconfig_policy="data-only"):
            pass
    assert not was_run(ran)


def test_a_blocking_program_takes_the_policy(tmp_path: Path, ran: Path) -> None:
    path = whole(tmp_path / "config", {"exec": plugin(ran)})
    with (
        pyinformer.run_in_thread() as runner,
        pytest.raises(ConfigurationError, match="data-only"),
        runner.connect(path, kubeconfig_policy="data-only"),
    ):
        pass
    assert not was_run(ran)


async def test_a_policy_without_a_kubeconfig_is_refused() -> None:
    """It would not apply to the service account that is used instead."""
    with pytest.raises(InvalidArgumentError, match="kubeconfig_policy: 'data-only' needs a kube"):
        async with pyinformer.connect(kubeconfig_policy="data-only"):
            pass
    with pytest.raises(InvalidArgumentError, match="'data-only' needs a kubeconfig"):
        async with pyinformer.connect(server="http://127.0.0.1:1", kubeconfig_policy="data-only"):
            pass
    with pytest.raises(InvalidArgumentError, match="must be one of trusted, data-only, got 'all'"):
        await find_config("a", policy="all")  # type: ignore[arg-type] # on purpose


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 100_000, id="open"),
        pytest.param("[" * 100_000 + "]" * 100_000, id="closed"),
        pytest.param('{"a":' * 100_000 + "1" + "}" * 100_000, id="objects"),
        pytest.param("- " * 100_000 + "a", id="dashes"),
        pytest.param("clusters: " + "[" * 200 + "]" * 200, id="a-few-hundred"),
    ],
)
async def test_deep_nesting_is_a_typed_error(tmp_path: Path, text: str) -> None:
    """The loader is recursive, in C: 100,000 brackets ended the process."""
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match="must not be nested deeper than 100 levels"):
        await find_config(str(path))


@pytest.mark.parametrize(
    "value", ["{<<: [*a0, *a0]}", "[*a0, *a0, *a0]"], ids=["merge-keys", "lists"]
)
async def test_aliases_of_aliases_are_a_typed_error(tmp_path: Path, value: str) -> None:
    """Sixty short lines would become more values than there is memory."""
    lines = ["a0: &a0 {k: v}"]
    lines += [f"a{n}: &a{n} {value.replace('a0', f'a{n - 1}')}" for n in range(1, 60)]
    path = tmp_path / "config"
    path.write_text("\n".join(lines))
    with pytest.raises(ConfigurationError, match="contains excessive aliasing"):
        await find_config(str(path))


async def test_anchors_and_merge_keys_are_read_as_kubectl_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        """
        common: &common {tls-server-name: here}
        clusters: [{name: one, cluster: {<<: *common, server: "https://one.example"}}]
        users: [{name: jane, user: {token: &token t}}, {name: joe, user: {token: *token}}]
        contexts: [{name: prod, context: {cluster: one, user: joe}}]
        current-context: prod
        """
    )
    found = await find_config(str(path), policy="data-only")
    assert found.tls_server_name == "here"
    assert await found.credentials.headers() == {"Authorization": "Bearer t"}


async def test_a_merge_key_hides_nothing_from_the_policy(tmp_path: Path, ran: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        f"""
        more: &more {{exec: {{command: touch, args: ["{ran}"]}}}}
        clusters: [{{name: one, cluster: {{server: "https://one.example"}}}}]
        users: [{{name: jane, user: {{<<: *more, token: t}}}}]
        contexts: [{{name: prod, context: {{cluster: one, user: jane}}}}]
        current-context: prod
        """
    )
    with pytest.raises(ConfigurationError, match="exec: runs a command"):
        await find_config(str(path), policy="data-only")
