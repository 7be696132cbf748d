"""Objects as YAML, for people: every text is printable, as in JSON."""

from __future__ import annotations

import msgspec

from pyinformer.objects import decoder_of, dump_yaml, json_as_yaml

_decode = decoder_of()


def yaml_document(value: msgspec.Raw) -> str:
    """Return the YAML of a JSON object; in one line if it is nested too deeply."""
    try:
        return dump_yaml(_decode(value))
    except RecursionError:
        return f"{json_as_yaml(bytes(value))}\n"


def yaml_item(value: msgspec.Raw) -> str:
    """Return the same as an item of a sequence that is not indented."""
    try:
        return dump_yaml([_decode(value)])
    except RecursionError:
        return f"- {json_as_yaml(bytes(value))}\n"
