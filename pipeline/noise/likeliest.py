"""The likeliest parameters of a smooth model with few of them, within bounds.

In place of scipy.optimize, whose import takes longer than the fits; its L-BFGS-B is the twin in the
tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Loss = Callable[[Floats], tuple[float, Floats]]
Bounds = Sequence[tuple[float | None, float | None]]
FLAT = 1e-5
"""Greatest slope, bounds regarded, at which a minimum is found."""
EVEN = 1e-10
"""Part of the loss that a step has to take off, else it is the last."""
_ENOUGH = 1e-4
"""Part of the fall which the slope promises that a step has to keep (Armijo)."""
_SHORTEST = 1e-10
_DAMPED = 0.2
"""Least curvature along a step, over what was believed before (Powell 1978)."""


def likeliest(loss: Loss, start: Floats, bounds: Bounds, most_steps: int = 1000) -> Floats:
    """Where a loss is least near `start`, by projected BFGS steps.

    Parameters
    ----------
    loss : of (parameter,) float64: the value, and its slope (parameter,)
    bounds : least and greatest of each parameter, None for none
    """
    low = np.array([-np.inf if a is None else a for a, _ in bounds])
    high = np.array([np.inf if b is None else b for _, b in bounds])
    x = np.clip(start, low, high)
    value, slope = loss(x)
    curve: Floats | None = None
    for _ in range(most_steps):
        if np.abs(np.clip(x - slope, low, high) - x).max() <= FLAT:
            break
        found = _step(loss, x, value, slope, curve, low, high)
        if found is None and curve is not None:  # where bounds bend a step uphill
            curve = None
            found = _step(loss, x, value, slope, curve, low, high)
        if found is None:
            break
        before, (x, value, after), old = value, found, x
        curve = _curvature(curve, x - old, after - slope)
        slope = after
        if before - value <= EVEN * max(abs(before), abs(value), 1.0):
            break
    return x


def _step(
    loss: Loss,
    x: Floats,
    value: float,
    slope: Floats,
    curve: Floats | None,
    low: Floats,
    high: Floats,
) -> tuple[Floats, float, Floats] | None:
    """A lower point with its value and slope; None if there is none in this direction."""
    if curve is None:
        direction = -slope / max(1.0, float(np.linalg.norm(slope)))
    else:
        free = ~(((x <= low) & (slope > 0)) | ((x >= high) & (slope < 0)))
        direction = np.zeros_like(x)
        direction[free] = -np.linalg.solve(curve[np.ix_(free, free)], slope[free])
    length = 1.0
    while length >= _SHORTEST:
        there = np.clip(x + length * direction, low, high)
        promised = float(slope @ (there - x))
        if promised >= 0.0:
            return None
        lower, after = loss(there)
        if lower <= value + _ENOUGH * promised:
            return there, lower, after
        least = -0.5 * promised / (lower - value - promised)  # of the parabola, in this length
        length *= min(max(least, 0.1), 0.5)
    return None


def _curvature(curve: Floats | None, step: Floats, change: Floats) -> Floats:
    """The second derivatives as far as steps have told, positive definite (damped BFGS)."""
    along = float(step @ change)
    if curve is None:
        size = float(change @ change) / along if along > 0 else 1.0
        curve = np.eye(len(step)) * max(size, 1e-8)
    bent = curve @ step
    believed = float(step @ bent)
    if along < _DAMPED * believed:
        part = (1.0 - _DAMPED) * believed / (believed - along)
        change = part * change + (1.0 - part) * bent
        along = float(step @ change)
    return np.asarray(
        curve + np.outer(change, change) / along - np.outer(bent, bent) / believed, np.float64
    )
