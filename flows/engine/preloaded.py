"""Imported last by the fork server of local workers, in the server's process alone.

Workers that are forked from it share what it holds; their garbage collector does not walk over it,
which would copy its pages.
"""

import gc

from pipeline.graph.build import load_blas

load_blas()
gc.freeze()
gc.enable()
