"""Worker processes of a DataLoader.

A worker is forked from the program and never touches the connection to the server: it may make numpy arrays, numbers,
strings, bytes and structures of them, and no tensors. Its parent uploads.
"""

import multiprocessing
import multiprocessing.connection
import queue
import random
import sys
import threading
import traceback

from .collate import contains_tensor, stack_host

__all__ = ["get_worker_info"]


class WorkerInfo:
    """Which worker this is: id, num_workers, seed, dataset."""

    def __init__(self, id, num_workers, seed, dataset):
        self.id, self.num_workers, self.seed, self.dataset = id, num_workers, seed, dataset

    def __repr__(self):
        return f"WorkerInfo(id={self.id}, num_workers={self.num_workers}, seed={self.seed}, dataset={self.dataset!r})"


_info = None


def get_worker_info():
    """In a worker its WorkerInfo, in the program itself None."""
    return _info


_NO_TENSORS = ("a DataLoader worker can't make tensors: it is a process of its own, without a connection to the "
               "server. Return numpy arrays or numbers from the dataset, or use num_workers=0")


class _Failure:
    """An error on its way to the parent."""

    def __init__(self, where):
        kind, error, _ = sys.exc_info()
        self.kind, self.message = kind, f"Caught {kind.__name__} {where}.\nOriginal {traceback.format_exc()}"

    def raise_again(self):
        """Raises the error, with the worker's traceback as its text."""
        try:
            error = self.kind(self.message)
        except Exception:
            error = RuntimeError(self.message)
        raise error


class _End:
    """A worker's iterable dataset has no more samples."""


def _fetch(dataset, iterator, task, collate_here, drop_last):
    """One batch. task: indices, one index, or for an iterable dataset how many samples (None: one, unbatched)."""
    if iterator is None:
        samples = [dataset[i] for i in task] if isinstance(task, list) else dataset[task]
        batched = isinstance(task, list)
    else:
        batched = task is not None
        samples = []
        for sample in iterator:
            samples.append(sample)
            if len(samples) >= (task or 1):
                break
        if not samples or (batched and drop_last and len(samples) < task):
            return _End()
        samples = samples if batched else samples[0]
    if contains_tensor(samples):
        raise RuntimeError(_NO_TENSORS)
    return stack_host(samples) if batched and collate_here else samples


def _run(dataset, iterable, pipe, info, init, collate_here, drop_last):
    """A worker's life: tasks in, batches out, until the parent closes its end."""
    global _info
    _info = info
    random.seed(info.seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(info.seed % (1 << 32))
    failure = iterator = None
    try:
        if init is not None:
            init(info.id)
        iterator = iter(dataset) if iterable else None
    except Exception:
        failure = _Failure(f"in DataLoader worker process {info.id}")
    # Tasks are taken off the pipe at once, so that the parent never waits in sending one.
    tasks = queue.SimpleQueue()

    def receive():
        try:
            while True:
                tasks.put(pipe.recv())
        except (EOFError, OSError):
            tasks.put(None)

    threading.Thread(target=receive, daemon=True).start()
    while (entry := tasks.get()) is not None:
        number, task = entry
        result = failure
        if result is None:
            try:
                result = _fetch(dataset, iterator, task, collate_here, drop_last)
            except Exception:
                result = _Failure(f"in DataLoader worker process {info.id}")
        try:
            pipe.send((number, result))
        except (BrokenPipeError, OSError):
            return
        except Exception:  # a sample that can't be sent
            pipe.send((number, _Failure(f"in DataLoader worker process {info.id}")))


class WorkerPool:
    """The workers of one pass over a loader; the parent's side. Used by one thread."""

    def __init__(self, dataset, iterable, num_workers, seed, init, collate_here, drop_last):
        # Fork, so that a dataset need not be sent; the child runs Python alone and ends without cleaning up.
        context = multiprocessing.get_context("fork")
        self._pipes, self._processes = [], []
        for i in range(num_workers):
            ours, theirs = context.Pipe()
            info = WorkerInfo(i, num_workers, seed + i, dataset)
            process = context.Process(target=self._start, daemon=True,
                                      args=(ours, theirs, dataset, iterable, info, init, collate_here, drop_last))
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def _start(self, ours, theirs, dataset, iterable, info, init, collate_here, drop_last):
        # Ends of other workers' pipes came along in the fork: a worker sees its parent's end only without them.
        for pipe in [ours, *self._pipes]:
            pipe.close()
        try:
            _run(dataset, iterable, theirs, info, init, collate_here, drop_last)
        except KeyboardInterrupt:
            pass

    def send(self, worker, number, task):
        """Gives a worker a task. Raises RuntimeError if it is gone."""
        try:
            self._pipes[worker].send((number, task))
        except (BrokenPipeError, OSError):
            self._gone(worker)

    def receive(self, timeout):
        """(worker, number, result) of whichever worker is ready. Raises RuntimeError after `timeout` s (0: never)."""
        ready = multiprocessing.connection.wait(self._pipes, timeout or None)
        if not ready:
            raise RuntimeError(f"DataLoader timed out after {timeout} seconds")
        worker = self._pipes.index(ready[0])
        try:
            number, result = ready[0].recv()
        except (EOFError, OSError):
            self._gone(worker)
        return worker, number, result

    def _gone(self, worker):
        process = self._processes[worker]
        process.join(1)
        raise RuntimeError(f"DataLoader worker (pid {process.pid}) exited unexpectedly, exit code {process.exitcode}")

    def close(self):
        """Ends the workers."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join(2)
            if process.is_alive():
                process.kill()
                process.join(2)
        self._pipes, self._processes = [], []
