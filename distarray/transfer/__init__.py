"""Transfers: plans of what moves between layouts, the ledger of what moved, rounds of messages, and their execution."""
