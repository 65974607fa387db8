# cubby. `make run` and `make test` do everything on a fresh Debian machine; `make help` lists the rest.
BUILD ?= build
WEB ?= $(BUILD)/web
PREFIX ?= /usr/local
DESTDIR ?=
VERSION := 0.1.0

CC ?= cc
ifeq ($(origin CC),default)
CC := gcc
endif
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wvla
ifeq ($(CI),true)
WARN += -Werror
endif
ifeq ($(SANITIZE),1) # another compiler: the first one's warnings are those that count
WARN := -Wno-unknown-pragmas -Wno-c2x-extensions
endif
BASE_FLAGS := -std=gnu11 -D_GNU_SOURCE -DCUBBY_VERSION='"$(VERSION)"' -Isrc -I$(BUILD)/gen -MMD -MP $(WARN)
HARDEN := -O2 -g -fstack-protector-strong -D_FORTIFY_SOURCE=2 -fPIE -fno-strict-aliasing -fstack-clash-protection -fcf-protection
LINK_HARDEN := -pie -Wl,-z,relro,-z,now,-z,noexecstack
CFLAGS_HOST = $(BASE_FLAGS) $(HARDEN) -isystem /usr/share/include/llhttp -pthread
# The runner: static musl, small. Its libraries are Debian's glibc archives; src/runner/shim.c has what they miss.
MUSL_CC := musl-gcc
CFLAGS_RUNNER := $(BASE_FLAGS) -Os -g -fstack-protector-strong -fno-strict-aliasing -ffunction-sections -fdata-sections -isystem $(BUILD)/musl
LDFLAGS_RUNNER := -static -Wl,--gc-sections -Wl,-z,relro,-z,now,-z,noexecstack
MULTIARCH := $(shell gcc -print-multiarch 2>/dev/null)
LIBDIR := /usr/lib/$(MULTIARCH)
SYSTEM_INCLUDE := /usr/include
RUNNER_LIBS := $(LIBDIR)/libpcre2-8.a $(LIBDIR)/libnettle.a

# What tests and fuzzers are built with. NULL + 0, which clang's pointer-overflow reports, is not a fault.
ifeq ($(SANITIZE),1)
CC := clang
# No fuzzer reads what these do, and what libFuzzer looks at takes a fifth of the compiler's time.
UNFUZZED := $(addprefix src/,box/% cli/% backend/jail/% backend/local/% backend/quota/% skill/own/% skill/registry/% skill/base/% \
	tool/tools/% tool/offload/% tool/servers/% front/native/% front/filesecbox/% front/deerflow/% front/join/%)
# These take next to no time when they run; optimizing them takes half of the compiler's.
COLD := $(addprefix src/,box/% cli/% backend/% skill/% front/% daemon/%)
HARDEN = $(if $(filter $(COLD),$<),-O0,-O1) -gline-tables-only \
	-fsanitize=$(if $(filter $(UNFUZZED),$<),,fuzzer-no-link$(comma))address,undefined \
	-fno-sanitize=pointer-overflow -fno-sanitize-recover=undefined -fno-omit-frame-pointer -ftrivial-auto-var-init=pattern
comma := ,
LINK_HARDEN := -fsanitize=address,undefined -fno-sanitize=pointer-overflow
endif

# One short line a step; V=1 shows the commands.
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-6s %s\n' $(1) $(2))

