"""What errors and reports are put together from."""

from __future__ import annotations

import errno
import os

import pytest

from storage.errors import InputError, StorageError, amount, did_you_mean, stored, unsteered
from storage.files.location import Location


def test_amounts_agree_in_number() -> None:
    assert [amount(n, "row") for n in (0, 1, 2, 1000)] == [
        "0 rows",
        "1 row",
        "2 rows",
        "1,000 rows",
    ]
    assert [amount(n, "row is", "rows are") for n in (1, 2)] == ["1 row is", "2 rows are"]


def test_nothing_steers_a_terminal() -> None:
    assert unsteered("a\x1b[2J\r\x9b\tü\u200f\n") == "a\\x1b[2J\\x0d\\x9b\tü\u200f\n"
    assert str(InputError("t\x1b]0;\x07.csv:\nno rows")) == "t\\x1b]0;\\x07.csv: no rows"


@pytest.mark.parametrize("error", [FileNotFoundError("no such bucket"), PermissionError("denied")])
def test_what_a_store_refuses_for_good_is_not_to_be_run_again(error: OSError) -> None:
    """fsspec raises such errors without the system's number."""
    message = rf"\({error}\); mend that, or name another$"
    with pytest.raises(StorageError, match=message), stored("s3://nowhere/run"):
        raise error


def test_what_is_no_name_means_none() -> None:
    assert did_you_mean(None, ["cosine"]) == ""
    assert did_you_mean("cosin", ["cosine"]) == ", did you mean cosine?"


def test_a_file_that_may_not_grow_wants_another_limit() -> None:
    with pytest.raises(StorageError, match=r"allow larger files \(ulimit -f\)"), stored("run"):
        raise OSError(errno.EFBIG, "File too large")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_wants_room() -> None:
    message = r"No space left on device\); what a run has done is kept: make room and run again$"
    with (
        pytest.raises(StorageError, match=message),
        stored("run"),
        open("/dev/full", "w") as full,
    ):
        full.write("row")


@pytest.mark.parametrize(
    ("url", "setting", "reason"),
    [
        ("s3://a bucket/run", "", r'Invalid bucket name "a bucket"'),
        ("s3://bucket/run", "AWS_PROFILE", r"The config profile \(nothing\) could not be found"),
        ("s3://bucket/run", "AWS_ENDPOINT_URL", r"Invalid endpoint: nothing"),
    ],
)
def test_what_a_stores_library_refuses_is_the_users(
    url: str, setting: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("s3fs").S3FileSystem.clear_instance_cache()
    if setting:
        monkeypatch.setenv(setting, "nothing")
    message = (
        rf"^{url}/run.json: its store's library refuses it \([^()]*{reason}\); mend the address"
    )
    with pytest.raises(InputError, match=message):
        Location.of(url).exists("run.json")
