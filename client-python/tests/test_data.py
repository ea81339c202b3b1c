"""Datasets, samplers, collating, and the DataLoader with and without workers."""

import collections
import multiprocessing
import os

import numpy
import pytest

import telensor
from telensor.utils.data import (BatchSampler, ChainDataset, ConcatDataset, DataLoader, Dataset, IterableDataset,
                                 RandomSampler, SequentialSampler, Subset, SubsetRandomSampler, TensorDataset,
                                 WeightedRandomSampler, default_collate, get_worker_info, random_split)


class Arrays(Dataset):
    def __init__(self, n=11):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return {"a": numpy.full((2, 2), i, numpy.float32), "b": i, "c": float(i), "s": str(i)}


class Stream(IterableDataset):
    def __init__(self, n=10):
        self.n = n

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        return iter(range(first, self.n, step))


def tensors(n=10):
    return TensorDataset(telensor.arange(2.0 * n).reshape(n, 2), telensor.arange(n))


def rows(loader):
    return [batch[1].tolist() for batch in loader]


def test_tensor_batches_in_order():
    loader = DataLoader(tensors(), 4)
    assert len(loader) == 3 and rows(loader) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert rows(DataLoader(tensors(), 4, drop_last=True)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    x, y = next(iter(loader))
    assert x.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert isinstance(next(iter(loader)), list)


def test_a_batch_is_a_copy():
    data = tensors()
    for x, _ in DataLoader(data, 5):
        x.zero_()
    assert data.tensors[0].sum().item() == 190


def test_tensor_batches_shuffled():
    loader = DataLoader(tensors(100), 32, shuffle=True)
    first, second = rows(loader), rows(loader)
    assert [len(r) for r in first] == [32, 32, 32, 4]
    assert sorted(sum(first, [])) == sorted(sum(second, [])) == list(range(100)) and first != second
    for x, y in loader:
        assert x[:, 0].tolist() == [2 * v for v in y.tolist()]
    telensor.manual_seed(5)
    a = rows(loader)
    telensor.manual_seed(5)
    assert rows(loader) == a


def test_tensor_batches_need_no_samples_and_no_reads(monkeypatch):
    monkeypatch.setattr(TensorDataset, "__getitem__", lambda *a: pytest.fail("a sample was fetched"))
    for loader in (DataLoader(tensors(), 4, shuffle=True), DataLoader(tensors(), 4, num_workers=2),
                   DataLoader(Subset(tensors(), [7, 1, -1]), 2),
                   DataLoader(tensors(), sampler=[3, 1, 2], batch_size=2),
                   DataLoader(tensors(), batch_sampler=[[1, 2], [3]])):
        before = telensor.session_stats()["blocked_round_trips"]
        batches = list(loader)
        assert telensor.session_stats()["blocked_round_trips"] == before
        assert batches
    assert rows(DataLoader(Subset(Subset(tensors(), [7, 1, -1, 4]), [2, 0]), 2)) == [[9, 7]]
    assert rows(DataLoader(tensors(), sampler=[3, 1, 2], batch_size=2)) == [[3, 1], [2]]
    assert rows(DataLoader(tensors(), batch_sampler=[[1, -1], [3]])) == [[1, 9], [3]]
    with pytest.raises(IndexError):
        rows(DataLoader(tensors(), batch_sampler=[[10]]))


def test_generators_give_their_own_order():
    make = lambda: telensor.Generator().manual_seed(3)  # noqa: E731
    a, b = rows(DataLoader(tensors(), 3, shuffle=True, generator=make())), rows(
        DataLoader(tensors(), 3, shuffle=True, generator=make()))
    assert a == b and sorted(sum(a, [])) == list(range(10))
    c, d = random_split(tensors(), [0.7, 0.3], generator=make()), random_split(tensors(), [7, 3], generator=make())
    assert [s.indices for s in c] == [s.indices for s in d] and [len(s) for s in c] == [7, 3]
    with pytest.raises(ValueError, match="Sum of input lengths"):
        random_split(tensors(), [3, 3])
    parts = random_split(tensors(), [4, 6])
    assert sorted(parts[0].indices + parts[1].indices) == list(range(10))


def test_datasets():
    both = tensors(3) + tensors(2)
    assert isinstance(both, ConcatDataset) and len(both) == 5
    assert both[3][1].item() == 0 and both[-1][1].item() == 1
    assert list(ChainDataset([Stream(2), Stream(3)])) == [0, 1, 0, 1, 2]
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        TensorDataset(telensor.zeros(2), telensor.zeros(3))


def test_samplers():
    assert list(SequentialSampler(range(4))) == [0, 1, 2, 3]
    assert sorted(RandomSampler(range(5))) == list(range(5))
    assert len(list(RandomSampler(range(5), num_samples=12))) == 12
    assert set(RandomSampler(range(3), replacement=True, num_samples=200)) == {0, 1, 2}
    assert sorted(SubsetRandomSampler([5, 7, 9])) == [5, 7, 9]
    drawn = list(WeightedRandomSampler([0.0, 1.0, 3.0], 400))
    assert 0 not in drawn and 230 < drawn.count(2) < 370
    assert sorted(WeightedRandomSampler([1.0, 0.0, 2.0], 2, replacement=False)) == [0, 2]
    assert list(BatchSampler(range(5), 2, False)) == [[0, 1], [2, 3], [4]]
    assert len(BatchSampler(range(5), 2, True)) == 2
    with pytest.raises(ValueError, match="batch_size should be a positive integer value"):
        BatchSampler(range(5), 0, False)


def test_collate():
    Point = collections.namedtuple("Point", "x y")
    batch = default_collate([{"p": Point(1, 2.5), "t": (True, "a"), "z": numpy.float32(3)},
                             {"p": Point(2, 3.5), "t": (False, "b"), "z": numpy.float32(4)}])
    assert batch["p"].x.tolist() == [1, 2] and batch["p"].x.dtype == telensor.int64
    assert batch["p"].y.dtype == telensor.float64 and type(batch["p"]) is Point
    assert batch["t"][0].dtype == telensor.bool and batch["t"][1] == ["a", "b"]
    assert batch["z"].dtype == telensor.float32 and batch["z"].tolist() == [3, 4]
    stacked = default_collate([telensor.ones(2), telensor.zeros(2)])
    assert stacked.tolist() == [[1, 1], [0, 0]]
    with pytest.raises(RuntimeError, match="each element in list of batch should be of equal size"):
        default_collate([[1, 2], [1]])
    with pytest.raises(RuntimeError, match=r"got \[2\] at entry 0 and \[3\] at entry 1"):
        default_collate([numpy.zeros(2), numpy.zeros(3)])
    with pytest.raises(TypeError, match="batch must contain tensors"):
        default_collate([object()])


@pytest.mark.parametrize("workers", [0, 3])
def test_map_style(workers):
    batches = list(DataLoader(Arrays(), 3, num_workers=workers))
    assert [b["b"].tolist() for b in batches] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10]]
    assert tuple(batches[0]["a"].shape) == (3, 2, 2) and batches[0]["a"].dtype == telensor.float32
    assert batches[0]["c"].dtype == telensor.float64 and batches[3]["s"] == ["9", "10"]
    assert isinstance(batches[0]["a"], telensor.Tensor)


