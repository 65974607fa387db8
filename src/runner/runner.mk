# The runner's system call filter is generated at build time, so that libseccomp stays out of the runner.
$(BUILD)/seccomp-gen: tools/seccomp-gen.c
	@mkdir -p $(@D)
	$(call say,cc,$<)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE $(WARN) -O1 -o $@ $< -lseccomp
$(BUILD)/gen/seccomp_filter.h: $(BUILD)/seccomp-gen
	@mkdir -p $(@D)
	$(Q)$< > $@.new && mv $@.new $@
$(BUILD)/runner/runner/exec/confine.o: $(BUILD)/gen/seccomp_filter.h