package = $(sort $(shell find src/$(1) -name "*.c"))
BASE := $(call package,base)
WIRE := $(call package,wire)
TREE := $(call package,tree)
STORE := $(call package,store)
RUNNER := $(call package,runner) $(BASE) $(filter-out src/tree/live.c src/tree/pack.c,$(TREE)) src/wire/capture.c src/wire/frame.c src/wire/piece.c
GATE_POLICY := $(wildcard src/gate/gate_*.c) src/http/address.c # what the daemon and the command line need of it
ENGINE := $(BASE) $(WIRE) $(TREE) $(STORE) $(GATE_POLICY) $(call package,backend) $(call package,box)
TOOLS := $(call package,rows) $(call package,tool)
SKILLS := $(call package,skill)
SKILLS_SEEN := $(wildcard src/skill/catalog/*.c) # what tools need of them where there is no daemon
HTTP_CLIENT := $(wildcard src/http/client/*.c)
HTTP_BOTH := $(wildcard src/http/websocket*.c)
DAEMON := $(ENGINE) $(SKILLS) $(TOOLS) $(call package,http) $(call package,front) $(call package,daemon)
CLI := $(filter-out $(wildcard src/store/audit*.c src/box/interpreter/*.c) src/store/secret_store.c $(addprefix src/box/secret/,secret.c seal.c authority.c trust.c),$(ENGINE)) $(SKILLS_SEEN) src/skill/zip/zip_writer.c $(TOOLS) $(HTTP_CLIENT) $(HTTP_BOTH) $(call package,cli)
GATE := $(call package,gate) src/http/address.c $(BASE) $(addprefix src/http/,head_text.c chunk.c response.c)
SEAL := $(call package,seal) $(BASE) $(GATE_POLICY) $(addprefix src/http/,head_text.c chunk.c response.c)
LLHTTP := api.c http.c llhttp.c

host_objects = $(patsubst src/%.c,$(BUILD)/host/%.o,$(1))
runner_objects = $(patsubst src/%.c,$(BUILD)/runner/%.o,$(1))
LLHTTP_OBJECTS := $(LLHTTP:%.c=$(BUILD)/llhttp/%.o)
DAEMON_LIBS := -lz -ljansson -lsqlite3 -lpcre2-8 -lssl -lcrypto -lyaml -lm
CLI_LIBS := $(LIBDIR)/libz.a $(LIBDIR)/libyaml.a $(LIBDIR)/libjansson.a $(LIBDIR)/libsqlite3.a $(LIBDIR)/libpcre2-8.a -ldl -lm

# A fresh machine lacks these: say so before the compiler does.
NEEDED := $(addprefix $(SYSTEM_INCLUDE)/,pcre2.h jansson.h seccomp.h sqlite3.h yaml.h zlib.h openssl/ssl.h nettle/sha2.h ares.h)
MISSING := $(filter-out $(wildcard $(NEEDED)),$(NEEDED))
ifneq ($(and $(MISSING),$(filter all install,$(or $(MAKECMDGOALS),all))),)
$(error $(MISSING) missing: run `make setup` first, which installs the Debian packages that building needs)
endif

all: $(BUILD)/cubbyd $(BUILD)/cubby $(BUILD)/cubby-runner $(BUILD)/cubby-gate $(BUILD)/cubby-seal ## build the programs

$(BUILD)/cubbyd: $(call host_objects,$(DAEMON)) $(LLHTTP_OBJECTS)
	$(call say,link,$@)
	$(Q)$(CC) $(CFLAGS_HOST) $(LINK_HARDEN) -o $@ $^ $(DAEMON_LIBS)
$(BUILD)/cubby: $(call host_objects,$(CLI))
	$(call say,link,$@)
	$(Q)$(CC) $(CFLAGS_HOST) $(LINK_HARDEN) -o $@ $^ $(CLI_LIBS)
$(BUILD)/cubby-gate: $(call host_objects,$(GATE)) $(LLHTTP_OBJECTS)
	$(call say,link,$@)
	$(Q)$(CC) $(CFLAGS_HOST) $(LINK_HARDEN) -o $@ $^ -ljansson -lcares
$(BUILD)/cubby-seal: $(call host_objects,$(SEAL)) $(LLHTTP_OBJECTS)
	$(call say,link,$@)
	$(Q)$(CC) $(CFLAGS_HOST) $(LINK_HARDEN) -o $@ $^ -ljansson -lssl -lcrypto
$(BUILD)/cubby-runner: $(call runner_objects,$(RUNNER))
	$(call say,link,$@)
	$(Q)$(MUSL_CC) $(LDFLAGS_RUNNER) -o $@.debug $^ $(RUNNER_LIBS)
	$(Q)strip -o $@ $@.debug

$(BUILD)/host/%.o: src/%.c | $(BUILD)/gen/.made
	@mkdir -p $(@D)
	$(call say,cc,$<)
	$(Q)$(CC) $(CFLAGS_HOST) -c -o $@ $<
# It holds these texts, whole.
$(BUILD)/host/box/interpreter/language.o: $(wildcard src/box/interpreter/*.py) src/box/interpreter/node.js
$(BUILD)/host/front/page/page.o: $(WEB)/page.bin
$(BUILD)/host/front/page/page.o: BASE_FLAGS += -DWEB_BLOB='"$(WEB)/page.bin"'
$(WEB)/page.bin: tools/web $(shell find web clients/typescript/dist -name node_modules -prune -o -type f -print)
	$(call say,web,$@)
	$(Q)tools/web $(WEB)
web: $(WEB)/page.bin ## build the page alone (PAGE=0: none)
$(BUILD)/runner/%.o: src/%.c | $(BUILD)/musl/.made $(BUILD)/gen/.made
	@mkdir -p $(@D)
	$(call say,musl,$<)
	$(Q)$(MUSL_CC) $(CFLAGS_RUNNER) -c -o $@ $<
# llhttp comes as C sources in a Debian package (node-llhttp); its header lies beside Node's.
$(BUILD)/llhttp/%.o: /usr/share/llhttp/%.c
	@mkdir -p $(@D)
	$(call say,cc,$<)
	$(Q)$(CC) $(HARDEN) -w -I/usr/share/include/llhttp -c -o $@ $<

# musl has no kernel headers of its own, and must not see glibc's: link in just what the runner uses.
$(BUILD)/musl/.made:
	@mkdir -p $(@D)
	@ln -sfn /usr/include/linux $(@D)/linux
	@ln -sfn /usr/include/asm-generic $(@D)/asm-generic
	@ln -sfn /usr/include/$(MULTIARCH)/asm $(@D)/asm
	@ln -sf /usr/include/pcre2.h $(@D)/pcre2.h
	@mkdir -p $(@D)/nettle && ln -sf $$(find /usr/include -path '*nettle/*.h') $(@D)/nettle/
	@touch $@
$(BUILD)/gen/.made:
	@mkdir -p $(@D) && touch $@

setup: ## install the Debian packages that building needs
	@tools/setup build
setup-test: ## install the Debian packages that tests and benches need
	@tools/setup test

# Where RUN_ARGS makes it listen, for the lines below.
RUN_LISTEN := $(or $(shell echo '$(RUN_ARGS)' | sed -nE 's/.*--listen[= ]([^ ,]+).*/\1/p'),127.0.0.1:7070)
RUN_SOCKET := $(patsubst unix:%,%,$(filter unix:%,$(RUN_LISTEN)))
RUN_CURL := $(if $(RUN_SOCKET),--unix-socket $(RUN_SOCKET) localhost,$(RUN_LISTEN))
run: setup ## install what is missing, build, start the daemon
	@$(MAKE) --no-print-directory -j2 all
	@echo
	@echo "  cubbyd is starting in this terminal (Ctrl-C stops it). In another one, try:"
	@echo
	@[ "$(RUN_LISTEN)" = 127.0.0.1:7070 ] || echo "    export CUBBY_URL=$(if $(RUN_SOCKET),,http://)$(RUN_LISTEN)"
	@echo "    $(CURDIR)/$(BUILD)/cubby run -- sh -c 'id; ls /'           a box of its own, gone afterwards"
	@echo "    $(CURDIR)/$(BUILD)/cubby create --thread demo              a box that stays; prints its id"
	@echo "    $(CURDIR)/$(BUILD)/cubby shell ID                          a terminal in it"
	@echo "    curl -s $(RUN_CURL)/v1/boxes -d '{}'                    the same over HTTP"
	@[ "$(RUN_SOCKET)" ] || echo "    http://$(RUN_LISTEN)/                                          the page: all of it in a browser"
	@echo "    $(CURDIR)/$(BUILD)/cubby doctor                            what this machine can do"
	@echo
	@exec $(BUILD)/cubbyd $(RUN_ARGS)

lint: setup-test ## formatting, static analysis, include direction, lengths
	@tools/lint

manual: all ## write the option tables of the manual, as the programs print them
	@tools/manual $(BUILD)

format: ## format every source file
	@clang-format -i $$(find src tools test -name '*.[ch]')

INSTALL_BIN := $(DESTDIR)$(PREFIX)/bin
INSTALL_MAN := $(DESTDIR)$(PREFIX)/share/man
install: all ## install below DESTDIR and PREFIX (default /usr/local)
	install -d $(INSTALL_BIN) $(DESTDIR)$(PREFIX)/libexec/cubby $(INSTALL_MAN)/man1 $(INSTALL_MAN)/man5 $(INSTALL_MAN)/man7 $(INSTALL_MAN)/man8
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system $(DESTDIR)$(PREFIX)/lib/systemd/user $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	install -d $(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	install -m 755 $(BUILD)/cubby $(BUILD)/cubbyd $(INSTALL_BIN)/
	install -m 755 $(BUILD)/cubby-runner $(BUILD)/cubby-gate $(BUILD)/cubby-seal $(DESTDIR)$(PREFIX)/libexec/cubby/
	for page in man/*.[1578]; do install -m 644 $$page $(INSTALL_MAN)/man$${page##*.}/; done
	for unit in cubbyd.service cubbyd.socket; do \
		sed 's|@PREFIX@|$(PREFIX)|g' packaging/systemd/$$unit >$(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit; done
	sed 's|@PREFIX@|$(PREFIX)|g' packaging/systemd/cubby-join.service >$(DESTDIR)$(PREFIX)/lib/systemd/user/cubby-join.service
	$(BUILD)/cubby completion bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/cubby
	$(BUILD)/cubby completion zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_cubby
	$(BUILD)/cubby completion fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/cubby.fish

# Packages: the same bytes for the same commit. tools/package says what each contains.
deb: all ## a Debian package, $(BUILD)/cubby_VERSION_ARCH.deb
	@tools/package deb $(BUILD) $(VERSION)
tar: all ## the programs in a tar with an installer, for other systems with glibc
	@tools/package tar $(BUILD) $(VERSION)
dist: all ## the sources in a tar that builds without npm
	@tools/package dist $(BUILD) $(VERSION)
image: all ## container images of daemon, worker and runner, for `docker load` and `podman load`
	@tools/setup image
	@tools/package image $(BUILD) $(VERSION)

clean: ## remove what was built
	rm -rf $(BUILD)

print-%: # for tools/lint: a variable's words
	@echo $($*)

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

-include src/runner/runner.mk test/test.mk

.PHONY: all web setup setup-test run lint manual format install deb tar dist image clean help
-include $(shell find $(BUILD) -type f -name '*.d' 2>/dev/null)
