# The commands of this repository. `make` alone lists them.
#
# Everything is plain cargo below: this file adds what a fresh machine lacks (scripts/setup says what it
# installs, and asks for sudo only where apt needs it) and keeps the flags in one place.

TARGET ?= $(or $(CARGO_TARGET_DIR),target)
CARGO ?= cargo
FUZZ_SECONDS ?= 20
BESIDE_MINUTES ?= 60
NS3_SEEDS ?= 1-20
ARCHES ?= amd64 arm64 armhf

.PHONY: list demo fly look look-report beside dashboard python test-python book test test-aarch64 lint deny miri docs fuzz tyres experiments records report page scorecard lab ns3 deb tarball test-deb setup install clean

list:
	@echo 'make demo         set up, build and fly the demonstration: two daemons, two bad links, a table and a picture'
	@echo 'make fly          a simulated vehicle and a ground station over two emulated links that fail: see a heartbeat cross'
	@echo 'make look         the page of fulmar web in a headless browser: pictures, accessibility, the keyboard, a thousand drones'
	@echo 'make look-report the page of make page in a headless browser: pictures, accessibility, what it asks of others (nothing)'
	@echo 'make beside       an hour of flight with and without that page: what it costs control (BESIDE_MINUTES=$(BESIDE_MINUTES))'
	@echo 'make dashboard    the Grafana dashboard against its schema (needs npm)'
	@echo 'make test         set up and run every test; ends with "N passed, N failed, N skipped"'
	@echo 'make lint         rustfmt, clippy, rustdoc and tidy, all without a warning, and make deny'
	@echo 'make deny         licences, duplicates, sources and known weaknesses of the dependencies (cargo-deny)'
	@echo 'make miri         coefficients and slabs of the codes and the parsers of the wire in Miri (nightly toolchain)'
	@echo 'make docs         the documentation of the crates, below $(TARGET)/doc'
	@echo 'make book         the book for a browser, target/book/index.html (needs mdbook)'
	@echo 'make fuzz         every fuzz target for FUZZ_SECONDS ($(FUZZ_SECONDS) s) each'
	@echo 'make test-aarch64 the codes on 64-bit Arm, under qemu'
	@echo 'make tyres        a minute for all four papers: parts of the experiments, each figure beside the paper'"'"'s'
	@echo 'make experiments  run what experiments/ has recorded again, in virtual time; fails where a figure is not reached; goes on where it was cut off'
	@echo 'make records      the same, and write what comes into experiments/: for a change that moves figures'
	@echo 'make report      run what experiments/ has recorded, as make experiments does (EMU=1: in real time too, some seven hours; LONG=1: what takes longer than five minutes too), and make the page of it'
	@echo 'make page        the page alone, in seconds: each figure and table of the papers beside ours, of what is recorded and kept: $(TARGET)/report/index.html'
	@echo 'make scorecard    play every scene that the engine is judged by, show what moved, and write the card anew: experiments/scorecard.toml'
	@echo 'make ns3          ASRAN in the simulator ns-3: builds ns3/, runs its mobility scenario for NS3_SEEDS ($(NS3_SEEDS), about 45 min), prints the table'
	@echo 'make setup        install what the above need (without ns-3), nothing else'
	@echo 'make deb          Debian packages for ARCHES ($(ARCHES)), into $(TARGET)/packages'
	@echo 'make tarball      the same without a package manager: static programs in a .tar.gz for each of ARCHES'
	@echo 'make test-deb     install, fly, upgrade, remove and purge them in fresh systems (root; minutes)'
	@echo 'make python       the laboratory as a Python wheel, into $(TARGET)/wheels'
	@echo 'make test-python  build it, install it into a fresh environment and run its tests, mypy --strict included'
	@echo 'make install      build and install fulmar and fulmar-lab (cargo install)'

demo:
	@scripts/setup demo
	$(CARGO) build --release --locked -p fulmar -p fulmar-lab
	$(TARGET)/release/fulmar-lab demo

fly:
	@scripts/setup fly
	$(CARGO) build --release --locked -p fulmar -p fulmar-lab
	@FULMAR=$(TARGET)/release/fulmar PYTHON=$(TARGET)/peers/bin/python \
		$(TARGET)/release/fulmar-lab emulate scenarios/mixed-blackout.toml -- scripts/first-flight/fly

look:
	@scripts/setup look
	$(CARGO) build --release --locked -p fulmar
	@FULMAR=$(TARGET)/release/fulmar CARGO_TARGET_DIR=$(TARGET) scripts/look-page/look

