"""Phrases that what is said of a run is made of."""

from __future__ import annotations


def where(*cases: tuple[object, str]) -> list[str]:
    """The sentences whose condition, before each, holds."""
    return [sentence for holds, sentence in cases if holds]


def span(interval: tuple[float, float], form: str) -> str:
    """An interval in words, its ends as `form` has it."""
    low, high = interval
    return f"{low:{form}} to {high:{form}}"
