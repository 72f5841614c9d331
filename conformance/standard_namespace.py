"""distarray's namespace as the public suite of the array API standard gets it; see ``conformance/standard_plugin.py``."""

from conformance.standard_plugin import namespace

globals().update(namespace())
