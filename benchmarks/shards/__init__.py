"""Measure the traffic, memory and CPU of one, two and three replicas that divide the objects.

    python -m benchmarks.shards [--objects N] [--write]

The replicas run on a real API server with the feature gate ShardedListAndWatch, on the same cores as the
server. --write stores the figures, which `python -m benchmarks --render` puts on the page. KUBEBUILDER_ASSETS
names the folder with the programs of the control plane.
"""
