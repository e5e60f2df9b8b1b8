#!/usr/bin/env python3
"""make.py - checkpoints of PyTorch's, sound and hostile, and what torch reads of them.

    pip install torch numpy               (made with torch 2.15.0, numpy 2)
    tests/io/pickles/make.py                 (writes tests/io/pickles/pickles.tar.xz; 300 files that
                                           torch.load(weights_only=True) accepts, 60 and more that it
                                           does not, and other protocols and byte forms)

index.json lists the files: {"file", "kind", "verdict", "tensors", "unread", "globals"}.
    kind      "accepted" by weights_only, as this script checks; "unknown": refused by it, and read
              with unknown globals as opaque values; "protocol": refused by it for its opcodes alone
    verdict   "read", or "refused" as bad data
    tensors   name, dtype, shape, bytes, crc32 of the bytes, row-major and little endian
    unread    paths of tensors that a warning must name
    globals   names that a warning must name; none: there is no such warning
What is expected comes from the Python objects, by walk() below, and not from zt. A hostile file's
planted command makes a file whose name begins with "pwned".
"""
import argparse, collections, copy, dataclasses, decimal, functools, io, json, lzma, os, pathlib, pickle
import random, struct, sys, tarfile, tempfile, types, warnings, zipfile, zlib

import numpy as np
import torch
from torch import nn

warnings.simplefilter("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))
rng = random.Random(38)
torch.manual_seed(38)

# ---- what is expected ---------------------------------------------------------------------------


class Refused(Exception):
    pass


class Expected:
    def __init__(self):
        self.tensors, self.unread, self.names, self.open = [], [], set(), set()


def tensor_bytes(t):
    t = t.detach().contiguous()
    if t.numel() == 0:
        return b""
    if t.dtype.is_complex:
        t = torch.view_as_real(t).contiguous()
    return t.reshape(-1).view(torch.uint8).numpy().tobytes()


def is_held(t):
    narrow = {getattr(torch, s + "int%d" % i) for s in ("", "u") for i in range(1, 8)}
    return (t.layout == torch.strided and not t.is_quantized and not t.is_nested and t.device.type == "cpu"
            and not t.is_conj() and not t.is_neg() and t.dtype not in narrow)


def join(path, key):
    return path + [key if isinstance(key, str) else key.decode() if isinstance(key, bytes) else str(key)]


def has_tensor(v):
    e = Expected()
    try:
        walk(v, ["x"], e)
    except Refused:
        return True
    return bool(e.tensors or e.unread)


def walk(v, path, e, opaque=False):
    """Adds the tensors in v to e, named by the path of keys, numbers and attributes."""
    name = ".".join(path)
    if isinstance(v, torch.Tensor):
        if not is_held(v):
            e.unread.append(name)
            return
        if name in e.names or "\0" in name:
            raise Refused(name)
        e.names.add(name)
        b = tensor_bytes(v)
        e.tensors.append({"name": name, "dtype": str(v.dtype).replace("torch.", ""), "shape": list(v.shape),
                          "bytes": len(b), "crc32": zlib.crc32(b)})
        for k, x in getattr(v, "__dict__", {}).items():
            walk(x, path + [k], e, opaque)
    elif isinstance(v, (torch.UntypedStorage, torch.TypedStorage)):
        e.unread.append(name)
    elif isinstance(v, nn.Module):
        for k, x in v.state_dict(keep_vars=True).items():
            walk(x, path + [k], e, True)
    elif isinstance(v, dict):
        inside = opaque or type(v) not in (dict, collections.OrderedDict, collections.Counter)
        for k, x in v.items():
            if isinstance(k, (str, bytes)) or (isinstance(k, int) and not isinstance(k, bool)):
                walk(x, join(path, k), e, inside)
            elif has_tensor(x):
                below = Expected()
                walk(x, path, below)
                e.unread += [t["name"] for t in below.tensors] + below.unread
        for k, x in getattr(v, "__dict__", {}).items():
            if type(v) is collections.OrderedDict:
                if has_tensor(x):
                    e.unread.append(name)
            else:
                walk(x, path + [k], e, True)
    elif isinstance(v, (set, frozenset)):
        if any(has_tensor(x) for x in v):
            e.unread.append(name)
    elif isinstance(v, tuple) and type(v) not in (tuple, torch.Size):
        if any(has_tensor(x) for x in v):
            e.unread.append(name)
    elif isinstance(v, (list, tuple)):
        for i, x in enumerate(v):
            walk(x, path + [str(i)], e, opaque)
    elif isinstance(v, functools.partial):
        if any(has_tensor(x) for x in v.args):
            e.unread.append(name)
    elif hasattr(v, "__slots__") and not hasattr(v, "__dict__"):
        for k in v.__slots__ if v.__slots__ and "w" in v.__slots__ else []:
            walk(getattr(v, k), path + [k], e, True)
    elif hasattr(v, "__dict__") and not isinstance(v, (type, types.FunctionType)):
        if id(v) in e.open:
            return
        e.open.add(id(v))
        state = v.__getstate__() if hasattr(v, "__getstate__") else v.__dict__
        for k, x in (state if isinstance(state, dict) else v.__dict__).items():
            walk(x, path + [k], e, True)
        e.open.discard(id(v))


files, index = {}, []


def save(v, legacy=False, protocol=2):
    f = io.BytesIO()
    torch.save(v, f, pickle_protocol=protocol, _use_new_zipfile_serialization=not legacy)
    return f.getvalue()


def accepts(data):
    try:
        return True, torch.load(io.BytesIO(data), weights_only=True)
    except Exception:
        return False, None


def add(kind, label, data, expected, refused=False, globals_=()):
    ok = not refused and bool(expected.tensors or not (expected.unread or globals_))
    name = "%s_%03d_%s.pt" % (kind[0], len(index), label)
    files[name] = data
    index.append({"file": name, "kind": kind, "verdict": "read" if ok else "refused",
                  "tensors": expected.tensors if ok else [], "unread": expected.unread if ok else [],
                  "globals": list(globals_) if ok else []})


def expect(v):
    e = Expected()
    try:
        walk(v, [], e)
        return e, False
    except Refused:
        return Expected(), True


# ---- what weights_only accepts ------------------------------------------------------------------

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
FP8 = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu]
INTS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
WIDE = [torch.uint16, torch.uint32, torch.uint64]