look-report: page
	@scripts/setup look
	@CARGO_TARGET_DIR=$(TARGET) scripts/look-page/look papers $(TARGET)/report/index.html

beside:
	@scripts/setup demo
	$(CARGO) build --release --locked -p fulmar -p fulmar-lab
	@FULMAR=$(TARGET)/release/fulmar $(TARGET)/release/fulmar-lab emulate scripts/look-page/beside.toml -- \
		python3 scripts/look-page/beside.py --minutes $(BESIDE_MINUTES) --out $(TARGET)/beside.jsonl

dashboard:
	@scripts/dashboard/check

test:
	@scripts/setup test
	@scripts/test

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --locked --document-private-items
	$(CARGO) fmt --manifest-path python/Cargo.toml --check
	$(CARGO) clippy --manifest-path python/Cargo.toml --target-dir $(TARGET) --locked -- -D warnings
	$(CARGO) run --quiet --locked -p tidy
	@$(MAKE) --no-print-directory deny

deny:
	@scripts/setup lint
	@scripts/deny

miri:
	@scripts/miri

docs:
	$(CARGO) doc --workspace --no-deps --locked
	@echo 'open $(TARGET)/doc/fulmar_proto/index.html'

book:
	@command -v mdbook >/dev/null || { \
		echo 'make book: mdbook is missing: cargo install --locked mdbook, then once more'; exit 1; }
	mdbook build
	@echo 'open target/book/index.html'

fuzz:
	@scripts/setup fuzz
	@scripts/fuzz $(FUZZ_SECONDS)

# A processor that the machine is not; says SKIPPED and what it lacks where it cannot run.
test-aarch64:
	@scripts/test-aarch64

# Those of real time want a quiet machine: fulmar-lab run all --emu runs them, one after the other.
# What a file came to is kept as long as the program is the same: RESUME= runs all of it anew.
RESUME ?= $(TARGET)/experiments

experiments tyres records: lab
experiments: WITH = --long $(if $(RESUME),--resume $(RESUME))
records: WITH = --long --record $(if $(RESUME),--resume $(RESUME))
tyres: WITH = --quick
experiments tyres records:
	$(TARGET)/release/fulmar-lab run all --sim $(WITH)
	$(if $(filter records,$@),$(TARGET)/release/fulmar-lab report --list experiments/items.md --claims README.md)

# What does not reach what it must is on the page as well. Real time: one after the other, on a quiet machine.
# What takes longer than five minutes is on it as it is kept; LONG=1 runs that too.
EMU ?=
LONG ?=
report: lab
	-$(TARGET)/release/fulmar-lab run all $(if $(EMU),,--sim) $(if $(LONG),--long) $(if $(RESUME),--resume $(RESUME)) >$(TARGET)/report.txt
	@$(MAKE) --no-print-directory page

# The list and the table of README.md go with the records: they are committed with them.
page: lab
	$(TARGET)/release/fulmar-lab report --html $(TARGET)/report --list experiments/items.md --claims README.md $(if $(RESUME),--resume $(RESUME))
	@echo 'open $(TARGET)/report/index.html'

lab:
	@scripts/setup build
	$(CARGO) build --release --locked -p fulmar-lab

# What moved is shown against the card that is committed, and then that is made anew.
scorecard:
	@scripts/setup build
	$(CARGO) build --release --locked -p fulmar-lab
	$(TARGET)/release/fulmar-lab scorecard --out $(TARGET)/scorecard.toml >/dev/null
	@! grep '^# SKIPPED' $(TARGET)/scorecard.toml || { echo 'make scorecard: not written, as scenes are missing'; exit 1; }
	-$(TARGET)/release/fulmar-lab scorecard --card $(TARGET)/scorecard.toml --against experiments/scorecard.toml
	cp $(TARGET)/scorecard.toml experiments/scorecard.toml

# Apart from everything else: no other target builds it or needs ns-3.
ns3:
	@scripts/setup ns3
	$(MAKE) -C ns3 OUT=$(abspath $(TARGET))/ns3
	ns3/table3 --seeds $(NS3_SEEDS) --scenario $(TARGET)/ns3/mobility --out $(TARGET)/ns3/mobility.csv

deb tarball:
	@scripts/setup packages
	@scripts/package $@ $(ARCHES)

test-deb:
	@scripts/test-packages $(ARCHES)

setup:
	@scripts/setup all

python:
	@scripts/setup python
	@scripts/python wheel

test-python:
	@scripts/setup python
	@scripts/python test

install:
	@scripts/setup build
	$(CARGO) install --locked --path crates/fulmar
	$(CARGO) install --locked --path crates/lab

clean:
	$(CARGO) clean
