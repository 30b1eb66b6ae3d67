"""The commands of `python -m release`."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import click

from manager.util.version import VERSION
from manager.util.yaml_text import yaml_documents
from manager_kinds.manifests import yaml_stream
from manager_tools.chart import (
    BuildFailed,
    Image,
    InvalidImage,
    NotOurs,
    ToolMissing,
    build,
    build_extra,
    chart_files,
    write_tree,
)
from manager_tools.codegen.namespaces import LimitedAlready, limited_to
from release import PROGRAM, ROOT
from release.artifacts import (
    CHECKSUMS,
    CannotRelease,
    bundle_archive,
    chart_archive,
    checksums,
    context,
    wheels,
)
from release.bundle import bundle_files

__all__ = ["main"]

Manifest = dict[str, Any]

_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")
# Kinds that must be applied before the others, or deleted before them.
_PARTS = {
    "definitions": frozenset({"CustomResourceDefinition"}),
    "webhooks": frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}),
}
# Objects that OLM must not install.
_POLICIES = {
    "policies": frozenset({"NetworkPolicy", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"})
}
_CONFIGURATION = ROOT / "docs" / "configuration.md"
_CHANGELOG = ROOT / "CHANGELOG.md"
_DESCRIPTION = "A Kubernetes controller manager: one asyncio process, shared watches, typed operators"


class DoesNotFit(Exception):
    """An error: the cluster would refuse some manifests; the message has missing versions or namespaces."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code: 0 for success, 1 for a failure, 2 for wrong usage."""
    try:
        return commands.main(argv, "python -m release", standalone_mode=False) or 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (ToolMissing, BuildFailed, CannotRelease, LimitedAlready, DoesNotFit, NotOurs) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if not all(_NAMESPACE.match(name) for name in names):
        raise click.BadParameter(f"{text!r}: names of namespaces, separated by commas, are expected")
    return names


def _image(text: str) -> Image:
    try:
        return Image.parse(text)
    except InvalidImage as error:
        raise click.BadParameter(str(error)) from None


_NAMESPACES = click.option(
    "--namespaces", type=_names, metavar="NAME,...", help="let the manager watch these namespaces only"
)
_IMAGE = click.option(
    "--image", type=_image, metavar="IMAGE", help="image of the manager instead of the one in config/manager"
)
_PETSTORE_IMAGE = click.option(
    "--petstore-image",
    type=_image,
    metavar="IMAGE",
    help="image of the pet store instead of the one in config/petstore",
)
_FOLDER = click.argument("folder", type=click.Path(path_type=Path))


@click.group(help=__doc__)
def commands() -> None:
    """Define the group of the commands below."""


@commands.command()
@click.option("--check", is_flag=True, help="write nothing; fail if a file is outdated")
def generate(check: bool) -> int:
    """Write the tables of docs/configuration.md; with --check, only report whether they are outdated."""
    from controllers.main import OPERATORS, PROGRAM  # noqa: PLC0415 - 130 ms, 5 MB, for this command alone
    from release.configuration import with_tables  # noqa: PLC0415 - as above

    page = _CONFIGURATION.read_text(encoding="utf-8")
    text = with_tables(page, OPERATORS, PROGRAM)
    if text == page:
        return 0
    name = _CONFIGURATION.relative_to(ROOT)
    if check:
        print(f"not current: {name}\nrun `make generate`", file=sys.stderr)
        return 1
    _CONFIGURATION.write_text(text, encoding="utf-8")
    print(f"generated {name}")
    return 0


@commands.command()
@click.argument("overlay", default="default")
@click.option("--only", type=click.Choice([*_PARTS, *_POLICIES]), help="print only these kinds")
@click.option("--for-deletion", is_flag=True, help=f"omit {' and '.join(_PARTS)}, and order for deletion")
@click.option(
    "--served",
    default="",
    help="output of `kubectl api-versions`: fail if it lacks a version; for deletion, omit such manifests",
)
@click.option(
    "--there",
    default="",
    help="output of `kubectl get namespaces --output=name`: fail if it lacks a namespace",
)
@_NAMESPACES
@_IMAGE
@_PETSTORE_IMAGE
def manifests(
    overlay: str,
    only: str | None,
    for_deletion: bool,
    served: str,
    there: str,
    namespaces: tuple[str, ...] | None,
    **images: Image | None,
) -> None:
    """Print the manifests of an overlay, which is a folder of config/, for `kubectl apply -f -`."""
    if only is not None and for_deletion:
        raise click.UsageError("--only and --for-deletion cannot be given together")
    text = _limited(_build(overlay, **images), namespaces)
    if only is not None:
        wanted = (_PARTS | _POLICIES)[only]
        text = yaml_stream(each for each in yaml_documents(text) if each["kind"] in wanted)
    elif for_deletion:
        gone = frozenset().union(*_PARTS.values())
        # In reverse order, the Namespace comes last: its deletion would remove the objects in it too.
        left = [each for each in yaml_documents(text) if each["kind"] not in gone]
        text = yaml_stream(reversed(only_served(left, served.split())))
    else:
        known = [each.rpartition("/")[2] for each in there.split()]
        check_fits(yaml_documents(text), served.split(), known)
    print(text, end="")


