"""Images of the Dockerfile, run as in a pod: by an unprivileged user, on a read-only file system."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from manager.cli import main as command_line
from manager.util.version import VERSION
from tests.support import ROOT, wheels
from tests.support.devcluster_plane import DevclusterControlPlane
from tests.support.dockerfile import Dockerfile, Instruction, Stage, expanded
from tests.support.eventually import eventually
from tests.support.foos import foo, foo_path
from tests.support.manager_process import ManagerProcess
from tests.support.otlp import Receiver
from tests.support.petstore_process import PetStoreProcess, assert_keeps_a_pet
from tests.support.tools import output_of

pytestmark = [pytest.mark.whole, pytest.mark.timeout(600)]

SYSTEM = ("usr", "etc")
LINKED = ("bin", "lib", "lib64", "sbin")
EMPTY = ("dev", "proc", "tmp", "opt", "usr", "etc")
# Variables of the base image, of engines for a user without a name, and for a moved interpreter's library.
BASE = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/", "LD_LIBRARY_PATH": "/usr/local/lib"}
# Folder with packages for the steps, which is not in the image.
WHEELS = "/tmp/wheels"
PACKAGES = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": WHEELS}
CHANGING = ("RUN", "COPY", "WORKDIR")
WHOLE = ["/", "/"]
STEP_TIMEOUT = 300.0


def why_not() -> str | None:
    """Return the reason why this machine cannot build images; None if it can."""
    if os.geteuid() != 0:
        return "only root may change the root folder"
    missing = [name for name in ("unshare", "chroot", "mount") if shutil.which(name) is None]
    if missing:
        return f"no {missing[0]} on the PATH"
    if not Path("/bin").is_symlink():
        return "the machine's /bin is not the one of /usr"
    tried = subprocess.run(["unshare", "--mount", "--net", "true"], capture_output=True, check=False)
    return "no namespaces for mounts and network" if tried.returncode else None


class ImageTree:
    """The stages of one Dockerfile, built on demand without a container engine.

    Each stage is a folder. The stage's build steps run there by chroot, in a separate mount namespace. The
    machine's system folders are mounted read-only. This interpreter's installation replaces the base image's
    `/usr/local`, and each stage changes only its own overlay of that folder. Packages come from wheels of
    this environment instead of the network, so the stage's constraints.txt has the hashes of these wheels.
    """

    def __init__(self, dockerfile: Dockerfile, folder: Path, context: Path = ROOT) -> None:
        self._dockerfile = dockerfile
        self._context = context
        self._folder = folder
        self._wheels = folder / "wheels"
        self._wheels.mkdir()
        self._pins = wheels.pack_all(self._wheels)
        self._built: dict[str, tuple[Path, dict[str, str]]] = {}

    def build(self, name: str) -> Path:
        """Build a stage and its bases, unless they are built already; return the stage's folder."""
        if name in self._built:
            return self._built[name][0]
        stage = self._dockerfile.stages[name]
        root, environ = self._folder / name / "root", dict(BASE)
        # A stage that copies another one as a whole has its files, and not its environment.
        copied = [step.flags["from"] for step in stage.of("COPY") if step.arguments == WHOLE]
        if copied or stage.base in self._dockerfile.stages:
            base = self.build(*copied or [stage.base])
            environ.update({} if copied else self._built[stage.base][1])
            if any(stage.of(step) for step in CHANGING):
                # Link the files, because no step changes one in place. A device file marks a removed file.
                subprocess.run(["cp", "-al", base.parent, root.parent], check=True)
            else:
                root = base
        else:
            self._lay_out(root)
        self._built[name] = root, environ
        self._carry_out(stage, root, environ)
        return root

    def program(
        self, name: str, *, visible: Sequence[Path] = (), entry: Sequence[str] | None = None
    ) -> list[str]:
        """Return a command that runs the image's entry point, or `entry`; callers may append arguments.

        The program runs as uid 65532, and only /tmp is writable. It can read the folders in `visible` under
        their paths on this machine.
        """
        root = self.build(name)
        (start,) = self._dockerfile.stages[name].of("ENTRYPOINT")
        script = "\n".join(
            [
                *self._mounts(root),
                f"mount -t tmpfs tmpfs {root}/tmp -o mode=1777",
                *(f"mkdir -p {root}{folder}" for folder in visible),
                *(f"mount --bind {folder} {root}{folder}" for folder in visible),
                *(f"mount -o remount,bind,ro {root}{folder}" for folder in visible),
                f"mount -o remount,bind,ro {root}",
                f"mount -o remount,ro {root}/usr/local",
                _in_chroot(root, self._built[name][1], list(entry or start.words), user=True) + ' "$@"',
            ]
        )
        unshare = shutil.which("unshare")
        assert unshare is not None
        return [unshare, "--mount", "--", "sh", "-ec", script, name]

    def _lay_out(self, root: Path) -> None:
        for name in EMPTY:
            (root / name).mkdir(parents=True, exist_ok=True)
        for name in LINKED:
            if Path(f"/{name}").is_symlink():
                (root / name).symlink_to(f"usr/{name}")
        for name in ("changes", "work"):
            (root.parent / name).mkdir()

    def _carry_out(self, stage: Stage, root: Path, environ: dict[str, str]) -> None:
        place = "/"
        for step in stage.instructions:
            if step.name == "ENV":
                environ.update({name: expanded(value, environ) for name, value in step.pairs.items()})
            elif step.name == "WORKDIR":
                place = step.text
                (root / place.lstrip("/")).mkdir(parents=True, exist_ok=True)
            elif step.name == "COPY" and step.arguments != WHOLE:
                self._copy(step, root, place)
            elif step.name == "RUN":
                self._run(step.text, root, place, environ)
            else:
                assert step.name in {"ARG", "COPY", "LABEL", "USER", "EXPOSE", "ENTRYPOINT", "CMD"}, step

    def _copy(self, step: Instruction, root: Path, place: str) -> None:
        *names, target = step.arguments
        origin = self.build(step.flags["from"]) if "from" in step.flags else self._context
        destination = root / (target if target.startswith("/") else f"{place}/{target}").lstrip("/")
        if origin is self._context:
            names = [str(path.relative_to(origin)) for name in names for path in origin.glob(name)]
        for name in names:
            source = origin / name.lstrip("/")
            if origin is not self._context:
                subprocess.run(["cp", "-al", "--no-target-directory", source, destination], check=True)
            elif source.is_dir():
                ignore = shutil.ignore_patterns("__pycache__")
                shutil.copytree(source, destination, ignore=ignore, dirs_exist_ok=True)
            else:
                folder = destination if target.endswith("/") else destination.parent
                folder.mkdir(parents=True, exist_ok=True)
                if source == wheels.PINS:
                    (folder / name).write_text(self._pins)
                else:
                    shutil.copy2(source, destination)
        owner = step.flags.get("chown")
        if owner is not None:
            subprocess.run(["chown", "-R", owner, destination], check=True)

    def _run(self, command: str, root: Path, place: str, environ: dict[str, str]) -> None:
        shell = ["sh", "-c", f"cd {place} && {command}"]
        script = "\n".join(
            [
                *self._mounts(root),
                f"mount -t tmpfs tmpfs {root}/tmp -o mode=1777",
                f"mkdir {root}{WHEELS}",
                f"mount --bind -o ro {self._wheels} {root}{WHEELS}",
                _in_chroot(root, {**PACKAGES, **environ}, shell),
            ]
        )
        done = subprocess.run(
            ["unshare", "--mount", "--net", "--", "sh", "-ec", script],
            capture_output=True,
            text=True,
            timeout=STEP_TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, f"RUN {command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"

    def _mounts(self, root: Path) -> list[str]:
        layers = f"lowerdir={sys.base_prefix},upperdir={root.parent}/changes,workdir={root.parent}/work"
        return [
            f"mount --bind {root} {root}",
            *(f"mount --bind -o ro /{name} {root}/{name}" for name in SYSTEM),
            f"mount -t overlay overlay -o {layers} {root}/usr/local",
            f"mount --rbind /dev {root}/dev",
            f"mount -t proc proc {root}/proc",
        ]


def _in_chroot(root: Path, environ: dict[str, str], command: list[str], *, user: bool = False) -> str:
    drop = ["--userspec=65532:65532", "--groups="] if user else []
    values = [f"{name}={value}" for name, value in environ.items()]
    return "exec " + shlex.join(["chroot", *drop, str(root), "env", "-i", *values, *command])


def laid_out() -> Iterator[Path]:
    """Yield a temporary folder for the image's files; skip the test if this machine cannot build images."""
    problem = why_not()
    if problem:
        pytest.skip(f"no image can be laid out: {problem}")
    # An image has a few hundred megabytes in many small files; keep them in memory if possible.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


image_folder = pytest.fixture(laid_out)


@pytest.fixture(scope="module")
def tree() -> Iterator[ImageTree]:
    with contextmanager(laid_out)() as folder:
        yield ImageTree(Dockerfile.read(), folder)


def run(tree: ImageTree, image: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*tree.program(image), *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@contextmanager
def managed(
    tree: ImageTree, folder: Path, *entry: str
) -> Iterator[tuple[DevclusterControlPlane, ManagerProcess]]:
    """Run the manager's image, or the command `entry` in the image; yield when the manager is ready."""
    visible = folder / "visible"
    visible.mkdir(mode=0o755)
    with DevclusterControlPlane(folder / "control-plane") as plane:
        kubeconfig = visible / "kubeconfig"
        kubeconfig.write_bytes(plane.kubeconfig.read_bytes())
        plane.kubectl("apply", "--filename=-", stdin=run(tree, "manager", "crds").stdout)
        program = tree.program("manager", visible=[visible], entry=entry)
        with ManagerProcess(kubeconfig, folder=folder / "manager", program=program) as manager:
            yield plane, manager.wait_ready()
            assert manager.stop() == 0


def test_manager_image_runs_as_unprivileged_user_and_becomes_ready_and_sends_traces(
    tree: ImageTree, tmp_path: Path
):
    version = run(tree, "manager", "version")
    assert version.returncode == 0, version.stderr
    assert VERSION in version.stdout
    with Receiver() as receiver:
        entry = ("env", f"OTEL_EXPORTER_OTLP_ENDPOINT={receiver.url}", "operator-manager")
        with managed(tree, tmp_path, *entry) as (plane, manager):
            plane.api.create(foo_path("default"), foo("lonely", "jack"))
            eventually(lambda: bool(receiver.trace_of("reconcile foo")))
            status = Path(f"/proc/{manager.process.pid}/status").read_text()
            assert "Uid:\t65532\t65532\t65532\t65532\n" in status


def test_manager_in_the_image_of_a_new_project_becomes_ready(image_folder: Path, tmp_path: Path):
    project = tmp_path / "shop"
    begin = ("init", str(project), "--domain=acme.test")
    assert command_line(begin, (), name="operator-manager", version="1") == 0
    with managed(ImageTree(Dockerfile.read(project / "Dockerfile"), image_folder, project), tmp_path):
        pass


def test_petstore_image_serves_as_unprivileged_user_on_a_read_only_root(tree: ImageTree, tmp_path: Path):
    with PetStoreProcess(tmp_path, "--memory", program=tree.program("petstore")) as store:
        assert_keeps_a_pet(store)


def test_image_bill_of_materials_lists_exactly_the_installed_packages(tree: ImageTree):
    installed = tree.build("manager") / "opt/operator-manager"
    bill = json.loads((installed / "sbom.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["name"] == "operator-manager"
    listed = {canonicalize_name(each["name"]) for each in bill["components"]}
    there = installed.glob("lib/*/site-packages/*.dist-info")
    assert listed == wheels.dependencies().keys()
    assert {canonicalize_name(each.name.partition("-")[0]) for each in there} == {*listed, *wheels.PROJECTS}


EVERY_MODULE = """
import importlib, pkgutil
for top in ("apis", "controllers", "devcluster", "manager", "manager_console", "manager_kinds",
            "manager_kubernetes_asyncio", "manager_shards", "manager_tools", "manager_tracing", "petstore"):
    for each in pkgutil.walk_packages(importlib.import_module(top).__path__, f"{top}."):
        own_program = each.name.endswith("__main__") or each.name.startswith("manager_tools.scaffold.project")
        if not own_program and not each.name.endswith(".pytest_plugin"):
            importlib.import_module(each.name)
"""
COMMANDS = (
    ("manager", "devcluster", "--help"),
    ("manager", "operator-manager", "init", "/tmp/shop", "--domain=acme.test"),
    ("manager", "operator-manager", "simulate", "--seeds=1"),
    *(("manager", "operator-manager", each, "--help") for each in ("run", "explain", "plan", "console")),
    ("petstore", "petstore", "serve", "--help"),
    ("manager", "/opt/operator-manager/bin/python", "-W", "error", "-c", EVERY_MODULE),
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[1:3]))
def test_image_contains_every_module_that_its_programs_import(command: tuple[str, ...], tree: ImageTree):
    image, *entry = command
    output_of(*tree.program(image, entry=entry))


def test_images_contain_no_source_folder_no_pip_and_no_world_writable_file(tree: ImageTree):
    for image in ("manager", "petstore"):
        root = tree.build(image)
        assert not (root / "src").exists()
        for module in ("pip", "ensurepip"):
            program = tree.program(image, entry=["/opt/operator-manager/bin/python", "-m", module])
            tried = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
            assert f"No module named {module}" in tried.stderr
        written = [
            path
            for path in (root / "opt").rglob("*")
            if not path.is_symlink() and path.stat().st_mode & 0o002
        ]
        assert written == []
