"""Tests' coverage of the commands in the documentation: each command has a test or a reason for none.

WALKED and WALKED_ALONE name pages whose `console` blocks run as a whole, with their output compared. The list
below has every other command, with the test that runs it or the reason why no test can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["DEPLOYED", "ELSEWHERE", "NOT_RUN", "RUN_BY", "WALKED", "WALKED_ALONE"]

WALKED = ("README.md", "docs/operators.md")
"""Pages whose consoles are followed with a control plane and a manager."""

WALKED_ALONE = ("docs/petstore.md", "docs/devcluster.md")
"""Pages whose consoles need neither."""

ELSEWHERE: Mapping[str, str] = {
    "docs/writing-an-operator.md": (
        "tests/integration/test_documentation.py::test_writing_an_operator_page_yields_a_running_operator"
    ),
    "docs/webhooks.md": (
        "tests/integration/test_documentation.py::test_webhooks_page_yields_answering_webhooks"
    ),
    "docs/operations.md": (
        "tests/integration/test_documentation.py::"
        "test_petstore_serves_from_the_backup_that_operations_page_makes"
    ),
    "examples/workloads/README.md": (
        "tests/integration/test_workloads.py::test_workloads_runs_from_start_to_end"
    ),
}
"""Other pages with consoles, and the test that follows each of them."""

_DOCUMENTATION = "tests/integration/test_documentation.py"
_SYSTEM = "kubectl -n operator-manager-system"
_IMAGES = "IMG=example.test/team/operator-manager:0.1.0 PETSTORE_IMG=example.test/team/petstore:0.1.0"

DEPLOYED: Sequence[str] = (
    f"{_SYSTEM} rollout status deployment/operator-manager-controller-manager",
    "kubectl apply -k config/samples",
    "kubectl get memcacheds,foos,pets,wordpresses,mysrvs",
    f"{_SYSTEM} get pods,leases",
    f"{_SYSTEM} get deployments,pods,leases",
    f"{_SYSTEM} get events --sort-by=.lastTimestamp",
    f"{_SYSTEM} describe deployment/operator-manager-petstore",
    f"{_SYSTEM} rollout restart deployment/operator-manager-controller-manager",
    "kubectl apply -k config/grafana",
    "kubectl get clusterrole operator-manager-manager-role -o yaml",
    (
        "kubectl auth can-i --list "
        "--as=system:serviceaccount:operator-manager-system:operator-manager-controller-manager"
    ),
    (
        "kubectl create clusterrolebinding operator-manager-prometheus "
        "--clusterrole=operator-manager-metrics-reader --serviceaccount=monitoring:prometheus-k8s"
    ),
    (
        "kubectl create clusterrolebinding metrics-reader "
        "--clusterrole=operator-manager-metrics-reader --serviceaccount=monitoring:prometheus-k8s"
    ),
    "token=$(kubectl -n monitoring create token prometheus-k8s)",
    "TOKEN=$(kubectl create token prometheus-k8s --namespace monitoring)",
)
"""What is done with a manager that is deployed, in this order."""

RUN_BY: Mapping[str, Sequence[str]] = {
    f"{_DOCUMENTATION}::test_page_commands_for_a_deployed_manager_succeed": DEPLOYED,
    f"{_DOCUMENTATION}::test_page_commands_print_what_the_page_shows": (
        ".venv/bin/operator-manager crds | kubectl apply --server-side --force-conflicts -f -",
    ),
    f"{_DOCUMENTATION}::test_page_commands_print_what_the_page_shows_without_a_cluster": (
        ".venv/bin/devcluster up",
    ),
    "tests/unit/cli/test_commands.py::test_program_offers_commands_flags_and_their_values_to_bash": (
        "source <(.venv/bin/operator-manager completion bash)",
    ),
    "tests/integration/test_client.py::test_apply_removes_the_fields_of_a_former_manager": (
        "kubectl get deployment web -o yaml --show-managed-fields",
    ),
    f"{_DOCUMENTATION}::test_writing_an_operator_page_yields_a_running_operator": (
        ".venv/bin/operator-manager create api --group hello --version v1 --kind Greeting --owns ConfigMap",
        ".venv/bin/operator-manager run --controllers=greeting",
    ),
    f"{_DOCUMENTATION}::test_webhooks_page_yields_answering_webhooks": (
        "kubectl delete mutatingwebhookconfiguration operator-manager-mutating-webhook-configuration",
        "kubectl delete validatingwebhookconfiguration operator-manager-validating-webhook-configuration",
    ),
    "tests/integration/test_make_run.py": ("kubectl get pets.v1beta1.petstore.example.com",),
    "tests/integration/test_examples.py": (
        ".venv/bin/python -m examples.cronjob crds | kubectl apply --server-side -f -",
        ".venv/bin/python -m examples.cronjob run",
        "kubectl apply -f examples/cronjob/sample.yaml",
        ".venv/bin/python -m examples.dask crds | kubectl apply --server-side -f -",
        ".venv/bin/python -m examples.dask run",
        "kubectl apply -f examples/dask/sample.yaml",
        ".venv/bin/python -m examples.database crds | kubectl apply --server-side -f -",
        ".venv/bin/python -m examples.database run",
        "kubectl apply -f examples/database/sample.yaml",
    ),
    ".ci/run": ("make venv", "make tools", "make test", ".ci/run"),
    "tests/unit/benchmarks/test_cli.py": (".venv/bin/python -m benchmarks --help",),
    "tests/unit/benchmarks/test_live.py": ("make bench-live",),
    "tests/demo/test_demo.py::test_demo_ends_by_itself_when_everything_is_ready": ("make demo",),
    "tests/unit/config/test_makefile.py::test_help_lists_every_target_of_the_field": ("make",),
    ("tests/unit/config/test_makefile.py::test_make_check_runs_quick_unit_tests_and_each_operator_once"): (
        "make check",
    ),
    "tests/unit/config/test_makefile.py::test_make_runs_tests_marked_whole_in_test_all_only": (
        "make test-all",
    ),
    "tests/unit/manager_tools/commands/test_generating.py": ("make generate",),
    "tests/unit/manager_tools/commands/test_create.py": (
        ".venv/bin/operator-manager init ../shop --domain example.com",
    ),
    "tests/unit/manager_tools/commands/test_model.py": (
        ".venv/bin/operator-manager model --from crd.yaml --version v1beta1",
    ),
    "tests/integration/test_crds.py::test_model_command_generates_model_from_a_served_kind": (
        ".venv/bin/operator-manager model --from Certificate.cert-manager.io -o apis/acme/certificate.py",
    ),
    "tests/unit/release/test_configuration.py::test_example_configuration_of_the_page_loads": (
        ".venv/bin/operator-manager run --config manager.yaml --log-level=debug",
    ),
    "tests/integration/test_explain.py::test_explain_blames_image_that_cannot_be_pulled": (
        ".venv/bin/operator-manager explain memcached/web -n default",
    ),
    "tests/integration/test_console.py::test_console_command_opens_cluster_console_with_kubeconfig_rights": (
        ".venv/bin/operator-manager console",
    ),
    "tests/integration/test_plan.py::test_plan_shows_new_image_in_child_and_in_status": (
        ".venv/bin/operator-manager plan --all --memcached-image=memcached:1.6.40-alpine",
    ),
    "tests/conformance/clients/test_kubectl_pods.py::test_kubectl_top_shows_the_annotated_usage": (
        "kubectl annotate pod web devcluster.local/cpu=250m devcluster.local/memory=64Mi",
        "kubectl top pods",
    ),
    "tests/unit/devcluster/api/test_pod_sessions.py::test_exec_without_a_script_prints_the_annotation": (
        'kubectl annotate pod web devcluster.local/exec=PONG devcluster.local/log="ready to serve"',
    ),
    ("tests/integration/test_tracing.py::test_trace_joins_reconcile_api_server_spans_and_webhook_review"): (
        "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 .venv/bin/operator-manager run",
    ),
    "tests/integration/test_migrate_storage.py::test_pets_of_the_old_version_are_migrated": (
        ".venv/bin/operator-manager migrate-storage --dry-run",
        ".venv/bin/operator-manager migrate-storage",
        "kubectl get crd pets.petstore.example.com -o jsonpath='{.status.storedVersions}'",
    ),
    "tests/integration/test_pet.py::test_pet_operator_uses_a_store_with_mutual_tls": (
        "petstore serve --tls-cert-file=tls.crt --tls-key-file=tls.key --tls-client-ca-file=clients.crt",
        "petstore search --tls-ca-file=ca.crt --tls-cert-file=client.crt --tls-key-file=client.key",
        (
            "operator-manager run --petstore-tls-ca-file=ca.crt --petstore-tls-cert-file=client.crt "
            "--petstore-tls-key-file=client.key"
        ),
    ),
    "tests/integration/test_deploy.py::test_make_deploy_serves_all_samples_and_undeploy_leaves_nothing": (
        "make install",
        "make deploy",
        "make deploy IMG=... PETSTORE_IMG=...",
        f"make deploy {_IMAGES}",
        "make undeploy",
    ),
    "tests/integration/test_deploy.py::test_namespaced_manager_has_rights_only_in_its_namespaces": (
        "make deploy NAMESPACES=team-a,team-b",
    ),
    (
        "tests/integration/test_overlays.py"
        "::test_server_accepts_every_overlay_object_strictly_without_warnings"
    ): (
        "make deploy OVERLAY=autoscaling",
        "make deploy OVERLAY=cert-manager IMG=...",
        "make deploy OVERLAY=console",
        "make deploy OVERLAY=high-availability",
        "make deploy OVERLAY=shards",
    ),
    (
        "tests/integration/test_per_operator.py"
        "::test_per_operator_managers_reconcile_all_samples_with_their_own_accounts"
    ): ("make deploy OVERLAY=per-operator",),
    "tests/unit/manager_tools/chart/test_files.py": ("make release",),
    "tests/integration/test_chart.py": (
        "helm install operator-manager dist/chart --namespace operator-manager-system --create-namespace",
        (
            "helm install operator-manager dist/chart --namespace operator-manager-system --create-namespace "
            "--take-ownership"
        ),
    ),
    "tests/unit/devcluster/test_faults.py": (
        (
            """curl ... -X POST $SERVER/devcluster/faults """
            """-d '{"do": "delay", "seconds": 2, "match": {"path": "leases"}}'"""
        ),
        "curl ... $SERVER/devcluster/faults",
        "curl ... -X POST $SERVER/devcluster/history/expire",
    ),
    "tests/integration/test_secure_metrics.py::"
    "test_metrics_endpoint_serves_only_accounts_that_may_read_metrics": (
        'curl --insecure --header "Authorization: Bearer $token" https://localhost:8443/metrics',
        'curl --insecure --header "Authorization: Bearer $TOKEN" https://localhost:8443/metrics',
    ),
}
"""The commands of other blocks, by the test (or the step of CI) that does what they do."""

_NO_ENGINE = (
    "no container engine and no registry is at hand; tests/unit/config/test_makefile.py sees the steps of "
    "make, tests/integration/test_image.py does what the Dockerfile says"
)

NOT_RUN: Mapping[str, Sequence[str]] = {
    _NO_ENGINE: (
        "make docker-build",
        f"make docker-build docker-push {_IMAGES}",
        f"make docker-build docker-push deploy {_IMAGES}",
        "kind load docker-image operator-manager:0.1.0 petstore:0.1.0",
    ),
    "no engine, no opm, no registry; tests/unit/release/test_bundle.py reads what `make bundle` writes": (
        "make bundle bundle-build bundle-push catalog-build IMG=... BUNDLE_IMG=... CATALOG_IMG=...",
        ".venv/bin/python -m release manifests --only=policies >policies.yaml",
    ),
    "prometheus-adapter cannot be had; tests/unit/config/test_autoscaling.py asks Prometheus its query": (
        (
            "kubectl get --raw /apis/external.metrics.k8s.io/v1beta1/namespaces/operator-manager-system/"
            "operator_manager_queue_age_seconds"
        ),
    ),
    "valgrind takes minutes; tests/unit/benchmarks/test_live.py has the work done without it": (
        (
            "PYTHONHASHSEED=0 valgrind --tool=callgrind .venv/bin/python -m benchmarks.live --calls=2 "
            "--only=new-object"
        ),
    ),
    "it needs nodes that run containers; a workflow runs it on kind": (
        "make e2e",
        "make e2e IMG=... PETSTORE_IMG=...",
        "kind create cluster --kubeconfig kind.kubeconfig",
        "KUBECONFIG=kind.kubeconfig make e2e",
    ),
    "tilt cannot be had; tests/unit/config/test_tiltfile.py records what the Tiltfile asks of it": (
        "tilt up",
        "tilt up -- --devcluster",
    ),
    "the pods of our control planes run no containers, so that nothing can be reached, read or run in them": (
        f"{_SYSTEM} port-forward deployment/operator-manager-controller-manager 8443 &",
        f"{_SYSTEM} port-forward deployment/operator-manager-controller-manager 8082 &",
        (
            "kubectl get validatingwebhookconfigurations operator-manager-validating-webhook-configuration "
            "-o jsonpath='{.webhooks[0].clientConfig.caBundle}' | base64 --decode > ca.crt"
        ),
        "kubectl create token me --audience=operator-manager-console > token",
        (
            ".venv/bin/operator-manager explain pet/rex --manager https://localhost:8082 "
            "--manager-ca-file ca.crt "
            "--manager-tls-server-name operator-manager-webhook-service.operator-manager-system.svc "
            "--manager-token-file token"
        ),
        f"{_SYSTEM} logs deployment/operator-manager-controller-manager --tail=20",
        f"{_SYSTEM} logs deployment/operator-manager-controller-manager --tail=200",
        (
            f"{_SYSTEM} exec deployment/operator-manager-petstore -- python -c "
            '"import sqlite3; '
            "sqlite3.connect('/data/petstore.db').backup(sqlite3.connect('/data/backup.db'))\""
        ),
    ),
    "it takes twenty minutes; tests/integration/test_benchmarks.py does the same with a few objects": (
        "make bench",
        "make bench ONLY=cold,takeover",
        'make bench ARGS="--python=3.11 --python=3.14"',
        "make bench ONLY=done,backlog ARGS=--own-objects=200000",
        "make bench ARGS=--write BENCH_SERVER_CPUS=2-5 BENCH_PROGRAM_CPUS=0,1",
        "make bench ONLY=shards",
        "make bench ONLY=shards ARGS=--write",
        "make bench ONLY=shards ARGS=--objects=2000",
    ),
    "a deployment that was deployed once has no earlier version to go back to": (
        f"{_SYSTEM} rollout undo deployment/operator-manager-controller-manager",
    ),
}
"""Commands that cannot be run here, by the reason."""
