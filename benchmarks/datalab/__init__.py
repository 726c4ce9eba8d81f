"""Findings of the neighbor graph beside those of cleanlab's Datalab, given the same lists."""
