"""End-to-end tests on a cluster with real nodes: `make e2e`.

`conftest.py` deploys and removes the product, and `cluster.py` runs kubectl and programs in the cluster. All
test files use one deployment, and run in the order in `__main__.py`.
"""
