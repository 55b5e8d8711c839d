# Everything runs from here: `make` lists the targets. The first one run sets up what it needs.

# Python of the environment; not given: the fastest build (tools/bootstrap.py). One that is given in the
# command has an environment of its own.
PYTHON ?=
VENV   ?= .venv$(if $(filter command,$(origin PYTHON)),-$(notdir $(PYTHON)))
ANY    := $(firstword $(foreach p,python3 python3.11 python3.12 python3.13 python3.14,$(if $(shell command -v $(p)),$(p))))
PY     := $(VENV)/bin/python
ENV    := $(VENV)/.installed
JARS   := .cache/jars/.verified
MATRIX := .cache/jars/.matrix
CLUSTER := .cache/jars/.cluster
LIFE   := .cache/jars/.life
SUITES := .cache/jars/.suites
JOBS   ?= 2
SEEDS  ?= 1000
HOURS  ?= 12
PYTEST = $(PY) -m pytest -n $(JOBS) --dist loadgroup --no-loadscope-reorder $(WORKERS)
NO_JAVA := not jars and not jvm and not spark and not slow

# Bytecode is kept also where the environment says otherwise: a run starts hundreds of processes, and
# without it each compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test forget quick fmt lint type laws values cost sim endurance fuzz oracle chaos mutants mutation bench predict matrix cluster life kafka-tests conformance rehearse look alerts compose images requirements package site docs uplot jars clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r t d; \
	  do printf '  make %-14s %s\n' "$$t" "$$d"; done

CONTAINER := make package SETS=none && docker build -f compose/Dockerfile -t kraft-bridge . && docker run -it kraft-bridge kraft-bridge demo
ifneq ($(filter demo,$(MAKECMDGOALS)),)
  ifneq ($(shell uname -s),Linux)
    $(error The demonstration runs on Linux only; in its container: $(CONTAINER))
  endif
endif
demo: $(ENV) $(JARS) ## real ZooKeeper, real brokers, a live migration, load, a Spark report
	$(VENV)/bin/kraft-bridge demo

# Three workers, as many tests wait for servers, and one for those that wait most of their time. What comes before them is done at
# once: fetching waits for the network, and the types take one core.
test: JOBS = 4
test: WORKERS = --waiting-workers 1
test: forget $(ENV) ## lint, types and every test, with real ZooKeeper, brokers and Spark
	@$(MAKE) --jobs=3 --no-print-directory lint type jars
	$(PY) -m tools.recorded test $(PYTEST)

forget: ## remove the record of the last `make test`
	@rm -f .cache/records/test.json

# Some of these tests wait; a third worker uses the time.
quick: JOBS = 3
QUICK_LEAVES := simulation unit/cost unit/kit unit/testing unit/node/test_quorum_migration.py \
	unit/node/test_steps_lead_to_the_end.py unit/operations/preflight/test_every_change_is_found.py
quick: $(ENV) ## tests without Java, clusters, the simulator, counted costs, whole migrations and the tests' own kit, with fewer examples
	HYPOTHESIS_PROFILE=quick $(PYTEST) -m "$(NO_JAVA)" $(addprefix --ignore=tests/,$(QUICK_LEAVES))

fmt: $(ENV) ## format the source
	$(PY) -m ruff format .

lint: $(ENV) ## ruff, its formatter, and the import layers
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(VENV)/bin/lint-imports

type: $(ENV) ## mypy --strict
	$(PY) -m mypy

laws: $(ENV) ## the algebraic laws, with more examples than in a test run
	HYPOTHESIS_PROFILE=thorough $(PYTEST) --timeout 3600 tests/laws

values: $(ENV) $(JARS) ## VALUES (100000) texts of each kind, read by us and by Kafka's own classes
	VALUES=$(or $(VALUES),100000) $(PY) -m pytest --timeout 7200 tests/conformance/test_values_are_kafkas.py

cost: $(ENV) ## what a request costs by its size: 100,000 entities, more contents and versions than in `make test`, and CPU times
	COST=1 $(PYTEST) --timeout 7200 tests/unit/cost

