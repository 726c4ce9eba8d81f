"""Studies of the noise rates on public and simulated data; `python -m benchmarks.study --help`."""
