"""How webhooks are reached: what `Webhooks` accepts."""

from __future__ import annotations

from typing import Any

import pytest

from pyinformer.admission import Webhooks
from pyinformer.errors import InvalidArgumentError, InvalidTypeError


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "service: must be given"),
        (
            {"service": "a/b", "url": "https://a"},
            "service: cannot be combined with url='https://a'",
        ),
        ({"service": "db"}, 'service: must be "namespace/name" of the Service'),
        ({"service": "a/b/c"}, "service: must be"),
        ({"url": "http://a"}, "url: must be like https"),
        ({"url": "https://u@a"}, "url: must be like https"),
        ({"url": "https://[a"}, "url: must be like https"),
        ({"service": "a/b", "certificates": 5}, "certificates: must be a path, got int"),
        ({"service": "a/b", "certificates": ""}, "certificates: must not be empty"),
        ({"service": "a/b", "client_ca": 5}, "client_ca: must be a path"),
        ({"service": "a/b", "port": 70000}, "port: must be at most 65535"),
        ({"service": "a/b", "host": 5}, "host"),
    ],
)
def test_wrong_settings_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match=words):
        Webhooks(**given)


def test_the_certificate_has_the_names_by_which_the_server_calls() -> None:
    assert Webhooks(service="acme/db").names == (
        "db.acme.svc",
        "db-conversion.acme.svc",
        "db.acme.svc.cluster.local",
        "db-conversion.acme.svc.cluster.local",
    )
    assert Webhooks(url="https://10.0.2.2:9443/hooks").names == ("10.0.2.2",)


def test_the_port_is_that_of_the_url_unless_another_is_given() -> None:
    assert Webhooks(service="acme/db").listening_port == 9443
    assert Webhooks(url="https://10.0.2.2:4443").listening_port == 4443
    assert Webhooks(url="https://10.0.2.2").listening_port == 9443
    assert Webhooks(url="https://10.0.2.2:4443", port=0).listening_port == 0
