"""Measure the traffic, memory and CPU of one, two and three replicas that share the objects.

    python -m benchmarks.shards [--objects N] [--write]

They run on a real API server with the feature gate ShardedListAndWatch, and share its cores. --write keeps
the figures, which `python -m benchmarks --render` puts on the page.
KUBEBUILDER_ASSETS names the folder with the programs of the control plane.
"""
