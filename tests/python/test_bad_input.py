"""Peers that keep to no rule: each gets a clear error, the server lives, and a neighbour's results stay right."""

import json
import random
import re
import struct

import grpc
import pytest
import telensor._core as core
from daemon import Daemon, until
from wire import Connection, RawSession, Refused, messages, op_number, refused

RECORD, IN_PLACE, WANT_META = 1, 2, 64
F32 = lambda *values: struct.pack(f"<{len(values)}f", *values)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("bad"), "--log-format", "json") as running:
        yield running
        assert running.process.poll() is None, running.log()


@pytest.fixture
def connection(server):
    with Connection(server.address) as made:
        yield made


@pytest.fixture
def neighbour(server):
    """A session of good manners, with tensors from before; its results are looked at afterwards."""
    with Connection(server.address) as made:
        session = RawSession(made)
        x = session.write([4], F32(1, 2, 3, 4))
        session.wait()
        yield session
        y = session.new()
        session.send(session.op("add", [x, x], [y]))
        assert session.read(y).data == F32(2, 4, 6, 8)
        assert session.read(x).data == F32(1, 2, 3, 4)
        assert server.process.poll() is None, server.log()


@pytest.fixture
def session(connection, neighbour):
    return RawSession(connection)


def ends(session):
    """The refusal that ends a session's stream."""
    def drain():
        while True:
            session.next_events()
    return refused(drain)


def test_a_gap_in_the_numbers_ends_the_session(session):
    session.send(session.command("FENCE"))
    session.wait()
    session.send(session.command("FENCE"), first_seq=7)
    error = ends(session)
    assert error.code == "INVALID_ARGUMENT" and "7" in error.words and "expected 2" in error.words


def test_numbers_sent_twice_end_the_session(session):
    session.send(session.command("FENCE"), session.command("FENCE"))
    session.send(session.command("FENCE"), first_seq=2)
    assert "expected 3" in ends(session).words


