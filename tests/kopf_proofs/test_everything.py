"""An operator that uses all of kopf catches up after every kind of fault."""

from __future__ import annotations

import pytest

from pyinformer.testing import APIServer
from tests.kopf_proofs.everything import Everything
from tests.kopf_proofs.stages import Stage
from tests.soak import in_soak


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("line")
def test_an_operator_that_uses_everything_catches_up_after_each_fault() -> None:
    """Handlers, deletions, index, daemons, timers and webhooks are as if nothing had failed."""
    with APIServer() as api:
        everything = Everything(api, seed=1)

        outcome = everything.play(
            Stage(with_line=True, wait_seconds=100.0), rounds=in_soak(150, otherwise=8)
        )

    assert outcome.is_right, str(outcome)
