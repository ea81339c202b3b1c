"""Shared by the tests that compare with real PyTorch."""

import pytest

torch = pytest.importorskip("torch", reason="Debian's python3-torch is the oracle of these tests")

import telensor


def to_telensor(value, requires_grad=False):
    """A telensor tensor with the values, dtype and strides of a torch tensor."""
    dtype = getattr(telensor, str(value.dtype).split(".")[1])
    if value.dtype == torch.bfloat16:
        made = telensor.tensor(value.detach().float().numpy()).to(dtype)
    else:
        made = telensor.tensor(value.detach().contiguous().numpy())
    made = made.detach()
    return made.requires_grad_() if requires_grad else made


def to_torch(value):
    """A torch tensor with the values and dtype of a telensor tensor."""
    if value.dtype == telensor.bfloat16:
        return torch.from_numpy(value.detach().float().numpy()).to(torch.bfloat16)
    return torch.from_numpy(value.detach().numpy())