def test_a_batch_too_large_ends_the_session(session):
    limit = 4 << 20
    session.send(session.command("WRITE", outputs=[session.new()], sizes=[limit // 4], dtype=9, data=bytes(limit)))
    error = ends(session)
    assert error.code == "RESOURCE_EXHAUSTED" and "larger than max" in error.words


def test_the_batch_size_announced_is_taken(connection, session):
    """What Limits promise, the server takes."""
    limit = connection.open().limits.max_batch_bytes
    n = (limit - 4096) // 4 // 1024 * 1024
    handle = session.write([n], bytes(4 * n))
    total = session.new()
    session.send(session.op("sum", [handle], [total]))
    assert session.read(total).data == F32(0)


def test_an_unknown_session(connection, neighbour):
    for wrong in ("", "0" * 64, neighbour.id[:-1], neighbour.id + "0", "x" * 5000):
        assert ends(RawSession(connection, wrong)).code == "NOT_FOUND"
        assert refused(lambda: connection.upload(wrong, 1, b"abcd")).code == "NOT_FOUND"
        assert refused(lambda: connection.download(wrong, 1)).code == "NOT_FOUND"
        if wrong:
            assert refused(lambda: connection.status(wrong)).code == "NOT_FOUND"


def test_a_stream_without_a_session(connection, neighbour):
    stream = connection._execute(iter([]), timeout=60)
    with pytest.raises(grpc.RpcError) as error:
        next(stream)
    assert error.value.code().name == "NOT_FOUND"


def test_a_second_stream_on_a_session(connection, neighbour):
    error = ends(RawSession(connection, neighbour.id))
    assert error.code == "FAILED_PRECONDITION" and "has a stream already" in error.words


def test_another_protocol_version(connection, neighbour):
    error = refused(lambda: connection.open(protocol=2))
    assert error.code == "FAILED_PRECONDITION" and "2" in error.words and "1" in error.words


def test_bad_operations(session):
    x = session.write([2, 2], F32(1, 2, 3, 4))
    a = session.pb.Attribute

    def bad(command, *words, code=3):
        out = list(command.outputs)
        session.send(command)
        results = [session.read(h) for h in out] if out else []
        for result in results:
            assert result.error.code == code, (command, result)
            for word in words:
                assert word in result.error.message, (command, result)
        # Whatever it was, the session goes on.
        assert session.read(x).data == F32(1, 2, 3, 4)

    new = session.new
    bad(session.op(1000000, [x], [new()]), "no op number 1000000", code=12)
    bad(session.op("add", [], [new()]), "add", "tensors")
    bad(session.op("add", [x], [new()]), "add")
    bad(session.op("add", [x, x, x], [new()]), "add", "2")
    bad(session.op("add", [x, 0], [new()]), "other")
    bad(session.op("add", [x, 999], [new()]), "999", code=5)
    bad(session.op("relu", [x], [new(), new()]), "relu", "1 results")
    bad(session.op("relu", [x], [new()], [1, 2, 3]), "relu", "attributes")
    bad(session.op("sum", [x], [new()], ["text"]))
    bad(session.op("sum", [x], [new()], [[5]]), "Dimension out of range", code=11)
    bad(session.op("sum", [x], [new()], [[0, 0]]))
    bad(session.op("sum", [x], [new()], [[0], 7]))
    bad(session.op("add", [x, 0], [new()], scalars=["text"]), "number")
    bad(session.op("add", [x, 0], [new()], scalars=[a(kind=99)]), "kind 99")
    bad(session.op("to", [x], [new()], [a(kind=6, i=55)]), "dtype", "55")
    bad(session.op("to", [x], [new()], [a(kind=6, i=-1)]), "dtype", "-1")
    bad(session.op("to", [x], [new()], [None, a(kind=7, i=200)]), "200")
    bad(session.op("reshape", [x], [new()], [[3, -1]]), "shape")
    bad(session.op("reshape", [x], [new()], [[-1, -1]]))
    bad(session.op("zeros", [], [new()], [[-1], None, a(kind=7)]), "negative")
    bad(session.op("zeros", [], [new()], [[1 << 62, 1 << 62], None, a(kind=7)]))
    bad(session.op("zeros", [], [new()], [[1] * 40, None, a(kind=7)]))
    bad(session.op("zeros", [], [new()], [[1 << 50], None, a(kind=7)]), code=8)
    bad(session.op("_as_strided", [x], [new()], [[1000], [1], 0]))
    bad(session.op("_as_strided", [x], [new()], [[2], [1], -5]))
    bad(session.op("_as_strided", [x], [new()], [[2], [1 << 62], 0]))
    bad(session.op("softmax", [x], [new()], [0], flags=IN_PLACE), "in-place")


def test_bad_handles(session):
    x = session.write([1], F32(5))
    for handle, words in ((0, "range"), (1 << 53, "range"), ((1 << 64) - 1, "range"), (x + (1 << 23), "too far"),
                          (x, "not new")):
        errors = session.outcome(session.command("WRITE", outputs=[handle], sizes=[1], dtype=9, data=F32(1)))
        assert [e.error.code for e in errors] == [3] and words in errors[0].error.message, (handle, errors)
        errors = session.outcome(session.op("relu", [x], [handle]))
        assert [e.error.code for e in errors] == [3] and words in errors[0].error.message, (handle, errors)
    twice = session.new()
    session.send(session.op("max.dim", [x], [twice, twice], [0]))
    assert "not new" in session.read(twice).error.message
    assert session.read(x).data == F32(5)
    session.send(session.command("RELEASE", release=[x, x, 0, 1 << 60, twice]))
    assert session.read(x).error.code == 5


@pytest.mark.parametrize("fields, words", [
    (dict(sizes=[2], dtype=9, data=F32(1)), "8 bytes brought 4"),
    (dict(sizes=[1], dtype=9, data=F32(1, 2)), "4 bytes brought 8"),
    (dict(sizes=[1], dtype=0, data=b""), "dtype"),
    (dict(sizes=[1], dtype=999, data=b"abcd"), "999"),
    (dict(sizes=[1], dtype=-1, data=b"abcd"), "-1"),
    (dict(sizes=[1], dtype=9, device=77, data=F32(1)), "77"),
    (dict(sizes=[1], dtype=9, device=(1 << 32) - 1, data=F32(1)), "device"),
    (dict(sizes=[-1], dtype=9, data=b""), "negative"),
    (dict(sizes=[1 << 40, 1 << 40], dtype=9, data=b""), ""),
    (dict(sizes=[1] * 17, dtype=9, data=F32(1)), ""),
])
def test_bad_writes(session, fields, words):
    handle = session.new()
    session.send(session.command("WRITE", outputs=[handle], **fields))
    error = session.read(handle).error
    assert error.code in (3, 8) and words in error.message, error


def test_bad_commands(session):
    x = session.write([2], F32(1, 2))
    i = session.write([1], struct.pack("<q", 7), "INT64")
    C = session.command
    for command, words in [
        (session.pb.Command(), "unknown kind"), (session.pb.Command(kind=77), "unknown kind 77"),
        (session.pb.Command(kind=-3), "unknown kind"),
        (C("BACKWARD"), "backward"), (C("BACKWARD", inputs=[x]), "backward"), (C("BACKWARD", inputs=[x, 0]), "require grad"),
        (C("BACKWARD", inputs=[0, 0]), "backward"), (C("BACKWARD", inputs=[x, 0], outputs=[x]), "backward"),
        (C("BACKWARD", inputs=[999, 0]), "999"),
        (C("GRAD"), "grad"), (C("GRAD", sizes=[1 << 62], inputs=[x, 0]), "grad"), (C("GRAD", sizes=[-5], inputs=[x, 0]), "grad"),
        (C("GRAD", sizes=[1], inputs=[x, 0]), "require grad"),
        (C("REQUIRES_GRAD", inputs=[i], flags=32), "floating"), (C("REQUIRES_GRAD", inputs=[999], flags=32), "999"),
        (C("SET_GRAD", inputs=[x]), "set_grad"), (C("SET_GRAD", inputs=[x, i]), "size"), (C("SET_GRAD", inputs=[x, 0]), "set_grad"),
        (C("DEFAULT_DTYPE", dtype=6), "floating"), (C("DEFAULT_DTYPE", dtype=1000), "floating"),
        (C("DEFAULT_DTYPE", dtype=-1), "floating"),
    ]:
        errors = session.outcome(command)
        assert len(errors) == 1 and words in errors[0].error.message, (command, errors)
    for command in (C("READ"), C("READ", inputs=[x, x]), C("READ", inputs=[0])):
        seq = session.send(command)
        session.wait()
        assert session.reads[seq].error.code in (3, 5)
    assert session.read(x).data == F32(1, 2)


def test_uploads(connection, session):
    def announce(n, dtype="FLOAT32"):
        handle = session.new()
        session.wait(session.send(session.command("UPLOAD", outputs=[handle], sizes=[n],
                                                  dtype=getattr(session.pb, f"D_TYPE_{dtype}"))))
        return handle

    handle = announce(3)
    assert connection.upload(session.id, handle, F32(1), F32(2), F32(3)) == 12
    assert session.read(handle).data == F32(1, 2, 3)
    # What needs it waits for it, and for nothing more.
    handle, result = announce(3), session.new()
    session.send(session.op("relu", [handle], [result]))
    assert connection.upload(session.id, handle, F32(-1, 0, 1)) == 12
    assert session.read(result).data == F32(0, 0, 1)
    for chunks, words in (((F32(1, 2, 3), F32(4)), "more"), ((F32(1, 2),), "12 bytes brought 8"),
                          ((), "12 bytes brought 0")):
        bad, dependent = announce(3), session.new()
        session.send(session.op("relu", [bad], [dependent]))
        error = refused(lambda: connection.upload(session.id, bad, *chunks))
        assert error.code == "INVALID_ARGUMENT" and words in error.words
        for h in (bad, dependent):
            assert words in session.read(h).error.message
    # An element may come in two chunks; a bool is 0 or 1.
    split = announce(1, "FLOAT64")
    assert connection.upload(session.id, split, struct.pack("<d", 2.5)[:3], struct.pack("<d", 2.5)[3:]) == 8
    assert session.read(split).data == struct.pack("<d", 2.5)
    flags = announce(4, "BOOL")
    connection.upload(session.id, flags, b"\x00\x01\x02\xff")
    assert session.read(flags).data == b"\x00\x01\x01\x01"


def test_two_uploads_of_one_handle(connection, session):
    handle = session.new()
    session.wait(session.send(session.command("UPLOAD", outputs=[handle], sizes=[2], dtype=9)))
    import queue
    chunks = queue.SimpleQueue()
    chunks.put(session.pb.UploadChunk(session_id=session.id, handle=handle, data=F32(1)))
    first = connection._upload.future(iter(chunks.get, None), timeout=60)
    until(lambda: "has an upload already" in refused_or_none(lambda: connection.upload(session.id, handle)), "the refusal")
    chunks.put(session.pb.UploadChunk(data=F32(2)))
    chunks.put(None)
    result = first.result()
    assert result.bytes == 8
    assert session.read(handle).data == F32(1, 2)


def refused_or_none(call):
    return refused(call).words


@pytest.mark.slow
def test_an_upload_that_nobody_announces(connection, session):
    error = refused(lambda: connection.upload(session.id, 77, F32(1)))
    assert error.code == "NOT_FOUND" and "no upload is expected for handle 77" in error.words


def test_downloads(connection, session, neighbour):
    n = 100000
    handle = session.new()
    session.send(session.op("ones", [], [handle], [[n], session.pb.Attribute(kind=6, i=9), session.pb.Attribute(kind=7)]))
    result = session.read(handle)
    assert result.too_large and not result.data
    for wrong in (0, result.seq - 1, result.seq + 1, (1 << 64) - 1):
        error = refused(lambda: connection.download(session.id, wrong))
        assert error.code == "NOT_FOUND" and str(wrong) in error.words
    # Another session's read is not to be had.
    assert refused(lambda: connection.download(neighbour.id, result.seq)).code == "NOT_FOUND"
    assert connection.download(session.id, result.seq) == F32(1) * n
    assert refused(lambda: connection.download(session.id, result.seq)).code == "NOT_FOUND"


def test_reads_that_nobody_fetches_have_a_limit(session):
    handle = session.new()
    session.send(session.op("ones", [], [handle], [[20000], session.pb.Attribute(kind=6, i=9), session.pb.Attribute(kind=7)]))
    results = [session.read(handle) for _ in range(65)]
    assert all(r.too_large for r in results[:64])
    assert results[64].error.code == 8 and "pending downloads: limit 64" in results[64].error.message
    session.connection.download(session.id, results[0].seq)
    assert session.read(handle).too_large


def fuzzed_command(random, session, live):
    """A command of the right kinds of fields, with values that may be anything."""
    pb = session.pb
    numbers = [0, 1, -1, 2, 3, 5, 63, 64, 255, 1 << 20, (1 << 31) - 1, -(1 << 31), 1 << 40, -(1 << 62), (1 << 63) - 1]
    attribute = lambda: pb.Attribute(
        kind=random.choice([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]), i=random.choice(numbers),
        f=random.choice([0.0, -1.0, 0.5, float("nan"), float("inf"), 1e300]),
        ints=[random.choice(numbers[:8] if random.random() < .7 else numbers) for _ in range(random.randrange(4))],
        floats=[random.choice([0.5, 2.0, float("nan")]) for _ in range(random.randrange(3))],
        text=random.choice(["", "none", "mean", "sum", "floor", "x" * 100, "\x00\n"]))
    handle = lambda: random.choice(live) if live and random.random() < .9 else random.choice([0, 10**6, 1 << 53, (1 << 64) - 1])
    kind = random.choice([1] * 30 + list(range(14)) + [99])
    outputs = []
    if kind in (1, 4, 6, 7, 3):
        outputs = [session.new() for _ in range(random.choice([0, 1, 1, 1, 1, 2, 3]))]
        if kind == 7:
            kind = 6  # the session would wait for the upload
        live.extend(outputs)
    del live[:-40]
    return pb.Command(
        kind=kind, op=random.choice([random.randrange(len(core._op_rows()) + 2), random.randrange(1 << 20)])
        if random.random() < .1 else random.randrange(len(core._op_rows())),
        flags=random.choice([0, 0, 1, 1, 2, 3, 64, 127, random.randrange(1 << 32)]),
        inputs=[handle() for _ in range(random.randrange(5))], outputs=outputs,
        scalars=[attribute() for _ in range(random.randrange(3))],
        attributes=[attribute() for _ in range(random.randrange(5))],
        release=[handle() for _ in range(random.randrange(2))],
        sizes=[random.choice([0, 1, 2, 3, 3]) if random.random() < .9 else random.choice(numbers)
               for _ in range(random.randrange(4))],
        dtype=random.choice([0, 1, 2, 6, 9, 9, 10, 999]), device=random.choice([0, 0, 0, 0, 1, 5000]),
        data=bytes(random.choices(range(256), k=random.choice([0, 4, 8, 12, 36]))), seed=random.randrange(1 << 64))


@pytest.mark.parametrize("seed", range(4))
def test_commands_of_any_content(server, neighbour, seed):
    """Well-formed messages of senseless content: the session itself goes on, whatever they were."""
    rng = random.Random(seed)
    with Connection(server.address) as connection:
        session, live = RawSession(connection), []
        live += [session.write([3, 3], F32(*range(9))), session.write([3], struct.pack("<3q", 0, 1, 2), "INT64"),
                 session.write([], F32(1))]
        for _ in range(150):
            session.wait(session.send(*[fuzzed_command(rng, session, live) for _ in range(10)]))
        good = session.write([2], F32(1, 2))
        assert session.read(good).data == F32(1, 2)


@pytest.mark.parametrize("seed", range(3))
def test_bytes_of_any_content(server, neighbour, seed):
    """Good batches with bytes changed: a session may end by them, the server and its other sessions may not."""
    rng = random.Random(1000 + seed)
    pb = messages()
    sent = 0
    while sent < 1000:
        with Connection(server.address) as connection:
            session, live = RawSession(connection), []
            for _ in range(100):
                if rng.random() < .2:
                    data = rng.randbytes(rng.randrange(200))
                else:
                    batch = pb.CommandBatch(first_seq=session.seq + 1,
                                            commands=[fuzzed_command(rng, session, live) for _ in range(3)])
                    session.seq += 3
                    data = bytearray(batch.SerializeToString())
                    for _ in range(rng.choice([0, 0, 1, 3])):
                        data[rng.randrange(len(data))] = rng.randrange(256)
                session.send_bytes(bytes(data))
                sent += 1
                if sent % 10 == 0:
                    try:
                        session.send(session.command("FENCE"))
                        session.next_events()
                    except (Refused, AssertionError):
                        break
            session.finish()


# The log.

def records(server):
    return [json.loads(line) for line in server.log().split("\n") if line]


NASTY = ['"quotes" \\ and \\n', "new\nline\r\ttab", "\x00\x01\x1b[31mred\x7f", "ü 漢字 🙂", "\x85\u2028", "é" * 40, "x" * 100000]


def test_json_logs_are_json_whatever_is_in_them(server, connection, neighbour):
    for name in NASTY:
        connection.open(client=name)
    session = RawSession(connection)
    session.send(session.command("FENCE"), first_seq=5)
    ends(session)
    lines = until(lambda: [r for r in records(server) if r["message"].startswith("session")], server.log)
    assert all(set(r) == {"time", "level", "message"} for r in records(server))
    said = "\n".join(r["message"] for r in lines)
    for name in NASTY[:4]:
        assert name in said
    assert "é" * 32 in said
    assert max(len(r["message"]) for r in lines) < 400
    # An id is a credential.
    assert not re.search("[0-9a-f]{64}", server.log())


def test_text_logs_have_no_control_characters(tmp_path):
    with Daemon(tmp_path) as server, Connection(server.address) as connection:
        for name in NASTY:
            connection.open(client=name)
        until(lambda: server.log().count("opened by") == len(NASTY), server.log)
        log = server.log_file.read_bytes().decode("utf-8", errors="strict")
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", log)
        assert "漢字" in log
