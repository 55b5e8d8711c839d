"""The JSON that verbs print: one form for all, and the members of each.

``schema`` comes first in every object: a name and a version, which grows when a member goes or
changes its type or meaning. Members may be added under the same version. ``docs/json.md`` is made
of this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class JsonMember:
    """One member of a document.

    ``path``: names joined by dots; ``[]`` stands for each element of an array, ``{}`` for each
    value of an object whose keys are data. ``kind``: ``str``, ``int``, ``float`` (integers too),
    ``bool``, ``any``; with ``?`` it may be null, with ``-`` it may be absent.
    """

    path: str
    kind: str
    meaning: str


@dataclass(frozen=True, slots=True)
class JsonForm:
    """What a verb prints."""

    name: str
    version: int
    printed_by: str
    members: tuple[JsonMember, ...]
    lines: bool = False
    """One object on each line; else one object in all."""

    @property
    def schema(self) -> str:
        """The value of ``schema``."""
        return f"{self.name}/{self.version}"


def _members(text: str) -> tuple[JsonMember, ...]:
    rows = (line.split(None, 2) for line in text.strip().splitlines())
    return tuple(JsonMember(path, kind, meaning) for path, kind, meaning in rows)


_WAITS: Final = """
    count   int    how many
    p50_ms  float- median
    p99_ms  float- 99th percentile
    max_ms  float- longest
"""


def _waits(path: str) -> str:
    lines = (line.split(None, 1) for line in _WAITS.strip().splitlines())
    return "\n".join(f"{path}.{name} {rest}" for name, rest in lines)


_NEXT: Final = _members("""
    next[].action   str   kind of step, as in status.md; the first step may be taken now
    next[].node     int?  controller or broker
    next[].mode     str?  of a broker: `zookeeper`, `migration` or `kraft`
    next[].flag     bool? of a controller: with zookeeper.metadata.migration.enable or without
    next[].wait_for str   a value of `status --wait`; may be empty
    next[].what     str   the step in words
    next[].command  str   what to type; may be empty
    next[].why      str   the reason; may be empty
    next[].now      bool  it may be taken now: true of the first alone
    next[].no_way_back bool it makes the migration final, unless there is a hold
