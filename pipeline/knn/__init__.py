"""Distances, lists of neighbors, exact search, recall."""
