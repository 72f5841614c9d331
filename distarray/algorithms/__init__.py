"""Distributed algorithms on operands, a file each: they take layouts and chunks, never a user's arguments."""