""")

_FORMS: Final = (
    JsonForm(
        "preflight",
        2,
        "preflight --json",
        _members("""
            stage.name              str   the phase of the migration, as in status.md
            stage.text              str   the same with what shows it
            stage.shown_by_a_log    bool  a `--controller-dir` shows it, not ZooKeeper alone
            roll.done[]             int   id of a broker in KRaft mode
            roll.of                 int   brokers in all; 0 outside the roll to KRaft mode
            roll.not_restarted[]    int   id of a broker with such a file, still in ZooKeeper mode
            counts.blocker          int   findings that stop the migration or lose data
            counts.warning          int   findings that need a decision
            counts.info             int   findings that are good to know
            findings[].code         str   rule, such as PF-B04
            findings[].was          str   the code of earlier releases, such as B04
            findings[].severity     str   `blocker`, `warning` or `info`
            findings[].znode        str   path of a znode, or a file with its key
            findings[].fact         str   what was found
            findings[].consequence  str   what it means; may be empty
            findings[].remedy       str   what to do; may be empty
            findings[].reference    str   a KIP, an issue, or Kafka's own check; may be empty
            not_run[].code          str   rule that did not look, or not at all
            not_run[].was           str   the code of earlier releases
            not_run[].why           str   why not
        """)
        + _NEXT,
    ),
    JsonForm(
        "plan",
        1,
        "plan --json",
        _members("""
            metadata_version.level  int   feature level
            metadata_version.name   str   such as 3.9-IV0
            records{}               int   by record type: how many would be written
            refusals[].znode        str   path that the copy refuses
            refusals[].code         str   kind of refusal
            refusals[].reason       str   why
            left[].znode            str   path that is left as it is
            left[].reason           str   why
            unchecked[].znode       str   path that could not be judged
            unchecked[].reason      str   why
        """),
    ),
    JsonForm(
        "rollback",
        2,
        "rollback --json",
        _members("""
            phase.name             str    what going back begins from, as in status.md
            phase.text             str    one sentence about it
            counts.blocker         int    findings that keep the cluster from going back
            counts.warning         int    findings that need a decision
            counts.info            int    findings that are good to know
            findings[].code        str    RB-R01 to RB-R10, as in rollback.md
            findings[].was         str    the code of earlier releases, R01 to R10
            findings[].severity    str    `blocker`, `warning` or `info`
            findings[].znode       str    path of a znode, or a file or folder
            findings[].fact        str    what was found
            findings[].consequence str    what it means; may be empty
            findings[].remedy      str    what to do; may be empty
            findings[].reference   str    a KIP, or an issue; may be empty
            steps[].actor          str    `operator`, `kraft-bridge` or `brokers`
            steps[].what           str    what is done
            steps[].cost           str    what it costs
            steps[].command        str    what to type; may be empty
            steps[].done           bool   found done
            acted                  bool   with `--yes`
            refused                bool   because of a blocker: nothing was changed
            did[]                  str    what this run did, in order
            failed                 str    why it could not go on; empty: it could
            controller             int?   broker that is the controller in ZooKeeper mode
            without_controller_ms  float? from the end of the last controller to the election
            ours_ms                float? of it, until `/controller` was free
            brokers_ms             float? of it, until the brokers had elected one
        """)
        + _NEXT,
    ),
    JsonForm(
        "zk-dump",
        1,
        "zk dump",
        _members("""
            note                    str?  of who made the dump
            time                    float when, in seconds since 1970
            count                   int   znodes
            nodes{}.version         int   of the data
            nodes{}.cversion        int   of the children
            nodes{}.czxid           int   transaction that created it
            nodes{}.mzxid           int   transaction that wrote the data last
            nodes{}.pzxid           int   transaction that changed the children last
            nodes{}.ctime           int   created, in ms since 1970
            nodes{}.mtime           int   written, in ms since 1970
            nodes{}.ephemeral       bool  ends with its session
            nodes{}.ephemeralOwner  int   session, 0 if none
            nodes{}.acl[][]         any   permissions (bits), scheme, id
            nodes{}.text            str-  data, if it is UTF-8; secrets are left out
            nodes{}.b64             str-  data in base64, if it is not
            nodes{}.null            bool- true: created without data
        """),
    ),
    JsonForm(
        "zk-diff",
        1,
        "zk diff --json",
        _members("""
            verdict                   str   `EQUAL` or `DIFFERENT`
            compared                  str   up to which offset of each store
            differences[].path        str   of the znode
            differences[].kind        str   missing, extra, differs, malformed, recreated, \
