# Bare `make` lists the targets. Everything needs Go alone, and a C compiler
# for the race detector. Tests use nats.js where node, its packages
# and chromium are, and nats-py where it and Python are.

GO      ?= go
FUZZTIME ?= 30s
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64
DATE    ?= $(shell git log -1 --format=%ct)
VERSION ?= $(shell git describe --tags --exact-match --dirty --match 'v*' 2>/dev/null || git describe --always --dirty --exclude '*' | sed 's/^/0.0.0-g/')
PACKAGES ?= ./...
PACKAGE ?= ./subjects
OPS     ?= 1000000
SEEDS   ?= 1000
SEED    ?= 0
ENGINE  ?= local
FAULTS  ?= 5m
DURATION ?= 1h
RATE    ?= 200
CUTS    ?= 10000
REPLAY  ?= 200
FLIPS   ?= 500
MUTATE  ?= github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0
VULNCHECK ?= golang.org/x/vuln/cmd/govulncheck@v1.1.4
TOOL    = $(GO) tool -modfile=.ci/tools.mod
KUBE    = $(GO) tool -modfile=.ci/kubernetes.mod

FDB_HEADER = printf '\043include <foundationdb/fdb_c.h>\n' | $${CC:-cc} -DFDB_API_VERSION=730 -x c -fsyntax-only - 2>/dev/null
FDB = $(shell command -v fdbserver >/dev/null && command -v fdbcli >/dev/null && $(FDB_HEADER) && echo fdb)

