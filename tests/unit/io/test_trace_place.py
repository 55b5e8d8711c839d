"""Where a trace is written, by path or URI."""

from __future__ import annotations

from pathlib import Path

import pyarrow.fs
import pytest

from emulator.io import trace_recording
from emulator.io.trace_file import TraceFailedError, TraceUnavailableError
from emulator.io.trace_recording import from_anywhere, trace_folder


@pytest.mark.parametrize("form", ["{}", "file://{}", "file://localhost{}"])
def test_a_path_and_a_file_uri_are_the_folder_itself(tmp_path: Path, form: str) -> None:
    wanted = tmp_path / "new" / "trace"
    with trace_folder(form.format(wanted)) as folder:
        assert folder == wanted
        assert wanted.is_dir()


def test_what_is_written_for_another_store_is_copied_there_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "of-others").write_text("stays")
    store = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    monkeypatch.setattr(trace_recording, "_store", lambda _place: (store, "shared"))

    def write() -> None:
        with trace_folder("s3://bucket/shared") as folder:
            (folder / "runs" / "run_id=r").mkdir(parents=True)
            (folder / "runs" / "run_id=r" / "a.parquet").write_bytes(b"rows")
            assert not (shared / "runs").exists()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write()
    assert (shared / "runs" / "run_id=r" / "a.parquet").read_bytes() == b"rows"
    assert (shared / "of-others").read_text() == "stays"


@pytest.mark.parametrize("place", ["nonsense://x/y", "file://elsewhere/x", "s4://"])
def test_a_place_that_there_is_not_is_named(place: str) -> None:
    with pytest.raises(TraceUnavailableError), trace_folder(place):
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(TraceUnavailableError, match="taken"), trace_folder(str(tmp_path / "taken")):
        pass


def test_a_copy_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shared").touch()
    store = pyarrow.fs.LocalFileSystem()
    monkeypatch.setattr(trace_recording, "_store", lambda _place: (store, str(tmp_path / "shared")))

    def write() -> None:
        with trace_folder("s3://b/c") as folder:
            (folder / "runs").mkdir()
            (folder / "runs" / "x").touch()

    with pytest.raises(TraceFailedError, match="cannot be copied"):
        write()


def test_a_relative_path_is_the_same_folder_in_processes_of_other_working_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert from_anywhere("out/x") == str(tmp_path / "out" / "x")
    assert from_anywhere("s3://bucket/x") == "s3://bucket/x"
    assert from_anywhere(None) is None
