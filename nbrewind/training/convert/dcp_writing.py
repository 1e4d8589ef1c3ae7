"""Writing folders of torch's distributed checkpoint (DCP), one part in memory at a time."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import (
    DEFAULT_SUFFIX,
    FileSystemWriter,
    _StorageInfo,
)
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
)
from torch.distributed.checkpoint.planner import (
    SavePlan,
    SavePlanner,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from nbrewind.errors import CheckpointError, NBRewindError
from nbrewind.training.boxes import Box
from nbrewind.training.convert.folders import new_folder
from nbrewind.training.convert.sources import LogicalPart, LogicalTensor, Source
from nbrewind.training.convert.torch_files import save as write
from nbrewind.training.trees import with_leaves


def write_dcp(source: Source, folder: Path) -> list[str]:
    """Write all of a source, in the parts that it has.

    Args:
        source: What to write.
        folder: A new or empty folder.

    Returns:
        Nothing is left out: an empty list.

    DCP itself makes text of integer keys.

    Raises:
        CheckpointError: the folder is there; parts of tensors are missing or damaged.
        StoreNotWritable: it cannot be written.
    """
    if not isinstance(source.tree, dict):
        raise CheckpointError("DCP's folders hold dictionaries, and the checkpoint is none")
    with new_folder(Path(folder)) as part, _failures_as_they_are():
        save(
            # DCP plans with tensors that have no elements; the planner reads them when written.
            with_leaves(source.tree, _planned, LogicalTensor),
            storage_writer=_Writer(part, sync_files=False),
            planner=_Planner(source),
            no_dist=True,
        )
    return []


@contextlib.contextmanager
def _failures_as_they_are() -> Iterator[None]:
    """DCP wraps what fails, and warns that it runs in one process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except CheckpointException as exc:
            cause = next(iter(exc.failures.values()))[0]
            if isinstance(cause, NBRewindError | OSError):
                raise cause from None
            raise CheckpointError(f"torch cannot write the checkpoint: {cause}") from exc


def _planned(tensor: LogicalTensor, _: str) -> _Planned:
    return _Planned(torch.empty(tensor.shape, dtype=tensor.dtype, device="meta"), tensor)


class _Planned(torch.Tensor):
    """A tensor without elements that remembers where they are."""

    source: LogicalTensor

    @staticmethod
    def __new__(cls, meta: torch.Tensor, source: LogicalTensor) -> _Planned:
        made = torch.Tensor._make_subclass(cls, meta)
        made.source = source
        return made


class _Planner(DefaultSavePlanner):
    """Plans the parts that a source has."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self._parts: dict[MetadataIndex, LogicalPart] = {}

    def create_local_plan(self) -> SavePlan:
        items: list[WriteItem] = []
        for name, value in self.state_dict.items():
            if isinstance(value, _Planned):
                items += self._planned(name, value.source)
            else:
                items.append(WriteItem(MetadataIndex(name), WriteItemType.BYTE_IO))
        self.plan = SavePlan(items, planner_data=self.mappings)
        return self.plan

    def _planned(self, name: str, tensor: LogicalTensor) -> list[WriteItem]:
        items = []
        for number, part in enumerate(_apart(tensor)):
            offsets = torch.Size(part.box.offsets)
            index = MetadataIndex(name, offsets, number)
            self._parts[index] = part
            data = TensorWriteData(
                ChunkStorageMetadata(offsets, torch.Size(part.box.lengths)),
                TensorProperties(dtype=tensor.dtype),
                torch.Size(tensor.shape),
            )
            items.append(WriteItem(index, WriteItemType.SHARD, tensor_data=data))
        return items

    def resolve_data(self, write_item: WriteItem) -> Any:
        if write_item.type is WriteItemType.BYTE_IO:
            content = io.BytesIO()
            torch.save(self.state_dict[write_item.index.fqn], content)
            return content
        found = self._parts[write_item.index].read().contiguous()
        # `torch.save` writes all of the storage that a view is of.
        alone = found.untyped_storage().nbytes() == found.nbytes
        return found if alone else found.clone()


class _Writer(FileSystemWriter):
    """Writes items one after the other; DCP's own keeps all tensors of a file until its end."""

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        file = f"{plan.storage_data.prefix}0{DEFAULT_SUFFIX}"
        results = []
        with open(Path(self.path) / file, "wb") as stream:
            for item in plan.items:
                start = stream.tell()
                data = planner.resolve_data(item)
                if isinstance(data, io.BytesIO):
                    stream.write(data.getbuffer())
                else:
                    write(data, stream)
                length = stream.tell() - start
                place = _StorageInfo(file, start, length)
                results.append(WriteResult(item.index, length, place))
                del data
        done: Future[list[WriteResult]] = Future()
        done.set_result(results)
        return done


def _apart(tensor: LogicalTensor) -> list[LogicalPart]:
    """The parts, or one if they overlap or leave something out: DCP refuses such."""
    boxes = [part.box for part in tensor.parts if part.box.size]
    size = sum(box.size for box in boxes)
    apart = all(a & b is None for n, a in enumerate(boxes) for b in boxes[n + 1 :])
    whole = _whole(tensor)
    if not boxes or len(boxes) > 64 or not apart or size != whole.box.size:
        return [whole]
    return [part for part in tensor.parts if part.box.size]


def _whole(tensor: LogicalTensor) -> LogicalPart:
    return LogicalPart(Box.whole(tensor.shape), tensor.read)
