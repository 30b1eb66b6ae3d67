"""The command-line options."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass

from manager.util.duration import parse_duration

__all__ = ["Options", "parse_options"]

# A small nginx that answers every path with a few lines of text and logs each request.
DEFAULT_IMAGE = "nginxdemos/hello:plain-text"
DEFAULT_NAMESPACE = "workloads-example"

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The parsed flags. `timeout` is in seconds."""

    kubeconfig: str | None
    context: str | None
    namespace: str
    image: str
    timeout: float


def parse_options(arguments: Sequence[str]) -> Options:
    """Parse the options; for a wrong option, print a line about it and end the process with code 2."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.workloads",
        description="Runs two replicas of an image, served as /hello, in a new namespace, and follows their "
        "logs until Ctrl-C. The namespace is deleted at the end.",
        allow_abbrev=False,
    )
    parser.add_argument("--kubeconfig", metavar="FILE", help="default: the same file as for kubectl")
    parser.add_argument("--context", metavar="NAME", help="default: the kubeconfig's current context")
    parser.add_argument(
        "--namespace",
        type=_dns_label,
        default=DEFAULT_NAMESPACE,
        metavar="NAME",
        help="namespace to create, and to delete at the end (default: %(default)s)",
    )
    parser.add_argument(
        "--image",
        type=_image,
        default=DEFAULT_IMAGE,
        help="image that serves HTTP on port 80 (default: %(default)s)",
    )
    parser.add_argument(
        "--timeout",
        type=_positive_duration,
        default="2m",
        metavar="DURATION",
        help="time limit for ready replicas, such as 90s or 5m (default: %(default)s)",
    )
    return Options(**vars(parser.parse_args(arguments)))


def _dns_label(text: str) -> str:
    if DNS_LABEL.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a namespace's name: at most 63 lower-case letters, digits and '-' within"
        )
    return text


def _image(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("an image is expected")
    return text


def _positive_duration(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if seconds <= 0:
        raise argparse.ArgumentTypeError("it must be longer than 0 s")
    return seconds
