"""What every request of ours looks like."""

from __future__ import annotations

from pyinformer.transport._requests import _user_agent, common_headers


def test_no_request_but_the_first_reads_the_name_of_this_program_from_the_disk() -> None:
    """It would do so on the event loop, once for each page of a list."""
    first = common_headers()
    before = _user_agent.cache_info()
    assert common_headers() == first
    after = _user_agent.cache_info()
    assert (after.misses - before.misses, after.hits - before.hits) == (0, 1)
    assert first["User-Agent"].startswith("pyinformer/")
