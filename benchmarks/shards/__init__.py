"""Measures what one, two and three replicas that share the objects each receive, hold and use.

    python -m benchmarks.shards [--objects N] [--write]

They run on a real API server with the feature gate ShardedListAndWatch, and share its cores. With --write the
figures go to docs/benchmarks/, as the page and what it is made of; without, they are printed.
KUBEBUILDER_ASSETS names the folder with the programs of the control plane.
"""
