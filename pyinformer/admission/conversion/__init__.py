"""Conversion between the versions of a custom resource, by functions between their models.

A ConversionReview of the API server is answered as a whole: all of its objects, or the reason why
not. Nothing here reads or writes anything, so an answer depends on the review alone.
"""

# Pure, as all modules below: it knows no event loop.

from pyinformer.admission.conversion._conversions import Conversions
from pyinformer.admission.conversion._definitions import CONVERSION_PATH, with_conversion
from pyinformer.admission.conversion._reviews import MAX_BYTES as CONVERSION_BYTES
from pyinformer.admission.conversion._versions import ConvertedVersion

__all__ = [
    "CONVERSION_BYTES",
    "CONVERSION_PATH",
    "Conversions",
    "ConvertedVersion",
    "with_conversion",
]
