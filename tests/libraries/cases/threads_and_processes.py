"""Threads, tasks and processes of the standard library, and what they wait for."""

from __future__ import annotations

from tests.libraries.case import Case, Library

_THREAD = "it belongs to a thread"

LIBRARY = Library(
    "Standard library: threads, tasks and processes",
    prelude="import asyncio, concurrent.futures, contextvars, multiprocessing, subprocess, threading",
    cases=(
        Case("threading.Lock", "x = threading.Lock()", "print(x.locked())", "done = x.acquire()"),
        Case(
            "threading.Lock, held",
            "x = threading.Lock(); x.acquire();",
            "print(x.locked())",
            "x.release()",
            recomputed=_THREAD,
        ),
        Case(
            "threading.RLock", "x = threading.RLock()", "print(repr(x)[:5])", "done = x.acquire()"
        ),
        Case("threading.Event", "x = threading.Event()", "print(x.is_set())", "x.set()"),
        Case(
            "threading.Condition",
            "x = threading.Condition()",
            "print(repr(x)[:25])",
            "done = x.acquire()",
        ),
        Case(
            "threading.Semaphore",
            "x = threading.Semaphore(2)",
            "print(x._value)",
            "done = x.acquire()",
        ),
        Case(
            "threading.Barrier",
            "x = threading.Barrier(2)",
            "print(x.parties, x.broken)",
            "x.abort()",
        ),
        Case(
            "threading.local",
            "x = threading.local(); x.a = 1",
            "print(x.a)",
            "x.a = 2",
            recomputed="every thread has its own",
        ),
        Case(
            "threading.Thread",
            "x = threading.Thread(target=sum, args=([],)); x.start(); x.join()",
            "print(x.is_alive())",
            recomputed=_THREAD,
        ),
        Case(
            "concurrent.futures.Future, done",
            "x = concurrent.futures.Future(); x.set_result([1])",
            "print(x.result())",
            "x.result().append(2)",
        ),
        Case(
            "concurrent.futures.Future, pending",
            "x = concurrent.futures.Future()",
            "print(x.done())",
            "x.set_result(1)",
            recomputed=_THREAD,
        ),
        Case(
            "concurrent.futures.ThreadPoolExecutor",
            "x = concurrent.futures.ThreadPoolExecutor(1)",
            "print(x._max_workers)",
            recomputed=_THREAD,
        ),
        Case(
            "contextvars.ContextVar",
            "x = contextvars.ContextVar('x', default=1)",
            "print(x.name)",
            recomputed="its value belongs to a thread or task",
        ),
        Case(
            "asyncio.Queue",
            "x = asyncio.Queue(); x.put_nowait(1)",
            "print(x.qsize())",
            "x.put_nowait(2)",
        ),
        Case("asyncio.Event", "x = asyncio.Event()", "print(x.is_set())", "x.set()"),
        Case(
            "asyncio.Future",
            "x = asyncio.new_event_loop().create_future()",
            "print(x.done())",
            "x.set_result(1)",
            recomputed="it belongs to an event loop",
        ),
        Case(
            "subprocess.CompletedProcess",
            "x = subprocess.CompletedProcess(['a'], 0, b'x')",
            "print(x)",
            "x.returncode = 3",
        ),
        Case(
            "multiprocessing.Value",
            "x = multiprocessing.Value('i', 1)",
            "print(x.value)",
            "x.value = 2",
            recomputed="it lives in shared memory",
        ),
    ),
)
