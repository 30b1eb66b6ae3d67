"""The command `model`, which writes a pydantic model of an existing kind."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

import click
import msgspec

from manager.api import GroupVersionKind
from manager.cli.commands import Invocation, pass_invocation
from manager.kube.decoding import Decoder, json_object
from manager.kube.errors import ApiError
from manager.kube.transport import Transport
from manager.telemetry.logs import configured, on_one_line
from manager.util.program import Program
from manager_tools.codegen import DefinitionError, Served, definitions_in, model_source, served_by_openapi
from manager_tools.codegen.python_source import laid_out
from manager_tools.commands.cluster import cluster_flags, connected, ended_in_one_line, read_input

_COMMAND = "model"

_LONGEST = 16 * 1024 * 1024
"""Bytes. Some projects have all CustomResourceDefinitions in one file of a few megabytes."""

_SUFFIXES = {".yaml", ".yml", ".json"}


@click.command
@click.option(
    "--from",
    "origin",
    required=True,
    metavar="FILE|KIND",
    shell_complete=click.Path().shell_complete,
    help="file that defines the kind, or the kind's name, as in Certificate.cert-manager.io",
)
@click.option("--kind", metavar="KIND", help="kind to choose if the file has several")
@click.option(
    "--version",
    metavar="VERSION",
    show_default="the storage version, or the server's preferred version",
    help="version of the kind",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="write to this new file instead of stdout",
)
@cluster_flags
@pass_invocation
def model(
    invocation: Invocation,
    /,
    origin: str,
    kind: str | None,
    version: str | None,
    output: Path | None,
    **cluster: str | None,
) -> None:
    """Write the pydantic model of a kind, to stdout.

    A FILE (- is stdin) contains a CustomResourceDefinition. Its model defines the kind, and `crds` prints the
    same definition again. Parts that a model cannot express are printed on stderr.

    The model of a KIND that the API server has, such as Deployment or Certificate.cert-manager.io, only reads
    and writes objects, and `crds` does not print it. To define a kind that is already in the cluster, use its
    definition as the file: kubectl get crd NAME -o yaml | PROGRAM model --from -
    """
    program = invocation.program
    if output is not None and output.exists():
        raise click.UsageError(f"{output} exists already, and is not overwritten")
    try:
        if origin == "-" or Path(origin).suffix in _SUFFIXES or "/" in origin or Path(origin).exists():
            served = _in_file(origin, kind, version)
        else:
            if kind is not None:
                raise DefinitionError("--kind is for a file; here the kind is named already")  # noqa: TRY301
            with configured(level="error"), ended_in_one_line():
                served = asyncio.run(_on_server(program, origin, version, cluster))
            origin = "the API server"
        source = model_source(served, "stdin" if origin == "-" else Path(origin).name)
        _write(laid_out(source.text), output)
    except DefinitionError as error:
        raise click.UsageError(f"{origin}: {error}") from error
    for line in source.unsaid:
        click.echo(f"{program.name}: {_COMMAND}: {on_one_line(line)}", err=True)


def _write(text: str, output: Path | None) -> None:
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        _make_folder(output.parent)
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise click.UsageError(f"{output}: {error.strerror}") from None


def _make_folder(folder: Path) -> None:
    if folder.exists():
        return
    _make_folder(folder.parent)
    folder.mkdir()
    if folder.with_name("__init__.py").exists():
        folder.joinpath("__init__.py").write_text(f'"""Kinds of {folder.name}."""\n', encoding="utf-8")


def _in_file(origin: str, kind: str | None, version: str | None) -> Served:
    try:
        raw = read_input(origin, _LONGEST)
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


async def _on_server(
    program: Program, origin: str, version: str | None, cluster: Mapping[str, str | None]
) -> Served:
    asked, _, group = origin.partition(".")
    async with connected(program, _COMMAND, kubeconfig=cluster["kubeconfig"], context=cluster["context"]) as (
        transport,
        _,
    ):
        known = [each async for each in _kinds(transport, group, version)]
        found = [each for each in known if asked.lower() in each.names]
        if not found:
            close = difflib.get_close_matches(asked, [each.gvk.kind for each in known], n=1)
            where = f" in the group {group}" if group else ""
            where += f" in the version {version}" if version else ""
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
            continue  # an aggregated API whose server is down
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
