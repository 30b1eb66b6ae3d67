"""Mutation tests: plant small faults into the code, one at a time, and run the tests on each."""
