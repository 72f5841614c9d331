"""How Sphinx builds the documentation: ``sphinx-build -W -b html docs docs/_build``."""

from importlib import metadata

project = "distarray"
release = metadata.version("distarray")
extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.intersphinx"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "distarray"
myst_heading_anchors = 3
autosummary_generate = True
numpydoc_show_class_members = False
intersphinx_mapping: dict[str, tuple[str, None]] = {}  # the build needs no network
