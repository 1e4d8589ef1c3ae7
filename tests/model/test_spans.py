"""Where the time goes adds up."""

from __future__ import annotations

import json
import threading

import pytest

from nbrewind.model.spans import Span, Stopwatch, chrome_trace


def test_a_stage_within_another_is_taken_out_of_it() -> None:
    watch = Stopwatch()
    watch.keeping = True
    with watch.measure("detect"):
        with watch.measure("hash", 10):
            pass
        with watch.measure("hash", 5):
            pass
    inner, other, outer = watch.take_spans()
    assert outer.own == pytest.approx(outer.seconds - inner.seconds - other.seconds)
    totals = watch.take_totals()
    assert totals["hash"][1] == 15
    assert sum(seconds for seconds, _ in totals.values()) == pytest.approx(outer.seconds)
    assert watch.take_totals() == {}


def test_threads_do_not_count_as_within_each_other() -> None:
    watch = Stopwatch()
    watch.keeping = True

    def work() -> None:
        with watch.measure("hash"):
            pass

    with watch.measure("detect"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert all(span.own == span.seconds for span in watch.take_spans())


def test_a_failing_stage_is_counted() -> None:
    watch = Stopwatch()
    with pytest.raises(ValueError, match="no"), watch.measure("write"):
        raise ValueError("no")
    assert "write" in watch.take_totals()


def test_without_a_trace_no_span_is_kept() -> None:
    watch = Stopwatch()
    with watch.measure("write"):
        pass
    assert watch.take_spans() == []


def test_the_trace_names_processes_and_gives_microseconds() -> None:
    spans = [Span("write", 2.0, 0.5, 0.5, 7, 11, 12), Span("fsync", 1.0, 0.25, 0.25, 0, 11, 12)]
    events = json.loads(chrome_trace(spans, {11: "flusher"}))["traceEvents"]
    assert events[0] == {
        "ph": "M",
        "name": "process_name",
        "pid": 11,
        "args": {"name": "flusher"},
    }
    assert [(e["name"], e["ts"], e["dur"]) for e in events[1:]] == [
        ("fsync", 1e6, 0.25e6),
        ("write", 2e6, 0.5e6),
    ]
    assert events[2]["args"] == {"bytes": 7}
