"""Split the body of a list into its items while it arrives."""

from pyinformer.client.transport.list_parser._envelope import ListMetadata, item_kind
from pyinformer.client.transport.list_parser._splitter import ListSplitter

__all__ = ["ListMetadata", "ListSplitter", "item_kind"]
