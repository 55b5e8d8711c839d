"""Verbs of the command line, each in a file or a folder here, or below ``bench.verbs``."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

VERBS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "preflight": "emulator.commands.preflight.command:preflight",
        "plan": "emulator.commands.plan.command:plan",
        "format": "emulator.commands.format.command:format_command",
        "controller": "emulator.commands.controller:controller",
        "status": "emulator.commands.status:status",
        "rollback": "emulator.commands.rollback.command:rollback",
        "finalise": "emulator.commands.finalise:finalise",
        "elect-leaders": "emulator.commands.elect_leaders.command:elect_leaders",
        "load": "bench.verbs.load:load",
        "analyze": "bench.verbs.analyze:analyze",
        "predict": "bench.verbs.predict:predict",
        "demo": "bench.verbs.demo:demo",
        "rehearse": "bench.verbs.rehearse:rehearse",
        "broker": "emulator.commands.broker:broker",
        "cluster": "bench.verbs.cluster:cluster",
        "fleet": "bench.verbs.fleet:fleet",
        "simulate": "emulator.commands.simulate:simulate",
        "bench run": "bench.verbs.bench_run:run",
        "bench compare": "bench.verbs.bench_compare:compare",
        "trace compact": "bench.verbs.trace_compact:compact",
        "conformance": "bench.verbs.conformance:conformance",
        "zk start": "emulator.commands.zk.start:start",
        "zk dump": "emulator.commands.zk.dump:dump",
        "zk load": "bench.verbs.zk_load:load",
        "zk diff": "emulator.commands.zk.diff:diff",
        "zk reconcile": "emulator.commands.zk.reconcile:reconcile",
        "evidence verify": "bench.verbs.evidence_verify:verify",
        "log dump": "emulator.commands.log_dump:dump",
        "wire": "wire.cli:app",
        "wire record": "emulator.commands.wire_record:record",
    }
)
"""Each verb and where its function is, in the order of the help: that of a migration, then tools.

Imported only when it is asked for, as some import much.
"""
