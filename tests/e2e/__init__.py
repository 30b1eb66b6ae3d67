"""End-to-end tests on a cluster with real nodes: `make e2e`.

`conftest.py` deploys and removes it, `cluster.py` runs kubectl and programs in the cluster. The files run in
the order in which `__main__.py` lists them, on one deployment.
"""
