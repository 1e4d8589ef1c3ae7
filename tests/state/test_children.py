"""Which child processes a run had, and whether they go on."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import subprocess
import sys

import pytest

from nbrewind.state.children import Children

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def children() -> Children:
    children = Children()
    children.begin()
    return children


def test_children_that_have_ended_are_noticed(children: Children) -> None:
    assert not children.were_started()
    subprocess.run(["true"], check=True)
    assert children.were_started()
    assert not children.go_on()


def test_a_child_that_was_there_before_and_ends_is_none_of_the_run(children: Children) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        children.begin()
        assert children.working_before
        assert not children.were_started()
        child.communicate()
    assert not children.were_started()


def test_a_child_that_goes_on_is_noticed_even_without_its_parent(children: Children) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE):
        assert children.were_started()
        assert children.go_on()
    read, write = os.pipe()
    subprocess.run("exec 3<&0; cat <&3 >/dev/null &", shell=True, stdin=read, check=True)
    assert children.go_on()
    os.close(write)
    os.close(read)


def test_idle_workers_of_pools_do_not_go_on(children: Children) -> None:
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool, concurrent.futures.ProcessPoolExecutor(1, context) as executor:
        assert pool.map(abs, [-1]) == [1]
        assert executor.submit(abs, -1).result() == 1
        assert children.were_started()
        assert not children.go_on()
