"""`init` and `create`: the generated files work, and each error is one line."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from manager.util.program import Program
from manager.util.yaml_text import yaml_documents
from manager_kinds.manifests import yaml_stream
from manager_tools.codegen import namespaces
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting
from manager_tools.scaffold.project.demo import is_ready
from tests.support import ROOT
from tests.support.settings import parse_flags
from tests.support.tilt import Tilt, TiltfileFailed
from tests.support.tools import output_of
from tests.unit.cli.conftest import Command
from tests.unit.manager_tools.conftest import files

CREATE = ("create", "api", "--group=store", "--version=v1beta1", "--kind=Company")
WEBHOOK = ("create", "webhook", "--kind=Greeting")
EVERY = ("--defaulting", "--validation", "--conversion=v2")


def done(folder: Path, *command: str) -> str:
    """Run a command in the project with this repository's library; return its output."""
    environ = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "NO_COLOR": "1"}
    environ = {name: value for name, value in environ.items() if not name.startswith("PYTEST_")}
    return output_of(*command, cwd=folder, environ=environ, timeout=600)


def python(folder: Path, *module: str) -> str:
    return done(folder, sys.executable, "-m", *module)


@pytest.mark.whole
@pytest.mark.timeout(900)  # 30 s of CPU in child processes, which a busy machine slows down
def test_new_project_with_added_kinds_passes_lint_and_tests_and_runs_its_demo(
    command: Command, project: Path
):
    assert command(*CREATE, "--owns=Deployment", "--cluster-scoped").code == 0
    assert command("create", "api", "--group=hello", "--version=v2", "--kind=Box", "--owns=Secret").code == 0
    several = ("--group=store", "--version=v1", "--kind=Shelf", "--owns=Service, StatefulSet", "--owns=Job")
    assert command("create", "api", *several).code == 0
    tenant = ("--group=store", "--version=v1", "--kind=Tenant", "--owns=Namespace", "--cluster-scoped")
    assert command("create", "api", *tenant).code == 0
    assert command(*WEBHOOK, *EVERY).code == 0
    # Company gets two more versions, one at a time.
    for more in ("--validation", "--conversion=v1", "--conversion=v1alpha1"):
        assert command("create", "webhook", "--kind=Company", more).code == 0
    [path] = (project / "config/crd/bases").glob("*_companies.yaml")
    definition = yaml.safe_load(path.read_text())
    schemas = [each["schema"]["openAPIV3Schema"] for each in definition["spec"]["versions"]]
    rules = [schema["x-kubernetes-validations"] for schema in schemas]
    assert len(rules) == 3
    assert all(each == rules[0] for each in rules), "the rule that limits the length of names"
    vendor = str(ROOT / "tests/unit/manager_tools/codegen/installation.yaml")
    assert command("model", "--from", vendor, "--output=apis/hello/v2/installation.py").code == 0
    python(project, "ruff", "check", ".")
    python(project, "ruff", "format", "--check", ".")
    python(project, "mypy")
    python(project, "controllers.main", "generate", "--check")
    assert "16 passed" in python(project, "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider")
    samples = project / "config/samples"
    sample = (samples / "hello_v1_greeting.yaml").read_text()
    sample = sample.replace("hello.acme.test/v1", "hello.acme.test/v2").replace("greeting-sample", "newer")
    (samples / "hello_v2_greeting.yaml").write_text(sample)
    shown = done(project, sys.executable, "demo.py")
    assert "Greeting newer: Ready=True AsWanted: 2 of 2 are there\n" in shown
    assert "Greeting newer: deleted\n" in shown
    assert "Company company-sample: Ready=True AsWanted: its children are as wanted\n" in shown
    assert "Shelf shelf-sample: Ready=True AsWanted: its children are as wanted\n" in shown
    assert "Greeting greeting-sample: Ready=True AsWanted: 2 of 2 are there\n" in shown


def test_demo_of_new_project_names_an_invalid_sample_field_in_one_line(project: Path):
    sample = project / "config/samples/hello_v1_greeting.yaml"
    sample.write_text(sample.read_text().replace("size: 2", "size: many"))
    environ = {**os.environ, "PYTHONPATH": f"{project}{os.pathsep}{ROOT}"}
    command = (sys.executable, "demo.py")
    ran = subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("hello_v1_greeting.yaml: spec.size: Input should be a valid integer")
    assert ran.stderr.count("\n") == 1


WRITTEN = {
    "controllers/main.py": "    CompanyOperator,\n",
    "config/samples/store_v1beta1_company.yaml": "store.acme.test/v1beta1",
    "config/crd/bases/store.acme.test_companies.yaml": "kind: Company",
    "apis/hello/v2/greeting.py": "storage=False",
    "config/crd/bases/hello.acme.test_greetings.yaml": "strategy: Webhook",
    "config/default/kustomization.yaml": "\n- ../webhook\n",
    "config/webhook/manifests.yaml": "/validate-hello-acme-test-v1-greeting",
}


