"""The bounds of Reeve & Kaban 2019 as functions; natural logarithms, probability >= 1 - delta.

Every function checks the range its theorem states and raises ValueError outside it. ``n`` is the
number of training rows, ``k`` the neighborhood size, ``eta`` assumed measure-smooth (Assumption 3)
and, for the risk, under Tsybakov's margin condition (Assumption 4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Smoothness:
    """``|eta(a) - eta(b)| <= omega * mu(ball around a reaching b) ** lam`` (Definition 3.1)."""

    lam: float
    omega: float

    def __post_init__(self) -> None:
        if not (self.lam > 0 and self.omega > 0):
            raise ValueError(f"lam={self.lam}, omega={self.omega}: both must be positive")

    def bias(self, n: int, k: int) -> float:
        """Largest change of eta within k neighbors: ``omega * (2k/n) ** lam`` (Lemma 4.1)."""
        return self.omega * float((2.0 * k / n) ** self.lam)


@dataclass(frozen=True)
class Margin:
    """``mu(0 < |eta - 1/2| < t) <= c * t ** alpha`` for all t (Assumption 4; 0 and 1 always do)."""

    alpha: float = 0.0
    c: float = 1.0

    def __post_init__(self) -> None:
        if not (self.alpha >= 0 and self.c >= 1):
            raise ValueError(f"alpha={self.alpha}, c={self.c}: need alpha >= 0 and c >= 1")


def pointwise_bound(n: int, k: int, delta: float, smooth: Smoothness) -> float:
    """Error of the k-NN average at one point, Theorem 4.1; ``4 log(3/delta) + 1 <= k <= n/2``."""
    _check_k(n, k, delta, 3.0)
    return math.sqrt(math.log(3.0 / delta) / (2.0 * k)) + smooth.bias(n, k)


def extremum_bound(n: int, k: int, delta: float, smooth: Smoothness) -> float:
    """Error of the maximum over training rows, Theorem 4.2; ``4 log(2/delta) + 1 <= k <= n/2``."""
    _check_k(n, k, delta, 2.0)
    return math.sqrt(math.log(6.0 * n / delta) / (2.0 * k)) + 2.0 * smooth.bias(n, k)


def k_n(n: int, delta: float, smooth: Smoothness) -> int:
    """The k that balances noise and smoothing, Theorem 4.3.

    ``ceil((log(18n/delta) / (2 omega^2)) ** (1/(2 lam+1)) * n ** (2 lam/(2 lam+1)))``. ValueError
    unless ``n >= 5 (10 omega^2) ** (1/(2 lam)) log(18n/delta)`` and the k itself is admissible
    (for small omega the theorem's condition on n does not ensure ``k <= n/2``).
    """
    _check_delta(n, delta)
    log = math.log(18.0 * n / delta)
    least = 5.0 * (10.0 * smooth.omega**2) ** (1.0 / (2.0 * smooth.lam)) * log
    if n < least:
        raise ValueError(f"n={n}: Theorem 4.3 needs at least {math.ceil(least)} rows here")
    power = 1.0 / (2.0 * smooth.lam + 1.0)
    noise = math.pow(log / (2.0 * smooth.omega**2), power)
    k = math.ceil(noise * math.pow(n, 2.0 * smooth.lam * power))
    _check_k(n, k, delta, 3.0)
    return k


def excess_risk_bound(
    n: int, k: int, delta: float, smooth: Smoothness, margin: Margin, keep: float
) -> float:
    """Risk of Algorithm 2 above the Bayes risk for any admissible k: Theorem 4.3, equation (11).

    ``keep`` is ``1 - p0 - p1`` in (0, 1].
    """
    _check_k(n, k, delta, 3.0)
    _check_keep(keep)
    error = math.sqrt(math.log(18.0 * n / delta) / k) + 2.0 * smooth.bias(n, k)
    return margin.c * float((8.0 / keep * error) ** (margin.alpha + 1.0)) + delta


def fast_rate_bound(n: int, delta: float, smooth: Smoothness, margin: Margin, keep: float) -> float:
    """Risk of Algorithm 2 above the Bayes risk at ``k_n``: Theorem 4.3, second display.

    Valid where ``k_n`` is; of order ``(log(n) / n) ** (lam (alpha + 1) / (2 lam + 1))``.
    """
    k_n(n, delta, smooth)
    _check_keep(keep)
    power = 1.0 / (2.0 * smooth.lam + 1.0)
    constant = 2.0 ** (2.0 * smooth.lam + 5.0) * smooth.omega**power / keep
    rate = (math.log(18.0 * n / delta) / n) ** (smooth.lam * power)
    return margin.c * float((constant * rate) ** (margin.alpha + 1.0)) + delta


def _check_delta(n: int, delta: float) -> None:
    if n < 1 or not 0.0 < delta < 1.0:
        raise ValueError(f"n={n}, delta={delta}: need n >= 1 and delta strictly between 0 and 1")


def _check_k(n: int, k: int, delta: float, over: float) -> None:
    _check_delta(n, delta)
    least = 4.0 * math.log(over / delta) + 1.0
    if not least <= k <= n / 2:
        raise ValueError(f"k={k}: the theorem holds for {math.ceil(least)} <= k <= {n // 2}")


def _check_keep(keep: float) -> None:
    if not 0.0 < keep <= 1.0:
        raise ValueError(f"keep={keep}: 1 - p0 - p1 must lie in (0, 1]")
