"""The commands of `python -m release`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from manager.util.version import VERSION
from manager.util.yaml_text import yaml_documents, yaml_stream
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
# Kinds that are applied or deleted before the others.
_PARTS = {
    "definitions": frozenset({"CustomResourceDefinition"}),
    "webhooks": frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}),
}
# Objects that OLM does not install.
_POLICIES = {
    "policies": frozenset({"NetworkPolicy", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"})
}
_CONFIGURATION = ROOT / "docs" / "configuration.md"
_CHANGELOG = ROOT / "CHANGELOG.md"
_DESCRIPTION = "A Kubernetes controller manager: one asyncio process, shared watches, typed operators"


class DoesNotFit(Exception):
    """The cluster would accept only a part of the manifests; the message names the missing kinds."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0 done, 1 failed, 2 wrong usage."""
    options = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace], int] = options.run
    try:
        return command(options)
    except (ToolMissing, BuildFailed, CannotRelease, LimitedAlready, DoesNotFit, NotOurs) as error:
        print(f"{options.command}: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    generate = commands.add_parser("generate", help="write the tables of docs/configuration.md")
    generate.add_argument(
        "--check", action="store_true", help="write nothing; fail when a file is not current"
    )
    generate.set_defaults(run=_generate)
    manifests = commands.add_parser(
        "manifests", help="print an overlay of config/, ready for kubectl apply -f -"
    )
    manifests.add_argument(
        "overlay", nargs="?", default="default", help="a folder of config/ (default %(default)s)"
    )
    part = manifests.add_mutually_exclusive_group()
    part.add_argument("--only", choices=[*_PARTS, *_POLICIES], help="nothing but these")
    part.add_argument(
        "--for-deletion", action="store_true", help=f"without {' and '.join(_PARTS)}, what holds others last"
    )
    manifests.add_argument(
        "--served",
        type=str.split,
        default=(),
        help="what `kubectl api-versions` prints: fail when more is needed; for deletion, leave it out",
    )
    manifests.add_argument(
        "--there",
        type=lambda text: [each.rpartition("/")[2] for each in text.split()],
        default=(),
        help="what `kubectl get namespaces --output=name` prints: fail when more are needed",
    )
    _namespaces_flag(manifests)
    _image_flags(manifests)
    manifests.set_defaults(run=_manifests)
    installer = commands.add_parser("installer", help="write one file that installs everything")
    installer.add_argument("file", type=Path)
    _namespaces_flag(installer)
    _image_flags(installer)
    installer.set_defaults(run=_installer)
    chart = commands.add_parser("chart", help="write the Helm chart, replacing an existing one")
    chart.add_argument("folder", type=Path)
    _image_flags(chart)
    chart.set_defaults(run=_chart, namespaces=())
    everything = commands.add_parser(
        "everything", help="write all that is handed out, but the bill of materials, and checksums of it all"
    )
    everything.add_argument("folder", type=Path)
    _image_flags(everything)
    everything.set_defaults(run=_everything, namespaces=())
    bundle = commands.add_parser(
        "bundle", help="write the OLM bundle: bundle/ and bundle.Dockerfile in a folder"
    )
    bundle.add_argument("folder", type=Path)
    bundle.add_argument("--image", type=_image, help="the manager's image")
    bundle.set_defaults(run=_bundle, petstore_image=None, namespaces=())
    return parser


def _namespaces_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--namespaces",
        type=_names,
        default=(),
        metavar="NAME,...",
        help="watch these, with rights in them alone",
    )


def _image_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--image", type=_image, help="the manager's image instead of the one in config/manager"
    )
    parser.add_argument(
        "--petstore-image", type=_image, help="the store's, instead of the one in config/petstore"
    )


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if not all(_NAMESPACE.match(name) for name in names):
        raise argparse.ArgumentTypeError(f"{text!r}: names of namespaces, separated by commas, are expected")
    return names


def _image(text: str) -> Image:
    try:
        return Image.parse(text)
    except InvalidImage as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _generate(options: argparse.Namespace) -> int:
    from controllers.main import OPERATORS, PROGRAM  # noqa: PLC0415 - these: 0.7 s, for this command alone
    from release.configuration import with_tables  # noqa: PLC0415

    page = _CONFIGURATION.read_text(encoding="utf-8")
    text = with_tables(page, OPERATORS, PROGRAM)
    if text == page:
        return 0
    name = _CONFIGURATION.relative_to(ROOT)
    if options.check:
        print(f"not current: {name}\nrun `make generate`", file=sys.stderr)
        return 1
    _CONFIGURATION.write_text(text, encoding="utf-8")
    print(f"generated {name}")
    return 0


