"""From results to what people read; measures nothing."""
