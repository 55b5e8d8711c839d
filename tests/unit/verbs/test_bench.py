"""``kraft-bridge bench``: what needs no server."""

import pytest
from typer.testing import CliRunner

from bench.runs.run import alone
from bench.runs.store import Store
from emulator.cli import app
from tests.unit.runs.kit import row


def bench(*arguments):
    return CliRunner().invoke(app, ["bench", *map(str, arguments)])


def test_a_dry_run_says_every_row_and_how_long_it_takes(tmp_path):
    said = bench("run", "tiny", "--dry-run", "--repeat", 2, "--out", tmp_path)
    assert said.exit_code == 0
    assert "tiny.tiny.kafka.r2" in said.output
    assert "6 of 6 rows to take" in said.output
    assert not (tmp_path / "tiny").exists()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["nothing"], "there is no such file; the scenarios of this package"),
        (["tiny", "tiny"], "a scenario is named twice"),
        (["tiny", "--targets", "kafka,zookeeper"], "'zookeeper' is none of kraft-bridge"),
        (["tiny", "--targets", "kafka,kafka"], "a name stands there twice"),
        (["tiny", "--targets", ""], "'' is none of"),
        (["tiny", "--repeat", "0"], "--repeat"),
        (["freeze", "--zookeeper", "h:1"], "freeze_s needs a ZooKeeper of the bench"),
        (["latency", "--zookeeper", "h:1"], "latency_ms needs a ZooKeeper of the bench"),
        (["raw-limit", "--zookeeper", "h:1"], "kind raw fills a ZooKeeper"),
        (["restart", "--targets", "no-zookeeper"], "no-zookeeper and kind restart do not go"),
    ],
)
def test_a_wrong_command_line_ends_with_2(arguments, why):
    said = bench("run", *arguments, "--dry-run")
    assert said.exit_code == 2
    assert why in said.output


@pytest.mark.parametrize("hosts", ["127.0.0.1:1/x", "nonsense", "127.0.0.1:x"])
def test_a_zookeeper_that_cannot_be_is_one_sentence(tmp_path, hosts):
    said = bench("run", "restart", "--zookeeper", hosts, "--out", tmp_path)
    assert said.exit_code == (3 if hosts == "nonsense" else 2), said.output
    assert "--zookeeper" in said.output


def test_two_benches_do_not_share_a_folder(tmp_path):
    with alone(tmp_path):
        said = bench("run", "tiny", "--out", tmp_path)
    assert said.exit_code == 1
    assert "another bench is running there" in said.output


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    said = bench("run", "tiny", "--out", tmp_path / "file" / "x")
    assert said.exit_code == 1
    assert "Not a directory" in said.output
    assert said.exception is None or isinstance(said.exception, SystemExit)


def test_compare_ends_with_1_on_a_regression_and_2_without_rows(tmp_path):
    for name, p50 in (("old", 10.0), ("same", 11.0), ("slow", 30.0)):
        for repeat in range(1, 5):
            Store(tmp_path / name).keep(row(repeat=repeat, commit_p50_ms=p50 + repeat / 100))
    assert bench("compare", tmp_path / "old", tmp_path / "same").exit_code == 0
    slow = bench("compare", tmp_path / "old", tmp_path / "slow")
    assert slow.exit_code == 1
    assert "WORSE storm.small kraft-bridge: commit p50, ms 10.02 -> 30.02" in slow.output
    nothing = bench("compare", tmp_path / "old", tmp_path / "none")
    assert nothing.exit_code == 2
    assert "no rows are there" in nothing.output


def test_compare_writes_a_report_whatever_it_finds(tmp_path):
    for name, p50 in (("old", 10.0), ("slow", 30.0)):
        for repeat in range(1, 5):
            Store(tmp_path / name).keep(row(repeat=repeat, commit_p50_ms=p50 + repeat / 100))
    html = tmp_path / "two.html"
    said = bench("compare", tmp_path / "old", tmp_path / "slow", "--html", html)
    assert said.exit_code == 1
    assert f"report {html}" in said.output
    assert "<h1>1 of 1 figure became worse beyond noise.</h1>" in html.read_text()
    said = bench("compare", tmp_path / "old", tmp_path / "slow", "--html", tmp_path / "no" / "x")
    assert said.exit_code == 1
    assert "No such file or directory" in said.output


def test_without_a_scenario_it_says_which_there_are(tmp_path):
    for more in ((), ("--dry-run",)):
        said = bench("run", *more, "--out", tmp_path / "x")
        assert (said.exit_code, (tmp_path / "x").exists()) == (2, False)
        assert "or names of this package's: broker-restart, busy-disk, " in said.output


def test_two_files_of_one_name_are_refused(tmp_path):
    twin = tmp_path / "tiny.toml"
    twin.write_text('kind = "create"\nrate = 1\ncount = 1\n')
    said = bench("run", "tiny", twin, "--dry-run")
    assert said.exit_code == 2
    assert "two scenarios have the same name" in said.output


def test_rows_of_older_code_in_the_same_folder_are_compared_only_if_wanted(tmp_path):
    for name, p50 in (("old", 10.0), ("new", 11.0)):
        for repeat in range(1, 5):
            made = row(repeat=repeat, commit_p50_ms=p50, started_wall_ns=90 + repeat)
            Store(tmp_path / name).keep(made)
    for repeat in range(5, 30):
        left = row(repeat=repeat, commit_p50_ms=99.0, started_wall_ns=repeat)
        left.code = "older"
        Store(tmp_path / "new").keep(left)
    said = bench("compare", tmp_path / "old", tmp_path / "new")
    assert said.exit_code == 0
    assert "25 rows of other source code or another Python are left out" in said.output
    assert bench("compare", tmp_path / "old", tmp_path / "new", "--any-code").exit_code == 1


def test_rows_of_a_busy_machine_are_said(tmp_path):
    for repeat, cores in ((1, 0.1), (2, 1.7), (3, None)):
        Store(tmp_path / "run").keep(row(repeat=repeat, commit_p50_ms=1.0, others_cores=cores))
    said = bench("compare", tmp_path / "run", tmp_path / "run")
    assert said.exit_code == 2
    assert said.output.count("1 of 3 rows were taken while other processes were busy") == 2


def test_what_is_not_compared_is_said(tmp_path):
    Store(tmp_path / "old").keep(row(commit_p50_ms=10.0))
    Store(tmp_path / "old").keep(row("kafka", commit_p50_ms=10.0))
    Store(tmp_path / "new").keep(row(commit_p50_ms=10.0))
    said = bench("compare", tmp_path / "old", tmp_path / "new")
    assert said.exit_code == 2
    assert "of 1 it cannot be said: a run has fewer than 4 rows of them" in said.output
    assert "not compared: storm.small kafka: not in the newer run" in said.output
