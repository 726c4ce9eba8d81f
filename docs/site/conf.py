"""The documentation as a site: `make docs`."""

from __future__ import annotations

import os
import tempfile
from importlib.metadata import version as installed

project = "knnoise"
author = "the authors of knnoise"
version = release = installed("knnoise")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
root_doc = "index"
exclude_patterns = ["README.md"]
nitpicky = False

# Pages of reports, which the gallery writes while it is executed.
html_extra_path = [os.environ.setdefault("KNNOISE_GALLERY", tempfile.mkdtemp())]

html_theme = "furo"
html_title = "knnoise"
html_show_sourcelink = False
html_static_path = ["static"]
html_css_files = ["site.css"]

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_execution_in_temp = True
nb_merge_streams = True

autodoc_typehints = "description"
autodoc_member_order = "bysource"
napoleon_google_docstring = True