def some_shape(rank=None):
    rank = rng.randrange(5) if rank is None else rank
    return [rng.choice([1, 2, 3, 4, 5, 0] if rng.random() < 0.15 else [1, 2, 3, 4, 5]) for _ in range(rank)]


def some(shape=None, dtype=None):
    shape = some_shape() if shape is None else shape
    dtype = dtype or rng.choice(FLOATS + INTS + [torch.bool] + FP8 + WIDE)
    n = int(np.prod(shape)) if shape else 1
    if dtype == torch.bool:
        return torch.randint(0, 2, (n,)).bool().reshape(shape)
    size = torch.empty((), dtype=dtype).element_size()
    raw = torch.randint(0, 60, (n * size,), dtype=torch.uint8)  # no NaN in any float of these bytes
    return raw.view(dtype).reshape(shape)


def some_view():
    t = some([4, 6], rng.choice(FLOATS + INTS))
    return rng.choice([t.t(), t[1:], t[:, 2], t[::2, 1::2], t.unfold(1, 3, 1), t[1].expand(3, 6), t.reshape(2, 3, 4).permute(2, 0, 1),
                       t.as_strided((3, 3), (1, 2), 2), t[2, 3], t.narrow(1, 2, 3), t.diagonal()])


def some_plain(depth=0):
    pick = rng.randrange(16 if depth < 2 else 12)
    return [lambda: rng.randrange(-5, 300), lambda: rng.randrange(2 ** 40), lambda: 2 ** 90 + rng.randrange(9), lambda: -(2 ** 100),
            lambda: rng.random(), lambda: None, lambda: bool(rng.randrange(2)), lambda: "text %d ü" % rng.randrange(99),
            lambda: torch.float16, lambda: torch.device("cpu"), lambda: torch.Size([2, rng.randrange(9)]),
            lambda: rng.choice([b"bytes\xff", bytearray(b"q\0"), complex(1, 2), {1, 2}, torch.strided, torch.qint8,
                                torch.per_tensor_affine, collections.Counter("abca"), torch.int4, "\udc80path"]),
            lambda: [some_plain(depth + 1) for _ in range(3)], lambda: (some_plain(depth + 1),), lambda: {"k": some_plain(depth + 1)},
            lambda: collections.OrderedDict(a=some_plain(depth + 1))][pick]()


