"""Datasets: what can be indexed (Dataset) or iterated over (IterableDataset)."""

import bisect
import itertools
import math
import warnings

from ... import _core

__all__ = ["Dataset", "IterableDataset", "TensorDataset", "Subset", "ConcatDataset", "ChainDataset", "random_split"]


class Dataset:
    """Samples by index: subclasses write `__getitem__` and, for most samplers, `__len__`."""

    def __getitem__(self, index):
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other):
        return ConcatDataset([self, other])

    def __class_getitem__(cls, item):
        return cls


class IterableDataset(Dataset):
    """Samples one after the other: subclasses write `__iter__`."""

    def __iter__(self):
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other):
        return ChainDataset([self, other])


class TensorDataset(Dataset):
    """Sample i is the tuple of every tensor's [i]. tensors: one first size.

    A DataLoader over it cuts whole batches out of the tensors on their device, without work for each sample.
    """

    def __init__(self, *tensors):
        if any(t.shape[0] != tensors[0].shape[0] for t in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(t[index] for t in self.tensors)

    def __len__(self):
        return self.tensors[0].shape[0]


class Subset(Dataset):
    """The samples of `dataset` at `indices`."""

    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index):
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __len__(self):
        return len(self.indices)


class ConcatDataset(Dataset):
    """Datasets one after the other."""

    def __init__(self, datasets):
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = list(itertools.accumulate(map(len, self.datasets)))

    def __len__(self):
        return self.cumulative_sizes[-1]

    def __getitem__(self, index):
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset):
    """Iterable datasets one after the other."""

    def __init__(self, datasets):
        self.datasets = datasets

    def __iter__(self):
        return itertools.chain.from_iterable(self.datasets)

    def __len__(self):
        return sum(map(len, self.datasets))


def _lengths(total, lengths):
    """Lengths that may be shares of 1 as numbers; what rounding leaves goes round the first ones."""
    if all(isinstance(x, int) for x in lengths) or not math.isclose(sum(lengths), 1):
        return list(lengths)
    for i, share in enumerate(lengths):
        if not 0 <= share <= 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
    sizes = [math.floor(total * share) for share in lengths]
    for i in range(total - sum(sizes)):
        sizes[i % len(sizes)] += 1
    for i, n in enumerate(sizes):
        if n == 0:
            warnings.warn(f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=3)
    return sizes


def random_split(dataset, lengths, generator=None):
    """Subsets of given lengths, or shares that sum to 1, in a random order.

    generator: a telensor.Generator; without one the order comes from the session's generator, in one read.
    """
    sizes = _lengths(len(dataset), lengths)
    if sum(sizes) != len(dataset):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = _core.randperm(len(dataset)).tolist() if generator is None else generator.permutation(len(dataset))
    ends = itertools.accumulate(sizes)
    return [Subset(dataset, order[end - n:end]) for end, n in zip(ends, sizes)]
