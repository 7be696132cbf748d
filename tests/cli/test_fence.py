"""`pyinformer fence`: an admission policy for kubectl, or a usage error."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.cli.command_line import Result, here

_ACCOUNT = "ops/db-operator"


def fence(lease: str = "ops/leader", service_account: str = _ACCOUNT) -> Result:
    """Run the command."""
    return here("fence", "--lease", lease, "--service-account", service_account)


def documents() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the policy and its binding."""
    done = fence()
    assert (done.exit_code, done.stderr) == (0, "")
    policy, binding = yaml.safe_load_all(done.stdout)
    return policy, binding


def test_the_binding_names_the_policy_and_the_lease() -> None:
    policy, binding = documents()
    assert policy["kind"] == "ValidatingAdmissionPolicy"
    assert policy["metadata"]["name"] == "ops.leader.leader-only"
    assert policy["spec"]["paramKind"] == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
    }
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert binding["spec"]["validationActions"] == ["Deny"]
    assert binding["spec"]["paramRef"]["namespace"] == "ops"
    assert binding["spec"]["paramRef"]["name"] == "leader"


def test_a_missing_lease_refuses_no_client_of_the_cluster() -> None:
    """The server looks for the Lease before it looks at the account: Deny would stop all writes."""
    _, binding = documents()
    assert binding["spec"]["paramRef"]["parameterNotFoundAction"] == "Allow"


def test_all_resources_and_their_subresources_are_fenced_and_deletions_too() -> None:
    policy, _ = documents()
    (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
    assert rule["resources"] == ["*/*"]
    assert {"CREATE", "UPDATE", "DELETE"} <= set(rule["operations"])


def test_leases_and_events_are_excepted() -> None:
    """Otherwise a standby could neither take the Lease nor report why it does not."""
    policy, _ = documents()
    excepted = policy["spec"]["matchConstraints"]["excludeResourceRules"]
    found = {
        (group, name) for one in excepted for group in one["apiGroups"] for name in one["resources"]
    }
    assert found == {
        ("coordination.k8s.io", "leases"),
        ("", "events"),
        ("events.k8s.io", "events"),
    }


def test_only_the_account_is_fenced() -> None:
    policy, _ = documents()
    (condition,) = policy["spec"]["matchConditions"]
    account = "system:serviceaccount:ops:db-operator"
    assert condition["expression"] == f'request.userInfo.username == "{account}"'


@pytest.mark.parametrize(
    ("lease", "service_account", "option"),
    [
        pytest.param("db-operator", _ACCOUNT, "--lease", id="lease-without-namespace"),
        pytest.param("ops/", _ACCOUNT, "--lease", id="lease-without-name"),
        pytest.param("ops/DB", _ACCOUNT, "--lease", id="upper-case"),
        pytest.param("ops/a/b", _ACCOUNT, "--lease", id="two-slashes"),
        pytest.param('ops/a"b', _ACCOUNT, "--lease", id="quote"),
        pytest.param(f"ops/{'a' * 250}", _ACCOUNT, "--lease", id="name-of-the-policy-too-long"),
        pytest.param("ops/a", "db-operator", "--service-account", id="account-without-namespace"),
        pytest.param("ops/a", "ops/{x}", "--service-account", id="account-not-a-name"),
        pytest.param("ops/a", "o.p/a", "--service-account", id="namespace-with-a-dot"),
    ],
)
def test_a_name_that_kubernetes_does_not_accept_is_a_usage_error(
    lease: str, service_account: str, option: str
) -> None:
    done = fence(lease, service_account)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert option in done.stderr


def test_replicas_that_share_keys_have_a_policy_of_their_own() -> None:
    done = here("fence", "--sharing", "--lease", "ops/app", "--service-account", _ACCOUNT)
    assert done.exit_code == 0
    policy, binding = yaml.safe_load_all(done.stdout)
    assert policy["metadata"]["name"] == "ops.app.owners-only"
    assert binding["spec"]["paramRef"]["name"] == "app"
    (rule,) = policy["spec"]["validations"]
    assert "pyinformer.dev/members" in policy["spec"]["variables"][0]["expression"]
    assert '",app[.]" + pod' in rule["expression"]
