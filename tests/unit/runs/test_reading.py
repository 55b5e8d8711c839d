"""Scenarios are read, and what is wrong with one is said in sentences."""

import pytest

from bench.runs.reading import HOME, ScenarioError, find, read

GOOD = 'kind = "create"\nrate = 10\ncount = 20\n[[case]]\nname = "one"\n'


ISR = 'kind = "isr"\nrate = 1000000\ncount = 20\ntopics_present = 5\n[[case]]\nname = "one"\n'


RECORDED = 'kind = "create"\narrivals = "few"\n[[case]]\nname = "one"\n'


def lists(folder):
    """Files of numbers."""
    (folder / "few").write_text("0.5\n1\n4\n")
    (folder / "falling").write_text("2\n1\n")
    (folder / "negative").write_text("-2\n1\n")
    (folder / "empty").write_text("\n")


def test_arrivals_and_syncs_are_read_from_files(tmp_path):
    lists(tmp_path)
    [case] = read(written(tmp_path, RECORDED + 'fsync = "few"\n')).cases
    assert (case.arrivals_s, case.fsync_ms) == ((0.5, 1.0, 4.0), (0.5, 1.0, 4.0))
    assert (case.count, case.rate, case.seconds) == (3, 0.75, 4.0)


def written(folder, text, name="mine.toml"):
    path = folder / name
    path.write_text(text)
    return path


def problems(folder, text, name="mine.toml"):
    with pytest.raises(ScenarioError) as error:
        read(written(folder, text, name))
    return error.value.problems


def test_what_stands_in_a_case_wins_over_the_file(tmp_path):
    text = (
        'about = "a"\nkind = "create"\nrate = 10\ncount = 20\n[[case]]\nname = "slow"\nrate = 2\n'
    )
    scenario = read(written(tmp_path, text))
    [case] = scenario.cases
    assert (scenario.name, scenario.about, case.name) == ("mine", "a", "slow")
    assert (case.rate, case.count, case.seconds) == (2, 20, 10)
    assert scenario.targets == ("kraft-bridge", "kafka")
    assert scenario.quick == ("slow",)


