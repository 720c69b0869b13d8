"""Build settings of the documentation."""

from importlib.metadata import version as installed_version

project = "Forebay"
author = "The Forebay maintainers"
copyright = "The Forebay maintainers"
release = version = installed_version("forebay")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"Forebay {release}"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
myst_heading_anchors = 3
napoleon_google_docstring = False
napoleon_use_rtype = False
