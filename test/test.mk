# Tests, fuzzers, bench; included by the Makefile.
#   make test [T=pattern] [BACKENDS="jail local remote docker"]    make test-vm [T=pattern]
#   make fuzz [FUZZ_SECONDS=600]    make bench [BENCH=name]
# Two builds: $(BUILD) itself, and $(BUILD)/asan (clang: ASan, UBSan, and what libFuzzer looks at) for tests and fuzzers.

# Every object but the programs' main.c files, in an archive: a test program links what it names and nothing else.
TESTED := $(filter-out %/main.c src/runner/shim.c,$(ENGINE) $(SKILLS) $(TOOLS) $(call package,http) $(call package,front) $(call package,daemon) \
	$(call package,cli) $(call package,runner) src/gate/dns.c src/gate/hello.c)
TESTED_OBJECTS := $(call host_objects,$(TESTED)) $(LLHTTP_OBJECTS)
TEST_LIBS := $(DAEMON_LIBS) $(LIBDIR)/libpcre2-8.a $(LIBDIR)/libnettle.a -ldl
UNIT_PROGRAMS := $(patsubst test/unit/%.c,$(BUILD)/unit/%,$(shell find test/unit -name "*_test.c"))
FUZZ_PROGRAMS := $(patsubst test/fuzz/%.c,$(BUILD)/fuzz/%,$(wildcard test/fuzz/fuzz_*.c))
SUBMAKE = $(MAKE) -s --no-print-directory

$(BUILD)/host/runner/exec/confine.o: $(BUILD)/gen/seccomp_filter.h
$(BUILD)/tested.a: $(TESTED_OBJECTS)
	rm -f $@ && ar rcsTP $@ $^
