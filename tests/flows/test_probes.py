"""How queries are searched: the cheapest choice that finds enough, against all choices."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flows.steps.graph.networks import Reachable, Walk, cheapest
from flows.steps.queries.searching import n_audited
from pipeline.blocks.partition import Halo

SHARE = st.floats(0.5, 1.0)
LOOKS = st.lists(st.builds(Reachable, st.just(Halo(0.1, 2)), st.floats(1, 8), SHARE), min_size=1)
WALKS = st.lists(st.builds(Walk, st.integers(4, 900), SHARE), max_size=6)


@given(LOOKS, WALKS, SHARE)
def test_the_cheapest_that_finds_enough_is_taken(
    looks: list[Reachable], walks: list[Walk], wanted: float
) -> None:
    exact = Walk(None, 1.0)
    look, walk = cheapest(looks, [*walks, exact], wanted)
    best = max(look.coverage for look in looks)
    found = look.coverage * walk.met
    assert found >= wanted or found == best
    for other in looks:
        for way in walks:
            if other.coverage * way.met >= wanted and other.probes <= look.probes:
                assert walk.steps is not None
                assert way.steps is not None
                assert other.probes * (55 + way.steps) >= look.probes * (55 + walk.steps)


@given(st.integers(1, 10**9), st.integers(0, 10**6))
def test_more_queries_are_audited_by_more(n: int, more: int) -> None:
    assert 1 <= n_audited(n) <= n_audited(n + more) <= 500
    assert n_audited(n) == n or n_audited(n) >= 48
    assert n_audited(n) <= max(48, n / 250)
