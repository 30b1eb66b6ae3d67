"""The command `crds`."""
# ruff: noqa: T201 - a program's output is printed

from __future__ import annotations

from collections.abc import Sequence

from manager.cli.arguments import ArgumentParser, UsageError
from manager.cli.settings import parse_base_url
from manager.codegen import custom_resource_definitions, yaml_stream
from manager.operator import AnyOperator
from manager.program import Program
from manager.webhook.configurations import SERVICE, by_service, by_url
from manager.webhook.methods import registrations
from manager.webhook.registration import Webhooks

__all__ = ["command"]

_FLAG = "--webhook-url"

_DESCRIPTION = """\
Print the custom resource definitions of all operators as one YAML stream, for kubectl apply -f -

A kind with several versions is converted by the manager's webhook. The definitions ask for that at the
Service that `make deploy` makes. Where there is none, objects can be used in the version that they are stored
in, and requests in another version fail; they are never converted wrongly. A manager with --webhook-url
points the definitions at itself."""


def command(argv: Sequence[str], operators: Sequence[AnyOperator], program: Program) -> int:
    """Print the definitions of every kind of `operators`."""
    parser = ArgumentParser("crds", f"{program.name} crds [{_FLAG}=https://HOST:PORT]", _DESCRIPTION)
    told = "ask there instead of at the Service: for definitions that are applied while such a manager runs"
    parser.add_argument(_FLAG, metavar="https://HOST:PORT", default=None, help=told)
    url = parser.read(argv).webhook_url
    # What the kustomization in config/default makes of the names that the generator gives.
    service = by_service(f"{program.prefix}system", f"{program.prefix}{SERVICE}")
    try:
        client_config = service if url is None else by_url(parse_base_url(url))
    except ValueError as error:
        raise UsageError(f"crds: invalid value {url!r} for {_FLAG}: {error}") from None
    kinds = [kind for operator in operators for kind in operator.kinds()]
    webhooks = Webhooks(each for operator in operators for each in registrations(operator))
    print(yaml_stream(custom_resource_definitions(kinds, webhooks.conversions, client_config)), end="")
    return 0