sim: $(ENV) ## SEEDS fresh simulated clusters (1000) of one controller, of three, that migrate again, and with an operator; exit 1 names the seed
	code=0; $(PY) -m tools.recorded sim $(PY) -m emulator.cli simulate --count $(SEEDS) --jobs $(JOBS) || code=1; \
	  $(PY) -m tools.recorded failover $(PY) -m emulator.cli simulate --controllers 3 --migration \
	  --count $(SEEDS) --jobs $(JOBS) || code=1; \
	  $(PY) -m tools.recorded attempts $(PY) -m emulator.cli simulate --kind attempts --count $(SEEDS) --jobs $(JOBS) || code=1; \
	  $(PY) -m tools.recorded operator $(PY) -m emulator.cli simulate --kind operator --count $(SEEDS) --jobs $(JOBS) || code=1; exit $$code

endurance: $(ENV) ## HOURS (12) of one simulated cluster in mixed mode, then in KRaft mode (half an hour of a core); exit 1: a size grew
	code=0; $(PY) -m tools.recorded endurance $(PY) -m emulator.cli simulate --kind endurance --seed 0 --hours $(HOURS) || code=1; \
	  $(PY) -m tools.recorded kraft $(PY) -m emulator.cli simulate --kind endurance-kraft --seed 0 --hours $(HOURS) || code=1; exit $$code

fuzz: $(ENV) ## FRAMES (1000000) of every API and version at real processes; exit 1 names the frame; goes on where it ended
	$(PY) -m tools.recorded fuzz $(PY) -m tools.fuzz --frames $(or $(FRAMES),1000000) $(if $(SEED),--seed $(SEED))

oracle: $(ENV) $(JARS) ## OPERATIONS (1000000) of random histories at our controller and Kafka's own; exit 1 shows the difference; goes on where it ended
	$(PY) -m tools.oracle --operations $(or $(OPERATIONS),1000000) $(if $(SEED),--seed $(SEED))

CHAOS = $(PY) -m bench.chaos --seconds 110
chaos: $(ENV) $(JARS) ## ten minutes: three controllers, three real brokers, ZooKeeper, kill -9, SIGSTOP, TCP faults
	code=0; \
	  $(PY) -m tools.recorded chaosone $(CHAOS) --servers 1 || code=1; \
	  $(PY) -m tools.recorded chaosthree $(CHAOS) --servers 3 || code=1; \
	  $(PY) -m tools.recorded chaoskafka $(CHAOS) --servers 1 --kafkas 1 || code=1; \
	  $(PY) -m tools.recorded chaoskafkas $(CHAOS) --kafkas 2 || code=1; \
	  exit $$code

mutants: $(ENV) $(JARS) ## plant known faults; every one must turn its test red
	$(PY) -m tools.mutants

mutation: $(ENV) ## N random mutants of the machines (150; SEED=…, REAL=1: survivors with real servers); goes on where it ended
	$(PY) -m tools.mutation --number $(or $(N),150) $(if $(SEED),--seed $(SEED)) $(if $(REAL),--real)

bench: $(ENV) $(JARS) ## speed beside Kafka's; goes on where it ended (QUICK=1: half an hour, SCENARIO=name)
	$(PY) -m bench $(if $(QUICK),--quick) $(if $(SCENARIO),--scenario $(SCENARIO)) $(if $(ANY_CODE),--any-code)

predict: $(ENV) $(JARS) ## when ZooKeeper blocks: predicted, then measured in 27 cells; and 12 first copies (half an hour); goes on where it ended (KEPT=1: from docs/rows)
	$(PY) -m bench.predict $(if $(CELLS),--cells $(CELLS)) $(if $(KEPT),--kept)

matrix: $(ENV) $(JARS) $(MATRIX) $(SUITES) ## real brokers of all six bridge releases, every admin tool, ten clients and three classes of Kafka's own tests, beside Kafka's
	$(PY) -m tools.recorded matrix $(PY) -m bench.matrix; code=$$?; \
	  $(PY) -m tools.recorded readers $(PY) -m bench.matrix.readers || code=1; \
	  $(PY) -m bench.suites --short --again --failed-only --out out/kafka-tests-short || code=1; \
	  $(PY) -m tools.recorded clients $(PY) -m bench.matrix.clients && exit $$code

cluster: $(ENV) $(JARS) $(CLUSTER) ## analyses on Spark workers that share no disk with this machine, in an S3-compatible store (some minutes)
	$(PY) -m bench.cluster

life: $(ENV) $(JARS) $(LIFE) ## 17 minutes and more: 3.9.2 and 3.4.1 from ZooKeeper to brokers of 4.3, with each way back; goes on if cut
	$(PY) -m tools.recorded life $(PY) -m bench.life

