"""The command `model`."""
# ruff: noqa: T201 - a program's output is printed

from __future__ import annotations

import argparse
import asyncio
import difflib
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from manager.api import GroupVersionKind
from manager.cli.arguments import ArgumentParser, UsageError
from manager.cli.failure import connected, ended_in_one_line
from manager.kube.decoding import Decoder, json_object
from manager.kube.errors import ApiError
from manager.kube.transport import Transport
from manager.logs import configured, on_one_line
from manager.operator import AnyOperator
from manager.program import Program
from manager.small_file import read_small_file
from manager_tools.codegen import DefinitionError, Served, definitions_in, model_source, served_by_openapi

_COMMAND = "model"

_DESCRIPTION = """\
Write the pydantic model of a kind, to stdout: from the definition in a FILE (- is stdin), for whoever is to
define the kind from now on; or of a KIND that the API server has, such as Deployment, deployments.apps or
Certificate.cert-manager.io, for an operator that uses it.

The model of a FILE has all that the definition says of its objects, so that `crds` prints the same again.
What a model has no word for is told on stderr, a line each. The model of a KIND says no more than how to
read and write its objects: `crds` does not print it. For a definition of the cluster with all it says,
kubectl get crd NAME -o yaml | {program} model --from -"""

_LONGEST = 16 * 1024 * 1024
"""Bytes. Some projects have all of their definitions in one file of a few megabytes."""

_SUFFIXES = {".yaml", ".yml", ".json"}


def model(argv: Sequence[str], operators: Sequence[AnyOperator], program: Program) -> int:
    """Write the model; `operators` play no part. Raises `UsageError` for what it cannot be made from."""
    del operators
    usage = f"{program.name} {_COMMAND} --from FILE|KIND [FLAGS]"
    parser = ArgumentParser(_COMMAND, usage, _DESCRIPTION.format(program=program.name))
    for flag, metavar, text in (
        ("--from", "FILE|KIND", "where the kind is defined, or what it is called"),
        ("--kind", "KIND", "which one, where the file has several"),
        ("--version", "VERSION", "default the one that objects are stored in, or that the server prefers"),
        ("--output", "FILE", "write there, where nothing is yet, instead of to stdout"),
    ):
        names = ("-o", flag) if flag == "--output" else (flag,)
        parser.add_argument(*names, dest=flag[2:], metavar=metavar, default=None, help=text)
    parser.cluster()
    parser.set_defaults(kubeconfig=None, context=None)
    given = parser.read(argv)
    origin = getattr(given, "from")
    if not origin:
        parser.error("--from is needed, as in --from=crd.yaml or --from=Certificate.cert-manager.io")
    output = None if given.output is None else Path(given.output)
    if output is not None and output.exists():
        parser.error(f"{output} exists already, and is not overwritten")
    try:
        if origin == "-" or Path(origin).suffix in _SUFFIXES or "/" in origin or Path(origin).exists():
            served = _in_file(origin, given.kind, given.version)
        else:
            with configured(level="error"), ended_in_one_line(_COMMAND):
                served = asyncio.run(_on_server(program, given))
            origin = "the API server"
        source = model_source(served, "stdin" if origin == "-" else Path(origin).name)
        _write(source.text, output)
    except DefinitionError as error:
        parser.error(f"{origin}: {error}")
    for line in source.unsaid:
        print(f"{program.name}: {_COMMAND}: {on_one_line(line)}", file=sys.stderr)
    return 0


def _write(text: str, output: Path | None) -> None:
    if output is None:
        print(text, end="")
        return
    try:
        _make_folder(output.parent)
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{_COMMAND}: {output}: {error.strerror}") from None


def _make_folder(folder: Path) -> None:
    """Make what is missing of it; inside of a package, what is made is one too."""
    if folder.exists():
        return
    _make_folder(folder.parent)
    folder.mkdir()
    if folder.with_name("__init__.py").exists():
        folder.joinpath("__init__.py").write_text(f'"""Kinds of {folder.name}."""\n', encoding="utf-8")


