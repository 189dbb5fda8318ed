# SPDX-License-Identifier: Apache-2.0
# longreach. `make help` lists what this file can do.
#
#   O=dir       build directory (default build/$(CC)$(SAN))
#   CC=clang    compiler
#   SAN=asan|tsan   sanitizer build
#
# Folder rules: proxy/*.c -> libproxy.a, headroom/*.c -> libheadroom.a, daemon/*.c -> longreachd and longreach,
# tests/tools/NAME.c and tests/tools/NAME/*.c -> one program each, tests/unit/test_X.c -> one cmocka program each.

CC      ?= gcc
ifeq ($(origin CC),default)
CC      := gcc
endif
SAN     ?=
O       ?= build/$(notdir $(CC))$(if $(SAN),-$(SAN))
PREFIX  ?= /usr
DESTDIR ?=
SEED    ?= 1-40
SECONDS ?= 60

WARN    := -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror
OPT     ?= -O2 -g
CFLAGS_ALL := -std=gnu17 $(WARN) $(OPT) -fno-omit-frame-pointer -MMD -MP -I. $(CFLAGS)
LDFLAGS_ALL := $(LDFLAGS)
ifeq ($(SAN),asan)
CFLAGS_ALL  += -fsanitize=address,undefined -fno-sanitize-recover=all
LDFLAGS_ALL += -fsanitize=address,undefined
endif
ifeq ($(SAN),tsan)
CFLAGS_ALL  += -fsanitize=thread $(if $(findstring gcc,$(CC)),-Wno-tsan)
LDFLAGS_ALL += -fsanitize=thread
endif

objs     = $(patsubst %.c,$(O)/%.o,$(1))
PROXY_SRC    := $(wildcard proxy/*.c)
HEADROOM_SRC := $(wildcard headroom/*.c)
CLIENT_ONLY  := $(wildcard daemon/longreach.c daemon/client_*.c)
CLIENT_SRC   := $(CLIENT_ONLY) $(wildcard daemon/units.c)
DAEMON_SRC   := $(filter-out $(CLIENT_ONLY),$(wildcard daemon/*.c))
UNIT_SRC     := $(wildcard tests/unit/test_*.c)
SIM_SRC      := $(wildcard tests/sim/*.c)
TOOL_NAMES   := $(patsubst tests/tools/%.c,%,$(wildcard tests/tools/*.c)) $(patsubst tests/tools/%/,%,$(wildcard tests/tools/*/))
BENCH_SRC    := $(wildcard bench/*.c)

LIBS_CORE   := -lisal
LIBS_DAEMON := -linih -levent -levent_pthreads -lmnl -lnuma -lpthread

Q ?= @

-include local.mk

.PHONY: all
all: $(O)/longreachd $(O)/longreach tools

$(O)/%.o: %.c
	@mkdir -p $(dir $@)
	$(Q)$(CC) $(CFLAGS_ALL) $(EXTRA_CFLAGS) -c -o $@ $<

$(O)/libproxy.a: $(call objs,$(PROXY_SRC))
	$(Q)rm -f $@ && ar rcs $@ $^

$(O)/libheadroom.a: $(call objs,$(HEADROOM_SRC))
	$(Q)rm -f $@ && ar rcs $@ $^

# --- the daemon and its client ---
$(O)/longreachd: $(call objs,$(DAEMON_SRC)) $(O)/libproxy.a
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_CORE) $(LIBS_DAEMON)

$(O)/longreach: $(call objs,$(CLIENT_SRC)) $(O)/libproxy.a
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_CORE) $(LIBS_DAEMON)

# --- tools for tests and demo ---
.PHONY: tools
tools: $(addprefix $(O)/tools/,$(TOOL_NAMES))

.SECONDEXPANSION:
$(O)/tools/%: $$(call objs,$$(wildcard tests/tools/$$*.c tests/tools/$$*/*.c)) $(O)/libproxy.a
	@mkdir -p $(dir $@)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_CORE) -lpthread -lm

# --- unit tests ---
$(O)/unit/%: $(O)/tests/unit/%.o $(O)/libproxy.a
	@mkdir -p $(dir $@)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_CORE) -linih -levent -lcmocka -lm

UNIT_BINS := $(patsubst tests/unit/%.c,$(O)/unit/%,$(UNIT_SRC))
.PHONY: unit
unit: $(UNIT_BINS)
	$(Q)set -e; for t in $(UNIT_BINS); do $$t; done

# --- simulator: its own build of the core, with the deliberate bugs that it must find ---
.PHONY: sim-bin sim
sim-bin: $(O)/lrsim
SIM_OBJS := $(patsubst %.c,$(O)/sim-build/%.o,$(SIM_SRC) $(PROXY_SRC))
$(O)/sim-build/%.o: %.c
	@mkdir -p $(dir $@)
	$(Q)$(CC) $(CFLAGS_ALL) -DPROXY_FAULTS -c -o $@ $<
$(O)/lrsim: $(SIM_OBJS)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_CORE) -lm
sim: $(O)/lrsim
	$(O)/lrsim --seeds $(SEED)

-include $(shell find $(O) -name '*.d' 2>/dev/null)