kafka-tests: $(ENV) $(JARS) $(SUITES) ## Kafka's own integration tests, whose controllers are ours, beside Kafka's (CLASS=name, SHORT=1: three classes); goes on where it ended
	$(PY) -m bench.suites $(if $(CLASS),--class $(CLASS)) $(if $(SHORT),--short)

conformance: $(ENV) $(JARS) $(MATRIX) $(LIFE) ## the judge on Kafka 3.4.1, 3.9.2, 4.3.0 and in ZooKeeper mode, ours, and the mocks kfake (needs Go) and librdkafka; SERVER=name; goes on where it ended
	$(PY) -m bench.conformance $(if $(SERVER),--server $(SERVER))

rehearse: $(ENV) ## a whole migration on three dumps: recorded, spoilt in five ways, and 2,000 topics x 10 with 30 brokers
	$(PY) -m tools.rehearse

look: $(ENV) $(JARS) ## the reports of docs/examples, and the live page in five phases of a migration of real brokers, in Chromium; pictures to OUT (out/look) and the docs (ONLY=reports: those alone)
	command -v chromium > /dev/null && command -v pngquant > /dev/null || { apt-get update && apt-get install -y --no-install-recommends chromium pngquant fonts-dejavu-core; }
	$(PY) -m tools.look $(or $(OUT),out/look) $(ONLY)

# Unpacked and not installed: the package would start a service.
alerts: $(ENV) $(JARS) ## the alert rules in a real Prometheus: each fires once for its fault (some minutes; as root, for a full disk)
	command -v prometheus > /dev/null || test -x .cache/prometheus/usr/bin/prometheus || { mkdir -p .cache/prometheus && apt-get update && \
	  (cd .cache/prometheus && apt-get download prometheus && dpkg-deb -x prometheus_*.deb .); }
	$(PY) -m tools.alerts

compose: $(ENV) ## an image of the wheel, a migration and an analysis in containers, by Docker or podman (8 to 21 minutes; STORY=build, migration or analysis: that one)
	$(PY) -m tools.images --wheel
	$(PY) -m bench.compose.story $(if $(STORY),--only $(STORY))

images: $(ENV) ## both images of the wheel, each built twice: the same files with the same digests, sizes, not root (10 to 30 minutes; IMAGE=name)
	$(PY) -m tools.images $(if $(IMAGE),--only $(IMAGE))

requirements: $(ENV) ## which requirements the last runs proved, and by what kind of test
	$(PY) -m tools.requirements

package: $(ENV) ## wheel and sdist of the last commit in dist/, the same bytes twice, SBOM, notes; installed with each set of extras and tried
	$(PY) -m tools.package $(if $(SETS),--sets $(SETS))

site: $(ENV) ## the site of the docs in out/site/VERSION (OUT=…): a warning, a link that leads to nothing, a shell block that fails end it with 1 (needs npm)
	$(PY) -m tools.site $(if $(OUT),--out $(OUT))

docs: $(ENV) ## write the tables, diagrams and pictures in the docs anew from the code
	$(PY) -m tools.docs

uplot: $(ENV) ## write uPlot, which draws the pictures of reports, anew from its npm package (VERSION=…; needs npm)
	$(PY) -m tools.uplot $(VERSION)

jars: $(JARS) ## fetch the Kafka jars, by checksum

$(ENV): requirements.lock tools/bootstrap.py
	$(if $(ANY),,$(error No python3 on PATH: install Python 3.11 or newer))
	$(ANY) tools/bootstrap.py $(VENV) requirements.lock $(PYTHON)

$(JARS): $(ENV) jars/ivy.xml jars/jars.sha256 jars/settings.xml
	$(PY) -m tools.jars
	$(PY) -m tools.class_archive
	@touch $@

$(MATRIX): $(JARS) bench/matrix/clients/kafka-python-1.4.4.txt
	$(PY) -m tools.jars matrix
	$(PY) -m tools.clients
	$(PY) -m tools.class_archive 3.5.2 3.6.2 3.7.2 3.8.1
	@touch $@

$(CLUSTER): $(JARS) bench/cluster.txt
	$(PY) -m tools.jars cluster
	$(PY) -m tools.clients cluster
	@touch $@

$(LIFE): $(JARS)
	$(PY) -m tools.jars life
	@touch $@

$(SUITES): $(JARS)
	$(PY) -m tools.jars kafka-tests
	@touch $@

clean: ## remove the environment and everything cached
	rm -rf $(VENV) .cache