PYTHON = $(shell for python in e2e/testdata/python/.venv/bin/python python3; do $$python -c 'import sys, nats; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo $$python && break; done)
NATS = $(shell command -v e2e/testdata/clients/bin/nats || command -v nats)
NODE = $(shell command -v node >/dev/null && test -d e2e/testdata/js/node_modules && echo node)
BROWSER = $(shell command -v chromium || command -v chromium-headless-shell || command -v google-chrome)

# The race detector sleeps a second at the end of each program by default, which its finds do not need.
export GORACE := atexit_sleep_ms=50 $(GORACE)

# No path is a part of what is compiled: all clones of a machine share it.
export GOFLAGS := -trimpath $(GOFLAGS)

# The gate. .ci/test has a limit for each test; that of a package is for what comes between them. go vet is in lint.
GATE    = $(GO) run ./.ci/test
FLAGS   = -vet=off -timeout 30m
# With the race detector run those packages that have goroutines of their own. The core has none, and takes eight times as
# long with it. make nightly has what internal/testkit/nightly leaves to it.
RACED   = ./bridge ./fdbpq/kv/local ./client ./internal/gateway ./bridge/internal/...
# Tests of sizes, damage and random worlds run without it: one goroutine does most of their work.
SIZES   = ^Test(MetricsAreBounded|LinkTakesTheLargestItem|PowerLoss|Salvage|ConformanceAfterPowerLoss|GapsNeverHideRows|PowerLossWithoutSync|OpenOnFailingDisk|OverwritingKeepsTransactionsSmall|LargestPayload|SourceStopsAtAMessageThatIsTooLarge|Order|Longest|NestedBodies)$$

# Everything, with the race detector, one package at a time: the tests of the night fill a machine each, with many programs.
# A night remembers nothing.
EVERYTHING = -race -vet=off -count=1 -p 1 -parallel 2 -timeout 2h
LIMIT    = 1h

CAMPAIGNS = $(addprefix campaign/,model linearize callers simulate forge netfaults powercut diskfaults cluster gaps foundationdb schedules sources links results celery imports bulk deploys soak console crowd overload tenants versions)

.DEFAULT_GOAL := help
.PHONY: help run build generate test test-tables test-race test-walk nightly test-everything test-cluster test-clients test-topology test-foundationdb test-foundationdb-whole check check-foundationdb check-deploy test-deploy stress lint lint-chart vulncheck bench bench-beside bench-fdb campaign $(CAMPAIGNS) mutate fuzz pictures freeze site release reproduce

# These run what internal/testkit/nightly leaves to the night.
test-everything test-cluster test-clients test-topology test-foundationdb-whole test-deploy $(CAMPAIGNS): export PQ_TEST = nightly

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@$(MAKE) --no-print-directory campaign NAME=

run: ## run the daemon, with NATS on 127.0.0.1:4222 and the data in ./pq-data
	@echo 'compiling, for two minutes or more at the first time; the names of the packages are shown meanwhile'
	$(GO) run -v ./cmd/pqd

build: ## build the programs into bin/
	$(GO) build -trimpath -o bin/ ./cmd/...

generate: ## write what follows from package protocol: schemas, and what else has the fields of a configuration
	$(GO) generate ./protocol

test: ## all tests but those of make nightly: go test ./..., with the failures and the slowest ones at the end
	$(GATE) -- -programs $(FLAGS) $(PACKAGES)
	@$(NOT_TESTED)

test-race: ## packages that have goroutines of their own, with the race detector
	$(GATE) -- $(FLAGS) -race -skip '$(SIZES)' $(RACED) ./.ci/test ./.ci/stamp

test-walk: ## the way of a request through files and packages is not longer than it was
	$(GO) test -vet=off -run '^TestWalk$$' ./e2e/performance

# A new field, header, reason or verb stands in tables, and in what repeats them in other languages and in words. These tests name the
# file that lacks it. make test has them, too.
TABLES = ^Test(Model.*|NewFields.*|PlainQueue.*|EarlierPrograms.*|RowsOfLater.*|TablesAreComplete|Malformed.*|PushFlags|PushOptions|ItemHeaders|WhatAPush.*|ItemsKeep.*|SalvageKeeps.*|EachReason.*|EachPushHeader.*|OpenAPI|Transcripts|.*MatchTheCommands|NamesExist|Links|ProtocolInTheTerminal)$$
test-tables: ## the tests that name the file in which a new field, header, reason or verb is missing, in a minute
	$(GO) test -vet=off -timeout 10m ./protocol ./internal/generate ./bridge/internal/codec ./bridge/internal/failure
	$(GO) test -vet=off -timeout 10m -run '$(TABLES)' ./fdbpq ./internal/gateway ./bridge ./client ./cmd/pq ./cmd/pq/internal/show ./cmd/pqd/internal/commands ./docs ./e2e/clients

# What the machine lacks for some tests.
NOT_TESTED = $(if $(NODE),,echo '*** NOT TESTED WITH NATS.JS: node is missing, or npm ci was not run in e2e/testdata/js ***';) \
	$(if $(PYTHON),,echo '*** NOT TESTED: THE PYTHON CLIENT: Python 3.10 or nats-py is missing; .ci/run installs it into e2e/testdata/python/.venv ***';) \
	$(if $(NATS),,echo '*** NOT TESTED WITH THE NATS COMMAND: .ci/run installs it into e2e/testdata/clients/bin ***';) \
	$(if $(BROWSER),,echo '*** NOT TESTED IN A BROWSER: chromium is missing ***';) true

nightly: ## what takes long, at low priority, in 90 minutes (NIGHT seconds) at most: a third of the tests with the race detector and a moment of a third of the campaigns (WHOLE=1: all), tests on FoundationDB where it is, a moment of each fuzz target, the chart, known vulnerabilities; repeats with SEED
	@SEED='$(SEED)' FDB='$(FDB)' .ci/nightly

test-everything:
	$(GATE) -limit 1h -flaky bin/test/flaky -- -programs $(EVERYTHING) -skip '$(DEPLOYS)' $(PACKAGES)
	@$(NOT_TESTED)

test-cluster: ## the tests of the queues on the replicated engine
	PQ_TEST_ENGINE=cluster $(GO) test -timeout $(LIMIT) ./fdbpq

# A driver for each language whose tools are there.
test-clients: ## one table of cases through the official clients of Go, JavaScript, Python, Java, Rust and C, and the nats command
	@cd e2e/testdata/java && if command -v javac >/dev/null && command -v mvn >/dev/null; then \
		mvn -q -B dependency:copy-dependencies -DoutputDirectory=target/dependency && javac -d target -cp 'target/dependency/*' Driver.java; \
	else echo '*** NOT TESTED WITH JNATS: javac or mvn is missing ***'; fi
	@cd e2e/testdata/rust && if command -v cargo >/dev/null; then cargo build --locked --quiet; \
	else echo '*** NOT TESTED WITH ASYNC-NATS: cargo is missing ***'; fi
	@cd e2e/testdata/c && mkdir -p target && if printf '\043include <nats/nats.h>\n' | $${CC:-cc} -x c -fsyntax-only - 2>/dev/null; then \
		$${CC:-cc} -D_GNU_SOURCE -Wall -Wextra -Werror -O1 -o target/driver driver.c -lnats; \
	else echo '*** NOT TESTED WITH NATS.C: a C compiler, or libnats-dev, is missing ***'; fi
	$(if $(NODE),,@echo '*** NOT TESTED WITH NATS.JS: node is missing, or npm ci was not run in e2e/testdata/js ***')
	$(if $(PYTHON),,@echo '*** NOT TESTED WITH NATS-PY: Python 3.10 or nats-py is missing; .ci/run installs it into e2e/testdata/python/.venv ***')
	$(if $(NATS),,@echo '*** NOT TESTED WITH THE NATS COMMAND: .ci/run installs it into e2e/testdata/clients/bin ***')
	$(GO) test ./e2e/clients -run '^(TestCasesIn|TestClientsPage)' -count 1 -timeout $(LIMIT)

test-topology: ## leaf nodes, gateways, JetStream domains, accounts, WebSocket and TLS, each with cuts
	$(GO) test ./e2e/topologies -count 1 -timeout $(LIMIT)

# Apart from the gate: without race, and one package after another, because each starts a cluster. Its last line says how
# much was tested. What a busy machine left no time for is a failure at night alone, when all of these tests run, with the race detector.
# The version of fdbserver is in a variable, so that go test takes no result of another one from its cache.
FDB_SUITE = PQ_TEST_ENGINE=fdb PQ_REQUIRE_FDB="$$(fdbserver --version)" $(GATE) -suite FOUNDATIONDB -programs './cmd/pq ./cmd/pqd ./examples/worker ./examples/outbox'
FDB_TESTS = ./fdbpq/kv/fdb ./fdbpq ./bridge ./e2e/stores
FDB_WHOLE = $(FDB_TESTS) ./e2e/streams ./internal/testkit/fdbtest ./internal/tuple ./testenv ./cmd/pq ./internal/gateway
NO_FDB    = fdbserver, fdbcli or foundationdb/fdb_c.h is missing
test-foundationdb: ## tests on FoundationDB, in 15 minutes at most; a failure where it is missing
	$(if $(FDB),,@echo '$(NO_FDB)'; exit 1)
	$(FDB_SUITE) -most 15m -- -programs $(FLAGS) -tags fdb -p 1 -parallel 2 $(FDB_TESTS)

test-foundationdb-whole:
	$(if $(FDB),,@echo '$(NO_FDB)'; exit 1)
	$(FDB_SUITE) -limit 1h -flaky bin/test/flaky -most 1h -whole -- -programs $(EVERYTHING) -tags fdb $(FDB_WHOLE)

check-foundationdb:
	@$(if $(FDB),$(MAKE) --no-print-directory test-foundationdb,echo '*** NOT TESTED ON FOUNDATIONDB: $(NO_FDB) ***')

check: lint test test-race test-walk check-foundationdb check-deploy ## what must pass before a change lands: these, test-foundationdb where FoundationDB is, and test-deploy where what it tests has changed

# The commit at which the chart, the alerts and the dashboard have last passed. The chart's tools take twenty minutes of
# processor time to build from nothing.
DEPLOYED = .ci/deployed
DEPLOYS  = ^Test(Chart|Scaling|Alerts)
CHART    = deploy/helm deploy/keda.yaml deploy/alerts_test.yml
check-deploy:
	@if git diff --quiet "$$(cat $(DEPLOYED))" -- $(CHART) 2>/dev/null; then echo '$(CHART): as they were when make test-deploy last passed'; else $(MAKE) --no-print-directory test-deploy; fi

test-deploy: lint-chart ## the Helm chart, the alerts and the dashboard
	$(GO) test -vet=off -timeout $(LIMIT) ./e2e/operations -run '$(DEPLOYS)|^TestMetrics'
	git rev-parse HEAD >$(DEPLOYED)

stress: N = 5
stress: BURN = 8
stress: RUN = .
stress: ## the tests of PACKAGE that match RUN (all), N (5) times beside BURN (8) processes that only compute
	@loops=; trap 'kill $$loops' EXIT; for i in $$(seq $(BURN)); do (while :; do :; done) & loops="$$loops $$!"; done; \
	$(GO) test -vet=off -count $(N) -run '$(RUN)' -timeout $(LIMIT) $(PACKAGE)

# Where FoundationDB is, vet looks at the files for it, and everywhere at the measurements; staticcheck looks at those without tags.
# S1016 would convert one type into another because both have the same fields today.
lint: ## formatting, size of files, vet, staticcheck, go.mod
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not gofmt'd:" $$unformatted; exit 1; }
	@large=$$(git ls-files -z | xargs -0 sh -c 'find "$$@" -maxdepth 0 -size +1024k' _); test -z "$$large" || { echo "larger than 1 MiB, such as a built program:" $$large; exit 1; }
	$(GO) vet -tags '$(FDB) benchfdb overload' ./.ci/test $(PACKAGES)
	$(GO) vet -tags 'noelection noegress' ./cmd/pqd/...
	GOOS=windows CGO_ENABLED=0 $(GO) build -o /dev/null ./cmd/pq
	$(TOOL) staticcheck -checks inherit,-S1016 $(PACKAGES)
	@echo '$(GO) mod tidy -diff'; diff=$$($(GO) mod tidy -diff) || { echo "$$diff"; test -z "$$diff" && echo '*** NOT CHECKED: GO.MOD: go mod tidy needs the network ***'; }
	$(GO) mod verify

# The first run downloads what describes Kubernetes and the operators; later ones need no network.
lint-chart: ## the Helm chart: helm lint, and what it renders against the schemas of Kubernetes and of the operators
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf $$tmp' EXIT; $(GO) run ./deploy/helm/schemas -o $$tmp; cp deploy/keda.yaml $$tmp; \
	for values in deploy/helm/examples/*.yaml; do \
		$(KUBE) helm lint --strict --quiet deploy/helm/pqbridge -f $$values 2>$$tmp/log || { cat $$tmp/log; exit 1; }; \
		$(KUBE) helm template pqd deploy/helm/pqbridge -f $$values >$$tmp/$$(basename $$values) 2>$$tmp/log || { cat $$tmp/log; exit 1; }; \
	done; \
	$(KUBE) kubeconform -strict -summary -schema-location "$$tmp/{{.Group}}_{{.ResourceAPIVersion}}_{{.ResourceKind}}.json" $$tmp/*.yaml

vulncheck: ## known vulnerabilities in what the code calls; says so where their database cannot be reached
	@found=$$($(GO) run $(VULNCHECK) $(PACKAGES) 2>&1) && echo 'no known vulnerabilities' || \
		case "$$found" in \
		*'exit status 3'*) echo "$$found"; exit 1;; \
		*) echo "$$found" | tail -n 2; echo '*** NOT CHECKED FOR KNOWN VULNERABILITIES: govulncheck or its database cannot be reached ***';; \
		esac