def _manifests(options: argparse.Namespace) -> int:
    text = _build(options, options.overlay)
    if options.only is not None:
        wanted = (_PARTS | _POLICIES)[options.only]
        text = yaml_stream(each for each in yaml_documents(text) if each["kind"] in wanted)
    elif options.for_deletion:
        gone = frozenset().union(*_PARTS.values())
        # The namespace's deletion removes its objects, which kubectl would then miss.
        left = [each for each in yaml_documents(text) if each["kind"] not in gone]
        text = yaml_stream(reversed(only_served(left, options.served)))
    else:
        check_fits(yaml_documents(text), options.served, options.there)
    print(text, end="")
    return 0


def _installer(options: argparse.Namespace) -> int:
    text = _build(options, "default")
    options.file.parent.mkdir(parents=True, exist_ok=True)
    options.file.write_text(text, encoding="utf-8")
    print(f"wrote {options.file}: kubectl apply --server-side -f {options.file}")
    return 0


def _chart(options: argparse.Namespace) -> int:
    write_tree(options.folder, _chart_files(options))
    print(f"wrote {options.folder}: helm install operator-manager {options.folder}")
    return 0


def _chart_files(options: argparse.Namespace) -> dict[str, str]:
    return chart_files(PROGRAM, ROOT / "config", _images(options), _DESCRIPTION)


def _everything(options: argparse.Namespace) -> int:
    if f"\n## {VERSION} " not in _CHANGELOG.read_text(encoding="utf-8"):
        raise CannotRelease(f"{_CHANGELOG.name} has no heading for version {VERSION}")
    folder = options.folder
    bill = folder / "sbom.cdx.json"
    if not bill.exists():
        raise CannotRelease(f"{bill} is not there; `make sbom` writes it")
    files = dict([chart_archive(_chart_files(options)), bundle_archive(_bundle_files(options)), context()])
    files["install.yaml"] = _build(options, "default").encode()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    names = [*files, *wheels(folder), bill.name]
    (folder / CHECKSUMS).write_text(checksums(folder, names), encoding="utf-8")
    print(*(f"wrote {folder / name}" for name in [*sorted(names), CHECKSUMS]), sep="\n")
    return 0


def _bundle_files(options: argparse.Namespace) -> dict[str, str]:
    icon = (ROOT / "config" / "manifests" / "icon.svg").read_bytes()
    # OpenShift, OLM's main platform, enables this admission plugin.
    manifests = [
        *yaml_documents(_build(options, "manifests")),
        *build_extra(PROGRAM, ROOT / "config" / "owner-references"),
    ]
    return bundle_files(manifests, icon)


def _bundle(options: argparse.Namespace) -> int:
    files = _bundle_files(options)
    dockerfile = options.folder / "bundle.Dockerfile"
    inside = {path.removeprefix("bundle/"): text for path, text in files.items() if path != dockerfile.name}
    write_tree(options.folder / "bundle", inside)
    dockerfile.write_text(files[dockerfile.name], encoding="utf-8")
    print(f"wrote {options.folder / 'bundle'} and {dockerfile}")
    return 0


def _build(options: argparse.Namespace, overlay: str) -> str:
    folder = ROOT / "config" / overlay
    if not (folder / "kustomization.yaml").is_file():
        raise BuildFailed(f"config/{overlay} is no folder with a kustomization.yaml")
    text = build(folder, _images(options))
    if options.namespaces:
        text = yaml_stream(limited_to(options.namespaces, yaml_documents(text)))
    return text


def _images(options: argparse.Namespace) -> dict[str, Image]:
    given = {PROGRAM.name: options.image, "petstore": options.petstore_image}
    return {name: image for name, image in given.items() if image is not None}


def check_fits(manifests: Sequence[Manifest], served: Collection[str], namespaces: Collection[str]) -> None:
    """Raise DoesNotFit for an API version or a namespace that is neither there nor among the manifests.

    One that is empty is not known, and nothing is held against it.
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
    """Return the manifests of served kinds: objects of other kinds cannot exist, so none need deletion."""
    return [each for each in manifests if not served or each["apiVersion"] in served]
