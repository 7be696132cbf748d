"""Objects as YAML, for people: repeated values in full, texts of several lines as blocks.

Every text is printable, as in JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import msgspec
import yaml

from pyinformer._printable import printable_json
from pyinformer.apimachinery import decoder_of

if TYPE_CHECKING or not yaml.__with_libyaml__:
    from yaml import SafeDumper as Dumper
else:
    from yaml import CSafeDumper as Dumper  # five times as fast
_WIDTH: Final = 1 << 30  # lines are not folded


@final
class ReadableDumper(Dumper):
    """Writes no aliases, which not all programs know, and texts of several lines as blocks."""

    def ignore_aliases(self, data: object) -> bool:
        """Return True, so that no alias is written."""
        del data
        return True


def _represent_text(dumper: ReadableDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


ReadableDumper.add_representer(str, _represent_text)


def yaml_document(value: msgspec.Raw) -> str:
    """Return the YAML of a JSON object; JSON, which is YAML as well, if it is nested too deeply."""
    return _yaml(value) or f"{printable_json(bytes(value).decode())}\n"


def yaml_item(value: msgspec.Raw) -> str:
    """Return the same as an item of a sequence that is not indented."""
    item = b"[%b]" % bytes(value)
    return _yaml(item) or f"- {printable_json(bytes(value).decode())}\n"


def _yaml(value: bytes | msgspec.Raw) -> str:
    """Return the YAML of JSON, or an empty text if it is nested too deeply."""
    try:
        return str(
            yaml.dump(
                decoder_of()(value),
                Dumper=ReadableDumper,
                sort_keys=False,
                allow_unicode=bytes(value).decode().isprintable(),
                width=_WIDTH,
            )
        )
    except RecursionError:
        return ""
