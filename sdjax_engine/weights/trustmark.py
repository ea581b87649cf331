"""The weights of TrustMark, variant P, from a folder or the hub, as published (.ckpt) or as safetensors.

A file of `torch.save` is a ZIP archive without compression: `data.pkl` describes the tensors, and `data/0`,
`data/1`, … have their bytes. Only the names below are looked up in the pickle, and none of them is torch's
own. So a hostile file can make tuples, dictionaries and descriptions of tensors, and nothing else.
"""

from __future__ import annotations

import math
import pickle
import re
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import jax

from sdjax_engine.errors import UnreadableCheckpoint, cut, first_line
from sdjax_engine.watermark_tasks import BITS
from sdjax_engine.weights.checkpoint import Component
from sdjax_engine.weights.files import Report, find_named_folder
from sdjax_engine.weights.load import fill
from sdjax_engine.weights.networks import Part, check_tensors, infer_part
from sdjax_engine.weights.tensors import Stored, tensors_in

STORAGES: Mapping[str, tuple[str, int]] = {
    "DoubleStorage": ("F64", 8),
    "FloatStorage": ("F32", 4),
    "HalfStorage": ("F16", 2),
    "BFloat16Storage": ("BF16", 2),
    "LongStorage": ("I64", 8),
    "IntStorage": ("I32", 4),
    "ByteStorage": ("U8", 1),
    "BoolStorage": ("BOOL", 1),
}
"""The code of the dtype and the bytes of a number, by torch's class of the storage."""
LONGEST_PICKLE = 16 * 2**20  # bytes; a thousand tensors take a tenth of a MB
STATE = "state_dict"  # of Lightning's checkpoints, which have the tensors one level deeper
LOCAL_HEADER, LENGTHS = 30, 26  # of an archive's member: its bytes, and where the lengths after it are
BROKEN = (
    *(zipfile.BadZipFile, pickle.UnpicklingError, OSError, EOFError, RecursionError, MemoryError),
    *(ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, NotImplementedError),
)
"""What reading an archive and a pickle raises for files that are broken."""


@dataclass(frozen=True, kw_only=True)
class _Storage:
    """Numbers in the file: the code of their dtype, the bytes of one, and the name of their member."""

    dtype: str
    width: int
    member: str


@dataclass(frozen=True, kw_only=True)
class _Tensor:
    """A tensor as the pickle describes it: a part of a storage."""

    storage: _Storage
    first: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def tensors_of_torch(file: Path) -> dict[str, Stored]:
    """Return the tensors in a file of `torch.save`, by their names; their bytes are not read.

    Raises UnreadableCheckpoint, in one sentence, for a broken file and for one with other contents.
    """
    try:
        with zipfile.ZipFile(file) as archive, file.open("rb") as opened:
            (described,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
            folder = described.removesuffix("data.pkl")
            if archive.getinfo(described).file_size > LONGEST_PICKLE:
                raise ValueError("its description is too long")
            with archive.open(described) as pickled:
                found = _Reader(pickled).load()
            held = found.get(STATE, found)
            return {
                name: _stored(file, opened, archive.getinfo(f"{folder}data/{tensor.storage.member}"), tensor)
                for name, tensor in held.items()
                if isinstance(tensor, _Tensor)
            }
    except BROKEN as error:
        raise UnreadableCheckpoint(f"{file} is no whole file of torch: {first_line(error)}.") from error


def _stored(file: Path, opened: BinaryIO, member: zipfile.ZipInfo, tensor: _Tensor) -> Stored:
    """Return where the bytes of a tensor are in the file."""
    width = tensor.storage.width
    size, first = math.prod(tensor.shape) * width, tensor.first * width
    if member.compress_type != zipfile.ZIP_STORED or not 0 <= first <= first + size <= member.file_size:
        raise ValueError(f"the bytes of a tensor of the shape {tensor.shape} are missing")
    if size and tuple(_strides(tensor.shape)) != tensor.strides:
        raise ValueError(f"a tensor of the shape {tensor.shape} is not in the usual order")
    opened.seek(member.header_offset + LENGTHS)
    lengths = opened.read(LOCAL_HEADER - LENGTHS)
    begin = member.header_offset + LOCAL_HEADER + sum(lengths[i] + 256 * lengths[i + 1] for i in (0, 2))
    return Stored(file=file, shape=tensor.shape, dtype=tensor.storage.dtype, offset=begin + first, size=size)


def _strides(shape: tuple[int, ...]) -> Iterator[int]:
    for axis in range(len(shape)):
        yield math.prod(shape[axis + 1 :])


class _Reader(pickle.Unpickler):
    """Reads descriptions of tensors; every other name in the pickle is refused."""

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in STORAGES:
            return STORAGES[name]
        if (module, name) not in NAMES:
            raise pickle.UnpicklingError(f"it holds {cut(f'{module}.{name}')}, and only tensors are read")
        return NAMES[module, name]

    def persistent_load(self, pid: Any) -> _Storage:
        """Return the storage of an id: ("storage", its class, its member, the device, its length)."""
        _, (dtype, width), member, _, _ = pid
        return _Storage(dtype=dtype, width=width, member=str(member))


def _tensor(storage: _Storage, first: int, shape: Any, strides: Any, *_: Any) -> _Tensor:
    """Stand in for `torch._utils._rebuild_tensor_v2`."""
    counts = [first, *shape, *strides]
    if not isinstance(storage, _Storage) or not all(type(count) is int and count >= 0 for count in counts):
        raise ValueError("a tensor is described wrongly")
    return _Tensor(storage=storage, first=first, shape=tuple(shape), strides=tuple(strides))


def _parameter(tensor: _Tensor, *_: Any) -> _Tensor:
    """Stand in for `torch._utils._rebuild_parameter`."""
    return tensor


NAMES: Mapping[tuple[str, str], Callable[..., Any]] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_parameter"): _parameter,
}
"""What the names in a pickle stand for here."""


