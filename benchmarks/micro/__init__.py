"""Measure the cost of parts of the runtime: queue, cache, decoding, comparing, requests, recording.

    python -m benchmarks.micro [--list] [--rounds N] [--save FILE] [--against FILE] [NAME]...

Each benchmark is compared with another one measured at the same time: a simpler solution, or the same one at
another size. The ratio of two such figures is valid on a busy machine too, where the figures are not.

pyperf and pytest-benchmark do not fit. Both finish one benchmark before the next, so that a busy minute
affects only one of two compared benchmarks. Both compare a saved run's seconds directly, as if the machine's
speed were the same. pyperf also counts the time in which other programs had the processor.
"""