def test_create_command_prints_every_file_that_it_writes(command: Command, project: Path):
    written = set[str]()
    for argv in (CREATE, (*WEBHOOK, *EVERY)):
        before = files(project)
        told = command(*argv).out.splitlines()
        changed = {name for name, text in files(project).items() if before.get(name) != text}
        verbs = ("wrote ", "changed ", "generated ")
        assert sorted(line.split(" ", 1)[1] for line in told if line.startswith(verbs)) == sorted(changed)
        assert told[-1].startswith("Next: ")
        written |= changed
    assert written >= WRITTEN.keys()
    assert [name for name, text in WRITTEN.items() if text not in files(project)[name]] == []


@pytest.mark.whole
def test_create_adds_an_api_and_webhooks_to_this_repository(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("apis", "controllers", "config", "petstore"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    monkeypatch.chdir(tmp_path)
    outcome = command(*CREATE, "--owns=Deployment")
    assert outcome.code == 0, outcome.err
    assert "changed pyproject.toml\n" in outcome.out  # it lists the layers for import-linter
    for kind, flags in {"Foo": EVERY, "Pet": ("--conversion=v2",)}.items():
        outcome = command("create", "webhook", f"--kind={kind}", *flags)
        assert outcome.code == 0, outcome.err
    python(tmp_path, "controllers.main", "generate", "--check")
    python(tmp_path, "ruff", "check", "apis", "controllers", "tests")
    python(tmp_path, "ruff", "format", "--check", "apis", "controllers", "tests")
    python(tmp_path, "pytest", "-q", "-p", "no:cacheprovider", "--ignore=tests/test_company.py")


def test_init_and_create_refuse_to_overwrite_a_file_or_an_operator(command: Command, project: Path):
    for mine in ("test_company.py", "test_greeting_validation.py"):
        (project / "tests" / mine).write_text("# mine\n")
    before = files(project)
    for argv, there in (
        (CREATE, "tests/test_company.py exists already, and is not overwritten"),
        (
            ("create", "api", "--group=a", "--version=v1", "--kind=Greeting"),
            "controllers/main.py has an operator GreetingOperator already",
        ),
        ((*WEBHOOK, "--validation"), "tests/test_greeting_validation.py exists already"),
        (("init", ".", "--domain=acme.test"), " exists already, and is not overwritten"),
    ):
        assert there in command(*argv).refusal()
    assert files(project) == before


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (("init",), "init: Missing argument 'DIR'."),
        ((*CREATE, "--kind=Shop"), "create api: --kind takes one kind, not 2: run the command for each"),
        (("init", "new"), "init: Missing option '--domain'."),
        (("init", "new", "--domain=Acme"), "init: invalid value 'Acme' for --domain: "),
        (("init", "new", "--domain=a.b", "--name=A"), "init: invalid value 'A' for --name: lower-case words"),
        *(
            (
                ("init", name, "--domain=a.b"),
                f"init: invalid value {name!r} for --name: a project's environment has a package",
            )
            for name in ("operator-manager", "devcluster", "pytest", "python", "uv", "aiohttp", "pathspec")
        ),
        (("init", "new", "--renew"), "init: new/requirements.txt: No such file or directory"),
        (("init", ".", "--renew", "--name=a"), "init: --renew goes without --domain and --name"),
        (("create", "api", "--version=v1", "--kind=A"), "create api: Missing option '--group'."),
        ((*CREATE, "--group=import"), "create api: invalid value for --group: 'import' is a Python keyword"),
        ((*CREATE[:-1], "--kind=Class"), "create api: invalid value for --kind: 'class' is a Python keyword"),
        ((*CREATE[:-1], "--kind=Context"), "create api: --kind Context: that is the name of something else"),
        ((*CREATE, "--plural="), "create api: invalid value '' for --plural: a lower-case word is expected"),
        ((*CREATE, "--owns=Widget"), "create api: --owns Widget: there is a template for ConfigMap, Cron"),
        ((*CREATE, "--owns=deploymnt"), "create api: --owns deploymnt: did you mean Deployment? There is a"),
        ((*CREATE, "--owns=Namespace"), "create api: --owns Namespace: only cluster-scoped objects can"),
        (WEBHOOK, "create webhook: --defaulting, --validation or --conversion=VERSION is needed"),
        ((*WEBHOOK, "--conversion=2"), "create webhook: invalid value '2' for --conversion: v1, v2beta1"),
        ((*WEBHOOK, "--conversion=v1"), "create webhook: Greeting has the version v1, and its operator"),
        (
            (*WEBHOOK, "--validation", "--group=store"),
            "create webhook: controllers/ has no operator of Greeting of group store: `class",
        ),
    ],
)
def test_init_and_create_refuse_invalid_arguments_in_one_line_and_write_no_file(
    command: Command, project: Path, argv: tuple[str, ...], expected: str
):
    before = files(project)
    assert command(*argv).refusal().startswith(expected)
    assert files(project) == before