@commands.command()
@click.argument("file", type=click.Path(path_type=Path))
@_NAMESPACES
@_IMAGE
@_PETSTORE_IMAGE
def installer(file: Path, namespaces: tuple[str, ...] | None, **images: Image | None) -> None:
    """Write one file with all manifests of the installation, for `kubectl apply`."""
    text = _limited(_build("default", **images), namespaces)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    print(f"wrote {file}: kubectl apply --server-side -f {file}")


@commands.command()
@_FOLDER
@_IMAGE
@_PETSTORE_IMAGE
def chart(folder: Path, **images: Image | None) -> None:
    """Write the Helm chart; replace an existing one."""
    write_tree(folder, _chart_files(**images))
    print(f"wrote {folder}: helm install operator-manager {folder}")


@commands.command()
@_FOLDER
@_IMAGE
@_PETSTORE_IMAGE
def everything(folder: Path, **images: Image | None) -> None:
    """Write the release files and their checksums; the bill of materials must exist already."""
    if f"\n## {VERSION} " not in _CHANGELOG.read_text(encoding="utf-8"):
        raise CannotRelease(f"{_CHANGELOG.name} has no heading for version {VERSION}")
    bill = folder / "sbom.cdx.json"
    if not bill.exists():
        raise CannotRelease(f"{bill} is not there; `make sbom` writes it")
    files = dict([chart_archive(_chart_files(**images)), bundle_archive(_bundle_files(**images)), context()])
    files["install.yaml"] = _build("default", **images).encode()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    names = [*files, *wheels(folder), bill.name]
    (folder / CHECKSUMS).write_text(checksums(folder, names), encoding="utf-8")
    print(*(f"wrote {folder / name}" for name in [*sorted(names), CHECKSUMS]), sep="\n")


@commands.command()
@_FOLDER
@_IMAGE
def bundle(folder: Path, image: Image | None) -> None:
    """Write the OLM bundle: bundle/ and bundle.Dockerfile in a folder."""
    files = _bundle_files(image=image)
    dockerfile = folder / "bundle.Dockerfile"
    inside = {path.removeprefix("bundle/"): text for path, text in files.items() if path != dockerfile.name}
    write_tree(folder / "bundle", inside)
    dockerfile.write_text(files[dockerfile.name], encoding="utf-8")
    print(f"wrote {folder / 'bundle'} and {dockerfile}")


def _chart_files(**images: Image | None) -> dict[str, str]:
    return chart_files(PROGRAM, ROOT / "config", _images(**images), _DESCRIPTION)


def _bundle_files(**images: Image | None) -> dict[str, str]:
    icon = (ROOT / "config" / "manifests" / "icon.svg").read_bytes()
    # OpenShift, OLM's main platform, enables the admission plugin OwnerReferencesPermissionEnforcement.
    made = [
        *yaml_documents(_build("manifests", **images)),
        *build_extra(PROGRAM, ROOT / "config" / "owner-references"),
    ]
    return bundle_files(made, icon)


def _build(overlay: str, **images: Image | None) -> str:
    folder = ROOT / "config" / overlay
    if not (folder / "kustomization.yaml").is_file():
        raise BuildFailed(f"config/{overlay} is no folder with a kustomization.yaml")
    return build(folder, _images(**images))


def _limited(text: str, namespaces: Sequence[str] | None) -> str:
    return yaml_stream(limited_to(namespaces, yaml_documents(text))) if namespaces else text


def _images(image: Image | None = None, petstore_image: Image | None = None) -> dict[str, Image]:
    given = {PROGRAM.name: image, "petstore": petstore_image}
    return {name: each for name, each in given.items() if each is not None}


def check_fits(manifests: Sequence[Manifest], served: Collection[str], namespaces: Collection[str]) -> None:
    """Raise DoesNotFit if the cluster lacks an API version, or cluster and manifests lack a Namespace.

    `served` has the API versions of the cluster, `namespaces` its Namespaces. If one of the sets is empty, it
    is unknown, and its check passes.
    """
    if served:
        unknown = sorted({each["apiVersion"] for each in manifests} - {*served})
        if unknown:
            raise DoesNotFit(f"nothing was applied: the cluster does not serve {', '.join(unknown)}")
    if namespaces:
        made = {each["metadata"]["name"] for each in manifests if each["kind"] == "Namespace"}
        asked = {each["metadata"]["namespace"] for each in manifests if "namespace" in each["metadata"]}
        missing = sorted(asked - made - {*namespaces})
        if missing:
            raise DoesNotFit(f"nothing was applied: first create namespace {', '.join(missing)}")


def only_served(manifests: Sequence[Manifest], served: Collection[str]) -> list[Manifest]:
    """Return the manifests whose apiVersion is in `served`; if it is empty (unknown), return all."""
    return [each for each in manifests if not served or each["apiVersion"] in served]
