"""The course of the program, from its start to its end."""

from __future__ import annotations

from contextlib import AsyncExitStack

from examples.workloads import objects
from examples.workloads.errors import Failure
from examples.workloads.interruption import Interrupted, Interruption
from examples.workloads.namespace import clear_leftovers, create_namespace, remove_namespace
from examples.workloads.options import Options
from examples.workloads.placement import nodes_of_pods
from examples.workloads.pod_logs import follow_logs
from examples.workloads.readiness import wait_ready
from examples.workloads.screen import say
from manager.client import Client, connect
from manager.kube.errors import ApiError, KubeError, ServerError

__all__ = ["run"]

OK, FAILED = 0, 1

REMOVED_WITHIN = 120.0
"""Seconds for the namespace's deletion at the end: its pods have 30 s to stop."""


async def run(options: Options) -> int:
    """Run the program; returns the exit code."""
    with Interruption() as interruption:
        try:
            async with AsyncExitStack() as stack:
                connecting = stack.enter_async_context(
                    connect("workloads-example", kubeconfig=options.kubeconfig, context=options.context)
                )
                # A credentials program may be slow, so allow an interruption here, too.
                client = await interruption.unless_asked(connecting)
                return await _in_own_namespace(client, options, interruption)
        except Interrupted:
            return OK
        except (Failure, KubeError) as error:
            say(f"error: {error}")
            if interruption.left_behind:
                say(f"left behind: {interruption.left_behind}")
            return FAILED


async def _in_own_namespace(client: Client, options: Options, interruption: Interruption) -> int:
    name = options.namespace
    await interruption.unless_asked(clear_leftovers(client, name, timeout=options.timeout))
    # The creation and the deletion of the namespace are not interrupted, so that their results are known.
    interruption.left_behind = f"namespace {name} (kubectl delete namespace {name})"
    try:
        namespace = await create_namespace(client, name)
    except ApiError as error:
        if not isinstance(error, ServerError):
            interruption.left_behind = ""  # the namespace was not created
        raise
    say(f"created namespace {name}")
    code = OK
    try:
        await interruption.unless_asked(_work(client, options))
    except Interrupted:
        pass
    except (Failure, KubeError) as error:
        say(f"error: {error}")  # printed now, because the clean-up takes a while
        code = FAILED
    finally:
        say(f"deleting namespace {name} ...")
        await remove_namespace(client, namespace, timeout=REMOVED_WITHIN)
        interruption.left_behind = ""
        say(f"deleted namespace {name}")
    return code


async def _work(client: Client, options: Options) -> None:
    """Create the objects and follow the pods' logs until interrupted, or until the output is closed."""
    deployment = await client.apply(objects.deployment(options.namespace, options.image))
    await wait_ready(client, deployment.object, timeout=options.timeout)
    for pod, node in (await nodes_of_pods(client, options.namespace)).items():
        say(f"pod {pod} runs on node {node}")
    await client.apply(objects.service(options.namespace))
    await client.apply(objects.ingress(options.namespace))
    say(f"service and ingress {objects.NAME} lead {objects.PATH} to the pods")
    say("following the pods' logs until Ctrl-C")
    await follow_logs(client, options.namespace)
