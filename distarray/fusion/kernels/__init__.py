"""Kernels of the package's own on GPUs: one for a recorded expression, and those for reductions, scans and selections."""
