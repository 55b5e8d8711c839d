"""How Sphinx builds the site of the docs; `make site` stages the pages and calls it."""

import os

project = "kraft-bridge"
author = "the kraft-bridge contributors"
release = os.environ.get("SITE_VERSION", "")
html_title = f"kraft-bridge {release}".strip()

extensions = ["myst_parser", "sphinx_copybutton"]
myst_enable_extensions = ["colon_fence"]
# GitHub's anchors, down to the deepest heading that a page links to.
myst_heading_anchors = 4
nitpicky = True

html_theme = "furo"
html_theme_options = {"navigation_with_keys": True}
html_show_sphinx = False
html_copy_source = False
html_extra_path = ["extra"]
# Commands are copied without their output and without prompts: there are none.
copybutton_exclude = ".linenos"
