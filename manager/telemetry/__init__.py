"""What a running manager says of itself: logs, metrics, traces, health, records of reconciles."""
