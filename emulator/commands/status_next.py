"""The order of the phases, and what to type next in each."""

from __future__ import annotations

from typing import Any, Final

ORDER: Final = (
    "not migrating",
    "pre-migration",
    "copying",
    "hybrid",
    "dual write",
    "finalising",
    "finalised",
)
"""Phases that a migration goes through, in that order."""
URL: Final = " --url http://HOST:PORT"
"""The option with which another node is asked."""
BEFORE: Final = ("not migrating", "pre-migration", "claiming")
"""Phases in which a reason that is fatal keeps the migration from going on."""
STUCK: Final = ("refused", "deposed")
"""Phases that waiting alone does not end."""


def phase_of(found: dict[str, Any]) -> str:
    """The phase in a ``/status`` of a controller; ``not migrating`` without a migration."""
    migration, finalisation = found.get("migration"), found.get("finalisation")
    if migration is not None:
        return str(migration["phase"])
    if finalisation is None:
        return "not migrating"
    return "finalised" if finalisation["state"] == "finalised" else "finalising"


def reached(phase: str, wanted: str) -> bool:
    """Whether a phase is the wanted one, or a later one.

    >>> reached("dual write", "hybrid"), reached("claiming", "pre-migration")
    (True, False)
    """
    return phase in ORDER and ORDER.index(phase) >= ORDER.index(wanted)


def option_of(phase: str) -> str:
    """A phase as the value of ``--wait``.

    >>> option_of("dual write")
    'dual-write'
    """
    return phase.replace(" ", "-")


def brokers_first(finalisation: dict[str, Any]) -> bool:
    """Whether the end is far: the leader has the flag, and brokers are in ZooKeeper mode."""
    whys = {one["why"] for one in finalisation["missing"]}
    return finalisation["state"] == "migrating" and "zookeeper_broker" in whys


def _no_leader_known(found: dict[str, Any]) -> bool:
    """Whether there is a quorum, and this node knows no leader of it."""
    several = len((found.get("quorum") or {}).get("voters", ())) > 1
    known = found.get("leader_id", found["node_id"]) is not None
    return not known and (several or found.get("migration") is not None)


def _lead(found: dict[str, Any]) -> str:
    """How to get a leader: a voter without its log grants no vote before it knows a leader."""
    if (found.get("quorum") or {}).get("voter_state") != "unknown":
        return (
            "see that a majority of the controllers runs and that they reach each other; "
            f"kraft-bridge status{URL}, of each of the others, says whether it was "
            "formatted without --new-quorum: then it votes for nobody"
        )
    cluster_id = found.get("cluster_id", "CLUSTER_ID")
    return (
        "if no controller of this quorum has ever led, stop each of them, kraft-bridge format -c "
        f"FILE -t {cluster_id} --new-quorum --ignore-formatted, and start them; if this one's disk "
        "was replaced or emptied, start the others, which hold the log"
    )


def next_step(found: dict[str, Any], asked: str = "") -> str:
    """One sentence with what to do or type next.

    Args:
        found: ``/status`` of a controller.
        asked: the option with which it was asked, such as `` --url http://h:1``; empty: none.
    """
    phase = phase_of(found)
    migration = found.get("migration") or {}
    if _no_leader_known(found):
        return _lead(found)
    where = migration.get("zookeeper", {}).get("server") or "HOST:PORT"
    compare = f"kraft-bridge zk diff --zookeeper {where} --log-dir FOLDER"
    leader = found.get("leader_id", found["node_id"])
    if migration and leader != found["node_id"]:
        # What the migration waits for is known to the leader alone.
        return f"kraft-bridge status{URL}, of node {leader}, which leads"
    finalisation = found.get("finalisation") or {}
    if not migration and finalisation.get("state") == "follows":
        return f"kraft-bridge status{URL}, of node {leader}, which leads"
    if found.get("refusals"):
        broker = found["refusals"][0]["broker"]
        return f"do what is said of broker {broker} above; kraft-bridge status{asked}"
    if phase == "copying" or (phase == "pre-migration" and not migration.get("waiting")):
        return f"kraft-bridge status{asked} --wait hybrid --timeout 600"
    return {
        "not migrating": f"nothing to migrate here; before one: kraft-bridge preflight --zookeeper "
        f"{where}",
        "pre-migration": f"do what it waits for; kraft-bridge status{asked} --wait hybrid "
        "--timeout 600",
        "hybrid": f"{compare}; then restart the brokers in KRaft mode, one by one: "
        f"kraft-bridge status{asked} --wait dual-write --timeout 3600",
        "dual write": f"{compare}; then restart the controllers without "
        f"zookeeper.metadata.migration.enable, one by one: kraft-bridge finalise{asked}",
        "finalising": f"do what is missing; kraft-bridge status{asked} --wait finalised "
        "--timeout 600",
        "claiming": f"see that ZooKeeper is reached; kraft-bridge status{asked} --wait "
        "pre-migration",
        "refused": "do what it waits for, then start the controller again",
        "deposed": f"{migration.get('deposed_because') or 'see above'}; {compare}",
        "finalised": "nothing",
    }.get(phase, f"kraft-bridge status{asked}")