def state_dict():
    layers = []
    for _ in range(rng.randrange(1, 4)):
        layers.append(rng.choice([lambda: nn.Linear(3, 2), lambda: nn.Conv1d(2, 2, 3), lambda: nn.BatchNorm1d(3), lambda: nn.Embedding(5, 2),
                                  lambda: nn.LayerNorm(4), lambda: nn.GRU(2, 2), lambda: nn.Linear(2, 2, bias=False),
                                  lambda: nn.MultiheadAttention(4, 2), lambda: nn.Linear(2, 3).half(), lambda: nn.Bilinear(2, 2, 2).double()])())
    return nn.Sequential(*layers).state_dict()


def optimizer_state():
    m = nn.Linear(3, 2)
    cls = rng.choice([torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad])
    opt = cls(m.parameters(), lr=0.1, **({"momentum": 0.9} if cls is torch.optim.SGD else {}))
    m(torch.ones(1, 3)).sum().backward()
    opt.step()
    sched = torch.optim.lr_scheduler.StepLR(opt, 3)
    return {"epoch": rng.randrange(9), "model": m.state_dict(), "optimizer": opt.state_dict(), "lr_scheduler": sched.state_dict()
            if rng.random() < 0.5 else None, "rng": torch.get_rng_state()[:16].clone(), "args": {"lr": 0.1, "name": "run"}}


def nested(depth=0):
    pick = rng.randrange(6)
    if depth > 3 or pick == 0:
        return some_view() if rng.random() < 0.5 else some()
    if pick == 1:
        return [nested(depth + 1) for _ in range(rng.randrange(1, 4))]
    if pick == 2:
        return tuple(nested(depth + 1) for _ in range(rng.randrange(1, 4)))
    if pick == 3:
        return {rng.choice(["a", "b.c", "", "ключ", 7, -1, 2 ** 40, b"bytes"]): nested(depth + 1), "n": some_plain()}
    if pick == 4:
        return collections.OrderedDict((("w%d" % i), nested(depth + 1)) for i in range(rng.randrange(1, 3)))
    return {"plain": some_plain(), "t": nested(depth + 1)}


def shared():
    base = some([4, 6], rng.choice(FLOATS))
    p = nn.Parameter(base.float())
    return {"a": base, "b": base, "row": base[2], "t": base.t(), "again": [base[:, 1:3], p, p]}


def with_attributes():
    t, p = some([2, 3], torch.float32), nn.Parameter(some([3], torch.float32))
    t.tag, p.is_bias = "x", True
    if rng.random() < 0.5:
        p.scale = some([1], torch.float32)
    return {"t": t, "p": p, "view": t[0]}


def subclassed():
    t = some([2, 2], torch.float32)
    t.names_ = ["a", "b"]
    return collections.OrderedDict(w=t, w2=nn.Parameter(t.clone(), requires_grad=False))


def odd_keys():
    key = rng.choice([(0, 1), None, 1.5, True, torch.float32, ("a",)])
    return {"w": some([2]), "odd": {key: some([2], torch.float32)}}


def foreign():
    w = some([2, 3], torch.float32)
    sparse = torch.eye(3).to_sparse()
    return {"w": w, "x": rng.choice([
        lambda: sparse, lambda: torch.eye(3).to_sparse_csr(), lambda: torch.eye(4).to_sparse_csc(),
        lambda: torch.quantize_per_tensor(w, 0.1, 3, torch.qint8), lambda: torch.quantize_per_tensor(w, 0.1, 3, torch.quint8),
        lambda: torch.quantize_per_channel(w, torch.ones(2), torch.zeros(2, dtype=torch.long), 0, torch.qint8),
        lambda: torch.empty(2, 3, device="meta"), lambda: torch.complex(w, w).conj(),
        lambda: torch.complex(w, w).conj().imag, lambda: nn.Parameter(torch.eye(2).to_sparse()), lambda: [w, {"deep": sparse}]])()}


