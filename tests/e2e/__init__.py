"""The product on a cluster that has real nodes, used as people use it: `make e2e`.

`conftest.py` deploys and removes it, `cluster.py` runs kubectl and programs in the cluster. The files run in
the order in which `__main__.py` lists them, on one deployment.
"""
