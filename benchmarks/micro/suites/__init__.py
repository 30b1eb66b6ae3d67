"""The benchmarks, a module for each part of the runtime."""