def complexes():
    w = some([2, 3], torch.float32)
    return {"w": w, "c": torch.complex(w, w), "z": torch.complex(w.double(), w.double()).t(), "c[0]": torch.complex(w, w)[0]}


def storages():
    return {"w": some([3], torch.float32), "s": some([5], torch.float32).untyped_storage()}


def foreign_alone():
    return {"x": torch.eye(3).to_sparse()} if rng.random() < 0.5 else {"x": torch.quantize_per_tensor(torch.ones(2), 0.1, 3, torch.qint8)}


def in_set():
    return {"w": some([2]), "set": {some([3], torch.float32)}}


def counter():
    c = collections.Counter()
    c["w"] = some([2], torch.float32)
    return {"counts": c, "words": collections.Counter("banana")}


def ordered_attributes():
    d = nn.Linear(2, 2).state_dict()
    d.note = rng.choice(["text", some([2], torch.float32), 3])
    return d


def tied():
    e = nn.Embedding(4, 3)
    h = nn.Linear(3, 4, bias=False)
    h.weight = e.weight
    return nn.ModuleDict({"embed": e, "head": h}).state_dict()


def two_names():
    return {"a": {"b": some([2])}, "a.b": some([2])}


def metadata():
    return {"w": some([2, 3], torch.float32), "meta": {str(i): some_plain() for i in range(6)}}


def every_dtype():
    return {str(d): some([3], d) for d in rng.sample(FLOATS + INTS + FP8 + WIDE + [torch.bool], 6)}


def empty_or_scalar():
    return [some([], torch.float32), some([0, 3], torch.float32), some([1, 1, 1, 1, 1, 1, 1, 2], torch.int8), {"x": some([], torch.bool)}]


def old_names():
    return {"é.ü": some([2]), "with space": some([1]), "a/b": some([2]), "../up": some([2]), "x" * 300: some([1])}


def many():
    return {"t%d" % i: some([2], torch.int8) for i in range(40)}


def root():
    return rng.choice([some([2, 2], torch.float32), nn.Parameter(some([3], torch.float32)), [some([2])], (some([1]), 3), {}, [], "text", 7])


ACCEPTED = [state_dict, optimizer_state, nested, nested, nested, shared, with_attributes, subclassed, odd_keys, foreign, foreign, complexes,
            storages, foreign_alone, in_set, counter, ordered_attributes, tied, two_names, metadata, metadata, every_dtype, empty_or_scalar,
            old_names, many, root]


