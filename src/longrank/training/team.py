"""Several processes as one: each takes a share of an update's queries, and their gradients are added up.

The processes are started by ``accelerate launch``, ``torchrun`` or ``mpirun``, whose environment variables are read
here. With the same settings the result is that of one process, up to dropout and rounding; states and checkpoints are
the same.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from longrank.core.seeds import derive

T = TypeVar("T")
_PATIENCE = timedelta(hours=12)  # the others wait while the first validates
# rank, size and rank on this machine, as torchrun (so accelerate), Open MPI and MPICH or Intel MPI call them
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
)


@dataclass(frozen=True)
class Team:
    """This process's place among all; one process alone is a team of one, for which nothing here does anything."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this is the process that writes and validates."""
        return self.rank == 0

    def share(self, items: Sequence[T]) -> list[T]:
        """The items that are this process's part."""
        return list(items[self.rank :: self.size])

    def seed(self, update: int, seed: int) -> None:
        """Give every process but the first random numbers of its own, which depend on the update alone."""
        if not self.leads:  # the first goes on with the stream that is saved and resumed
            torch.manual_seed(derive(f"training-process-{self.rank}-update-{update}", seed))

    def add_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Leave in every process the sum of all processes' gradients."""
        if self.size == 1:
            return
        present = torch.tensor([float(p.grad is not None) for p in parameters])
        torch.distributed.all_reduce(present)
        used = [p for p, count in zip(parameters, present.tolist(), strict=True) if count]
        flat = torch.cat([_gradient(p).flatten() for p in used])
        torch.distributed.all_reduce(flat)
        for p, part in zip(used, torch.split(flat, [p.numel() for p in used]), strict=True):
            p.grad = part.view_as(p).clone()

    def total(self, value: float) -> float:
        """The sum of all processes' values."""
        if self.size == 1:
            return value
        values = torch.tensor(value, dtype=torch.float64)
        torch.distributed.all_reduce(values)
        return float(values)

    def wait(self) -> None:
        """Go on when all processes have come this far."""
        if self.size > 1:
            torch.distributed.barrier()


def join_team() -> Team:
    """The team that the launcher's environment describes, joined on the first call."""
    place = _place()
    if place.size == 1:
        return Team()
    if not torch.distributed.is_initialized():
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        torch.distributed.init_process_group(backend, timeout=_PATIENCE, rank=place.rank, world_size=place.size)
    return Team(torch.distributed.get_rank(), torch.distributed.get_world_size())


def own_device(device: str) -> str:
    """The device of this process: with several processes a machine, ``cuda`` is the card of its number."""
    place = _place()
    return f"{device}:{place.local}" if device == "cuda" and place.size > 1 else device


class _Place(NamedTuple):
    rank: int = 0
    size: int = 1
    local: int = 0


def _place() -> _Place:
    for rank, size, local in _LAUNCHERS:
        if int(os.environ.get(size, "1")) > 1:
            own = int(os.environ[rank])
            return _Place(own, int(os.environ[size]), int(os.environ.get(local, own)))
    return _Place()


def _gradient(parameter: nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
