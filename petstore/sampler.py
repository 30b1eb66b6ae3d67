"""Sampling of calls for the log; clients set the rate with ChangeSampler."""

from __future__ import annotations

import random

from petstore.proto import petstore_pb2 as pb
from petstore.wire import Malformed


class Sampler:
    """A random choice of the calls that are logged; no calls are logged before `change` is called."""

    def __init__(self, chance: random.Random | None = None) -> None:
        self._random = chance or random.Random()
        self.rate = 0.0
        """The share of calls to log, from 0 to 1."""

    def change(self, message: pb.Sampler) -> None:
        """Set the share of calls to log, as a client requests it.

        Raises Malformed if the type is unknown, or if the share is 0, negative, above 1 or NaN.
        """
        match message.type:
            case pb.STNever:
                self.rate = 0.0
            case pb.STAlways:
                self.rate = 1.0
            case pb.STFloat:
                # This form of the comparison also refuses NaN.
                if not 0 < message.float_value <= 1:
                    raise Malformed(
                        f"sampler.float_value: above 0 and at most 1 is expected, not {message.float_value:g}"
                    )
                self.rate = message.float_value
            case _:
                raise Malformed(
                    f"sampler.type: one of STNever, STAlways, STFloat is expected, not {message.type}"
                )

    def picks(self) -> bool:
        """Return whether to log the current call."""
        return self._random.random() < self.rate
