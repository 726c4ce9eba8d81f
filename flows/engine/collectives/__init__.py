"""Passes as calls: over a graph, block by block, and over the rows of a pool in source order."""
