"""How people write where a store is."""

from __future__ import annotations

import os

import pytest

from nbrewind.store.places import absolute, is_missing_directory, tiers_of


@pytest.mark.parametrize(
    ("place", "tiers"),
    [
        (".nbrewind", (".nbrewind",)),
        ("/fast/a,/shared/b,s3://bucket/c", ("/fast/a", "/shared/b", "s3://bucket/c")),
        ("/a, s3://bucket", ("/a, s3://bucket",)),
        ("/home/me/Results, 2024/.nbrewind", ("/home/me/Results, 2024/.nbrewind",)),
        ("s3://bucket/a,b", ("s3://bucket/a,b",)),
        ("a,~/b", ("a", "~/b")),
        ("", ()),
    ],
)
def test_a_comma_before_an_absolute_place_separates(place: str, tiers: tuple[str, ...]) -> None:
    assert tiers_of(place) == tiers


def test_relative_directories_are_made_absolute_and_buckets_are_left_alone() -> None:
    assert absolute("x,/y,s3://b//c", "/base") == "/base/x,/y,s3://b//c"
    assert absolute("~/x") == os.path.expanduser("~/x")
    assert absolute("x") == os.path.join(os.getcwd(), "x")


def test_only_a_directory_can_be_seen_to_be_missing() -> None:
    assert is_missing_directory("/none")
    assert not is_missing_directory("/")
    assert not is_missing_directory("s3://none/none")
    assert is_missing_directory("/none,/nothing")
    assert not is_missing_directory("/none,/")
    assert not is_missing_directory("/none,s3://none/none")
