"""NumPy's main namespace, a module for each chapter. Each registers what NumPy's functions dispatch to (``implements``)."""