@pytest.mark.parametrize(
    ("changes", "flags", "told"),
    [
        ({"main.py": None}, (), "this folder is not a project: controllers/main.py is expected"),
        ({"main.py": "OPERATORS = [*MINE]\n"}, (), "controllers/main.py has no list to add to"),
        ({"main.py": "OPERATORS = tuple(found())\n"}, (), "controllers/main.py has no list to add to"),
        ({"hello/greeting.py": "raise ValueError('broken')\n"}, (), "generate` fails: ValueError: broken"),
        ({}, ("--kind=Self",), "invalid value for --kind: 'Self' is `self` in methods"),
        ({}, ("--kind=Company", "--group=main"), "No module named controllers.main"),
        (
            {},
            ("--kind=Company", "--group=hello", "--plural=greetings"),
            "Company: Greeting has the plural greetings already",
        ),
    ],
)
def test_create_api_fails_and_writes_no_file_for_an_unsuitable_project_or_kind(
    command: Command, project: Path, changes: dict[str, str | None], flags: tuple[str, ...], told: str
):
    for path, code in changes.items():
        file = project / "controllers" / path
        file.unlink() if code is None else file.write_text(code)
    before, folders = files(project), [*project.rglob("*/")]
    assert told in command(*(CREATE[:-1] if flags else CREATE), *flags).refusal()
    assert files(project) == before
    assert [path for path in project.rglob("*/") if "__pycache__" not in path.parts] == folders


def test_tiltfile_of_new_project_runs_the_manager_on_a_local_cluster_or_devcluster(project: Path):
    cluster = Tilt(project / "Tiltfile").evaluate()
    assert [*cluster.called("k8s_resource")] == ["shop-controller-manager"]
    with pytest.raises(TiltfileFailed, match=r"current context .production. is no cluster of this machine"):
        Tilt(project / "Tiltfile", context="production").evaluate()
    alone = Tilt(project / "Tiltfile", arguments={"devcluster": True}).evaluate()
    command = alone.called("local_resource")["manager"]["serve_cmd"]
    flags = parse_flags(shlex.split(command)[3:], program=Program("shop", "0"))
    assert flags["webhook-local-path"].startswith(".local/")


@pytest.mark.parametrize(
    ("status", "ready"),
    [
        ({}, False),
        ({"observedGeneration": 0, "conditions": [("Ready", "True")]}, False),
        ({"observedGeneration": 1, "conditions": [("Ready", "True")]}, True),
        ({"conditions": [("Available", "True"), ("Progressing", "True")]}, True),
        ({"conditions": [("Happy", "True"), ("Degraded", "True")]}, False),
        ({"conditions": [("Happy", "Unknown")]}, False),
    ],
)
def test_demo_reports_ready_only_for_current_status_with_good_conditions(status: dict[str, Any], ready: bool):
    given = {"reason": "Set", "message": "", "lastTransitionTime": None}
    listed = [{"type": name, "status": holds, **given} for name, holds in status.get("conditions", ())]
    metadata, spec = {"name": "a", "generation": 1}, {"text": "Hello"}
    wire = {"metadata": metadata, "spec": spec, "status": status | {"conditions": listed}}
    obj = Greeting.model_validate(wire)
    assert is_ready(obj) is ready


def test_namespaces_command_limits_roles_and_webhooks_to_the_given_namespaces(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    role = {"kind": "ClusterRole", "metadata": {"name": "shop-manager-role"}}
    selector = {"matchLabels": {"team": "blue"}}
    webhooks = {"webhooks": [{"name": "a", "namespaceSelector": selector}]}
    configuration = {"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "shop"}, **webhooks}
    monkeypatch.setattr("sys.stdin", io.StringIO(yaml_stream([role, configuration])))
    assert namespaces.main("team-a,team-b") == 0
    *roles, scoped = yaml_documents(capsys.readouterr().out)
    found = [(each["kind"], each["metadata"]["namespace"]) for each in roles]
    assert found == [("Role", "team-a"), ("Role", "team-b")]
    [only] = scoped["webhooks"]
    assert only["namespaceSelector"]["matchLabels"] == {"team": "blue"}
    assert only["namespaceSelector"]["matchExpressions"][0]["values"] == ["team-a", "team-b"]
    assert namespaces.main("Team A") == 2
    said = "NAMESPACES=Team A: names of namespaces, separated by commas, are expected\n"
    assert capsys.readouterr().err == said
    makefile = Path("manager_tools/scaffold/project/Makefile").read_text()
    assert "python -m manager_tools.codegen.namespaces $(NAMESPACES)" in makefile
