"""The data file of built-in types is what the real server says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyinformer.testing.apiserver.resources import BUILT_IN
from tests.testing.built_in_types import FILE, built_in_types_of

if TYPE_CHECKING:
    from pyinformer.testing import KubeAPIServer


@pytest.mark.real
@pytest.mark.timeout(300)
def test_the_file_has_the_types_of_the_real_server(kube_apiserver: KubeAPIServer) -> None:
    assert FILE.read_text() == built_in_types_of(kube_apiserver)


def test_each_built_in_kind_that_is_stored_has_a_type() -> None:
    for resource in BUILT_IN:
        if not resource.is_virtual:
            assert "metadata" in resource.object_schema["properties"], resource
