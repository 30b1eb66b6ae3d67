"""The parser of a container image's name."""

from __future__ import annotations

import re
from dataclasses import dataclass

NAME = r"([A-Za-z0-9_.-]+(:[0-9]+)?/)?[a-z0-9]+([._/-]{1,9}[a-z0-9]+)*"
TAG = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
DIGEST = r"sha256:[0-9a-f]{64}"

_NAME, _TAG, _DIGEST = map(re.compile, (NAME, TAG, DIGEST))


class InvalidImage(ValueError):
    """An invalid image name; the message has the reason."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image name `name[:tag][@digest]`; `name` may begin with a host and a port."""

    name: str
    tag: str | None = None
    digest: str | None = None

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.name}{tag}" + (f"@{self.digest}" if self.digest else "")

    @classmethod
    def parse(cls, text: str) -> Image:
        """Parse an image name. Raises InvalidImage."""
        rest, at, digest = text.partition("@")
        # A colon before the last slash separates the host from its port.
        slash = rest.rfind("/")
        colon = rest.find(":", slash + 1)
        name, tag = (rest, None) if colon < 0 else (rest[:colon], rest[colon + 1 :])
        if not _NAME.fullmatch(name):
            raise InvalidImage(
                f"{text!r} is no image: its name may have lower case letters, digits, . _ - and /"
            )
        if tag is not None and not _TAG.fullmatch(tag):
            raise InvalidImage(f"{text!r} is no image: {tag!r} is not a tag")
        if at and not _DIGEST.fullmatch(digest):
            raise InvalidImage(f"{text!r} is no image: {digest!r} is not a digest such as sha256:...")
        return cls(name, tag, digest or None)