bench: ## compare pqd with other systems, in under 3 minutes; docs/performance.md has a longer run
	$(GO) -C bench run .

bench-beside: ## pops beside clients that push in front of them, and beside sweeps, as ratios to pops alone; on an idle machine
	$(GO) test ./bridge -run '^$$' -bench Beside -benchtime 1x

bench-fdb: ## figures of FoundationDB and of pqd on it, in 10 minutes: pops of one queue, pushes, what requests cost, many queues through several pqd
	$(GO) test -tags 'fdb benchfdb' -run '^(TestContention|TestPushes|TestCostsOfVerbs|TestManyQueues)$$' -count 1 -timeout 30m -v ./e2e/performance

campaign: ## a campaign by its NAME, which make campaign alone lists
	@$(if $(NAME),$(MAKE) --no-print-directory campaign/$(NAME),awk -F '/|:.*## ' '/^campaign\/[a-z]+:.*## / { printf "  make campaign NAME=%-12s %s\n", $$2, $$3 }' $(firstword $(MAKEFILE_LIST)))

campaign/model: ## OPS (1000000) random operations under faults against the model, on ENGINE (local, fdb), from SEED (0: any)
	$(GO) test $(if $(filter fdb,$(ENGINE)),-tags fdb) -run '^TestCampaign$$/^$(ENGINE)$$' -count 1 -timeout 72h -v ./fdbpq -pq.ops=$(OPS) -pq.seed=$(SEED)

