"""Which child processes a run had, and whether they go on."""

from __future__ import annotations

import concurrent.futures
import functools
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from nbrewind.state.children import Children
from nbrewind.testing.forking import in_a_fork

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def children() -> Children:
    children = Children()
    children.begin()
    return children


def alone(test: Callable[[Children], None]) -> Callable[[Children], None]:
    """Run a test in a fork of its own, where no other test has left children."""

    @functools.wraps(test)
    def run(children: Children) -> None:
        def inside() -> None:
            children.begin()
            test(children)

        in_a_fork(inside)

    return run


@alone
def test_children_that_have_ended_are_noticed(children: Children) -> None:
    assert not children.were_started()
    subprocess.run(["true"], check=True)
    assert children.were_started()
    assert not children.go_on()


@alone
def test_a_child_that_was_there_before_and_ends_is_none_of_the_run(children: Children) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        children.begin()
        assert children.working_before
        assert not children.were_started()
        child.communicate()
    assert not children.were_started()


@alone
def test_a_child_that_goes_on_is_noticed_even_without_its_parent(children: Children) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE):
        assert children.were_started()
        assert children.go_on()
    read, write = os.pipe()
    subprocess.run("exec 3<&0; cat <&3 >/dev/null &", shell=True, stdin=read, check=True)
    assert children.go_on()
    os.close(write)
    os.close(read)


@alone
def test_idle_workers_of_pools_do_not_go_on(children: Children) -> None:
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool, concurrent.futures.ProcessPoolExecutor(1, context) as executor:
        assert pool.map(abs, [-1]) == [1]
        assert executor.submit(abs, -1).result() == 1
        assert children.were_started()
        assert not children.go_on()
