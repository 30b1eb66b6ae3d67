"""Conversion of results to pages, tables and charts."""
