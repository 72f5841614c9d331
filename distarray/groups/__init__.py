"""The process groups of cupyx, beside the distributed array: collectives on arrays that exist."""
