"""Measure the CPU time of parts of the runtime: the queue, the store, decoding, the Memcached operator.

    python -m benchmarks.micro [--list] [--rounds N] [--calls N] [NAME]...

Each benchmark is compared with another one measured at the same time: a simpler solution, or the same one at
another size. The ratio of two such figures is valid on a busy machine too, where the figures are not. pyperf
and pytest-benchmark finish one benchmark before the next, so that a busy minute affects only one of two.
"""
