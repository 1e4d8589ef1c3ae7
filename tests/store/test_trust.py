"""L5: nothing is believed that was not signed with a key trusted on this machine."""

from __future__ import annotations

import stat
from pathlib import Path

import msgspec
import pytest
from blake3 import blake3

from nbrewind.errors import TrustError
from nbrewind.store import open_store, refs, trust
from nbrewind.testing.store_conformance import LINEAGE, commit


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The key of somebody else who committed to the store."""
    with monkeypatch.context() as patch:
        patch.setenv("NBREWIND_CONFIG_DIR", str(tmp_path / "foreign"))
        commit(open_store(tmp_path / "store"), b"foreign")
        return trust.own_key().hex()


def test_refs_of_unknown_keys_are_not_trusted_until_the_key_is(
    tmp_path: Path, foreign: str
) -> None:
    store = open_store(tmp_path / "store")
    commit(store, b"own", source_digest="own")
    (ref,) = store.refs("s")
    assert ref.key.hex() == foreign
    assert not ref.trusted
    assert store.refs("own")[0].trusted
    info = store.info()
    assert (info.trusted_refs, info.untrusted_refs) == (1, 1)

    trust.trust_key(foreign, "the cluster's account")
    assert store.refs("s")[0].trusted
    assert trust.trusted_keys()[foreign] == "the cluster's account"

    assert trust.untrust_key(foreign)
    assert not store.refs("s")[0].trusted
    assert not trust.untrust_key(foreign)


def test_the_keys_of_a_store_are_counted(tmp_path: Path, foreign: str) -> None:
    store = open_store(tmp_path / "store")
    for content in (b"1", b"2"):
        commit(store, content)
    keys = trust.keys_of(store)
    own = trust.own_key().hex()
    assert list(keys) == [own, foreign]
    assert (keys[own].count, keys[own].trusted, keys[own].own) == (2, True, True)
    assert (keys[foreign].count, keys[foreign].trusted, keys[foreign].own) == (1, False, False)


def forge(path: Path, change: dict[str, object]) -> None:
    """Rewrite a ref's body, with everything right but the signature."""
    content = path.read_bytes()
    payload = msgspec.msgpack.decode(content[12:-32])
    body = {**msgspec.msgpack.decode(payload[0]), **change}
    packed = msgspec.msgpack.encode([msgspec.msgpack.encode(body), *payload[1:]])
    content = refs.MAGIC + len(packed).to_bytes(4, "little") + packed
    path.write_bytes(content + blake3(content).digest())


@pytest.mark.case(54)
@pytest.mark.parametrize(
    "change", [{"record": bytes(32)}, {"source_digest": "other"}, {"created": 9e9}, {"new": 1}]
)
def test_a_ref_whose_body_was_changed_is_not_trusted(
    tmp_path: Path, change: dict[str, object]
) -> None:
    commit(open_store(tmp_path / "store"), b"own")
    (path,) = (tmp_path / "store").rglob("*.ref")
    forge(path, change)
    (ref,) = open_store(tmp_path / "store").refs()
    assert not ref.trusted


def test_a_signature_does_not_carry_over_to_another_key(tmp_path: Path, foreign: str) -> None:
    (path,) = (tmp_path / "store").rglob("*.ref")
    content = path.read_bytes()
    body, _, signature = msgspec.msgpack.decode(content[12:-32])
    packed = msgspec.msgpack.encode([body, trust.own_key(), signature])
    content = refs.MAGIC + len(packed).to_bytes(4, "little") + packed
    path.write_bytes(content + blake3(content).digest())
    (ref,) = open_store(tmp_path / "store").refs()
    assert not ref.trusted


def test_a_signed_ref_does_not_carry_over_to_another_place(tmp_path: Path) -> None:
    commit(open_store(tmp_path / "store"), b"own")
    (path,) = (tmp_path / "store").rglob("*.ref")
    content = path.read_bytes()
    forge(path, {"seq": 7})
    path.rename(path.with_name(refs.file_name(7)))
    path.write_bytes(content)
    found = open_store(tmp_path / "store").refs()
    assert [ref.body.seq for ref in found if ref.trusted] == [0]


def test_the_signing_key_is_for_its_owner_only(keys: Path) -> None:
    first = trust.own_key()
    path = keys / "signing.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert first == trust.own_key()
    path.chmod(0o644)
    path.touch()
    trust.own_key()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_reading_makes_no_key(tmp_path: Path, foreign: str, keys: Path) -> None:
    store = open_store(tmp_path / "store", read_only=True)
    assert not store.refs()[0].trusted
    assert trust.trusted_keys() == {}
    assert not keys.exists()


def test_a_damaged_key_is_not_replaced_and_trusts_nothing(tmp_path: Path, keys: Path) -> None:
    commit(open_store(tmp_path / "store"), b"own")
    (keys / "signing.key").write_text("damaged")
    assert not open_store(tmp_path / "store").refs()[0].trusted
    with pytest.raises(TrustError, match=r"signing\.key"):
        trust.own_key()


def test_the_trust_list_can_be_kept_by_hand(tmp_path: Path, foreign: str, keys: Path) -> None:
    keys.mkdir()
    text = f"# our cluster\n\n{foreign.upper()}   Alice,  at work\nnonsense\n"
    (keys / "trusted_keys").write_text(text)
    assert trust.trusted_keys() == {foreign: "Alice,  at work"}
    assert open_store(tmp_path / "store").refs()[0].trusted


@pytest.mark.parametrize("key", ["", "xyz", "ab" * 31, "ab" * 33])
def test_what_is_not_a_key_is_not_trusted(key: str) -> None:
    with pytest.raises(TrustError, match="64 hex digits"):
        trust.trust_key(key)


def test_the_own_key_cannot_be_distrusted() -> None:
    with pytest.raises(TrustError, match="your own key"):
        trust.untrust_key(trust.own_key().hex())


def test_keys_follow_the_users_configuration_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NBREWIND_CONFIG_DIR")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert trust.config_directory() == tmp_path / "xdg" / "nbrewind"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert trust.config_directory() == tmp_path / ".config" / "nbrewind"


def test_a_lineage_is_taken_from_the_signed_body(tmp_path: Path) -> None:
    commit(open_store(tmp_path / "store"), b"own")
    (path,) = (tmp_path / "store").rglob("*.ref")
    other = path.parent.with_name("f" * 32)
    path.parent.rename(other)
    assert other.name != LINEAGE
    assert open_store(tmp_path / "store").refs() == []
