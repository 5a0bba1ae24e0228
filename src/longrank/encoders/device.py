"""Where a model computes: a device by name, refused before anything is loaded if it is not there."""

import torch

from longrank.core.errors import ModelError, SettingsError

KINDS = ("cpu", "cuda", "mps")
_REMEDIES = {
    "cuda": "install a PyTorch built for CUDA and check `nvidia-smi`",
    "mps": "it needs a Mac with Apple silicon and a PyTorch built for it",
}


def usable_device(name: str) -> torch.device:
    """The device of this name: ``cpu``, ``cuda``, one of several as ``cuda:1``, or ``mps``.

    >>> usable_device("cpu")
    device(type='cpu')
    """
    kind, _, number = name.partition(":")
    if kind not in KINDS or (number and not (kind == "cuda" and number.isdecimal())):
        raise SettingsError(f"no device {name!r}: choose {', '.join(KINDS)}, or one of several as cuda:1")
    if kind != "cpu" and not _available(kind):
        raise ModelError(f"device {name!r} cannot be used here: {_REMEDIES[kind]}, or use cpu")
    if number and int(number) >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        raise ModelError(f"device {name!r} is not there: this machine has cuda:0 to cuda:{count - 1}")
    return torch.device(name)


def _available(kind: str) -> bool:
    return torch.cuda.is_available() if kind == "cuda" else torch.backends.mps.is_available()
