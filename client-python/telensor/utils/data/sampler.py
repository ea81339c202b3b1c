"""Samplers: in which order a DataLoader takes samples."""

import bisect
import itertools
import random

from ... import _core

__all__ = [
    "Sampler", "SequentialSampler", "RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler", "BatchSampler",
]


class Sampler:
    """An iterable of indices: subclasses write `__iter__`."""

    def __init__(self, data_source=None):
        pass

    def __iter__(self):
        raise NotImplementedError

    def __class_getitem__(cls, item):
        return cls


class SequentialSampler(Sampler):
    """0, 1, 2 ..."""

    def __init__(self, data_source):
        self.data_source = data_source

    def __iter__(self):
        return iter(range(len(self.data_source)))

    def __len__(self):
        return len(self.data_source)


def _permutation(n, generator):
    """A random order: of `generator`, or of the session's, which is one read."""
    return _core.randperm(n).tolist() if generator is None else generator.permutation(n)


class RandomSampler(Sampler):
    """A random order, or with replacement random indices; num_samples of them (all by default)."""

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        if num_samples is not None and (isinstance(num_samples, bool) or not isinstance(num_samples, int)
                                        or num_samples <= 0):
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._num_samples = num_samples
        if num_samples is None and len(data_source) == 0:
            raise ValueError("num_samples should be a positive integer value, but got num_samples=0")

    @property
    def num_samples(self):
        """How many indices an epoch has."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self):
        n, count = len(self.data_source), self.num_samples
        if self.replacement:
            if self.generator is not None:
                return iter(self.generator.integers(n, count))
            return iter(_core.randint(0, n, (count,)).tolist())
        orders = (_permutation(n, self.generator) for _ in itertools.count())
        return itertools.islice(itertools.chain.from_iterable(orders), count)

    def __len__(self):
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """Given indices in a random order."""

    def __init__(self, indices, generator=None):
        self.indices, self.generator = indices, generator

    def __iter__(self):
        return (self.indices[i] for i in _permutation(len(self.indices), self.generator))

    def __len__(self):
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """num_samples indices, index i as often as weights[i] says. weights: a sequence or a 1-dim tensor."""

    def __init__(self, weights, num_samples, replacement=True, generator=None):
        if isinstance(num_samples, bool) or not isinstance(num_samples, int) or num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = [float(w) for w in (weights.tolist() if hasattr(weights, "tolist") else weights)]
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator
        if not self.weights or min(self.weights) < 0 or not sum(self.weights) > 0:
            raise ValueError("weights should be non-negative numbers with a positive sum")
        if not replacement and sum(w > 0 for w in self.weights) < num_samples:
            raise ValueError("cannot draw that many samples without replacement")

    def __iter__(self):
        if self.generator is not None:
            source = random.Random(self.generator.integers(1 << 62, 1)[0])
        else:
            source = random.Random(int(_core.randint(0, 1 << 62, (1,)).item()))
        if self.replacement:
            ends = list(itertools.accumulate(self.weights))
            last = len(ends) - 1
            return iter([min(bisect.bisect_right(ends, source.random() * ends[-1]), last)
                         for _ in range(self.num_samples)])
        # Efraimidis and Spirakis: the largest of u^(1/w).
        keys = {i: source.random() ** (1.0 / w) for i, w in enumerate(self.weights) if w > 0}
        return iter(sorted(keys, key=keys.get, reverse=True)[:self.num_samples])

    def __len__(self):
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of batch_size indices of `sampler`; the last may be shorter, unless drop_last."""

    def __init__(self, sampler, batch_size, drop_last):
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self):
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self):
        n = len(self.sampler)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