def test_a_sweep_is_every_combination(tmp_path):
    text = 'kind = "create"\nseconds = 2\n[sweep]\nrate = [10, 20.5]\nlatency_ms = [0, 5]\n'
    cases = read(written(tmp_path, text)).cases
    assert [case.name for case in cases] == [
        "rate10-latency0",
        "rate10-latency5",
        "rate20p5-latency0",
        "rate20p5-latency5",
    ]
    assert [(case.rate, case.count, case.latency_ms) for case in cases] == [
        (10, 20, 0),
        (10, 20, 5),
        (20.5, 41, 0),
        (20.5, 41, 5),
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("kind = ", "cannot be read"),
        (GOOD.replace("create", "storm"), "kind must be one of create, isr"),
        (GOOD.replace('kind = "create"', ""), "kind must be one of create"),
        (GOOD.replace('kind = "create"', "kind = [1]"), "kind must be one of create"),
        (
            "speed = 3\n" + GOOD,
            "'speed' is no key; keys of a scenario: about, arrivals, bound",
        ),
        (
            GOOD + "speed = 3\n",
            "case 1, 'speed' is no key; keys of a case: arrivals, bound",
        ),
        (GOOD + "[warm_up]\nchanges = 3\n", "warm_up.changes: kind create has none of its own"),
        (GOOD + "[warm_up]\nspeed = 3\n", "warm_up.'speed' is no key; keys of warm_up: "),
        (GOOD + "[sweep]\nspeed = [3]\n", "sweep.'speed' is no key; keys of sweep: "),
        (GOOD + "[sweep]\nrate = 3\n", "sweep.rate must be a list"),
        (GOOD + "[sweep]\nlatency_ms = [0, -1]\n", "latency_ms must be at least 0"),
        (GOOD.replace("10", "0"), "rate must be above 0"),
        (GOOD.replace("10", "-5"), "rate must be above 0"),
        (GOOD.replace("10", "nan"), "rate must be above 0"),
        (GOOD.replace("10", "inf"), "at most 1e+06"),
        (GOOD.replace("10", '"fast"'), "rate must be a number, not 'fast'"),
        (GOOD.replace("10", "true"), "rate must be a number, not True"),
        (GOOD.replace("20", "2.5"), "count must be a whole number, not 2.5"),
        (GOOD.replace("20", "1" + "0" * 400), "count must be at least 1 and at most 1e+06"),
        (GOOD.replace("count = 20", ""), "endless: give count or seconds"),
        (GOOD.replace("count = 20", "count = 20\nseconds = 2"), "count or seconds, not both"),
        (GOOD.replace("rate = 10", ""), "rate is missing"),
        (GOOD.replace("rate = 10", "rate = 0.001"), "take longer than 3600 s"),
        (
            GOOD.replace("rate = 10", "rate = 10\npartitions = 10000\ncount = 21").replace(
                "count = 20\n", "", 1
            ),
            "210000 partitions in one row",
        ),
        (GOOD.replace("create", "isr"), "topics_present is missing"),
        (GOOD.replace("create", "copy"), "rate: there is no schedule in kind copy"),
        (GOOD + "freeze_s = 5\n", "fault_at_s is missing"),
        (GOOD + "fault_at_s = 5\n", "fault_at_s without freeze_s or kill_leader"),
        (GOOD + "fault_at_s = 2\nfreeze_s = 1\n", "fault_at_s is not before the end"),
        (GOOD + "fault_at_s = 1\nkill_leader = true\n", "kill_leader needs servers = 3"),
        (GOOD + "fault_at_s = 1\nkill_leader = 1\n", "kill_leader must be true or false"),
        (GOOD + '[[case]]\nname = "one"\n', "two cases have the name 'one'"),
        (GOOD + "[[case]]\nrate = 3\n", "its name must be small letters"),
        (GOOD.replace('"one"', '"../one"'), "its name must be small letters"),
        ("targets = []\n" + GOOD, "targets must be a list of names"),
        ('targets = ["zookeeper"]\n' + GOOD, "'zookeeper' is none of kraft-bridge"),
        ('targets = ["kafka", "kafka"]\n' + GOOD, "a name stands there twice"),
        ('quick = ["two"]\n' + GOOD, "'two' is none of one"),
        ("case = 3\n" + GOOD.partition("[[")[0], "case must be an array of tables"),
        (GOOD.replace('"one"', "1"), "name must be a text, not 1"),
        ("about = 7\n" + GOOD, "about must be a text"),
        ('targets = ["raw-multi"]\n' + GOOD, "raw-multi and kind create do not go together"),
        (GOOD + "window = 3\n", "window is for kind raw alone"),
        ('kind = "raw"\ncount = 5\n[[case]]\nname = "a"\nwindow = 1\n', "multi_ops is missing"),
        ('kind = "raw"\nrate = 5\n[[case]]\nname = "a"\n', "kind raw has count (of znodes)"),
        (
            'kind = "restart"\ntargets = ["no-zookeeper"]\n[[case]]\nname = "a"\n',
            "no-zookeeper and kind restart do not go together",
        ),
        ("warm_up = 3\n" + GOOD, "warm_up must be a table"),
        (GOOD.replace("20", "1" * 5_000), "cannot be read: Exceeds the limit"),
        (GOOD.replace("20", "0x" + "f" * 5_000), "at most 1e+06, not so long a number"),
        ("about = " + "[" * 50_000, "cannot be read"),
        (ISR.replace("count = 20", "seconds = 3600"), "rate x seconds must be at least 1 and"),
        (ISR + "fault_at_s = 2\nfreeze_s = 1\n", "fault_at_s is not before the end"),
        (GOOD + "poisson = 1\n", "poisson must be true or false"),
        (GOOD + "burst = 0\n", "burst must be at least 1"),
        (GOOD + 'fsync = "none"\n', "fsync must name a file of numbers: [Errno 2]"),
        (GOOD + "fsync = 7\n", "fsync must name a file of numbers: unsupported"),
        (GOOD + 'fsync = "mine.toml"\n', "fsync must name a file of numbers: could not"),
        (GOOD + 'fsync = "few"\nservers = 3\n', "fsync is for one server"),
        (GOOD + 'fsync = "negative"\n', "fsync: each line must be at least 0"),
        (GOOD + 'fsync = "empty"\n', "fsync: empty must have 1 to 1000000 numbers"),
        (GOOD + 'arrivals = "few"\n', "arrivals takes the place of rate, count, seconds"),
        (RECORDED.replace("few", "falling"), "arrivals must be seconds that grow"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, text, sentence):
    lists(tmp_path)
    assert any(sentence in problem for problem in problems(tmp_path, text)), problems(
        tmp_path, text
    )


def test_all_problems_are_said_at_once(tmp_path):
    found = problems(tmp_path, "speed = 1\n" + GOOD.replace("10", "0").replace("20", "0"))
    assert len(found) == 3


def test_too_many_cases_end_at_once(tmp_path):
    many = list(range(1, 200))
    text = f'kind = "create"\ncount = 1\n[sweep]\nrate = {many}\nconnections = {many}\n'
    assert "these are more than 1000 cases" in problems(tmp_path, text)


def test_too_many_cases_that_are_all_wrong_end_at_once(tmp_path):
    many = [-1] * 2_000
    text = f'kind = "create"\n[sweep]\nrate = {many}\ncount = {many}\nconnections = {many}\n'
    found = problems(tmp_path, text)
    assert "these are more than 1000 cases" in found
    assert len(found) < 5_000


def test_a_file_of_a_strange_name_is_refused(tmp_path):
    assert "its name must be" in problems(tmp_path, GOOD, "Ünfug 1.toml")[0]


def test_a_name_without_a_file_lists_those_there_are():
    with pytest.raises(ScenarioError, match=r"no such file; .* tiny"):
        find("no-such-scenario")


@pytest.mark.parametrize("path", sorted(HOME.glob("*.toml")), ids=lambda path: path.stem)
def test_the_scenarios_of_this_package_can_be_run(path):
    scenario = read(find(path.stem))
    assert scenario.about.endswith((".", "?"))
    assert scenario.shortened().cases


def test_a_storm_is_measured_on_a_warm_controller():
    """After 1,200 partitions Kafka's controller still used twice the CPU for each change."""
    warm_up = read(find("create-storm")).warm_up
    assert warm_up.topics * warm_up.partitions >= 10_000