@pytest.mark.parametrize("workers", [0, 2])
def test_own_collate_may_make_tensors(workers):
    collate = lambda samples: telensor.tensor([s["b"] for s in samples]) * 2  # noqa: E731
    loader = DataLoader(Arrays(5), 2, num_workers=workers, collate_fn=collate)
    assert [b.tolist() for b in loader] == [[0, 2], [4, 6], [8]]


@pytest.mark.parametrize("workers", [0, 2])
def test_without_batches(workers):
    samples = list(DataLoader(Arrays(3), batch_size=None, num_workers=workers))
    assert [s["b"] for s in samples] == [0, 1, 2] and isinstance(samples[0]["a"], telensor.Tensor)


def test_iterable():
    assert [b.tolist() for b in DataLoader(Stream(), 4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [b.tolist() for b in DataLoader(Stream(), 4, drop_last=True)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [b.tolist() for b in DataLoader(Stream(), 3, num_workers=2)] == [[0, 2, 4], [1, 3, 5], [6, 8], [7, 9]]
    with pytest.raises(ValueError, match="expected unspecified shuffle option"):
        DataLoader(Stream(), shuffle=True)


class Bad(Arrays):
    def __getitem__(self, i):
        if i == 5:
            raise ValueError("sample five")
        return i


class Dying(Arrays):
    def __getitem__(self, i):
        os._exit(3)


class Making(Arrays):
    def __init__(self):
        super().__init__(2)
        self.data = tensors(2)

    def __getitem__(self, i):
        return self.data.tensors[0] if i else 0


def test_errors_of_workers():
    loader = DataLoader(Bad(), 2, num_workers=2)
    batches = iter(loader)
    assert [next(batches).tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(ValueError, match=r"Caught ValueError in DataLoader worker process 0\.(.|\n)*sample five"):
        next(batches)
    with pytest.raises(RuntimeError, match="exited unexpectedly, exit code 3"):
        list(DataLoader(Dying(), 2, num_workers=1))
    with pytest.raises(RuntimeError, match="worker can't make tensors"):
        list(DataLoader(Making(), 1, num_workers=1))
    assert not multiprocessing.active_children()


def test_workers_end_with_the_loop():
    batches = iter(DataLoader(Arrays(100), 1, num_workers=2))
    next(batches)
    assert len(multiprocessing.active_children()) == 2
    del batches
    assert not multiprocessing.active_children()


class Large(Arrays):
    def __getitem__(self, i):
        return numpy.full(1 << 18, i, numpy.float64)  # 2 MiB, far more than a pipe holds


def test_large_batches_and_many_indices():
    sums = [b[:, 0].sum().item() for b in DataLoader(Large(6), 2, num_workers=2)]
    assert sums == [1, 5, 9]
    n = 60000
    batch, = DataLoader(Numbers(n), batch_size=n, num_workers=1)
    assert tuple(batch.shape) == (n,)


class Numbers(Arrays):
    def __getitem__(self, i):
        return i


def init_worker(worker):
    global _worker
    _worker = worker


class WhichWorker(Arrays):
    def __getitem__(self, i):
        return [_worker, get_worker_info().id, get_worker_info().num_workers]


def test_worker_info():
    assert get_worker_info() is None
    loader = DataLoader(WhichWorker(4), 1, num_workers=2, worker_init_fn=init_worker)
    assert [[int(v) for v in b] for b in loader] == [[0, 0, 2], [1, 1, 2], [0, 0, 2], [1, 1, 2]]


def test_option_errors():
    for options, text in [(dict(shuffle=True, sampler=[1]), "sampler option is mutually exclusive with shuffle"),
                          (dict(batch_sampler=[[1]], batch_size=2), "batch_sampler option is mutually exclusive"),
                          (dict(batch_size=None, drop_last=True), "disables auto-batching"),
                          (dict(num_workers=-1), "num_workers option should be non-negative")]:
        with pytest.raises(ValueError, match=text):
            DataLoader(tensors(), **options)
