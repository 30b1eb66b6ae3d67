"""What single parts of the runtime cost: the queue, the cache, decoding, comparing, requests, recording.

    python -m benchmarks.micro [--list] [--rounds N] [--save FILE] [--against FILE] [NAME]...

Each is compared with something measured in the same moments: a simpler way to the same end, or itself at
another size. A ratio of two such figures holds on a busy machine too, where neither figure does.

pyperf and pytest-benchmark would not do: both time one benchmark to its end before the next, so that a busy
minute falls on one of two that are compared; both compare with a saved run second by second, as if the
machine had been the same; and pyperf counts the time that other programs had the processor.
"""
