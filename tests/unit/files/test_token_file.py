"""Tests the file with the token of an endpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from stalltop.files.token_file import LEAST_CHARACTERS, token_in
from stalltop.model.errors import UsageError


def test_a_missing_file_is_made_once_with_a_token_that_only_its_owner_reads(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "token"
    token, made = token_in(path)
    assert made
    assert len(token) >= 43  # 32 random bytes
    assert path.stat().st_mode & 0o777 == 0o600
    assert token_in(path) == (token, False)
    assert token_in(tmp_path / "other")[0] != token


def test_a_group_may_read_it_and_others_may_not(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("a" * LEAST_CHARACTERS + "\n")
    path.chmod(0o640)
    assert token_in(path) == ("a" * LEAST_CHARACTERS, False)
    path.chmod(0o644)
    with pytest.raises(UsageError, match="everyone may read") as raised:
        token_in(path)
    assert raised.value.remedy == f"chmod o= {path}"


@pytest.mark.parametrize(
    "content", [b"", b"short\n", b"a" * 40 + b"\n" + b"b" * 40, b"a b" * 20, b"\xff" * 40]
)
def test_what_is_no_token_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(UsageError, match="holds no token"):
        token_in(path)


def test_a_folder_or_a_huge_file_is_refused(tmp_path: Path) -> None:
    huge = tmp_path / "huge"
    huge.write_bytes(b"a" * 10_000)
    huge.chmod(0o600)
    for path in (tmp_path, huge):
        with pytest.raises(UsageError, match="cannot use --token-file"):
            token_in(path)