campaign/linearize: ## OPS (1000000) operations of clients on a pqd that is killed, stopped and paused, judged by the clients' histories
	$(GO) test -run '^TestLinearize$$' -count 1 -timeout 72h -v ./e2e/faults -pq.ops=$(OPS) -pq.seed=$(SEED)

campaign/callers: KILLS = 20
campaign/callers: ## OPS (1000000) pushes of 64 callers through one client, whose pqd and NATS server are killed KILLS (20) times
	$(GO) test -run '^TestCallersBesideKills$$' -count 1 -timeout 72h -v ./e2e/faults -pq.ops=$(OPS) -pq.kills=$(KILLS) -pq.seed=$(SEED)

campaign/simulate: ## bridges, a faulty store and clients in virtual time, SEEDS (1000) times from SEED (0: any)
	$(GO) test -run '^TestSimulate$$' -count 1 -timeout 72h -v ./bridge/internal/simulation -pq.seeds=$(SEEDS) -pq.seed=$(SEED)

campaign/forge: DURATION = 1m
campaign/forge: ## a client that may use inboxes alone floods four bridges with forged messages for DURATION (1m)
	$(GO) test -run '^TestForger$$' -count 1 -timeout 72h -v ./bridge -pq.forge=$(DURATION)

campaign/netfaults: OPS = 100000
campaign/netfaults: ## OPS (100000) operations of clients on networks that cut, delay and lose, NATS server embedded and outside
	$(GO) test -run '^(TestNetworkFaults|TestSilentNetwork)$$' -count 1 -timeout 72h -v ./e2e/faults -pq.ops=$(OPS) -pq.seed=$(SEED)

