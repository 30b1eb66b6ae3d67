"""An operator that starts Jobs at the times of a schedule."""
