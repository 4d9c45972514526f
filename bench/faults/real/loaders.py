"""Faults of PyTorch's DataLoader, and of pools of processes that prepare batches."""

from __future__ import annotations

from collections.abc import Iterator

from bench.faults.callers.host import CPUS
from bench.faults.real.running import RealProgram, free_port
from bench.faults.stage.fault import Truth, fault
from bench.faults.stage.stage import Place, Stage

QUICK_MS = 1.0
"""Time that a DataLoader's item takes before the fault."""
POOL_MS = 8.0
"""Time that an item takes before the fault in multiprocessing's pool. The pool then needs about one CPU. With
12 ms, its two workers, the training program and the noise filled two CPUs at times and waited for each
other."""
POLLED_MS = 4.0
"""Time that an item takes before the fault in joblib's pool, which gets a limited number of items at a time
and so cannot run far ahead."""
_LEAST_WEIGHT = 10 / 1024
"""CPU weight of the victim, as a share of the default. Kubernetes gives containers without CPU request even
less, 2 / 1024."""


def _loader(
    stage: Stage, victim: Place, *options: str, numbers: tuple[float, ...] = (QUICK_MS,)
) -> RealProgram:
    workers = stage.whole("workers", 1, 2)
    sharing = stage.one_of("sharing", ("file_descriptor", "file_system"))
    pinned = ("--pin",) if stage.one_of("pin", ("yes", "no")) == "yes" else ()
    return RealProgram(
        stage,
        victim,
        "torch_loader.py",
        *("--workers", str(workers), "--sharing", sharing, "--persistent", *pinned, *options),
        numbers=numbers,
    )


@fault("loader_cpu", "torch-computes")
def computes(stage: Stage) -> Iterator[Truth]:
    """The items of a PyTorch DataLoader take 25 to 60 ms of computing."""
    victim = stage.tenant("victim")
    program = _loader(stage, victim)
    yield Truth(victim)
    program.change(stage.between("ms", 25, 60))


@fault("loader_sleep", "torch-sleeps")
def sleeps(stage: Stage) -> Iterator[Truth]:
    """The items of a PyTorch DataLoader sleep for 40 to 100 ms."""
    victim = stage.tenant("victim")
    program = _loader(stage, victim, "--item", "sleep")
    yield Truth(victim)
    program.change(stage.between("ms", 40, 100))


@fault("remote_service", "torch-asks")
def asks(stage: Stage) -> Iterator[Truth]:
    """The items of a PyTorch DataLoader ask a server in another container, which computes for 25 to 60 ms."""
    victim, features = stage.tenant("victim"), stage.tenant("features")
    port = free_port()
    server = RealProgram(stage, features, "server.py", "--port", str(port), numbers=(QUICK_MS,))
    _loader(stage, victim, "--item", "ask", "--server", f"127.0.0.1:{port}")
    yield Truth(victim, features)
    server.change(stage.between("ms", 25, 60))


@fault("loader_sleep", "torch-paces")
def paces(stage: Stage) -> Iterator[Truth]:
    """The items of a PyTorch DataLoader wait for 40 to 100 ms in an event loop of asyncio."""
    victim = stage.tenant("victim")
    program = _loader(stage, victim, "--item", "pace")
    yield Truth(victim)
    program.change(stage.between("ms", 40, 100))


@fault("remote_service", "torch-queries")
def queries(stage: Stage) -> Iterator[Truth]:
    """The items of a PyTorch DataLoader query PostgreSQL in another container, which computes for 25 to 60
    ms."""
    victim, database = stage.tenant("victim"), stage.tenant("database")
    port = str(free_port())
    RealProgram(stage, database, "database.py", "--port", port, "--folder", str(stage.folder))
    program = _loader(stage, victim, "--item", "query", "--server", f"127.0.0.1:{port}")
    yield Truth(victim, database)
    program.change(stage.between("ms", 25, 60))


@fault("remote_service", "zmq-produces")
def produces(stage: Stage) -> Iterator[Truth]:
    """A program in another container hands over batches by ZeroMQ, and computes for 25 to 60 ms for each."""
    victim, source = stage.tenant("victim"), stage.tenant("source")
    port = str(free_port())
    producer = RealProgram(
        stage, source, "zeromq.py", "--role", "produce", "--port", port, numbers=(QUICK_MS,)
    )
    RealProgram(stage, victim, "zeromq.py", "--role", "train", "--port", port)
    yield Truth(victim, source)
    producer.change(stage.between("ms", 25, 60))


@fault("workers_restarted", "executor-restarts")
def executor_restarts(stage: Stage) -> Iterator[Truth]:
    """A new ProcessPoolExecutor is made for each batch, instead of using one again."""
    victim = stage.tenant("victim")
    program = RealProgram(stage, victim, "executor.py")
    yield Truth(victim)
    program.change(1.0)


@fault("workers_restarted", "torch-restarts")
def restarts(stage: Stage) -> Iterator[Truth]:
    """Epochs of a PyTorch DataLoader become 3 to 6 batches long, and its workers are started anew in each
    epoch."""
    victim = stage.tenant("victim")
    program = RealProgram(
        stage,
        victim,
        "torch_loader.py",
        "--workers",
        str(stage.whole("workers", 1, 2)),
        numbers=(QUICK_MS, 0.0),
    )
    yield Truth(victim)
    program.change(float(stage.whole("batches", 3, 6)), place=1)


@fault("cpu_contention", "torch-beside-hog")
def beside_a_hog(stage: Stage) -> Iterator[Truth]:
    """Another tenant computes on all CPUs beside a PyTorch DataLoader with a very small CPU weight."""
    # With equal weights the program, which needs less than one of two CPUs, would lose little.
    victim = stage.tenant("victim", ("cpu",))
    _loader(stage, victim, "--collate-ms", numbers=(15.0,))
    assert victim.limits is not None
    victim.limits.cpu_weight(_LEAST_WEIGHT)
    hog = stage.tenant("hog", ("cpu",))
    yield Truth(victim, hog)
    stage.process(hog, "batch", "!5000", threads=8 * CPUS)


@fault("loader_cpu", "pool-computes")
def pool(stage: Stage) -> Iterator[Truth]:
    """Batches come through shared memory from a pool of multiprocessing. Its processes compute for 25 to 60
    ms for each batch."""
    return _pool(stage, "multiprocessing", POOL_MS)


@fault("loader_cpu", "joblib-computes")
def joblib(stage: Stage) -> Iterator[Truth]:
    """Batches come from a pool of joblib (loky), which the training program polls. The pool's processes
    compute for 25 to 60 ms for each batch."""
    return _pool(stage, "joblib", POLLED_MS)


def _pool(stage: Stage, kind: str, healthy_ms: float) -> Iterator[Truth]:
    victim = stage.tenant("victim")
    program = RealProgram(stage, victim, "pool.py", "--kind", kind, numbers=(healthy_ms,))
    yield Truth(victim)
    program.change(stage.between("ms", 25, 60))