campaign/powercut: ## a pqd on a disk that remembers every write, started on what each of CUTS (10000: all of small items) power cuts may leave, and three pqd a hundredth as often; Linux with FUSE
	$(GO) test -run '^TestMount$$' -count 1 ./internal/testkit/disk -pq.mount
	$(GO) test -run '^TestPowerCutWhileSettingAside$$' -count 1 ./cmd/pqd/internal/broker -pq.mount
	$(GO) test -run '^TestPowerCut$$' -count 1 -timeout 72h -v ./e2e/faults -pq.cuts=$(CUTS) -pq.seed=$(SEED)
	$(GO) test -run '^TestClusterPowerCut$$' -count 1 -timeout 72h -v ./e2e/faults -pq.cuts=$(CUTS) -pq.seed=$(SEED)

campaign/diskfaults: OPS = 15000
campaign/diskfaults: ## OPS (15000) operations on disks that fail, are full, read-only or hang; FLIPS (500) starts on a damaged store; Linux with FUSE
	$(GO) test -run '^(TestDiskFaults|TestFilledDisk|TestReserve|TestBitFlips)$$' -count 1 -timeout 72h -v ./e2e/faults -pq.ops=$(OPS) -pq.flips=$(FLIPS) -pq.seed=$(SEED)

campaign/cluster: OPS = 20000
campaign/cluster: FLIPS = 50
campaign/cluster: ## OPS (20000) operations of clients on three pqd that are killed, stopped, paused and replaced, or cut off, or whose disks are full, or slow, a log of REPLAY (200) megabytes replayed beside ten kills, and FLIPS (50) damaged nodes, and as often three at once; Linux with FUSE
	$(GO) test -run '^TestCluster(Campaign|Replacements)$$' -count 1 -timeout 72h -v ./e2e/cluster -parallel 1 -pq.ops=$(OPS) -pq.seed=$(SEED)
	$(GO) test -run '^(TestClusterRoutes|TestNodesOnFullDisks|TestRevertedNode)$$' -count 1 -timeout 72h -v ./e2e/cluster -pq.ops=$(OPS) -pq.seed=$(SEED)
	$(GO) test -run '^TestSlow(Sync|Routes|Processor)$$' -count 1 -timeout 72h -v ./e2e/cluster -parallel 1 -pq.seed=$(SEED)
	$(GO) test -run '^TestReplay$$' -count 1 -timeout 72h -v ./e2e/cluster -pq.replay=$(REPLAY) -pq.seed=$(SEED)
	$(GO) test -run '^(TestDamagedNode|TestDamageOnAllNodes)$$' -count 1 -timeout 72h -v ./e2e/faults -pq.flips=$(FLIPS) -pq.seed=$(SEED)
	$(GO) test -run '^TestCompetingWriters$$' -count 10 -timeout 2h -v ./internal/jetstream -pq.faults
	$(GO) test -run '^TestCluster$$' -count 10 -timeout 2h -v ./testenv -pq.faults

campaign/gaps: TRIALS = 5
campaign/gaps: ## how long clients wait when a node of three is killed, stopped or ended, TRIALS (5) times each, with a timeline of each, and whether nodes that stall for moments are replaced
	$(GO) test -run '^TestCluster(Gap|Calm)$$' -count 1 -timeout 72h -v ./e2e/cluster -parallel 1 -pq.trials=$(TRIALS) -pq.seed=$(SEED)

