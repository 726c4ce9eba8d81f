"""Imported last by the fork server of local workers, in the server's process alone.

Workers that are forked from it share what it holds, all steps; their garbage collector does not
walk over it, which would copy its pages.
"""

import gc
from importlib import import_module

from pipeline.graph.build import load_blas

for step in ("graph.building", "labels.two", "queries.scoring"):
    import_module(f"flows.steps.{step}")
load_blas()
gc.freeze()
gc.enable()
