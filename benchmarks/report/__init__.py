"""Conversion of results to the page, its tables and its charts."""