campaign/foundationdb: HISTORIES = 600
campaign/foundationdb: KILLS = 70
campaign/foundationdb: ## two pqd on FoundationDB while its processes are killed for FAULTS (5m), paused for 30 s, and away for 30 s; HISTORIES (600) of clients of three pqd that are killed, stopped and paused, as fdbserver is; OPS (1000000) items that callers push and pop beside KILLS (70), of which two in seven are of fdbserver
	$(GO) test -tags fdb -run '^(TestProcessesKilled|TestClusterPaused|TestTimeDuringOutage|TestHistoriesOfSeveralBridges)$$' -count 1 -timeout 72h -v ./e2e/stores -pq.faults=$(FAULTS) -pq.pause=30s -pq.histories=$(HISTORIES) -pq.seed=$(SEED)
	$(GO) test -tags fdb -run '^TestCallersOfSeveralBridges$$' -count 1 -timeout 72h -v ./e2e/stores -pq.ops=$(OPS) -pq.kills=$(KILLS) -pq.seed=$(SEED)

campaign/schedules: KILLS = 200
campaign/schedules: SPECS = 1000
campaign/schedules: SCHEDULES = 100000
campaign/schedules: ## schedules beside KILLS (200) ends of a pqd, of three pqd, and of three bridges on FoundationDB where it is; the times of SPECS (1000) specs in eleven years, with each change of clocks; what SCHEDULES (100000) cost
	$(GO) test -run '^TestSchedulesBesideKills$$' -count 1 -timeout 72h -v ./e2e/faults -pq.kills=$(KILLS) -pq.seed=$(SEED)
	$(GO) test -run '^TestClusterSchedules$$' -count 1 -timeout 72h -v ./e2e/cluster -pq.kills=$(KILLS) -pq.seed=$(SEED)
	$(if $(FDB),$(GO) test -tags fdb -run '^TestSchedulesOfSeveralBridges$$' -count 1 -timeout 72h -v ./e2e/stores -pq.kills=$(KILLS) -pq.seed=$(SEED))
	$(GO) test -run '^TestDecade$$' -count 1 -timeout 72h -v ./internal/calendar -pq.specs=$(SPECS)
	$(GO) test -run '^(TestManySchedules|TestScheduleBurst)$$' -count 1 -timeout 1h -v ./e2e/performance -pq.schedules=$(SCHEDULES)

campaign/sources: MESSAGES = 1000000
campaign/sources: KILLS = 20
campaign/sources: ## MESSAGES (1000000) from a stream into a queue beside KILLS (20) ends of a pqd; of three pqd, and of the servers of a stream with three replicas; of three bridges on FoundationDB where it is
	$(GO) test -tags '$(FDB)' -run '^TestSource(BesideKills|OnCluster|OfSeveralBridges)$$' -count 1 -timeout 72h -v ./e2e/streams -parallel 1 -pq.messages=$(MESSAGES) -pq.kills=$(KILLS) -pq.seed=$(SEED)

campaign/links: MESSAGES = 100000
campaign/links: KILLS = 20
campaign/links: ## MESSAGES (100000) items from a store to another one, beside KILLS (20) ends of both pqd, on FoundationDB too where it is; how many of 1 KiB a second over 100 ms
	$(GO) test -tags '$(FDB)' -run '^TestLink(BesideKills(OnFoundationDB)?|OverADistance)$$' -count 1 -timeout 72h -v ./e2e/streams -parallel 1 -pq.messages=$(MESSAGES) -pq.kills=$(KILLS) -pq.seed=$(SEED)

campaign/results: OPS = 100000
campaign/results: KILLS = 20
campaign/results: ## OPS (100000) items whose callers wait for their results, beside KILLS (20) ends of a pqd, and of three pqd, and beside cancels, and callers and workers that are killed throughout, in Go, Python and JavaScript; a job of 100 steps whose worker is killed 1,000 times
	$(GO) test -run '^TestResultsBesideKills$$' -count 1 -timeout 72h -v ./e2e/faults -pq.ops=$(OPS) -pq.kills=$(KILLS) -pq.seed=$(SEED)
	$(GO) test -run '^TestClusterResults$$' -count 1 -timeout 72h -v ./e2e/cluster -pq.ops=$(OPS) -pq.kills=$(KILLS) -pq.seed=$(SEED)
	$(GO) test -run '^TestReturnedValues$$' -count 1 -timeout 72h -v ./e2e/clients -pq.ops=$(OPS) -pq.kills=$(KILLS) -pq.seed=$(SEED)
	$(GO) test -run '^TestJobGoesOnBesideKills$$' -count 1 -timeout 72h -v ./e2e/faults -pq.ops=1000 -pq.kills=$(KILLS) -pq.seed=$(SEED)
	$(GO) test -run '^TestClusterJobGoesOn$$' -count 1 -timeout 72h -v ./e2e/cluster -pq.ops=1000 -pq.kills=$(KILLS) -pq.seed=$(SEED)

