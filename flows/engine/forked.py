"""Imported first by the fork server of local workers, in the server's process alone.

One thread per worker. Set here and not in the process that starts the server: other threads there
read the environment at the same time, and Numba refuses to change its number of threads once it
has begun to use them.
"""

import gc
import os
import signal

from flows.engine.spared import one_heap

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "NUMBA_THREADING_LAYER": "workqueue",  # OpenMP dies in forked processes
}

os.environ.update(ENVIRONMENT)
one_heap()
signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for who ends the workers
gc.disable()  # until all is imported: see `preloaded`
