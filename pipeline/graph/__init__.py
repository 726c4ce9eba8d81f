"""Neighbor lists of a block, approximate or exact, and search in it."""
