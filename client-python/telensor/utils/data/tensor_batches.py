"""Batches of a TensorDataset, cut out of its tensors on their device: no round trip, no work for each sample."""

from ... import _core
from .dataset import Subset, TensorDataset
from .sampler import BatchSampler, RandomSampler, SequentialSampler


def source_of(dataset):
    """(TensorDataset, indices) that `dataset` stands for, or None. indices: a list, or None for all in order."""
    indices = None
    while type(dataset) is Subset:
        own = dataset.indices
        own = own.tolist() if isinstance(own, _core.Tensor) else own
        indices = list(own) if indices is None else [own[i] for i in indices]
        dataset = dataset.dataset
    plain = type(dataset) is TensorDataset and all(isinstance(t, _core.Tensor) for t in dataset.tensors)
    return (dataset, indices) if plain and dataset.tensors else None


class TensorBatches:
    """The passes over a TensorDataset, or a Subset of one."""

    def __init__(self, dataset, indices):
        self._tensors = dataset.tensors
        self._size = len(dataset) if indices is None else len(indices)
        self._device = self._tensors[0].device
        n = len(dataset)
        self._subset = None if indices is None else self._upload([i + n if i < 0 else i for i in indices])

    def _upload(self, indices):
        return _core.tensor(indices, dtype=_core.int64, device=self._device)

    def _take(self, index):
        return [t.index_select(0, index.to(t.device)) for t in self._tensors]

    def _covers(self, sampler):
        """Whether a sampler takes every sample once, in an order that needs no list."""
        if type(sampler) is RandomSampler and sampler.replacement:
            return False
        known = type(sampler) in (RandomSampler, SequentialSampler)
        return known and len(sampler.data_source) == len(sampler) == self._size

    def _order(self, sampler):
        """The pass's indices, a tensor; None where they are all in order."""
        if type(sampler) is SequentialSampler:
            return self._subset
        if sampler.generator is not None:
            order = self._upload(sampler.generator.permutation(self._size))
        else:
            order = _core.randperm(self._size, device=self._device)
        return order if self._subset is None else self._subset.index_select(0, order)

    def batches(self, sampler, batch_size, drop_last):
        """Batches of batch_size, in the order of `sampler`: lists of tensors."""
        if not self._covers(sampler):
            yield from self.listed(BatchSampler(sampler, batch_size, drop_last))
            return
        order = self._order(sampler)
        end = self._size - self._size % batch_size if drop_last else self._size
        starts = range(0, end, batch_size)
        if order is not None:
            for start in starts:
                yield self._take(order.narrow(0, start, min(batch_size, end - start)))
        else:
            for start in starts:
                length = min(batch_size, end - start)
                # A copy: what a program does to a batch must not change the data.
                yield [t.narrow(0, start, length).clone() for t in self._tensors]

    def listed(self, batch_sampler):
        """Batches by lists of indices: one small upload each."""
        for batch in batch_sampler:
            batch = [int(i) for i in batch]
            for i in batch:
                if not -self._size <= i < self._size:
                    raise IndexError(f"index {i} is out of bounds for dataset of size {self._size}")
            index = self._upload([i % self._size for i in batch])
            yield self._take(index if self._subset is None else self._subset.index_select(0, index))
