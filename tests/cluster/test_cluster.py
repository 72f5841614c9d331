"""Launch environments as the launchers really set them (recorded from MPICH 5.0, Open MPI 5.0, Intel MPI 2021.18, Slurm 22.05
and torchrun 2.14; Cray's and MVAPICH's are from their documentation), and everything that must not look like one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from distarray.cluster import LAUNCHERS, Launch, detect, explicit, local_device
from distarray.cluster.slurm import first_host
from distarray.errors import DeviceError, RendezvousError

OPENMPI = {
    "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "OMPI_COMM_WORLD_NODE_RANK": "1",
    "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "PMIX_RANK": "3", "PMIX_NAMESPACE": "prterun-node1-5503@1",
}  # fmt: skip
MPICH = {
    "PMI_RANK": "1", "PMI_SIZE": "2", "PMI_FD": "9", "PMI_HOSTNAME": "node1", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2",
}  # fmt: skip
TORCHRUN = {
    "RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "node0", "MASTER_PORT": "29500",
    "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RUN_ID": "none",
}  # fmt: skip
JOB = {
    "SLURM_JOB_ID": "1234", "SLURM_JOBID": "1234", "SLURM_NTASKS": "8", "SLURM_NPROCS": "8", "SLURM_NNODES": "2",
    "SLURM_NODELIST": "gpu[008-009]", "SLURM_JOB_NODELIST": "gpu[008-009]",
}  # fmt: skip
BATCH = {**JOB, "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_TASK_PID": "77"}
STEP = {
    **JOB, "SLURM_STEP_ID": "0", "SLURM_STEPID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NODELIST": "gpu[008-009]", "SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_NTASKS": "4",
}  # fmt: skip
SLURM_PORT = 61440 + 1234 * 31 % 4096
TORCH_PORT = 61440 + (29500 + 2048) % 4096

CASES: dict[str, tuple[Mapping[str, str], Launch]] = {
    "nothing": ({}, Launch("none", 0, 1, 0)),
    "Open MPI": (OPENMPI, Launch("openmpi", 3, 4, 1)),
    "MPICH": (MPICH, Launch("pmi", 1, 2, 1)),
    "MVAPICH": ({"PMI_RANK": "2", "PMI_SIZE": "4", "MV2_COMM_WORLD_LOCAL_RANK": "0"}, Launch("pmi", 2, 4, 0)),
    "Cray": ({"PMI_RANK": "2", "PMI_SIZE": "4", "PALS_LOCAL_RANKID": "1"}, Launch("pmi", 2, 4, 1)),
    "PMI without a local rank": ({"PMI_RANK": "2", "PMI_SIZE": "4"}, Launch("pmi", 2, 4, None)),
    "srun": (STEP, Launch("slurm", 3, 4, 1, "gpu008", SLURM_PORT)),
    "srun --mpi=pmi2": ({**STEP, "PMI_RANK": "3", "PMI_SIZE": "4"}, Launch("slurm", 3, 4, 1, "gpu008", SLURM_PORT)),
    "MPICH's mpiexec over srun": ({**STEP, **MPICH}, Launch("pmi", 1, 2, 1)),
    "Open MPI's mpirun over srun": ({**STEP, **OPENMPI}, Launch("openmpi", 3, 4, 1)),
    "Open MPI in a batch script": ({**BATCH, **OPENMPI}, Launch("openmpi", 3, 4, 1)),
    "MPICH in a batch script": ({**BATCH, **MPICH}, Launch("pmi", 1, 2, 1)),
    "salloc": (JOB, Launch("none", 0, 1, 0)),
    "salloc, shell as a step": (
        {**STEP, "SLURM_STEP_ID": str(0xFFFFFFFA), "SLURM_STEPID": str(0xFFFFFFFA), "SLURM_PROCID": "0"},
        Launch("none", 0, 1, 0),
    ),
    "batch script": (BATCH, Launch("none", 0, 1, 0)),
    "batch script with its reserved step": ({**BATCH, "SLURM_STEPID": str(0xFFFFFFFB)}, Launch("none", 0, 1, 0)),
    "torchrun": (TORCHRUN, Launch("torchrun", 5, 8, 1, "node0", TORCH_PORT)),
    "torchrun on the last port": ({**TORCHRUN, "MASTER_PORT": "65535"}, Launch("torchrun", 5, 8, 1, "node0", 63487)),
    "torch's variables by hand": (
        {name: value for name, value in TORCHRUN.items() if not name.startswith("TORCHELASTIC")},
        Launch("torchrun", 5, 8, 1, "node0", TORCH_PORT),
    ),
    "torchrun under srun": ({**STEP, **TORCHRUN}, Launch("torchrun", 5, 8, 1, "node0", TORCH_PORT)),
    "explicit": ({"DISTARRAY_RANK": "1", "DISTARRAY_SIZE": "2"}, Launch("explicit", 1, 2, None)),
    "explicit before all": (
        {**STEP, **OPENMPI, "DISTARRAY_RANK": "0", "DISTARRAY_SIZE": "2", "DISTARRAY_LOCAL_RANK": "1",
         "DISTARRAY_HOST": "::1", "DISTARRAY_PORT": "4000"},
        Launch("explicit", 0, 2, 1, "::1", 4000),
    ),
    "an address of one's own": (
        {**STEP, "DISTARRAY_HOST": "10.0.0.1", "DISTARRAY_PORT": "4000"}, Launch("slurm", 3, 4, 1, "10.0.0.1", 4000)
    ),
    "a part, and a whole": ({"RANK": "0", "WORLD_SIZE": "3", **MPICH}, Launch("pmi", 1, 2, 1)),
    "another program's WORLD_SIZE": ({"WORLD_SIZE": "3"}, Launch("none", 0, 1, 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_detected(name: str) -> None:
    environ, want = CASES[name]
    assert detect(environ) == want


@pytest.mark.parametrize("launcher", LAUNCHERS, ids=lambda launcher: launcher.name)
def test_each_missing_variable_is_named(launcher: type) -> None:
    whole = {
        "explicit": {"DISTARRAY_RANK": "0", "DISTARRAY_SIZE": "2"}, "torchrun": TORCHRUN, "openmpi": OPENMPI, "slurm": STEP,
        "pmi": MPICH,
    }[launcher.name]  # fmt: skip
    for variable in launcher.needs:
        part = {name: value for name, value in whole.items() if name != variable}
        if not launcher(part).is_present():
            assert launcher.name == "torchrun" and variable in ("RANK", "WORLD_SIZE")
            continue
        with pytest.raises(RendezvousError) as raised:
            detect(part)
        text = str(raised.value)
        assert variable in text
        assert all(other.name in text for other in LAUNCHERS), "names all that was tried"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"OMPI_COMM_WORLD_RANK": "x"}, "OMPI_COMM_WORLD_RANK='x'"),
        ({"OMPI_COMM_WORLD_RANK": "-1"}, "OMPI_COMM_WORLD_RANK='-1'"),
        ({"OMPI_COMM_WORLD_RANK": "4"}, "rank 4 of 4"),
        ({"OMPI_COMM_WORLD_SIZE": "0"}, "OMPI_COMM_WORLD_SIZE='0'"),
        ({"DISTARRAY_PORT": "70000"}, "DISTARRAY_PORT='70000'"),
    ],
)
def test_nonsense_is_refused(change: dict[str, str], named: str) -> None:
    with pytest.raises(RendezvousError) as raised:
        detect({**OPENMPI, **change})
    assert named in str(raised.value)


@pytest.mark.parametrize(
    ("nodes", "host"),
    [
        ("node001", "node001"), ("node001,host2", "node001"), ("node[001-0015],host2", "node001"),
        ("node[001,007-015],host2", "node001"), ("gpu[8-11]", "gpu8"), ("r[1-2]n[01-16]", "r1n01"),
        ("c[3,5]-ib,login", "c3-ib"), ("a-b.c.d", "a-b.c.d"), ("n[07]", "n07"),
    ],
)  # fmt: skip
def test_first_host(nodes: str, host: str) -> None:
    assert first_host(nodes) == host


@pytest.mark.parametrize("nodes", ["", ",", "n[", "n[a-b]", "n[1-2", "n]1", "[", "n[]"])
def test_no_host(nodes: str) -> None:
    with pytest.raises(RendezvousError, match="DISTARRAY_HOST"):
        first_host(nodes)


def test_explicit_arguments() -> None:
    assert explicit(1, 2, host="h", port=1) == Launch("explicit", 1, 2, None, "h", 1)
    for arguments in ((2, 2), (-1, 2), (0, 0), (0.0, 1), (0, 1, -1), (0, 1, 0, "h", 65536), (True, 2)):
        with pytest.raises(RendezvousError, match="pass"):
            explicit(*arguments)  # type: ignore[arg-type]


def test_torchrun_leaves_its_port_and_those_of_its_neighbours() -> None:
    found = {
        port: detect({**TORCHRUN, "MASTER_PORT": str(port)}).port
        for port in (*range(29500, 29600), *range(60000, 65536))
    }
    assert all(61440 <= ours <= 65535 and ours != theirs for theirs, ours in found.items())
    assert len({found[port] for port in range(29500, 29600)}) == 100


def test_local_device() -> None:
    launch = Launch("openmpi", 5, 8, 1)
    assert local_device(launch, 4) == 1
    assert local_device(launch, 1) == 0
    assert local_device(launch._replace(local_rank=5), 4) == 1
    assert local_device(launch._replace(local_rank=None), 1) == 0
    assert local_device(Launch("none", 0, 1, None), 4) == 0
    with pytest.raises(DeviceError, match="DISTARRAY_LOCAL_RANK"):
        local_device(launch._replace(local_rank=None), 4)
    with pytest.raises(DeviceError, match="rank 5 sees no GPU"):
        local_device(launch, 0)


def test_adapters_are_small(root: Path) -> None:
    for path in (root / "distarray" / "cluster").glob("*.py"):
        if path.name != "base.py":
            assert len(path.read_text().splitlines()) < 100
