"""Mutation tests: change the code in one place at a time, and run the tests for each change."""
