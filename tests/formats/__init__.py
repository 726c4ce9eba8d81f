"""Runs of released versions, what each command does with them, and what reaches disk today."""