campaign/celery: OPS = 100000
campaign/celery: KILLS = 20
campaign/celery: ## OPS (100000) tasks through Celery on pqd and on Redis, acknowledged when they are done, and when they start; the worker is killed KILLS (20) times: how many a second, lost, doubled
	$(GO) test -run '^TestCeleryKills$$' -count 1 -timeout 72h -v ./e2e/clients -pq.ops=$(OPS) -pq.kills=$(KILLS)

campaign/imports: OPS = 100000
campaign/imports: KILLS = 10
campaign/imports: ## OPS (100000) jobs of BullMQ, Celery and JetStream, once with 1 % that do not fit, whose import is killed KILLS (10) times
	$(GO) test -run '^TestImportFrom' -count 1 -timeout 72h -v ./e2e/clients -pq.ops=$(OPS) -pq.kills=$(KILLS)

campaign/bulk: KILLS = 10
campaign/bulk: LETTERS = 100000
campaign/bulk: ## LETTERS (100000) dead letters requeued beside clients and KILLS (10) ends of a pqd, of three pqd, and on FoundationDB where it is
	$(GO) test -run '^TestBulkBesideKills$$' -count 1 -timeout 72h -v ./e2e/faults -pq.kills=$(KILLS) -pq.letters=$(LETTERS) -pq.workers=8 -pq.seed=$(SEED)
	$(GO) test -run '^TestClusterBulk$$' -count 1 -timeout 72h -v ./e2e/cluster -pq.kills=$(KILLS) -pq.letters=$(LETTERS) -pq.seed=$(SEED)
	$(if $(FDB),$(GO) test -tags fdb -run '^TestBulkOfSeveralBridges$$' -count 1 -timeout 72h -v ./e2e/stores -pq.kills=$(KILLS) -pq.letters=$(LETTERS) -pq.workers=8 -pq.seed=$(SEED))

campaign/deploys: JOBS = 10000
campaign/deploys: RESTARTS = 100
campaign/deploys: ## JOBS (10000) jobs of ten workers of which RESTARTS (100) are restarted, in order, within a job, and by SIGKILL: what the jobs count
	$(GO) test -run '^TestDeploys$$' -count 1 -timeout 72h -v ./e2e/clients -parallel 1 -pq.jobs=$(JOBS) -pq.restarts=$(RESTARTS)

campaign/soak: ## clients at RATE (200) operations a second for DURATION (1h), three minutes after they began: memory, goroutines, descriptors and disk stay flat
	$(GO) test -run '^TestSoak$$' -count 1 -timeout 72h -v ./e2e/faults -pq.soak=$(DURATION) -pq.rate=$(RATE)

campaign/console: QUEUES = 100000
campaign/console: ITEMS = 1000000
campaign/console: ## what the console costs beside QUEUES (100000) queues, and one with ITEMS (1000000) items
	$(GO) test -run '^TestConsoleLoad$$' -count 1 -timeout 1h -v ./e2e/console -pq.queues=$(QUEUES) -pq.items=$(ITEMS)

campaign/crowd: QUEUES = 100000
campaign/crowd: ## what a pqd with QUEUES (100000) queues costs, most of them idle: start, lists, metrics, rest, memory; on FoundationDB too where it is
	$(GO) test $(if $(FDB),-tags fdb) -run '^TestCrowdOfQueues$$' -count 1 -timeout 1h -v ./e2e/performance -pq.queues=$(QUEUES)

campaign/tenants: DURATION = 5m
campaign/tenants: EACH = 2s
campaign/tenants: ## one tenant uses every verb beside twenty for DURATION (5m): its quotas hold; before, of 1,000 one does all that it can, in fifteen ways, each three times for EACH (2s): the others' latencies before and meanwhile
	$(GO) test ./e2e/performance -run '^TestHostileTenant' -count 1 -timeout 72h -v -pq.tenants=$(EACH) -pq.beside=$(DURATION)

# The commit of the program before. CONTRIBUTING.md says when it moves on.
OLD ?= $(shell cat .ci/previous)
campaign/versions: DURATION = 10m
campaign/versions: KILLS = 10
campaign/versions: ## the program of the commit OLD and this one, in turns on a store, on three nodes, and side by side on FoundationDB where it is, and on two linked stores, beside clients, kills, stops and pauses, for DURATION (10m) each; the clients of each with the pqd of the other, beside KILLS (10)
	$(GO) test -tags '$(FDB)' -run '^TestVersionsOf(Store|Nodes|Bridges|Links|Doors)$$' -count 1 -timeout 72h -v ./e2e/versions -pq.old='$(OLD)' -pq.versions=$(DURATION) -pq.seed=$(SEED)
	$(GO) test -run '^TestVersionsOfClients$$' -count 1 -timeout 72h -v ./e2e/versions -pq.old='$(OLD)' -pq.kills=$(KILLS)

