"""Communicators: what moves bytes between processes."""
