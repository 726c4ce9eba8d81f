"""Importing this module compiles pynndescent's kernels: the one import here that does something.

It is meant for the preload of a fork server (every worker forked from it has the kernels at once)
and for `dask worker --preload pipeline.compiled`.
"""

from pipeline.descent import warm_up

warm_up()
