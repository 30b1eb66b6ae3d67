"""Operators for Dask: clusters, groups of workers, jobs, and an autoscaler."""
