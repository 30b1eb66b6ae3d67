"""The list of this project's operators."""

from __future__ import annotations

import sys

from controllers.cache.memcached import MemcachedOperator
from controllers.example.wordpress import WordpressOperator
from controllers.myapp.mysrv import MySrvOperator
from controllers.petstore.pet import PetOperator
from controllers.program import PROGRAM, main
from controllers.tutorial.foo import FooOperator
from manager import AnyOperator

__all__ = ["OPERATORS", "PROGRAM", "main"]

OPERATORS: tuple[AnyOperator, ...] = (
    MemcachedOperator,
    FooOperator,
    PetOperator,
    WordpressOperator,
    MySrvOperator,
)
"""The classes of all operators."""


if __name__ == "__main__":
    sys.exit(main())
