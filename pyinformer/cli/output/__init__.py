"""What commands write: tables, event lines, JSON lines and YAML, and the stream that takes them.

Everything here is synchronous. Every text is printable, and no Secret is shown unless asked for.
"""

# Pure, as all modules below: it knows no event loop.

from pyinformer.cli.output._event_json import JsonRendering, json_line, shown
from pyinformer.cli.output._event_text import TextRendering
from pyinformer.cli.output._output_stream import Output, Style, takes_control_codes
from pyinformer.cli.output._table import Layout, table_of
from pyinformer.cli.output._yaml import yaml_document, yaml_item

__all__ = [
    "JsonRendering",
    "Layout",
    "Output",
    "Style",
    "TextRendering",
    "json_line",
    "shown",
    "table_of",
    "takes_control_codes",
    "yaml_document",
    "yaml_item",
]
