"""Sweeps on more than one machine, through Dask: a local cluster, a scheduler that runs already, SLURM or PBS."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from ..core.errors import IclearnError
from ..core.processes import no_main_module, usable_cores
from ..core.spec import Spec
from .folder import SweepFolder
from .runners import Outcome, Runner, run_chunk

QUEUES = {"slurm": "SLURMCluster", "pbs": "PBSCluster"}
LOOPBACK = "127.0.0.1:0"  # for dashboards: nobody else can reach it
GUARD = (
    "this script defines tasks or models of its own, which the processes of cluster='local' import: "
    "put what it runs under if __name__ == '__main__':"
)
ADDRESSES = ("tcp://", "tls://", "ws://", "wss://", "ucx://")


def check_cluster(cluster: str) -> None:
    """Refuse what is no cluster."""
    if cluster not in ("local", *QUEUES) and not cluster.startswith(ADDRESSES):
        raise IclearnError(f"cluster must be local, slurm, pbs or an address such as tcp://host:8786, not {cluster!r}")


@contextlib.contextmanager
def dask_runner(cluster: str, workers: int = 0, say: Callable[[str], None] | None = None) -> Iterator[Runner]:
    """A runner that gives chunks to Dask.

    Args:
        cluster: ``local``, the address of a scheduler, ``slurm`` or ``pbs`` (sizes of jobs from dask-jobqueue's own
            configuration).
        workers: worker processes or jobs to start (0: one a core, or one job).
        say: called with a line that holds the address of the dashboard.
    """
    check_cluster(cluster)
    try:
        from dask.distributed import Client
    except ImportError:
        raise IclearnError("a cluster needs Dask: pip install 'iclearn[dask]'") from None
    if getattr(multiprocessing.current_process(), "_inheriting", False):  # a process that imports the script
        sys.exit(1)
    with contextlib.ExitStack() as stack:
        if cluster == "local" and not _defines_specs():
            stack.enter_context(no_main_module())
        elif cluster == "local":
            trial = multiprocessing.get_context("spawn").Process()  # imports the script as every worker will
            trial.start()
            trial.join()
            if trial.exitcode:
                raise IclearnError(GUARD)
        if cluster.startswith(ADDRESSES):
            try:
                client = stack.enter_context(Client(cluster, timeout=10))
            except OSError:
                raise IclearnError(f"no Dask scheduler answers at {cluster}") from None
        else:
            client = stack.enter_context(Client(stack.enter_context(_started(cluster, workers))))
        if say is not None:
            say(f"Dask dashboard: {client.dashboard_link}")
        yield _runner(client)


def _defines_specs() -> bool:
    """Whether the script has tasks or models of its own, for which workers must import it."""
    main = sys.modules["__main__"]
    classes = [value for value in vars(main).values() if isinstance(value, type) and issubclass(value, Spec)]
    return any(cls.__module__ == "__main__" for cls in classes)


def _started(cluster: str, workers: int) -> Any:
    if cluster == "local":
        from dask.distributed import LocalCluster

        try:
            return LocalCluster(
                n_workers=workers or usable_cores(), threads_per_worker=1, processes=True, dashboard_address=LOOPBACK,
                silence_logs=logging.CRITICAL,
            )  # fmt: skip
        except RuntimeError as error:
            raise IclearnError(f"the processes of cluster 'local' did not start: {error}") from None
    try:
        import dask_jobqueue  # type: ignore[import-not-found]
    except ImportError:
        raise IclearnError(f"cluster {cluster} needs dask-jobqueue: pip install 'iclearn[dask]'") from None
    import dask.config

    asked = dask.config.get(f"jobqueue.{cluster}.scheduler-options", None) or {}
    try:
        queue = getattr(dask_jobqueue, QUEUES[cluster])(scheduler_options={"dashboard_address": LOOPBACK, **asked})
    except ValueError as error:  # cores or memory of a job are not configured
        reason = str(error).splitlines()[0]
        raise IclearnError(f"cluster {cluster}: {reason} (set it in ~/.config/dask/jobqueue.yaml)") from None
    queue.scale(workers or 1)
    return queue


def _runner(client: Any) -> Runner:
    from dask.distributed import as_completed

    def run(folder: SweepFolder, ids: list[str], retries: int) -> Iterator[tuple[str, Outcome]]:
        root = str(folder.root.resolve())
        if not client.submit(os.path.isfile, os.path.join(root, "plan.json"), pure=False).result():
            raise IclearnError(f"the cluster's workers do not see {root}: choose a folder on a shared file system")
        futures = {client.submit(run_chunk, root, id, retries, pure=False): id for id in ids}
        for future in as_completed(futures):
            # a task that Dask gave up (its workers kept dying) is judged by the ledger's claims in the next round
            yield futures[future], future.result() if future.status == "finished" else "again"

    return run
