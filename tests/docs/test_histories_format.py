"""The page on the format of histories describes every record."""

from __future__ import annotations

from typing import get_args

import msgspec

from pyinformer.testing.histories import Record
from tests.docs import pages

_PAGE = "docs/reference/histories.md"


def test_the_page_names_every_kind_and_field() -> None:
    text = pages.read(_PAGE)
    for kind in get_args(Record):
        fields = [one.encode_name for one in msgspec.structs.fields(kind)]
        names = [kind.__struct_config__.tag, *fields]
        assert [name for name in names if f"`{name}`" not in text] == [], kind