def _in_file(origin: str, kind: str | None, version: str | None) -> Served:
    try:
        if origin == "-":
            raw = sys.stdin.buffer.read(_LONGEST + 1)
            if len(raw) > _LONGEST:
                raise DefinitionError(f"it is longer than {_LONGEST >> 20} MiB")
        else:
            raw = read_small_file(origin, longest=_LONGEST)
        found = definitions_in(raw.decode("utf-8"))
    except OSError as error:
        raise DefinitionError(error.strerror) from None
    except UnicodeDecodeError:
        raise DefinitionError("it is not text in UTF-8") from None
    named = [each for each in found if kind is None or kind.lower() in {each.kind.lower(), each.name}]
    if len(named) == 1:
        return named[0].served(version)
    names = ", ".join(each.name for each in found)
    if kind is not None and not named:
        raise DefinitionError(f"it defines no {kind}, but {names}")
    raise DefinitionError(f"it defines {names}; which one is meant? (--kind)")


class _Found(NamedTuple):
    gvk: GroupVersionKind
    plural: str
    namespaced: bool
    names: set[str]


async def _on_server(program: Program, given: argparse.Namespace) -> Served:
    """What the API server publishes of a kind."""
    asked, _, group = str(getattr(given, "from")).partition(".")
    if given.kind is not None:
        raise DefinitionError("--kind is for a file; here the kind is named already")
    async with connected(program, _COMMAND, kubeconfig=given.kubeconfig, context=given.context) as (
        transport,
        _,
    ):
        known = [each async for each in _kinds(transport, group, given.version)]
        found = [each for each in known if asked.lower() in each.names]
        if not found:
            close = difflib.get_close_matches(asked, [each.gvk.kind for each in known], n=1)
            where = f" in the group {group}" if group else ""
            where += f" in the version {given.version}" if given.version else ""
            raise DefinitionError(
                f"the API server has no such kind{where}" + (f"; did you mean {close[0]}?" if close else "")
            )
        if len(found) > 1:
            names = ", ".join(f"{each.gvk.kind}.{each.gvk.group or 'core'}" for each in found)
            raise DefinitionError(f"the API server has several of this name: {names}")
        [(gvk, plural, namespaced, _)] = found
        path = f"apis/{gvk.group}/{gvk.version}" if gvk.group else f"api/{gvk.version}"
        raw = await transport.request("GET", f"/openapi/v3/{path}")
        document = json_object(raw, "an OpenAPI document")
        return served_by_openapi(document, gvk, plural, namespaced=namespaced)


async def _kinds(transport: Transport, group: str, version: str | None) -> AsyncIterator[_Found]:
    """The kinds of a group, or of all groups."""
    groups = [("", version or "v1", ["v1"])] if group in {"", "core"} else []
    for each in _decode_groups(await transport.request("GET", "/apis")).groups:
        if group in {"", each.name}:
            versions = [served.version for served in each.versions]
            groups.append((each.name, version or each.preferred_version.version, versions))
    for name, chosen, versions in groups:
        if chosen not in versions:
            continue
        path = f"/apis/{name}/{chosen}" if name else f"/api/{chosen}"
        try:
            found = _decode_resources(await transport.request("GET", path)).resources
        except ApiError:
            if group:
                raise
            continue  # an API that somebody else serves, and does not at the moment
        for resource in found:
            if "/" not in resource.name:
                names = {resource.name, resource.kind, resource.singular_name, *resource.short_names}
                gvk = GroupVersionKind(name, chosen, resource.kind)
                called = {each.lower() for each in names if each}
                yield _Found(gvk, resource.name, resource.namespaced, called)


_Name = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9][-./:_A-Za-z0-9]*$")]


class _Version(msgspec.Struct):
    version: _Name


class _Group(msgspec.Struct, rename="camel"):
    name: _Name
    versions: list[_Version]
    preferred_version: _Version


class _Groups(msgspec.Struct):
    groups: list[_Group]


class _Resource(msgspec.Struct, rename="camel"):
    name: _Name
    kind: _Name
    namespaced: bool
    singular_name: str = ""
    short_names: list[str] = []


class _Resources(msgspec.Struct):
    resources: list[_Resource]


_decode_groups = Decoder(_Groups, "a list of API groups")
_decode_resources = Decoder(_Resources, "a list of API resources")
