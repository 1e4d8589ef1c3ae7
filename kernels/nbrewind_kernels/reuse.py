"""What a cell that is not run leaves behind in IPython.

The same as if it had run: outputs in the front end, its input in the history,
its result in `Out` and `_`, the next execution count, its source where
tracebacks look for it. `pre_execute`, `pre_run_cell`, `post_execute` and
`post_run_cell` are *not* triggered: no code ran.
"""

# mypy: allow-untyped-calls
# (IPython and ipykernel are annotated only in part)

from __future__ import annotations

import ast
from typing import Any

import msgspec
from IPython.core.history import HistoryOutput
from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult

from nbrewind.model.records import OutputMessage
from nbrewind_kernels.pending_results import put_pending
from nbrewind_kernels.ports import Reuse


def count_and_remember(
    shell: Any, source: str, cell_id: str | None, cell_meta: Any, code: str | None = None
) -> Any:
    """Put a cell into the history and advance the execution count, as a run would first.

    Args:
        shell: IPython's shell.
        source: the cell.
        cell_id: its id, if the front end sent one.
        cell_meta: its metadata.
        code: the cell after the input transformation. Transformed here it might be taken for
            a magic, because a variable of that name is not loaded.

    Returns:
        The `ExecutionResult` of the cell, still without a value.
    """
    transformed = shell.transform_cell(source) if code is None else code
    info = ExecutionInfo(
        source, True, False, True, cell_id, cell_meta, transformed_cell=transformed
    )
    result = ExecutionResult(info)
    count = result.execution_count = shell.execution_count
    shell.execution_count += 1
    # IPython keeps `%paste` out of the history, because it stores what was pasted.
    if not ("get_ipython().run_line_magic(" in transformed and "paste" in transformed):
        shell.history_manager.store_inputs(count, transformed, source)
    shell.logger.log(transformed, source)
    name = shell.compile.cache(transformed, count, raw_code=source)
    if "__future__" in transformed:
        _switch_features_on(shell, transformed, name)
    return result


def _switch_features_on(shell: Any, transformed: str, filename: str) -> None:
    """`from __future__ import …` holds for all later cells: compiling it is what it does."""
    try:
        tree = ast.parse(transformed)
    except SyntaxError:
        return  # IPython shows that when the cell runs
    features: list[ast.stmt] = [
        node
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module == "__future__"
    ]
    shell.compile(ast.Module(features, []), filename, "exec")


def remember_result(shell: Any, result: Any, reuse: Reuse) -> None:
    """Put a reused cell's value and outputs where IPython keeps those of a run."""
    if reuse.has_result and reuse.result is not None:
        shell.displayhook.check_for_underscore()
        shell.displayhook.update_user_ns(reuse.result)
        result.result = reuse.result
    elif reuse.record.result is not None:
        put_pending(shell, result.execution_count)
    for output in reuse.outputs:
        _remember_output(shell, output, result.execution_count)
    shell.last_execution_succeeded = True
    shell.last_execution_result = result
    shell.history_manager.store_output(result.execution_count)


def _remember_output(shell: Any, output: OutputMessage, count: int) -> None:
    """`%notebook` and `%history -o` read these."""
    history = shell.history_manager
    content = msgspec.msgpack.decode(output.content)
    if output.type == "execute_result":
        kept = HistoryOutput(output_type="execute_result", bundle=content["data"])
        if "text/plain" in content["data"]:
            history.output_hist_reprs[count] = content["data"]["text/plain"]
    elif output.type == "stream":
        bundle: dict[str, str | list[str]] = {"stream": [content["text"]]}
        if content["name"] == "stdout":
            kept = HistoryOutput(output_type="out_stream", bundle=bundle)
        else:
            kept = HistoryOutput(output_type="err_stream", bundle=bundle)
    else:
        return
    history.outputs[count].append(kept)
