"""Orchestration: Prefect flows over steps, Dask clusters, the command line."""

import os

# Read by Prefect when it is imported, so set before. The server it starts for a flow that has none
# needs more than its default 20 s on a new machine; and nothing is reported to anybody.
os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "120")
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
os.environ.setdefault("DO_NOT_TRACK", "1")
# Read by each Python that is started from here (the fork server of workers, Prefect's server):
# without it they would import a secrets.py or numpy.py that lies beside the data.
os.environ.setdefault("PYTHONSAFEPATH", "1")
