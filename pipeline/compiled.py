"""Importing this module compiles the kernels of `build_lists`: the one import that does something.

It is meant for the preload of a fork server (every worker forked from it has the kernels at once)
and for `dask worker --preload pipeline.compiled`.
"""

import gc

import numpy as np

from pipeline.neighbours import NeighbourParams, build_lists

build_lists(
    np.random.default_rng(0).random((2_100, 4), dtype=np.float32),
    NeighbourParams(5, "pynndescent"),
)

gc.collect()
gc.freeze()  # a million objects of the compiler, of which none will ever be garbage
