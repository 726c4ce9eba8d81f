"""Source → pool."""
