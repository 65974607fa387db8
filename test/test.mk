# Tests, fuzzers, bench; included by the Makefile.
#   make test [T=pattern] [BACKENDS="jail local remote docker"]    make test-vm [T=pattern]    make fuzz [FUZZ_SECONDS=600]    make bench [BENCH=name]
# Two builds: $(BUILD) itself, and $(BUILD)/asan (clang: ASan, UBSan, and what libFuzzer looks at) for tests and fuzzers.

# Every object but the programs' main.c files, in an archive: a test program links what it names and nothing else.
TESTED := $(filter-out %/main.c src/runner/shim.c,$(ENGINE) $(SKILLS) $(TOOLS) $(call room,http) $(call room,front) $(call room,daemon) \
	$(call room,cli) $(call room,runner))
TESTED_OBJECTS := $(call host_objects,$(TESTED)) $(LLHTTP_OBJECTS)
TEST_LIBS := $(DAEMON_LIBS) $(LIBDIR)/libpcre2-8.a $(LIBDIR)/libnettle.a -ldl
UNIT_PROGRAMS := $(patsubst test/unit/%.c,$(BUILD)/unit/%,$(wildcard test/unit/*_test.c))
FUZZ_PROGRAMS := $(patsubst test/fuzz/%.c,$(BUILD)/fuzz/%,$(wildcard test/fuzz/fuzz_*.c))
ATTACKS := $(patsubst test/hostile/%.c,$(BUILD)/test/%,$(wildcard test/hostile/*.c))
SUBMAKE = $(MAKE) -s --no-print-directory

$(BUILD)/host/runner/exec/confine.o: $(BUILD)/gen/seccomp_filter.h
$(BUILD)/tested.a: $(TESTED_OBJECTS)
	rm -f $@ && ar rcsTP $@ $^
$(BUILD)/unit/%: test/unit/%.c $(BUILD)/tested.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_HOST) -Itest/lib $(LINK_HARDEN) -o $@ $< $(BUILD)/tested.a $(TEST_LIBS)
$(BUILD)/fuzz/%: test/fuzz/%.c $(BUILD)/tested.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_HOST) -fsanitize=fuzzer -o $@ $< $(BUILD)/tested.a $(TEST_LIBS)
# Static, because tests also carry it into boxes.
$(BUILD)/test/tool: test/lib/tool.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O2 -g $(WARN) -static -o $@ $<
# What hostile cases do in boxes, in C: test/hostile/attack_NAME.c, static as well.
$(BUILD)/test/attack_%: test/hostile/attack_%.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O2 -g $(WARN) -pthread -static -o $@ $<
$(BUILD)/test/race: test/lib/race.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O2 -g $(WARN) -pthread -o $@ $<
$(BUILD)/test/load: test/lib/load.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O2 -g $(WARN) -pthread -o $@ $<
$(BUILD)/test/lack: test/lib/lack.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O2 -g $(WARN) -o $@ $<
$(BUILD)/test/linkem: test/lib/linkem.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O2 -g $(WARN) -o $@ $<
$(BUILD)/test/crash: test/lib/crash.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O2 -g $(WARN) -o $@ $<
# musl: it starts in a fifth of the time
$(BUILD)/test/pick: test/lib/pick.c
	@mkdir -p $(@D)
	$(MUSL_CC) -std=gnu11 -D_GNU_SOURCE -O2 -g $(WARN) -static -o $@ $<
$(BUILD)/test/ptyrun: test/lib/ptyrun.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O2 -g $(WARN) -o $@ $< -lutil
$(BUILD)/bench/bench: $(wildcard test/bench/*.c test/bench/*.h)
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O2 -g $(WARN) -o $@ $(filter %.c,$^)

unit-programs: $(UNIT_PROGRAMS)
fuzz-programs: $(FUZZ_PROGRAMS)
test-asan:
	+@$(SUBMAKE) BUILD=$(BUILD)/asan SANITIZE=1 all unit-programs fuzz-programs
test-build: all $(BUILD)/test/tool $(BUILD)/test/linkem $(BUILD)/test/lack $(BUILD)/test/crash $(BUILD)/test/ptyrun $(BUILD)/test/pick $(BUILD)/test/race $(BUILD)/test/load $(ATTACKS) test-asan

test: setup-test ## run every test; the last line counts them
	+@tools/setup npm & $(SUBMAKE) -j2 test-build; built=$$?; wait; exit $$built
	@BACKENDS="$(BACKENDS)" test/lib/driver.sh $(BUILD) '$(T)'

# On a kernel that has cgroup v2 alone, in a machine of its own.
test-vm: ## run the tests of boxes in a virtual machine with cgroup v2
	@tools/setup vm
	+@$(SUBMAKE) -j2 all $(BUILD)/test/tool $(BUILD)/test/lack $(BUILD)/test/crash $(BUILD)/test/ptyrun $(BUILD)/test/pick $(BUILD)/test/race $(BUILD)/test/load $(ATTACKS) $(BUILD)/unit/jail_test
	@test/vm/run.sh $(BUILD) '$(T)'

fuzz: setup-test ## fuzz for FUZZ_SECONDS (600) a program; the long form of the tests that have one
	+@$(SUBMAKE) -j2 test-build
	@FUZZ_SECONDS=$(or $(FUZZ_SECONDS),600) test/lib/driver.sh $(BUILD) fuzz/

soak: setup-test ## the soak and the fault run for long: SOAK_EXECS, SOAK_BOXES, FAULT_ROUNDS; FAULT_SEED repeats one
	+@$(SUBMAKE) -j2 test-build
	@SOAK_EXECS=$(or $(SOAK_EXECS),100000) SOAK_BOXES=$(or $(SOAK_BOXES),10000) FAULT_ROUNDS=$(or $(FAULT_ROUNDS),200) \
		FAULT_SEED=$(FAULT_SEED) CRASH_POINTS=all BUILD=$(BUILD) test/hostile/run.sh test/hostile/13b_soak.sh test/hostile/25b_faults.sh \
		test/hostile/25c_crash_points.sh
	@PROVIDER_BOXES=1000 CRASH_POINTS=all BUILD=$(BUILD) test/run/run.sh test/run/49_provider.sh test/run/49_snapshot_crash.sh
	@$(BUILD)/asan/unit/provider_model_test $(or $(MODEL_SECONDS),300)

bench: setup-test ## measure, each figure beside its peer in the same run
	+@$(SUBMAKE) -j2 all $(BUILD)/bench/bench $(BUILD)/test/linkem $(BUILD)/test/tool
	@test/bench/bench.sh $(BUILD) '$(BENCH)'

.PHONY: test test-vm fuzz soak bench unit-programs fuzz-programs test-asan test-build setup-test
