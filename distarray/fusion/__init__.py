"""Deferred element-wise work: recorded expressions, how their operands are aligned, and their evaluation in one pass."""
