"""DataLoader: batches of a dataset."""

import itertools

from ...random import initial_seed
from .collate import default_collate, default_convert, to_tensors
from .dataset import IterableDataset
from .sampler import BatchSampler, RandomSampler, SequentialSampler
from .tensor_batches import TensorBatches, source_of
from .worker import WorkerPool, _End, _Failure

__all__ = ["DataLoader"]


class DataLoader:
    """Iterates over a dataset in batches.

    shuffle, or sampler, or batch_sampler: the order. batch_size None: samples as they are. collate_fn: makes a batch
    of a list of samples; it always runs in the program itself, so it may make tensors. num_workers: forked processes
    that fetch samples, which must not be tensors there; prefetch_factor batches ahead for each. generator: a
    telensor.Generator for the order; without one it comes from the session's generator. pin_memory,
    persistent_workers and multiprocessing_context are ignored.

    A TensorDataset (or a Subset of one) with the default collate_fn is cut on its device, whatever num_workers is:
    no round trip, and nothing done for each sample.
    """

    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0,
                 collate_fn=None, pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None,
                 multiprocessing_context=None, generator=None, *, prefetch_factor=None, persistent_workers=False,
                 pin_memory_device="", in_order=True):
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError("prefetch_factor option could only be specified in multiprocessing. Let num_workers > 0 "
                             "to enable multiprocessing, otherwise set prefetch_factor to None.")
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")
        self.dataset, self.num_workers, self.timeout = dataset, num_workers, timeout
        self.worker_init_fn, self.generator = worker_init_fn, generator
        self.prefetch_factor = 2 if prefetch_factor is None else prefetch_factor
        self.pin_memory, self.persistent_workers = pin_memory, persistent_workers
        self._iterable = isinstance(dataset, IterableDataset)
        self._check_order(batch_size, shuffle, sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        if sampler is None and not self._iterable:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None and not self._iterable:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
            self._own_batches = True
        else:
            self._own_batches = False
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler = sampler, batch_sampler
        batched = batch_size is not None or batch_sampler is not None
        self._batched = batched
        self.collate_fn = collate_fn if collate_fn is not None else default_collate if batched else default_convert
        self._tensor_batches = None

    def _check_order(self, batch_size, shuffle, sampler, batch_sampler, drop_last):
        if self._iterable:
            if shuffle:
                raise ValueError("DataLoader with IterableDataset: expected unspecified shuffle option, but got "
                                 f"shuffle={shuffle}")
            if sampler is not None or batch_sampler is not None:
                raise ValueError("DataLoader with IterableDataset: expected unspecified sampler and batch_sampler "
                                 "options")
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
                             "drop_last")
        if batch_sampler is None and batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")

    def __len__(self):
        if not self._iterable:
            return len(self.batch_sampler if self._batched else self.sampler)
        n = len(self.dataset)
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def __iter__(self):
        if self._batched and self.collate_fn is default_collate:
            if self._tensor_batches is None:
                source = source_of(self.dataset)
                self._tensor_batches = TensorBatches(*source) if source is not None else False
            if self._tensor_batches:
                if self._own_batches:
                    return self._tensor_batches.batches(self.sampler, self.batch_size, self.drop_last)
                return self._tensor_batches.listed(self.batch_sampler)
        return self._in_workers() if self.num_workers else self._in_place()

    def _in_place(self):
        """Batches fetched by the program itself."""
        dataset, collate = self.dataset, self.collate_fn
        if not self._iterable:
            if self._batched:
                for batch in self.batch_sampler:
                    yield collate([dataset[i] for i in batch])
            else:
                for i in self.sampler:
                    yield collate(dataset[i])
            return
        samples = iter(dataset)
        if not self._batched:
            yield from map(collate, samples)
            return
        while batch := list(itertools.islice(samples, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield collate(batch)

    def _seed(self):
        if self.generator is not None:
            return self.generator.integers(1 << 62, 1)[0]
        import random

        # Not the server's numbers: they would cost a round trip each pass.
        return random.Random(f"{initial_seed()}/{next(_passes)}").getrandbits(62)

    def _in_workers(self):
        """Batches fetched by workers, in order."""
        collate_there = self._batched and self.collate_fn is default_collate
        finish = to_tensors if collate_there else self.collate_fn
        pool = WorkerPool(self.dataset, self._iterable, self.num_workers, self._seed(), self.worker_init_fn,
                          collate_there, self.drop_last)
        try:
            run = self._pass_iterable if self._iterable else self._pass_indexed
            for result in run(pool):
                if isinstance(result, _Failure):
                    result.raise_again()
                yield finish(result)
        finally:
            pool.close()

    def _pass_indexed(self, pool):
        tasks = enumerate(self.batch_sampler if self._batched else self.sampler)
        outstanding, done, wanted = 0, {}, 0

        def give(worker):
            entry = next(tasks, None)
            if entry is None:
                return 0
            pool.send(worker, entry[0], list(entry[1]) if self._batched else entry[1])
            return 1

        for _ in range(self.prefetch_factor):
            for worker in range(self.num_workers):
                outstanding += give(worker)
        while outstanding or done:
            while wanted not in done:
                worker, number, result = pool.receive(self.timeout)
                done[number] = result
                outstanding += give(worker) - 1
            yield done.pop(wanted)
            wanted += 1

    def _pass_iterable(self, pool):
        # Workers take turns; one that has come to its end leaves the circle. Every number belongs to one worker.
        size = self.batch_size if self._batched else None
        numbers = itertools.count()
        queues = {worker: [] for worker in range(self.num_workers)}  # numbers given, oldest first
        done = {}

        def give(worker):
            number = next(numbers)
            queues[worker].append(number)
            pool.send(worker, number, size)

        for _ in range(self.prefetch_factor):
            for worker in list(queues):
                give(worker)
        circle = list(queues)
        while circle:
            worker = circle.pop(0)
            number = queues[worker].pop(0)
            while number not in done:
                _, got, result = pool.receive(self.timeout)
                done[got] = result
            result = done.pop(number)
            if isinstance(result, _End):
                continue
            give(worker)
            circle.append(worker)
            yield result


_passes = itertools.count()
