"""A project that works: `init` and `create` copy it, under other names."""