def make_accepted(count):
    turn = made = 0
    while made < count:
        build = ACCEPTED[turn % len(ACCEPTED)]
        legacy = (turn // len(ACCEPTED)) % 3 == 2
        turn += 1
        try:
            v = build()
            data = save(v, legacy)
        except Exception as error:  # a form that the older format does not have
            assert legacy, (build.__name__, error)
            continue
        ok, loaded = accepts(data)
        if not ok:  # such as bytes objects in the older format
            continue
        e, refused = expect(loaded)
        if any(isinstance(t, dict) and t["dtype"].startswith("float4") for t in e.tensors):
            continue
        add("accepted", build.__name__ + ("_older" if legacy else ""), data, e, refused)
        made += 1


# ---- what it does not ---------------------------------------------------------------------------

def attack(call):
    class Attack:
        def __reduce__(self):
            return call
    return Attack()


class Net(nn.Module):
    def __init__(self, inner=True):
        super().__init__()
        self.fc = nn.Linear(3, 2)
        self.register_buffer("mean", some([2], torch.float32))
        self.register_buffer("scratch", some([2], torch.float32), persistent=False)
        self.alias = self.fc.weight
        self.plain = some([2], torch.float32)
        if inner:
            self.blocks = nn.ModuleList([Net(False), Net(False)])
            self.tied = self.blocks[0]


@dataclasses.dataclass
class Config:
    lr: float = 0.1
    names: list = dataclasses.field(default_factory=list)
    w: object = None


class Node:
    def __init__(self, parent=None):
        self.parent, self.w = parent, some([2], torch.float32)
        self.child = Node(self) if parent is None else None


class Slots:
    __slots__ = ("a", "w")

    def __init__(self):
        self.a, self.w = 1, some([2], torch.float32)


class Keeper(dict):
    pass


class Row(list):
    pass


Pair = collections.namedtuple("Pair", "a b")


class Sub(torch.Tensor):
    pass


class Stateful:
    def __init__(self):
        self.w = some([2], torch.float32)

    def __getstate__(self):
        return [self.w, 3]

    def __setstate__(self, state):
        self.w = state[0]


class Call:
    """Pickled as a call of a function, of which nothing more is known."""

    def __init__(self, *args):
        self.args = args

    def __reduce__(self):
        return (make_call, self.args)


def make_call(*args):
    return Call(*args)


def weights():
    return {"w": some([3, 4], torch.float32), "layer": {"b": some([4], torch.float16)}}


def global_name(f):
    return f.__module__ + "." + f.__qualname__


MAIN = "__main__."


def unknown():
    """(label, what is beside the weights, globals that must be named, paths that are not read)."""
    w = some([2], torch.float32)
    keeper, row = Keeper(k=some([2], torch.float32)), Row([some([2], torch.float32)])
    keeper.note = some([1], torch.float32)
    net = Net()
    yield "namespace", argparse.Namespace(lr=0.1, n=3), ["argparse.Namespace"], None
    yield "namespace_tensor", argparse.Namespace(w=w, deep=argparse.Namespace(x=some([1]))), ["argparse.Namespace"], None
    yield "defaultdict", collections.defaultdict(int, a=1), ["collections.defaultdict", "__builtin__.long"], None
    yield "defaultdict_tensor", collections.defaultdict(list, a=some([2])), ["collections.defaultdict"], None
    yield "defaultdict_keys", collections.defaultdict(dict, {(1, 2): some([2])}), ["collections.defaultdict"], None
    yield "numpy_scalar", np.float64(0.5), ["numpy._core.multiarray.scalar", "numpy.dtype"], None
    yield "numpy_array", np.arange(6, dtype=np.float32), ["numpy._core.multiarray._reconstruct", "numpy.ndarray"], None
    yield "numpy_object", np.array([{"a": 1}], dtype=object), ["numpy.ndarray"], None
    yield "path", pathlib.PurePosixPath("/tmp/x"), ["pathlib.PurePosixPath"], None
    yield "dataclass", Config(names=["a"], w=some([2])), [MAIN + "Config"], None
    yield "function", make_call, [MAIN + "make_call"], None
    yield "class", Config, [MAIN + "Config"], None
    yield "builtin", len, ["__builtin__.len"], None
    yield "partial", functools.partial(make_call, 1), ["functools.partial"], None
    yield "partial_tensor", functools.partial(make_call, some([2])), ["functools.partial"], ["x"]
    yield "node", Node(), [MAIN + "Node"], None
    yield "class_key", {Config: {"best": some([1])}, "epoch": 3}, [MAIN + "Config"], None
    yield "slots", Slots(), [MAIN + "Slots"], None
    yield "dict_subclass", keeper, [MAIN + "Keeper"], None
    yield "list_subclass", row, [MAIN + "Row"], None
    yield "namedtuple", Pair(1, 2), [MAIN + "Pair"], None
    yield "namedtuple_tensor", Pair(some([2]), 2), [MAIN + "Pair"], ["x"]
    yield "tensor_subclass", some([2, 3], torch.float32).as_subclass(Sub), [MAIN + "Sub"], None
    yield "stateful", Stateful(), [MAIN + "Stateful"], ["x"]
    yield "call", Call(1, "text"), [MAIN + "make_call"], None
    yield "call_tensor", Call(some([2])), [MAIN + "make_call"], ["x"]
    yield "call_tensors", [Call(some([2]), some([3])), Call(some([2]))], [MAIN + "make_call"], ["x.0", "x.1"]
    yield "module", net, [MAIN + "Net", "torch.nn.modules.linear.Linear"], None
    yield "optimizer", torch.optim.SGD(net.fc.parameters(), lr=0.1, momentum=0.9), ["torch.optim.sgd.SGD"], None
    yield "decimal", decimal.Decimal("1.5"), ["decimal.Decimal"], None
    yield "generator", random.Random(1), ["random.Random"], None
    yield "frozenset", frozenset([1, 2]), ["__builtin__.frozenset"], None
    yield "slice", slice(1, 2), ["__builtin__.slice"], None
    yield "many", [np.float32(1), pathlib.PurePosixPath("a"), decimal.Decimal(1), slice(1), frozenset([1]), range(3), len,
                   argparse.Namespace()], ["numpy.dtype", "and 3 more"], None
    attacks = [((os.system, ("touch pwned-1",)), "posix.system"), ((eval, ("open('pwned-2','w')",)), "__builtin__.eval"),
               ((exec, ("open('pwned-3','w')",)), "__builtin__.exec"), ((open, ("pwned-4", "w")), "io.open"),
               ((pathlib.Path("pwned-5").touch, ()), "pathlib.PosixPath"), ((getattr, ("x", "y")), "__builtin__.getattr"),
               ((__import__, ("os",)), "__builtin__.__import__"),
               ((functools.partial(os.system, "touch pwned-6"), ()), "functools.partial")]
    for i, (call, name) in enumerate(attacks):
        yield "attack%d" % i, attack(call), [name], None
    yield "attack_argument", Config(w=attack((os.system, ("touch pwned-7",)))), ["posix.system"], None
    yield "attack_key", {"k": [attack((os.system, ("touch pwned-8",)))]}, ["posix.system"], None


def beside(v, unread):
    e, refused = expect({"w": v["w"], "layer": v["layer"]})
    rest, bad = expect({"x": v["x"]}) if unread is None else (Expected(), False)
    e.tensors += rest.tensors
    e.unread += rest.unread if unread is None else unread
    return e, refused or bad


def make_unknown():
    for label, x, names, unread in unknown():
        for legacy in (False, True):
            v = {**weights(), "x": x}
            data = save(v, legacy)
            assert not accepts(data)[0], label
            e, refused = beside(v, [] if label.startswith("attack") else unread)
            add("unknown", label + ("_older" if legacy else ""), data, e, refused, names)
    for label, x in [("model", Net()), ("model_sequential", nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))),
                     ("model_lstm", nn.LSTM(2, 3)), ("model_attention", nn.TransformerEncoderLayer(4, 2, 8))]:
        for legacy in (False, True):
            data = save(x, legacy)
            assert not accepts(data)[0], label
            e, refused = expect(x)
            assert [t["name"] for t in e.tensors] == list(x.state_dict())
            add("unknown", label + ("_older" if legacy else ""), data, e, refused, [global_name(type(x))])
    for label, x in [("alone_namespace", argparse.Namespace(lr=1)), ("alone_numpy", np.ones(3)), ("alone_attack", attack((os.system, ("touch pwned-9",)))),
                     ("alone_call", Call(torch.ones(2)))]:
        add("unknown", label, save(x), Expected(), True, ["refused"])


