"""Steps as tasks of a Prefect flow run, where there is one."""
