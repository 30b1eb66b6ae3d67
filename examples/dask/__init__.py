"""Operators that run Dask: clusters, groups of workers, jobs, and a scaler."""
