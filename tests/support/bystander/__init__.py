"""The manager with one controller more, which has nothing to do with Memcacheds.

    python -m tests.support.bystander run ...

Whatever befalls the Memcached operator's kinds, the bystander goes on working.
"""
