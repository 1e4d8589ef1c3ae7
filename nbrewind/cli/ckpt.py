"""`nbrewind ckpt`: checkpoints of training."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nbrewind.cli.options import Json, Store
from nbrewind.cli.output import check_json, seconds, size, table, write_json
from nbrewind.errors import UsageError

if TYPE_CHECKING:
    from nbrewind.store.abc import Store as AnyStore
    from nbrewind.training.describing import CheckpointRow, Inspection

app = typer.Typer(
    help="Look at checkpoints of training, compare, verify and combine them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Which = Annotated[
    str,
    typer.Argument(
        metavar="CHECKPOINT",
        help="RUN for the newest checkpoint of a run, RUN@STEP, or the first digits of its id.",
    ),
]


@contextlib.contextmanager
def _opened(store: str | None, *, write: bool = False) -> Iterator[AnyStore]:
    from nbrewind.cli.store import find_store
    from nbrewind.store.opening import open_store

    try:
        import torch  # noqa: F401
    except ImportError as exc:
        raise UsageError(
            "checkpoints of training need torch: pip install 'nbrewind[train]'"
        ) from exc
    opened = open_store(find_store(None, store), create=False, read_only=not write)
    try:
        yield opened
    finally:
        opened.close()


@app.command("ls")
def ls(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="Only this run.", show_default=False)
    ] = None,
    store: Store = None,
    json: Json = None,
) -> None:
    """List checkpoints, newest first."""
    from nbrewind.training.describing import listed

    with _opened(store) as opened:
        found = listed(opened, run)
    if json is not None:
        write_json(found, json)
        return
    if not found:
        typer.echo("there are no checkpoints")
        return
    rows = [
        (one.run, str(one.step), one.save[:8], str(one.world), _when(one.created), _state(one))
        for one in found
    ]
    table([("run", "step", "id", "ranks", "saved", ""), *rows], frozenset({1, 3}))


@app.command("inspect")
def inspect(
    checkpoint: Which,
    store: Store = None,
    timing: Annotated[
        bool, typer.Option("--timing", help="Show how long each rank took, by phase.")
    ] = False,
    heat_map: Annotated[
        Path | None,
        typer.Option(
            "--heat-map",
            metavar="FILE",
            help="Draw ranks by phases as a picture (SVG).",
            show_default=False,
        ),
    ] = None,
    json: Json = None,
) -> None:
    """Show the tensors of a checkpoint, or with --timing how it was saved."""
    from nbrewind.training.describing import chosen
    from nbrewind.training.describing import inspect as look

    check_json(json)
    with _opened(store) as opened:
        found = look(opened, *chosen(opened, checkpoint))
    if heat_map is not None:
        from nbrewind.cli.output import write_file
        from nbrewind.training.heat_map import draw

        write_file(heat_map, draw(found).encode(), "--heat-map")
    if json is not None:
        write_json(found, json)
        return
    one = found.checkpoint
    typer.echo(f"{one.run}@{one.step}  {one.save}  {_when(one.created)}  {_state(one)}".rstrip())
    typer.echo(
        f"{size(found.bytes)} in {len(found.tensors)} tensors, saved by {one.world} "
        f"{'rank' if one.world == 1 else 'ranks'}"
    )
    for key, value in found.notes.items():
        typer.echo(f"{key}: {value}")
    typer.echo("")
    if timing:
        _show_timing(found)
    else:
        rows = [
            (
                each.name,
                each.dtype,
                "×".join(map(str, each.shape)) or "scalar",
                size(each.bytes),
                "each rank's own" if each.own else _chains(each.longest_chain),
            )
            for each in found.tensors
        ]
        table([("tensor", "type", "shape", "size", ""), *rows], frozenset({3}))


def _chains(longest: int) -> str:
    return f"sum of up to {longest} objects" if longest > 1 else ""


def _show_timing(found: Inspection) -> None:
    phases = list(dict.fromkeys(phase for rank in found.ranks for phase in rank.seconds))
    rows = [
        (
            str(rank.rank),
            size(rank.bytes),
            size(rank.added),
            *(seconds(rank.seconds.get(phase, 0.0)) for phase in phases),
        )
        for rank in found.ranks
    ]
    table([("rank", "state", "new", *phases), *rows], frozenset(range(3 + len(phases))))


@app.command("diff")
def diff(one: Which, other: Which, store: Store = None, json: Json = None) -> None:
    """Show which tensors differ between two checkpoints. Exit code 1 if any does."""
    from nbrewind.training.describing import chosen, differences
    from nbrewind.training.reading import CheckpointReader

    check_json(json)
    with _opened(store) as opened:
        readers = [CheckpointReader(opened, chosen(opened, text)[1]) for text in (one, other)]
        found = differences(*readers)
    if json is not None:
        write_json(found, json)
    elif not found:
        typer.echo("all tensors are equal")
    else:
        rows = [(each.name, each.what, each.before, each.after) for each in found]
        table([("tensor", "differs in", one, other), *rows])
    if found:
        raise typer.Exit(1)


@app.command("verify")
def verify(
    checkpoint: Annotated[
        str | None,
        typer.Argument(
            metavar="[CHECKPOINT]", help="As for `inspect`; all by default.", show_default=False
        ),
    ] = None,
    store: Store = None,
    json: Json = None,
) -> None:
    """Read every tile and check that every tensor is complete. Exit code 1 if one is not."""
    from nbrewind.training.describing import chosen
    from nbrewind.training.finding import checkpoints
    from nbrewind.training.verifying import verify as check

    check_json(json)
    with _opened(store) as opened:
        some = [chosen(opened, checkpoint)] if checkpoint else [*checkpoints(opened)]
        found = [check(opened, each) for _, each in some]
    if json is not None:
        write_json(found, json)
    else:
        for one in found:
            state = "sound" if one.sound else f"{len(one.problems)} problems"
            typer.echo(
                f"{one.run}@{one.step}  {one.save[:8]}  {one.tensors} tensors, "
                f"{one.objects} objects, {size(one.bytes)} read: {state}"
            )
            for problem in one.problems:
                typer.echo(f"  {problem}")
    if not all(one.sound for one in found):
        raise typer.Exit(1)


@app.command("merge")
def merge(
    checkpoints: Annotated[
        list[str],
        typer.Argument(metavar="CHECKPOINT...", help="As for `inspect`, two or more."),
    ],
    run: Annotated[str, typer.Option("--run", metavar="NAME", help="Name of the result.")],
    weights: Annotated[
        str,
        typer.Option(
            "--weights",
            metavar="W,W,...",
            help="A factor for each. [default: the mean]",
            show_default=False,
        ),
    ] = "",
    step: Annotated[int, typer.Option("--step", help="Step of the result.", min=0)] = 0,
    store: Store = None,
    json: Json = None,
) -> None:
    """Save the weighted sum of checkpoints as a new one; needs memory for a few tiles only."""
    from nbrewind.training.describing import chosen
    from nbrewind.training.merging import merge as combine

    check_json(json)
    factors = _weights(weights, len(checkpoints))
    with _opened(store, write=True) as opened:
        sources = [chosen(opened, text)[1] for text in checkpoints]
        result = combine(opened, sources, factors, run=run, step=step)
    if json is not None:
        write_json({"run": result.run, "step": result.step, "save": result.save}, json)
        return
    typer.echo(f"{result.run}@{result.step}  {result.save[:8]}")


@app.command("reshard")
def reshard(
    checkpoint: Which,
    run: Annotated[str, typer.Option("--run", metavar="NAME", help="Name of the copy.")],
    store: Store = None,
    json: Json = None,
) -> None:
    """Copy a checkpoint as if one process had saved it: whole tiles, no chains of differences.

    Not needed to load on other ranks; it makes that faster for what was saved in small parts.
    """
    from nbrewind.training.describing import chosen
    from nbrewind.training.merging import merge as combine

    check_json(json)
    with _opened(store, write=True) as opened:
        _, source = chosen(opened, checkpoint)
        result = combine(opened, [source], [1.0], run=run, step=source.step)
    if json is not None:
        write_json({"run": result.run, "step": result.step, "save": result.save}, json)
        return
    typer.echo(f"{result.run}@{result.step}  {result.save[:8]}")


@app.command("prune")
def prune(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run.")],
    keep: Annotated[int, typer.Option("--keep", metavar="N", help="Newest that stay.", min=1)],
    every: Annotated[
        int,
        typer.Option("--every", metavar="STEPS", help="Multiples of this step stay, too.", min=0),
    ] = 0,
    apply: Annotated[
        bool, typer.Option("--apply/--dry-run", help="Do it, or only tell what would be done.")
    ] = False,
    store: Store = None,
    json: Json = None,
) -> None:
    """Let older checkpoints of a run go. `nbrewind store gc` then frees their space."""
    from nbrewind.training.retiring import retire

    check_json(json)
    with _opened(store, write=apply) as opened:
        found = retire(opened, run, keep=keep, every=every, apply=apply)
    if json is not None:
        write_json(found, json)
        return
    for one in found.retired:
        typer.echo(f"{one.run}@{one.step}  {one.save[:8]}  {_when(one.created)}")
    verb = "went" if apply else "would go (--apply does it)"
    typer.echo(f"{len(found.retired)} {verb}, {found.kept} stay")


def _weights(text: str, count: int) -> list[float]:
    if not text:
        return [1 / count] * count
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError as exc:
        raise UsageError(f"--weights {text}: numbers with commas between them are meant") from exc
    if len(found) != count:
        raise UsageError(f"--weights has {len(found)} numbers for {count} checkpoints")
    return found


def _when(created: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(created))


def _state(one: CheckpointRow) -> str:
    return ", ".join(
        word for word, is_so in (("final", one.final), ("not trusted", not one.trusted)) if is_so
    )


@app.command("import")
def import_(
    path: Annotated[Path, typer.Argument(help="A file or folder.")],
    run: Annotated[str, typer.Option("--run", metavar="NAME", help="Name of the run.")],
    step: Annotated[int, typer.Option("--step", help="Step of the checkpoint.", min=0)] = 0,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="safetensors, torch, dcp, deepspeed, universal, megatron. [default: as it looks]",
            show_default=False,
        ),
    ] = None,
    rules: Annotated[
        Path | None,
        typer.Option(
            "--rules",
            metavar="FILE",
            help="Mapping rules, where the format does not say how ranks divided tensors.",
            show_default=False,
        ),
    ] = None,
    trusted: Annotated[
        bool,
        typer.Option("--trusted", help="Load objects of any class, which can execute anything."),
    ] = False,
    store: Store = None,
    json: Json = None,
) -> None:
    """Save a checkpoint of another format in the store; nothing in it is executed."""
    check_json(json)
    with _opened(store, write=True) as opened:
        from nbrewind.training.convert import open_source
        from nbrewind.training.convert.storing import store_source
        from nbrewind.training.rules import Rules

        try:
            known = Rules.parse(rules.read_text(encoding="utf-8")) if rules else None
        except (OSError, UnicodeDecodeError) as exc:
            raise UsageError(f"cannot read the rules in {rules}: {exc}") from exc
        with open_source(path, format, rules=known, trusted=trusted) as source:
            result = store_source(opened, source, run=run, step=step)
            left_out = [*map(str, source.notes.get("left out", ()))]
            found = {
                "run": run,
                "step": step,
                "save": result.save,
                "format": source.format,
                "tensors": len(source.tensors),
                "left_out": left_out,
            }
    if json is not None:
        write_json(found, json)
        return
    typer.echo(f"{run}@{step}  {result.save[:8]}  {len(source.tensors)} tensors, {source.format}")
    for name in left_out:
        typer.echo(f"  left out: {name}")


@app.command("export")
def export(
    checkpoint: Which,
    path: Annotated[Path, typer.Argument(help="A new file or folder.")],
    format: Annotated[str, typer.Option("--format", help="safetensors, torch or dcp.")],
    part: Annotated[
        str | None,
        typer.Option(
            "--part", metavar="NAME", help="Only this part, such as model.", show_default=False
        ),
    ] = None,
    store: Store = None,
    json: Json = None,
) -> None:
    """Write a checkpoint in another format. Safetensors have tensors only: the rest is listed."""
    from nbrewind.training.describing import chosen

    check_json(json)
    with _opened(store) as opened:
        from nbrewind.training.convert import TARGETS
        from nbrewind.training.convert.storing import stored_source

        if format not in TARGETS:
            raise UsageError(f"there is no format {format}: there are {', '.join(TARGETS)}")
        source = stored_source(opened, chosen(opened, checkpoint)[1])
        if part is not None:
            source = source.part(part)
        left_out = TARGETS[format](source, path)
        found = {
            "path": str(path),
            "format": format,
            "tensors": len(source.tensors),
            "left_out": left_out,
        }
    if json is not None:
        write_json(found, json)
        return
    typer.echo(f"{path}  {len(source.tensors)} tensors")
    for name in left_out:
        typer.echo(f"  left out: {name}")