# ---- pickles by hand: what no pickler would write ------------------------------------------------

def archive(pkl, storage=np.arange(6, dtype=np.float32).tobytes()):
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w") as z:
        z.writestr("a/data.pkl", pkl)
        z.writestr("a/byteorder", "little")
        z.writestr("a/data/0", storage)
        z.writestr("a/version", "3\n")
    return f.getvalue()


TENSOR = (b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x06tQ"
          b"K\x00K\x02K\x03\x86K\x03K\x01\x86\x89ccollections\nOrderedDict\n)RtR")


def entry(body):
    """{"w": tensor, "x": body}."""
    return archive(b"\x80\x02}(X\x01\x00\x00\x00w" + TENSOR + b"X\x01\x00\x00\x00x" + body + b"u.")


def make_by_hand():
    w = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    touch = b"X\x0b\x00\x00\x00touch pwned"
    read = [("inst", b"(" + touch + b"iposix\nsystem\n", ["posix.system"]), ("obj", b"(cposix\nsystem\n" + touch + b"o", ["posix.system"]),
            ("newobj", b"cposix\nsystem\n" + touch + b"\x85\x81", ["posix.system"]),
            ("newobj_ex", b"cposix\nsystem\n" + touch + b"\x85}\x92", ["posix.system"]),
            ("stack_global", b"X\x05\x00\x00\x00posixX\x06\x00\x00\x00system\x93" + touch + b"\x85R", ["posix.system"]),
            ("getattr", b"c__builtin__\ngetattr\ncos\nenviron\nX\x04\x00\x00\x00copy\x86R)R", ["__builtin__.getattr", "os.environ"]),
            ("dotted", b"cos\npath.os.system\n" + touch + b"\x85R", ["os.path.os.system"]),
            ("popped", b"cposix\nsystem\n" + touch + b"\x85R0N", ["posix.system"]),
            ("build", b"c__main__\nX\n)\x81}X\x09\x00\x00\x00__class__cposix\nsystem\nsb", ["__main__.X", "posix.system"]),
            ("unicode", b"c\xd0\xbes\nsystem\n)R", []), ("empty_name", b"c\n\n)R", [])]
    for label, body, names in read:
        data = entry(body)
        assert not accepts(data)[0], label
        add("unknown", "hand_" + label, data, expect({"w": w})[0], False, names or ["."])
    refused = [("ext", b"\x82\x01"), ("ext4", b"\x84\x01\x00\x00\x00"), ("persid", b"Pposix.system\n"), ("buffer", b"\x97"),
               ("call_text", b"X\x06\x00\x00\x00system)R"), ("call_dtype", b"ctorch\nfloat32\n)R"), ("storage_class", b"(X\x07\x00\x00\x00storagecposix\n"
               b"system\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x06tQ"), ("module_id", b"(X\x06\x00\x00\x00modulectorch\nFloatStorage\nNNtQ"),
               ("quantized_view", TENSOR.replace(b"FloatStorage", b"QInt8Storage")), ("hooks", TENSOR.replace(b"ccollections\nOrderedDict\n)R", b"cos\nenviron\n")),
               ("class_state", b"ccollections\nOrderedDict\n)R}X\x09\x00\x00\x00__class__NsN" + b"b"), ("no_class", b"N)\x81")]
    for label, body in refused:
        data = entry(body)
        assert not accepts(data)[0], label
        add("unknown", "hand_" + label, data, Expected(), True)


