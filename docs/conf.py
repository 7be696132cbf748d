"""How Sphinx builds the documentation: `make docs`, from Markdown, warnings being errors."""

import sys
from pathlib import Path

import pyinformer

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "pyinformer"
author = "The pyinformer authors"
project_copyright = author
version = release = pyinformer.__version__
html_title = f"pyinformer {release}"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "pyinformer_docs"]
exclude_patterns = ["examples/**", "_extensions/**", "_static/**"]
root_doc = "index"
nitpicky = True

myst_heading_anchors = 4
myst_enable_extensions = ["deflist", "html_image"]
suppress_warnings = ["myst.strikethrough"]

default_role = "code"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True
autodoc_docstring_signature = False  # what a Mapping inherits looks like signatures
python_maximum_signature_line_length = 80
python_use_unqualified_type_names = True
napoleon_numpy_docstring = False
napoleon_custom_sections = ["Cancellation", "Source"]

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
pygments_style = "default"
pygments_dark_style = "github-dark"
