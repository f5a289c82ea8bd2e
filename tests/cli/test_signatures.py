from __future__ import annotations

from pathlib import Path

import pytest

from mrs.model_repo.repository import ModelRepository
from tests.cli.conftest import Mrs
from tests.model_repo.samples import publish
from tests.model_repo.test_signature import Keys


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path / "keys")


def test_a_version_is_signed_and_verified(
    mrs: Mrs, repository: ModelRepository, keys: Keys
) -> None:
    publish(repository)
    signed = mrs("models", "sign", "tiny", "--key", str(keys.private))
    assert (signed.code, signed.out) == (0, "")
    assert signed.err.startswith("Signed tiny:1: ")
    verified = mrs("models", "verify", "tiny", "--signature", "--key", str(keys.public))
    assert (verified.code, verified.out) == (0, "ok  tiny:1  4 files, 934 bytes\n")


def test_json_names_the_signature(mrs: Mrs, repository: ModelRepository, keys: Keys) -> None:
    version = publish(repository)
    assert mrs("models", "sign", "tiny", "--key", str(keys.private), "--json").json == {
        "reference": "tiny:1",
        "signature": str(version.path / "model.sig"),
    }


def test_what_is_not_signed_is_damaged_where_a_signature_is_demanded(
    mrs: Mrs, repository: ModelRepository, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(repository)
    monkeypatch.setenv("MRS_PUBLIC_KEY", str(keys.public))
    assert mrs("models", "verify", "tiny").code == 0
    result = mrs("models", "verify", "tiny", "--signature", "--json")
    assert (result.code, result.json["ok"]) == (5, False)
    (problem,) = result.json["versions"][0]["problems"]
    assert (problem["path"], problem["kind"]) == ("model.sig", "signature")
    assert "is not signed" in problem["detail"]


def test_a_signature_needs_a_key_to_be_checked(mrs: Mrs, repository: ModelRepository) -> None:
    publish(repository)
    result = mrs("models", "verify", "tiny", "--signature")
    assert result.code == 2
    assert "$MRS_PUBLIC_KEY" in result.err


def test_the_password_of_a_key_comes_from_the_environment(
    mrs: Mrs, repository: ModelRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(repository)
    keys = Keys(tmp_path / "encrypted", password=b"secret")
    assert mrs("models", "sign", "tiny", "--key", str(keys.private)).code == 2
    monkeypatch.setenv("MRS_SIGNING_KEY_PASSWORD", "secret")
    assert mrs("models", "sign", "tiny", "--key", str(keys.private)).code == 0
