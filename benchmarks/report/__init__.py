"""Conversion of benchmark results to a Markdown page with tables and charts."""