$(BUILD)/unit/%: test/unit/%.c $(BUILD)/tested.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_HOST) -O0 -U_FORTIFY_SOURCE -Itest/lib $(LINK_HARDEN) -o $@ $< $(BUILD)/tested.a $(TEST_LIBS)
# Those of the gate and of a seal hold one file of the program, and are linked with its others.
FUZZ_GATE := $(call host_objects,$(filter-out $(addprefix src/gate/,main.c control.c dns.c hello.c) $(GATE_POLICY),$(call package,gate)))
FUZZ_SEAL := $(call host_objects,$(filter-out src/seal/main.c,$(call package,seal)))
$(BUILD)/fuzz/fuzz_gate_control: $(FUZZ_GATE)
$(BUILD)/fuzz/fuzz_gate_control: FUZZ_MORE := $(FUZZ_GATE) -lcares
$(BUILD)/fuzz/fuzz_seal_wire $(BUILD)/fuzz/fuzz_seal_http: $(FUZZ_SEAL)
$(BUILD)/fuzz/fuzz_seal_wire: FUZZ_MORE := $(FUZZ_SEAL)
$(BUILD)/fuzz/fuzz_seal_http: FUZZ_MORE := $(filter-out %/conn.o,$(FUZZ_SEAL))
$(BUILD)/fuzz/%: test/fuzz/%.c $(BUILD)/tested.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_HOST) -fsanitize=fuzzer -o $@ $< $(FUZZ_MORE) $(BUILD)/tested.a $(TEST_LIBS)
# Programs that tests run: HELPERS on the host, CARRIED also in boxes (static; what hostile cases do there is test/hostile/attack_NAME.c).
HELPERS := $(addprefix $(BUILD)/test/,race load lack linkem crash ptyrun)
CARRIED := $(BUILD)/test/tool $(patsubst test/hostile/%.c,$(BUILD)/test/%,$(wildcard test/hostile/*.c))
CFLAGS_HELPER := -std=gnu11 -D_GNU_SOURCE -O2 -g $(WARN) -pthread
$(CARRIED): CFLAGS_HELPER += -static
$(BUILD)/test/%: test/lib/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_HELPER) -o $@ $< -lutil
$(BUILD)/test/attack_%: test/hostile/attack_%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_HELPER) -o $@ $<
# musl: they start in a fifth of the time
$(BUILD)/test/pick: test/lib/pick_json.h
$(BUILD)/test/pick $(BUILD)/test/ask: $(BUILD)/test/%: test/lib/%.c
	@mkdir -p $(@D)
	$(MUSL_CC) -std=gnu11 -D_GNU_SOURCE -O2 -g $(WARN) -static -o $@ $<
$(BUILD)/bench/bench: $(wildcard test/bench/*.c test/bench/*.h)
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O2 -g $(WARN) -o $@ $(filter %.c,$^) -lssl -lcrypto

unit-programs: $(UNIT_PROGRAMS)
fuzz-programs: $(FUZZ_PROGRAMS)
# The runner has no sanitizers, so the one that was built is theirs too.
test-asan: $(BUILD)/cubby-runner $(WEB)/page.bin
	@mkdir -p $(BUILD)/asan && cp -u --remove-destination $(BUILD)/cubby-runner $(BUILD)/asan/cubby-runner
	+@$(SUBMAKE) BUILD=$(BUILD)/asan WEB=$(WEB) SANITIZE=1 asan-programs
asan-programs: $(BUILD)/cubbyd $(BUILD)/cubby $(BUILD)/cubby-gate $(BUILD)/cubby-seal unit-programs fuzz-programs
test-helpers: $(HELPERS) $(CARRIED) $(BUILD)/test/pick $(BUILD)/test/ask
test-build: all test-helpers test-asan

test: setup-test ## run every test; the last line counts them
	+@tools/setup npm & $(SUBMAKE) -j2 test-build; built=$$?; wait; exit $$built
	@BACKENDS="$(BACKENDS)" test/lib/driver.sh $(BUILD) '$(T)'

# On a kernel that has cgroup v2 alone, in a machine of its own.
test-vm: ## run the tests of boxes in a virtual machine with cgroup v2
	@tools/setup vm
	+@$(SUBMAKE) -j2 all test-helpers $(BUILD)/unit/backend/jail/jail_test
	@test/vm/run.sh $(BUILD) '$(T)'

fuzz: setup-test ## fuzz for FUZZ_SECONDS (600) a program; the long form of the tests that have one
	+@$(SUBMAKE) -j2 test-build
	@FUZZ_SECONDS=$(or $(FUZZ_SECONDS),600) test/lib/driver.sh $(BUILD) fuzz/

soak: setup-test ## the soak and the fault run for long: SOAK_EXECS, SOAK_BOXES, FAULT_ROUNDS; FAULT_SEED repeats one
	+@$(SUBMAKE) -j2 test-build
	@SOAK_EXECS=$(or $(SOAK_EXECS),100000) SOAK_BOXES=$(or $(SOAK_BOXES),10000) FAULT_ROUNDS=$(or $(FAULT_ROUNDS),200) \
		FAULT_SEED=$(FAULT_SEED) CRASH_POINTS=all BUILD=$(BUILD) test/hostile/run.sh test/hostile/soak.sh test/hostile/crash_random.sh \
		test/hostile/crash_points.sh
	@PROVIDER_BOXES=1000 CRASH_POINTS=all BUILD=$(BUILD) test/run/run.sh test/run/box_provider.sh test/run/snapshot_crash.sh
	@$(BUILD)/asan/unit/box/provider/provider_model_test $(or $(MODEL_SECONDS),300)

bench: setup-test ## measure, each figure beside its peer in the same run
	+@$(SUBMAKE) -j2 all $(BUILD)/bench/bench $(BUILD)/test/linkem $(BUILD)/test/tool
	@test/bench/bench.sh $(BUILD) '$(BENCH)'

.PHONY: test test-vm fuzz soak bench unit-programs fuzz-programs test-helpers test-asan asan-programs test-build setup-test
