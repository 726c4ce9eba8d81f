"""Prefect: tasks, retries, artifacts, deployments, folders of scheduled runs."""
