"""The command `crds`."""
# ruff: noqa: T201 - a program's output is printed

from __future__ import annotations

from collections.abc import Sequence

from pydantic import TypeAdapter, ValidationError

from manager.cli.arguments import wants_help
from manager.cli.errors import UsageError
from manager.codegen import custom_resource_definitions, yaml_stream
from manager.operator import AnyOperator
from manager.program import Program
from manager.settings.values import BaseUrl
from manager.webhook.configurations import SERVICE, by_service, by_url
from manager.webhook.methods import registrations
from manager.webhook.registration import Webhooks

__all__ = ["command"]

_FLAG = "--webhook-url"
_FORM = f"{_FLAG}=https://HOST:PORT"

_HELP = f"""\
Print the custom resource definitions of all operators as one YAML stream.

Usage: {{}} crds [{_FORM}] | kubectl apply -f -

A kind with several versions is converted by the manager's webhook. The definitions ask for that at the
Service that `make deploy` makes. Where there is none, objects can be used in the version that they are stored
in, and requests in another version fail; they are never converted wrongly. A manager with --webhook-url
points the definitions at itself.

Flags:
  {_FORM}
        ask there instead of at the Service: for definitions that are applied while such a manager runs"""


def command(argv: Sequence[str], operators: Sequence[AnyOperator], program: Program) -> int:
    """Print the definitions of every kind of `operators`."""
    url, rest = _parse(argv)
    if wants_help("crds", rest):
        print(_HELP.format(program.name))
        return 0
    # What the kustomization in config/default makes of the names that the generator gives.
    service = by_service(f"{program.prefix}system", f"{program.prefix}{SERVICE}")
    client_config = service if url is None else by_url(_checked(url))
    kinds = [kind for operator in operators for kind in operator.kinds()]
    webhooks = Webhooks(each for operator in operators for each in registrations(operator))
    print(yaml_stream(custom_resource_definitions(kinds, webhooks.conversions, client_config)), end="")
    return 0


def _parse(argv: Sequence[str]) -> tuple[str | None, list[str]]:
    """The URL, and the other arguments."""
    url, rest = None, []
    arguments = iter(argv)
    for argument in arguments:
        flag, equals, value = argument.partition("=")
        if flag != _FLAG:
            rest.append(argument)
            continue
        url = value if equals else next(arguments, None)
        if url is None:
            raise UsageError(f"crds: {_FLAG} needs a value, as in {_FORM}")
    return url, rest


def _checked(url: str) -> str:
    """What `run` would take, too."""
    try:
        return str(TypeAdapter(BaseUrl).validate_python(url))
    except ValidationError as error:
        reason = error.errors()[0]["ctx"]["error"]
        raise UsageError(f"crds: invalid value {url!r} for {_FLAG}: {reason}") from None
