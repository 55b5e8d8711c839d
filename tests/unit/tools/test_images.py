"""``make images``: each way in which an image can be wrong is said by name."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from bench.compose.engine import Engine
from tools import images

HEAD = "0a" * 20
ONLY, WHOLE = images.IMAGES


def tar(entries: dict[str, bytes], **changes: int) -> bytes:
    """An exported image with these files; ``changes`` are of each file: mode, uid, mtime."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        for name, content in entries.items():
            one = tarfile.TarInfo(name)
            one.size = len(content)
            for key, value in changes.items():
                setattr(one, key, value)
            archive.addfile(one, io.BytesIO(content))
    return held.getvalue()


def lines(exported: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(exported), mode="r|") as archive:
        return list(images.files(archive))


def test_content_mode_and_owner_count_and_times_do_not() -> None:
    first = lines(tar({"a b/c": b"1", "d": b"2"}))
    assert images.differences(first, lines(tar({"a b/c": b"1", "d": b"2"}, mtime=9))) == []
    assert images.differences(first, lines(tar({"a b/c": b"3", "d": b"2"}))) == ["a b/c"]
    assert images.differences(first, lines(tar({"a b/c": b"1"}))) == ["d"]
    assert images.differences(first, lines(tar({"a b/c": b"1", "d": b"2"}, uid=7))) == [
        "a b/c",
        "d",
    ]
    assert images.differences(first, lines(tar({"a b/c": b"1", "d": b"2"}, mode=0o777))) == [
        "a b/c",
        "d",
    ]


def wheel(folder: Path, commit: str, name: str = "one.whl") -> Path:
    path = folder / name
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("kraft_bridge-0.1.0.dist-info/extra_metadata/commit", f"{commit}\n")
    return path


def test_only_the_one_wheel_of_the_commit_is_taken(tmp_path: Path) -> None:
    assert images.wheel_of(tmp_path, HEAD) is None
    path = wheel(tmp_path, HEAD)
    assert images.wheel_of(tmp_path, HEAD) == path
    assert images.wheel_of(tmp_path, "0b" * 20) is None
    assert images.wheel_of(tmp_path, None) is None
    wheel(tmp_path, f"{HEAD} and changes")
    assert images.wheel_of(tmp_path, HEAD) is None
    wheel(tmp_path, HEAD)
    wheel(tmp_path, HEAD, "two.whl")
    assert images.wheel_of(tmp_path, HEAD) is None


@pytest.mark.parametrize(
    ("more", "user", "said", "why"),
    [
        (130_000_001, "kraft-bridge", HEAD, "130,000,001 B on its base"),
        (130_000_000, "", HEAD, "runs as root"),
        (130_000_000, "0", HEAD, "runs as root"),
        (130_000_000, "kraft-bridge", "commit not known", f"is not of {HEAD}"),
    ],
)
def test_an_image_that_is_big_or_of_root_or_of_another_commit_is_refused(
    more: int, user: str, said: str, why: str
) -> None:
    images.judge(ONLY, 130_000_000, "kraft-bridge", f"commit {HEAD}", HEAD)
    with pytest.raises(images.ImageError, match=why):
        images.judge(ONLY, more, user, said, HEAD)


def test_java_and_pip_are_found_in_the_product() -> None:
    images.lacking(ONLY, ["0 0755 0:0 - opt/javaproperties", "0 0755 0:0 - opt/pygments/java.py"])
    with pytest.raises(images.ImageError, match="usr/bin/java"):
        images.lacking(ONLY, ["0 0755 0:0 - usr/bin/java"])
    images.lacking(WHOLE, ["0 0755 0:0 - usr/bin/java"])


def test_a_build_that_fails_is_told_with_its_output() -> None:
    engine = Engine(("compose",), ("false",), host_network=False)
    with pytest.raises(images.ImageError, match="packaging/Dockerfile cannot be built"):
        images.build(engine, ONLY, "x")


def test_each_dockerfile_is_one_of_the_images() -> None:
    assert {one.dockerfile for one in images.IMAGES} == {
        "packaging/Dockerfile",
        "compose/Dockerfile",
    }
    assert all((images.ROOT / one.dockerfile).is_file() for one in images.IMAGES)