ENCODER, DECODER = "encoder_P", "decoder_P"
ENDINGS = (".safetensors", ".ckpt")
FILES = (
    *(f"{stem}.safetensor?" for stem in (ENCODER, DECODER)),
    *(f"{stem}.ckpt" for stem in (ENCODER, DECODER)),
)
_UNUSED = re.compile(r".*\.num_batches_tracked")
Config = dict[str, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class TrustMark:
    """The two networks of a watermark, in float32."""

    encoder: Component
    decoder: Component


def load_trustmark(source: str, *, report: Report | None = None) -> TrustMark:
    """Read the weights called `source`: a folder or a hub id with encoder_P and decoder_P.

    Raises UnreadableCheckpoint, in one sentence, for whatever is wrong.
    """
    parts = trustmark_parts(source, report=report)
    encoder, decoder = (fill(name, each, put=jax.device_put, cache=None) for name, each in parts.items())
    return TrustMark(encoder=encoder, decoder=decoder)


def trustmark_parts(source: str, *, report: Report | None = None) -> dict[str, Part]:
    """Return encoder and decoder, whose tensors are all there; raises as `load_trustmark`."""
    folder = find_named_folder(source, FILES, report)
    parts = (
        _part(folder, ENCODER, "TrustMarkEncoder", "encoder.", _encoder_config),
        _part(folder, DECODER, "TrustMarkDecoder", "decoder.decoder.", _decoder_config),
    )
    if strange := [part for part in parts if part.config["bits"] != BITS]:
        raise UnreadableCheckpoint(
            f"{strange[0].origin} is for {strange[0].config['bits']} bits, and a watermark has {BITS}."
        )
    found = {part.model: part for part in parts}
    check_tensors(str(folder), found)
    return found


def _part(
    folder: Path, stem: str, model: str, prefix: str, config: Callable[[Mapping[str, Stored]], Config]
) -> Part:
    file = next((folder / f"{stem}{end}" for end in ENDINGS if (folder / f"{stem}{end}").is_file()), None)
    if file is None:
        raise UnreadableCheckpoint(
            f"{folder} holds no {stem}.ckpt: name the folder with the files of TrustMark, variant P."
        )
    tensors = tensors_of_torch(file) if file.suffix == ".ckpt" else tensors_in(file)
    # A file of the whole model may hold the tensors of both networks, and of its training.
    named = {
        name.removeprefix(prefix): stored
        for name, stored in tensors.items()
        if name.startswith(prefix) and not _UNUSED.fullmatch(name)
    }
    return infer_part(file, model, stem, lambda: named, config)


def _encoder_config(stored: Mapping[str, Stored]) -> Config:
    return {
        "bits": stored["secret2image.dense.weight"].shape[1],
        "width": stored["pre.conv.weight"].shape[0],
        "down": _count(stored, r"enc\.(\d+)\..*"),
        "middle": _count(stored, r"middle\.(\d+)\..*"),
    }


def _decoder_config(stored: Mapping[str, Stored]) -> Config:
    return {
        "bits": stored["fc.weight"].shape[0],
        "width": stored["conv1.weight"].shape[0],
        "blocks": [_count(stored, rf"layer{number}\.(\d+)\..*") for number in range(1, 5)],
    }


def _count(stored: Mapping[str, Stored], pattern: str) -> int:
    """Return how many modules of a list the names have."""
    return len({found[1] for name in stored if (found := re.fullmatch(pattern, name))})
