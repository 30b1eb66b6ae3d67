"""What is made from the sources to bring them to a cluster: manifests, chart, bundle, dashboard."""