version, unjudged
            differences[].zookeeper   str?  data in ZooKeeper; null: no znode, or no data
            differences[].controller  str?  data that the metadata asks for; null: none
            differences[].version     int?  of a state's znode, of kind version; else null
            differences[].partition_epoch  int?  that the log has for it; else null
        """),
    ),
    JsonForm(
        "zk-reconcile",
        1,
        "zk reconcile --json",
        _members("""
            dry_run             bool  nothing was written
            offset              int   last record of the metadata that was compared; -1: none was
            counts{}            int   by kind, as in `zk-diff`: how many znodes differ
            differences[].path  str   of a znode; the first 10,000 are listed
            differences[].kind  str   as in `zk-diff`
            refused[].path      str   of a znode that ZooKeeper does not take
            refused[].cause     str   why
            failed              str   why it has not come to its end; empty if it has
        """),
    ),
    JsonForm(
        "finalise",
        1,
        "finalise --json",
        _members("""
            said[]     str   what is missing or done, a sentence each
            only_held  bool  nothing but a hold is missing
        """)
        + _NEXT,
    ),
    JsonForm(
        "log-record",
        1,
        "log dump",
        _members("""
            offset   int  of the record
            epoch    int  of the leader that appended it
            type     str  such as TopicRecord
            version  int  of the record's schema
            data{}   any  fields by name; bytes as base64, ids as 22 characters
        """),
        lines=True,
    ),
    JsonForm(
        "load",
        1,
        "load --json",
        _members(f"""
            intended        int    changes that were due
            done            int    carried out
            failed          int    answered with an error
            given_up        int    without an answer at the end, or never sent
            rate_per_s      float  asked for
            achieved_per_s  float  answered without error
            seconds         float  from the first to the last answer
            give_up_s       float  after it was due, a change is given up
            {_waits("waits{}")}
            waits{{}}.not_done int    of these were not carried out, and count as slowest
            errors{{}}      int    by API and error
            retries{{}}     int    by API and error
            topics_left     int    topics that exist at the end
            topics_doubtful int    topics of which a change failed, that may exist
        """),
    ),
    JsonForm(
        "predict",
        1,
        "predict --json",
        _members("""
            source                str     `trace` or `probe`
            rate_per_s            float   changes each second
            bound_records         int     0: none
            records_per_change    int     of the log
            operations_per_change int     on znodes
            request_ms            float   a request to ZooKeeper
            operation_us          float   more for each operation in it
            commit_ms             float   appended until committed
            append_ms             float   of the controller, for a change
            border_per_s          float?  rate at which waiting begins without a stall; null: none
            channel_per_s         float-  changes that one broker forwards, at most
            shortest_stall_ms     float?  from which on changes wait, about; null: none
            enough_records        int?    bound at which none waits in the longest stall
            next                  str     what to do
            assumed[].member      str     of this object or of `copy`: not measured
            assumed[].value       float   a figure of docs/benchmarks.md
            assumed[].instead     str     how to have another
            stalls[].seconds      float   ZooKeeper does nothing so long
            stalls[].begins_after_ms float? of the stall, to the first wait; null: nothing waits
            stalls[].blocked_ms   float   time in which at least one operation waits
            stalls[].operations   int     operations that wait
            stalls[].longest_ms   float   the longest wait
            stalls[].ends         bool    false: the waiting does not end
            replay.blocked_ms     float-  the trace's arrivals at this bound
            replay.operations     int-    of these wait
            replay.longest_ms     float-  the longest wait
            trace.run_id          str-    of the trace
            trace.process         str-    the controller
            trace.changes         int-    changes in it
            trace.bound_records   int-    of its controller
            trace.blocked_ms      float-  time in which at least one operation waited
            trace.operations      int-    operations that waited
            trace.missing_records int-    in gaps of the trace
            trace.left_out        str-    controllers that wrote less to ZooKeeper; may be empty
            probe.requests        int-    requests that were timed
            probe.znodes_written  int-    created or written over
            probe.znodes_removed  int-    all that it made
            probe.left_by_another int-    removed of an earlier probe, which was killed
            probe.slowest_ms      float-  of a request of one operation
            probe.share_percent   float-  of the time in which a request was under way
            probe.stopped         str-    why it ended early; may be empty
            copy.records          int-    of the tree
            copy.znodes           int-    of the tree
            copy.refused          str-    a znode that prevents it; empty: none
            copy.copy_ms          float-  the first copy
            copy.copy_record_us   float-  of it, for each record
            copy.election_ms      float-  part of the next
            copy.no_controller_ms float-  after the leader of three is killed
        """),
    ),
    JsonForm(
        "conformance",
        1,
        "conformance --json FILE",
        _members("""
            verdict          str   one line
            server           str   addresses that were asked
            release          str?  of Kafka; null: unknown
            seed             int   of what was drawn
            prefix           str   of all that was made
            seconds          float the run took
            cases[].id       str   as `--list` prints it, with the listener
            cases[].title    str   what is demanded
            cases[].level    str   must, should, habit
            cases[].outcome  str   passed, failed, not offered, not judged
            cases[].why      str   what failed, or why it was not judged
            cases[].expected str   of a failure
            cases[].got      str   of a failure
            cases[].sources  str   KIPs, classes of Kafka
            cases[].rows[]   str   of requirements.md
            left[]           str   what could not be removed
        """),
    ),
    JsonForm(
        "rehearsal",
        1,
        "rehearse --json",
        _members("""
            verdict               str    `go` or `no-go`
            reasons[].kind        str    preflight, copy, node, broker, change, stores, phase
            reasons[].text        str    why it is no-go
            dump                  str    file, or ZooKeeper
            topics                int    copied
            partitions            int    of them
            load_per_s            float  changes asked for
            brokers[]{}           any    `id`, `release`, its `source`, `rack`, `listeners`
            assumed[]             str    what no file said
            warnings[]            str    of preflight
            predicted[]           str    of the real round trip to ZooKeeper; it does not decide
            repaired[]            str    by ours, where Kafka's own controller does otherwise
            phases[]{}            any    `phase`, `state`, `why`, figures with their units
            not_shown[]           str    what emulated brokers do not show
            folder                str    of the run
            hash                  str    last of its evidence
        """),
    ),
    JsonForm(
        "cluster",
        1,
        "cluster",
        _members("""
            control            str   URL of the [control](testing.md#other-languages)
            token              str-  what each request to it carries
            token_file         str-  the file that has it, with `--token-file`
            cluster_id         str   22 characters
            bootstrap          str   addresses of the brokers; empty: there are none
            controllers        str   addresses of the controllers
            active_controller  int?  id
            nodes[].id         int   of a node
            nodes[].role       str   `controller` or `broker`
            nodes[].address    str   host and port
            nodes[].state      str   `running`, `stopped` or `failed`
            nodes[].why        str   why it does not run; empty if it does
            nodes[].active     bool- of a controller: whether it leads
            nodes[].fenced     bool?- of a broker; null: not registered, or not known
            faults[]{}         any   the faults of its script, with their counts
        """),
        lines=True,
    ),
    JsonForm(
        "fleet",
        1,
        "fleet --json",
        _members(f"""
            processes                int    that ran brokers
            brokers                  int    of all processes
            storm_s                  float  until all ran; 0: not all did
            topics_s                 float  until the topics were created
            {_waits("waits{}")}
            {_waits("heartbeats_under_load")}
            isr.asked                int    changes of ISRs that were due
            isr.skipped              int    of these could not begin
            isr.done                 int    of these were answered
            isr.lost                 int    of these were refused
            isr.unfinished           int    of these had no answer at the end
            isr.per_s                float  done
            isr.requests             int    AlterPartition requests
            isr.changes_per_request  float  on average
            requests{{}}             int    by API
            errors{{}}               int    by error
            warnings{{}}             int    lines of warning, by text
            ended_badly{{}}          int    brokers, by reason
            absent{{}}               int    brokers that should run at the end, by reason
            loop_longest_stall_ms    float  of the slowest process
            cpu_cores                float  of all processes
            memory_kib_per_broker    int    resident
        """),
    ),
    JsonForm(
        "analyze",
        1,
        "analyze --json",
        _members("""
            html                str   path of the report
            parquet             str   path or URI of the tables
            verdict[].run_id    str   a run of the trace; empty: bench runs together
            verdict[].text      str   it in sentences
            verdict[].answers[].question str what is asked
            verdict[].answers[].word     str the answer
            verdict[].answers[].state    str `good`, `bad`, `full` (it limits), `open` (not known)
            verdict[].answers[].text     str why
            verdict[].answers[].short    str the same for the verdict; may be empty
            verdict[].answers[].sure     str how certain it is; may be empty
            verdict[].measures{} float? by the names of `--fail-if`; null: not known, or given up
            checks[].what       str   what the program that made the trace checked
            checks[].held       bool? null: not judged
            checks[].figures    str   what was measured
            checks[].safety     bool  of safety, not of speed
            checks[].remedy     str   what to do where it did not hold; may be empty
            checks[].wrong[]    str   what was found, such as each key that differs
            thresholds[].run_id str   whose
            thresholds[].text   str   as it was given
            thresholds[].value  float? null: not known, or given up
            thresholds[].crossed bool the run fails
            findings[].about    str   a part of the summary
            findings[].says     str   a line of it
            findings[].warning  bool  it makes the run less believable
        """),
    ),
    JsonForm(
        "wire-table",
        1,
        "wire show --json",
        _members("""
            rows[]{}  str  by name of the column
        """),
    ),
    JsonForm(
        "wire-pair",
        1,
        "wire show --follow --json",
        _members("""
            req   any  the request's fields
            resp  any  the answer's fields; null: none came
            {}    any  what `wire record` wrote of the pair, without the frames
        """),
        lines=True,
    ),
    JsonForm(
        "wire-check",
        1,
        "wire check --json",
        _members("""
            frames     int  in the recordings
            decoded    int  of these could be read
            identical  int  of these were written again byte by byte
        """),
    ),
)
FORMS: Final[Mapping[str, JsonForm]] = MappingProxyType({one.name: one for one in _FORMS})
"""Every form, by its name."""


def stamped(name: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """A document with its ``schema`` in front.

    >>> stamped("wire-check", {"frames": 1})
    {'schema': 'wire-check/1', 'frames': 1}
    """
    return {"schema": FORMS[name].schema, **document}