# ---- other protocols ----------------------------------------------------------------------------

def make_protocols():
    builds = [state_dict, optimizer_state, shared, complexes, metadata, every_dtype, tied]
    for protocol in (3, 4, 5):
        for legacy in (False, True):
            for build in builds:
                v = build()
                data = save(v, legacy, protocol)
                try:
                    loaded = torch.load(io.BytesIO(data), weights_only=False)
                except AttributeError:  # dtypes that the older format does not have
                    continue
                e, refused = expect(loaded)
                add("protocol", "%s_%d%s" % (build.__name__, protocol, "_older" if legacy else ""), data, e, refused)
            x = argparse.Namespace(path=pathlib.PurePosixPath("a"), w=some([2], torch.float32))
            v = {**weights(), "x": x}
            e, refused = beside(v, None)
            add("protocol", "namespace_%d%s" % (protocol, "_older" if legacy else ""), save(v, legacy, protocol), e, refused,
                ["argparse.Namespace", "pathlib.PurePosixPath"])


def pack():
    path = os.path.join(HERE, "pickles.tar.xz")
    files["index.json"] = json.dumps(index, indent=0, ensure_ascii=True).encode()
    with lzma.open(path, "wb", preset=9 | lzma.PRESET_EXTREME) as x, tarfile.open(fileobj=x, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(files, key=lambda n: n.split("_")[2:]):
            info = tarfile.TarInfo(name)
            info.size = len(files[name])
            tar.addfile(info, io.BytesIO(files[name]))
    print(path, os.path.getsize(path), "bytes")


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        make_accepted(300)
        make_unknown()
        make_by_hand()
        make_protocols()
        assert not [f for f in os.listdir(folder) if f.startswith("pwned")], "planted code ran"
    print(collections.Counter((c["kind"], c["verdict"]) for c in index))
    pack()


if __name__ == "__main__":
    main()