campaign/overload: ## ten times what pqd can do, for a minute: it needs the whole machine
	$(GO) test -tags overload -run TestOverload -count 1 -timeout 10m -v ./e2e/performance

fuzz: ## every fuzz target for FUZZTIME (30s)
	@grep -rn --include='*_test.go' -o '^func Fuzz[A-Za-z0-9_]*' . | while IFS=: read -r file _ func; do \
		echo "$${func#func } in $$(dirname $$file)"; \
		$(GO) test -tags '$(FDB)' -run '^$$' -fuzz "^$${func#func }$$" -fuzztime $(FUZZTIME) $$(dirname $$file) || exit 1; \
	done

mutate: ## changes in the code of PACKAGE (./subjects) that its tests do not notice; a package takes minutes
	$(GO) run $(MUTATE) unleash $(PACKAGE) --workers 1 --timeout-coefficient 20 --output-statuses ltcsv

pictures: ## draw the pictures in docs: a session, pq top, the console, and with GRAFANA=<where it is installed> the dashboard
	$(GO) test ./docs -run '^TestPicture$$' -count 1 -draw
	$(GO) test ./cmd/pq/internal/top -run '^TestTopPicture$$' -count 1 -draw
	mkdir -p docs/pictures
	$(GO) test ./e2e/console -run '^TestConsolePictures$$' -count 1 -v -pq.draw
ifdef GRAFANA
	$(GO) test ./e2e/console -run '^TestDashboardPictures$$' -count 1 -timeout 30m -v -pq.grafana='$(abspath $(GRAFANA))'
else
	@echo 'NOT DRAWN: the dashboard. make pictures GRAFANA=/usr/share/grafana needs that Grafana, and prometheus in the PATH'
endif

# Outside of go.mod: a program of Rust, which pip brings.
MDBOOK = bin/mdbook/bin/mdbook
bin/mdbook/bin/mdbook: deploy/site/requirements.txt
	python3 -m venv bin/mdbook
	bin/mdbook/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r deploy/site/requirements.txt
	@touch $@

site: $(MDBOOK) ## the pages as a site for browsers, with search and its links checked, into dist/site; needs Python the first time
	$(GO) run ./deploy/site -mdbook $(MDBOOK) -o dist/site

release: test-deploy vulncheck ## programs for all PLATFORMS, packages, images, the Helm chart, the site, clients, bills of materials and checksums, into dist/; needs npm and Python
	rm -rf dist
	$(GO) run ./deploy/release -version '$(VERSION)' -date '$(DATE)' -platforms '$(PLATFORMS)' -o dist

freeze: ## write what later releases are held to, for a VERSION that has no tag yet; PART=store, answers or api writes that part alone
	@case '$(VERSION)' in 0.0.0-*) echo 'name it: make freeze VERSION=0.1.0'; exit 1;; esac
	@case '$(PART)' in ''|store|answers|api) ;; *) echo 'no part $(PART): expected store, answers or api'; exit 1;; esac
	@if git rev-parse -q --verify 'refs/tags/v$(VERSION)' >/dev/null; then echo 'v$(VERSION) is tagged: what it promised stays as it is'; exit 1; fi
	$(GO) test ./e2e/compatibility -run '^TestFreeze$$/^$(or $(PART),.*)$$' -count 1 -pq.freeze '$(VERSION)'

reproduce: ## build the release of HEAD twice, in different places and from nothing, and compare
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf $$tmp' EXIT; git archive -o $$tmp/source.tar HEAD; \
	for copy in one another; do \
		mkdir -p $$tmp/$$copy/src; tar -x -C $$tmp/$$copy/src -f $$tmp/source.tar; \
		GOCACHE=$$tmp/$$copy/cache $(GO) -C $$tmp/$$copy/src run ./deploy/release -version '$(VERSION)' -date '$(DATE)' -platforms '$(PLATFORMS)' -o $$tmp/$$copy/dist; \
	done; \
	cmp $$tmp/one/dist/SHA256SUMS $$tmp/another/dist/SHA256SUMS; cat $$tmp/one/dist/SHA256SUMS
