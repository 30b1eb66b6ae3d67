"""The API types: one pydantic model per kind, in `apis/<group>/<version>/<kind>.py`."""
