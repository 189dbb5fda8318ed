# SPDX-License-Identifier: Apache-2.0
# longreach. `make help` lists the targets.
#
#   O=dir       build directory (default build/$(CC)$(SAN))
#   CC=clang    compiler
#   SAN=asan|tsan   sanitizer build
#   LTO=            without optimisation across files (gcc only; longreachd and the benchmarks)
#
# Folder rules: proxy/**/*.c -> libproxy.a, seal/*.c -> libseal.a, headroom/*.c -> libheadroom.a, plan/*.c -> libplan.a,
# daemon/client/*.c -> longreach, the other daemon/**/*.c -> longreachd, copy/wire, copy/client, copy/server and copy/back
# -> longreach and longreachd, tests/tools/NAME.c and tests/tools/NAME/*.c -> one program each,
# tests/unit/test_X.c -> one cmocka program each.

CC      ?= gcc
ifeq ($(origin CC),default)
CC      := gcc
endif
SAN     ?=
O       ?= build/$(notdir $(CC))$(if $(SAN),-$(SAN))
PREFIX  ?= /usr
# Never /lib: on a merged-/usr system /lib is a link, and a copied tree would replace the link by a folder.
UNITDIR ?= $(PREFIX)/lib/systemd/system
LIBDIR  ?= $(PREFIX)/lib
DESTDIR ?=
SEED    ?= 1-40
SECONDS ?= 60

WARN    := -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror
# A sanitizer build is run only a few times, so its build time counts.
OPT     ?= $(if $(SAN),-O1 -g1,-O2 -g)
# For any x86-64, tuned for recent processors: by default gcc clears and copies structs with string instructions, which take
# dozens of cycles to start.
TUNE    := $(if $(findstring x86_64,$(shell $(CC) -dumpmachine)),-mtune=icelake-server)
# A seed of the simulator gives the same run on every target: no fused multiply-add on processors that have one.
CFLAGS_ALL := -std=gnu17 $(WARN) $(OPT) $(TUNE) -ffp-contract=off -fno-omit-frame-pointer -MMD -MP -I. $(CFLAGS)
LDFLAGS_ALL := $(LDFLAGS)

# The core is many small files, and a packet passes twenty of them: calls between files are 7 % of its cost.
# Objects are fat, so that tests link quickly without LTO.
LTO ?= $(if $(SAN)$(findstring clang,$(CC)),,-flto=auto -ffat-lto-objects)
LDFLAGS_ALL += $(if $(LTO),-fno-lto)
LDFLAGS_LTO = $(filter-out -fno-lto,$(LDFLAGS_ALL)) $(LTO)
ifeq ($(SAN),asan)
CFLAGS_ALL  += -fsanitize=address,undefined -fno-sanitize-recover=all
LDFLAGS_ALL += -fsanitize=address,undefined
endif
ifeq ($(SAN),tsan)
CFLAGS_ALL  += -fsanitize=thread $(if $(findstring gcc,$(CC)),-Wno-tsan)
LDFLAGS_ALL += -fsanitize=thread
endif

objs     = $(patsubst %.c,$(O)/%.o,$(1))
PROXY_SRC    := $(wildcard proxy/*.c proxy/*/*.c proxy/*/*/*.c)
SEAL_SRC     := $(wildcard seal/*.c)
HEADROOM_SRC := $(wildcard headroom/*.c)
PLAN_SRC     := $(wildcard plan/*.c)
LIB_SRC      := $(wildcard lib/*.c)
CLIENT_ONLY  := $(wildcard daemon/client/*.c)
# A copy to here also uses the server's code, and an export also the sender's.
COPY_BOTH    := $(wildcard copy/wire/*.c copy/client/*.c) $(filter-out copy/server/copy_exports.c,$(wildcard copy/server/*.c))
COPY_CLIENT  := $(COPY_BOTH) copy/back/copy_pull.c
COPY_SERVER  := $(COPY_BOTH) copy/server/copy_exports.c copy/back/copy_push.c
# Files by which the doctor reads link files and the machine.
CLIENT_SRC   := $(CLIENT_ONLY) $(COPY_CLIENT) $(wildcard daemon/config/*.c daemon/machine/*.c daemon/util/*.c) daemon/kernel/nft.c \
	daemon/kernel/ip_port.c daemon/gpu/cuda_api.c daemon/arena/arena_file.c daemon/arena/page_lock.c $(LIB_SRC)
DAEMON_SRC   := $(filter-out $(CLIENT_ONLY),$(wildcard daemon/*.c daemon/*/*.c)) $(COPY_SERVER) $(LIB_SRC)
UNIT_SRC     := $(wildcard tests/unit/test_*.c)
SIM_SRC      := $(wildcard tests/sim/*.c)
TOOL_NAMES   := $(filter-out fakecuda,$(patsubst tests/tools/%.c,%,$(wildcard tests/tools/*.c)) \
	$(patsubst tests/tools/%/,%,$(wildcard tests/tools/*/)))
BENCH_SRC    := $(wildcard bench/*.c)

LIBS_CORE   := -lisal
# intel-ipsec-mb is on x86-64 only; without it OpenSSL does the work
HAVE_IPSEC_MB := $(wildcard /usr/include/intel-ipsec-mb.h)
LIBS_SEAL   := -lcrypto $(if $(HAVE_IPSEC_MB),-lIPSec_MB)
LIBS_DAEMON := -levent_openssl -lssl $(LIBS_SEAL) -linih -levent -levent_pthreads -lmnl -lnuma -lpthread
$(O)/proxy/%.o $(O)/seal/%.o $(O)/daemon/%.o $(O)/bench/%.o: CFLAGS_ALL += $(LTO)
# The assembler includes the page: the object must not be built again where it is linked.
$(O)/daemon/telemetry/web_page.o: CFLAGS_ALL += -fno-lto
$(O)/daemon/telemetry/web_page.o: daemon/telemetry/page.html
$(O)/seal/%.o: CFLAGS_ALL += $(if $(HAVE_IPSEC_MB),-DHAVE_IPSEC_MB)

Q ?= @

-include local.mk

# A toolkit's cuda.h that is not among the system's headers; without a toolkit, our own declarations (cuda_types.h).
CUDA_H := $(if $(wildcard /usr/local/cuda/include/cuda.h),-idirafter /usr/local/cuda/include)
$(O)/daemon/gpu/%.o $(O)/tests/unit/test_cuda_api.o: CFLAGS_ALL += $(CUDA_H)

# Keeps intermediate objects, so that a second `make` builds only what changed.
.SECONDARY:

# The target of a plain `make`.
.DEFAULT_GOAL := all
.PHONY: all
all: $(O)/longreachd $(O)/longreach tools

# A core that counts the work of each call: tests/sim/steps.h.
STEPS := -fsanitize-coverage=trace-pc

# Compiler and flags of the objects: a change rebuilds them.
MADE_WITH := $(CC) $(CFLAGS_ALL) $(EXTRA_CFLAGS) $(LTO) $(STEPS)
.PHONY: FORCE
$(O)/made-with: FORCE
	@mkdir -p $(O)
	@echo '$(MADE_WITH)' | cmp -s - $@ || echo '$(MADE_WITH)' >$@

$(O)/%.o: %.c $(O)/made-with
	@mkdir -p $(dir $@)
	$(Q)$(CC) $(CFLAGS_ALL) $(EXTRA_CFLAGS) -c -o $@ $<

$(O)/libproxy.a: $(call objs,$(PROXY_SRC))
	$(Q)rm -f $@ && ar rcs $@ $^

$(O)/libseal.a: $(call objs,$(SEAL_SRC))
	$(Q)rm -f $@ && ar rcs $@ $^

$(O)/libheadroom.a: $(call objs,$(HEADROOM_SRC))
	$(Q)rm -f $@ && ar rcs $@ $^

$(O)/libplan.a: $(call objs,$(PLAN_SRC))
	$(Q)rm -f $@ && ar rcs $@ $^

# --- the daemon and its client ---
$(O)/longreachd: $(call objs,$(DAEMON_SRC)) $(O)/libheadroom.a $(O)/libseal.a $(O)/libproxy.a
	$(Q)$(CC) $(LDFLAGS_LTO) -o $@ $^ $(LIBS_CORE) $(LIBS_DAEMON) -lsystemd -lseccomp -lxxhash

$(O)/longreach: $(call objs,$(CLIENT_SRC)) $(O)/libplan.a $(O)/libheadroom.a $(O)/libseal.a $(O)/libproxy.a
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_CORE) $(LIBS_DAEMON) -ljson-c -lncursesw -lxxhash

# --- the plugin for Engine=dpdk: only with DPDK installed (Debian: libdpdk-dev); longreachd loads it for a link that uses it ---
PLUGIN_DPDK := longreach-dpdk.so
# gcc's warnings are for our code, not for DPDK's headers
DPDK_CFLAGS = $(patsubst -I%,-isystem %,$(shell pkg-config --cflags libdpdk))
# Part of `make all` and `make unit` if DPDK is installed, but not of sanitizer builds: DPDK's libraries have no sanitizers.
DPDK_HERE := $(if $(SAN),,$(shell pkg-config --exists libdpdk 2>/dev/null && echo yes))
.PHONY: dpdk dpdk-bench
$(if $(DPDK_HERE),all: $(O)/plugins/$(PLUGIN_DPDK))
dpdk-bench: $(O)/dpdk/bench_nic_lend $(O)/dpdk/bench_nic_edge
dpdk:
	$(Q)pkg-config --exists libdpdk || { echo "dpdk: no libdpdk here: apt-get install libdpdk-dev" >&2; exit 1; }
	$(Q)$(MAKE) --no-print-directory $(O)/plugins/$(PLUGIN_DPDK)
$(O)/plugins/$(PLUGIN_DPDK): $(wildcard dpdk/*.[ch]) daemon/lan/nic_engine.h $(O)/made-with
	@mkdir -p $(dir $@)
	$(Q)$(CC) $(CFLAGS_ALL) $(DPDK_CFLAGS) $(LDFLAGS) -MF $@.d -fPIC -shared -o $@ $(wildcard dpdk/*.c) \
		$(shell pkg-config --libs libdpdk) -lpthread
$(O)/dpdk/bench_nic_lend: bench/dpdk/bench_nic_lend.c
$(O)/dpdk/test_nic_lend: tests/dpdk/test_nic_lend.c
$(O)/dpdk/test_nic_lend $(O)/dpdk/bench_nic_lend: $(wildcard dpdk/*.[ch]) daemon/lan/nic_engine.h $(O)/made-with
	@mkdir -p $(dir $@)
	$(Q)$(CC) $(CFLAGS_ALL) $(DPDK_CFLAGS) $(LDFLAGS) -MF $@.d -o $@ $(filter %.c,$^) \
		$(shell pkg-config --libs libdpdk) -lcmocka -lpthread

$(O)/dpdk/test_edge_dpdk: tests/dpdk/test_edge_dpdk.c
$(O)/dpdk/bench_nic_edge: bench/dpdk/bench_nic_edge.c
$(O)/dpdk/test_edge_dpdk $(O)/dpdk/bench_nic_edge: tests/dpdk/edge_pair.h $(wildcard daemon/lan/*.[ch]) $(O)/libseal.a \
		$(O)/libproxy.a $(O)/made-with | $(O)/plugins/$(PLUGIN_DPDK)
	@mkdir -p $(dir $@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -MF $@.d -o $@ $(filter tests/dpdk/%.c bench/dpdk/%.c,$^) $(filter %.a,$^) \
		$(LIBS_CORE) $(LIBS_SEAL) -lcmocka -lpthread -lm

# --- liblongreach: the relay, for programs ---
LIB_SONAME := liblongreach.so.0
.PHONY: lib
lib: $(O)/$(LIB_SONAME) $(O)/liblongreach.a
all: lib
$(O)/$(LIB_SONAME): $(LIB_SRC) $(wildcard lib/*.h) lib/liblongreach.map $(O)/made-with
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS) -MF $@.d -fPIC -shared -Wl,-soname,$(LIB_SONAME) \
		-Wl,--version-script=lib/liblongreach.map -o $@ $(LIB_SRC)
	$(Q)ln -sf $(LIB_SONAME) $(O)/liblongreach.so
$(O)/liblongreach.a: $(call objs,$(LIB_SRC))
	$(Q)rm -f $@ && ar rcs $@ $^

# --- example programs: built against the installed header alone, as a user's program is ---
EXAMPLES := $(patsubst examples/%.c,%,$(wildcard examples/*.c))
.PHONY: examples
examples: $(addprefix $(O)/examples/,$(EXAMPLES))
all: examples
$(O)/examples/include/longreach.h: lib/longreach.h
	@mkdir -p $(dir $@)
	$(Q)cp $< $@
# A toolkit's cuda.h, or without a toolkit that of fakecuda. The libcuda.so.1 is found at run time.
$(O)/examples/%: examples/%.c $(O)/examples/include/longreach.h $(O)/liblongreach.a $(O)/tools/fakecuda/libcuda.so.1 $(O)/made-with
	$(Q)$(CC) $(filter-out -I.,$(CFLAGS_ALL)) $(CUDA_H) -I$(O)/examples/include -idirafter tests/tools/fakecuda/include \
		$(LDFLAGS_ALL) -MF $@.d -o $@ $< $(O)/liblongreach.a -Wl,--as-needed $(O)/tools/fakecuda/libcuda.so.1 -lxxhash

# --- the manual page of all counters, out of their lists ---
all: $(O)/longreach-counters.7
$(O)/counters_page: $(call objs,etc/man/counters_page.c)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^
$(O)/longreach-counters.7: $(O)/counters_page
	$(Q)$< >$@

# --- tools for tests and demo ---
.PHONY: tools
tools: $(addprefix $(O)/tools/,$(TOOL_NAMES)) $(O)/tools/clock_shift.so $(O)/tools/loop_ends.so $(O)/tools/fakecuda/libcuda.so.1

.SECONDEXPANSION:
$(O)/tools/%: $$(call objs,$$(wildcard tests/tools/$$*.c tests/tools/$$*/*.c)) $(O)/libproxy.a
	@mkdir -p $(dir $@)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_CORE) -lpthread -lm
$(O)/tools/wanline $(O)/tools/mutate: $(O)/tests/sim/rng.o
$(O)/tools/gpumem: $(call objs,daemon/gpu/cuda_api.c daemon/client/client_gpu.c $(LIB_SRC))
$(O)/tools/vector: $(call objs,$(LIB_SRC))

# loaded into programs of any build, so built without sanitizers
$(O)/tools/clock_shift.so $(O)/tools/loop_ends.so: $(O)/tools/%.so: tests/preload/%.c
	@mkdir -p $(dir $@)
	$(Q)$(CC) -std=gnu17 -O2 -Wall -Wextra -Werror -fPIC -shared -o $@ $<

# a driver of CUDA without a GPU: LD_LIBRARY_PATH names its folder
$(O)/tools/fakecuda/libcuda.so.1: $(wildcard tests/tools/fakecuda/*.[ch]) $(wildcard daemon/gpu/cuda_*.h)
	@mkdir -p $(dir $@)
	$(Q)$(CC) -std=gnu17 -O2 -g -Wall -Wextra -Werror -I. -fPIC -shared -Wl,-soname,libcuda.so.1 -Wl,-z,defs \
		-o $@ $(filter %.c,$^) -lpthread

# --- unit tests ---
$(O)/unit/%: $(O)/tests/unit/%.o $(O)/libplan.a $(O)/libheadroom.a $(O)/libseal.a $(O)/libproxy.a
	@mkdir -p $(dir $@)
	$(Q)$(CC) $(LDFLAGS_ALL) -Wl,--as-needed -o $@ $^ $(LIBS_CORE) -levent_openssl -lssl $(LIBS_SEAL) -linih -levent -lmnl \
		-ljson-c -lseccomp -lxxhash -lcmocka -lm
# The JSON writer and json-c share names, so the writer is not in one file with its test.
CLIENT_JSON := $(call objs,daemon/client/client_json.c daemon/client/client_answer.c)
$(O)/unit/test_client_json $(O)/unit/test_trace $(O)/unit/test_top_model: $(CLIENT_JSON)
$(O)/unit/test_client_json $(O)/unit/test_headroom_tool $(O)/unit/test_headroom_apply: $(call objs,daemon/util/json.c)
$(O)/unit/test_plan: $(call objs,daemon/util/json.c)
$(O)/unit/test_explain $(O)/unit/test_client_status $(O)/unit/test_doctor_link: $(CLIENT_JSON)
$(O)/unit/test_client_status $(O)/unit/test_doctor_link: $(call objs,daemon/util/units.c daemon/client/client_cost.c)
$(O)/unit/test_explain $(O)/unit/test_flow_filter: $(call objs,daemon/util/units.c)
$(O)/unit/test_explain_ask: $(CLIENT_JSON) $(call objs,daemon/client/explain_causes.c daemon/client/client_wrap.c \
	$(addprefix daemon/util/,addr.c flow_filter.c json.c units.c))
$(O)/unit/test_worker_command: $(call objs,daemon/util/flow_filter.c daemon/util/addr.c daemon/util/units.c)
$(O)/unit/test_worker_command $(O)/unit/test_flow_trace: $(call objs,daemon/worker/flow_trace.c)
$(O)/unit/test_worker $(O)/unit/test_worker_lan $(O)/unit/test_worker_command $(O)/unit/test_metrics: $(call objs,daemon/worker/stage_cost.c)
$(O)/unit/test_headroom_tool $(O)/unit/test_plan: $(CLIENT_JSON) $(call objs,daemon/util/units.c)

$(O)/unit/test_client_relay: $(call objs,daemon/util/units.c daemon/util/json.c lib/lr_strerror.c)
$(O)/unit/test_relay_thread: $(call objs,daemon/relay/relay_file.c)
$(O)/unit/test_link_session: $(call objs,daemon/link/link_sum.c)
# The relay's thread and the library at the two ends of fake_verbs.h.
RELAY_RDMA := $(addprefix daemon/relay/relay_,channel.c client.c execute.c file.c gpu.c op.c pieces.c rdma.c rdma_work.c region.c \
	wire.c) \
	daemon/util/addr.c daemon/util/units.c $(addprefix lib/lr_,rdma.c rdma_wire.c strerror.c verbs.c)
$(addprefix $(O)/unit/,test_relay_rdma $(addprefix test_relay_rdma_,notice region stress work)): $(O)/unit/%: $(O)/tests/unit/%.o $(call objs,$(RELAY_RDMA)) $(O)/libproxy.a
	@mkdir -p $(dir $@)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_CORE) -lcmocka -lm

# The library, the relay's thread and copies, with one relay for both sites.
RELAY_LOOP := $(wildcard daemon/relay/*.c lib/*.c) $(COPY_BOTH) copy/back/copy_pull.c copy/back/copy_push.c \
	$(addprefix daemon/util/,addr.c units.c json.c)
$(O)/unit/test_relay_loop: $(O)/tests/unit/test_relay_loop.o $(call objs,$(RELAY_LOOP)) $(O)/libproxy.a
	@mkdir -p $(dir $@)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_CORE) -levent -lxxhash -lcmocka -lm

$(O)/unit/test_cuda_api: $(call objs,tests/unit/cuda_own_facts.c)
# dlopen(3) looks there first, only in the tests; a RUNPATH does not work for a sanitizer's dlopen
FAKECUDA := $(O)/tools/fakecuda/libcuda.so.1
$(O)/unit/test_fakecuda $(O)/unit/test_gpu: LDFLAGS_ALL += -Wl,--disable-new-dtags,-rpath,$(abspath $(dir $(FAKECUDA)))
$(O)/unit/test_fakecuda $(O)/unit/test_gpu: | $(FAKECUDA)

# Unit tests run in a second and compile in a minute: their own code is not optimised.
$(O)/tests/unit/%.o $(O)/sim-build/tests/unit/%.o: CFLAGS_ALL += -O0 -g1

UNIT_BINS := $(patsubst tests/unit/%.c,$(O)/unit/%,$(UNIT_SRC)) $(if $(DPDK_HERE),$(O)/dpdk/test_nic_lend $(O)/dpdk/test_edge_dpdk)
UNIT_JOBS ?= $(shell nproc)
.PHONY: unit
unit: $(UNIT_BINS)
	$(Q)printf '%s\n' $(UNIT_BINS) | \
		xargs -P $(UNIT_JOBS) -I{} sh -c '{} >{}.log 2>&1 || { cat {}.log; exit 255; }'
	$(Q)cat $(addsuffix .log,$(UNIT_BINS)) | awk '/PASSED/ { n += $$4 } END { print n " passed, 0 failed" }'

# --- simulator: its own build of the core, with the deliberate bugs that the simulator must find ---
.PHONY: sim-bin sim
sim-bin: $(O)/lrsim
SIM_OBJS := $(patsubst %.c,$(O)/sim-build/%.o,$(SIM_SRC) $(PROXY_SRC) daemon/lan/lan_wait.c tests/tools/rcperf/reaction.c)
$(O)/sim-build/%.o: %.c $(O)/made-with
	@mkdir -p $(dir $@)
	$(Q)$(CC) $(CFLAGS_ALL) -DPROXY_FAULTS -c -o $@ $<
$(O)/sim-build/proxy/%.o: CFLAGS_ALL += $(STEPS)
$(O)/lrsim: $(SIM_OBJS) $(O)/libheadroom.a
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_CORE) -lm
sim: $(O)/lrsim
	$(O)/lrsim --seeds $(SEED)

# and the unit tests that need this build
SIM_CORE := $(patsubst %.c,$(O)/sim-build/%.o,$(PROXY_SRC) tests/sim/steps.c)
$(O)/unit/test_bounds $(O)/unit/test_kill $(O)/unit/test_kill_far: $(O)/unit/%: $(O)/sim-build/tests/unit/%.o $(SIM_CORE)
	@mkdir -p $(dir $@)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_CORE) -lcmocka -lm

# and the test of the transport, which links nothing above the transport
TRANSPORT_SRC := $(wildcard $(addprefix proxy/,util/*.c roce/*.c arena/*.c shard/*.c wan/*.c wan/*/*.c))
$(O)/unit/test_transport: $(O)/tests/unit/test_transport.o $(call objs,$(TRANSPORT_SRC))
	@mkdir -p $(dir $@)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_CORE) -lcmocka -lm

# --- the core makes no system call, reads no clock, allocates nothing ---
PURE_ALLOWED := memcpy|memmove|memset|memcmp|_GLOBAL_OFFSET_TABLE_
PURE_ALLOWED := $(PURE_ALLOWED)|crc32_gzip_refl|ec_encode_data_update|ec_init_tables|gf_inv|gf_mul|gf_invert_matrix
.PHONY: check-pure
check-pure: $(O)/libproxy.a
	$(Q)ld -r --whole-archive -o $(O)/proxy-whole.o $< && objcopy -w -R '.gnu.lto_*' $(O)/proxy-whole.o
	$(Q)if nm -u $(O)/proxy-whole.o | awk '{ print $$2 }' | grep -Evx '$(PURE_ALLOWED)'; then \
		echo "check-pure: the core calls what is named above" >&2; exit 1; fi
	@echo "check-pure: proxy/ calls nothing but $(subst |, ,$(PURE_ALLOWED))"

# --- folders use only what tests/rooms.txt lists ---
.PHONY: check-rooms
check-rooms: $(O)/longreachd $(O)/longreach
	$(Q)tests/check_rooms.sh $(O)

# --- docs/FILES.md is made of the files' own heads ---
.PHONY: docs check-docs
docs:
	$(Q)tests/list_files.sh >docs/FILES.md
check-docs: $(O)/longreach
	$(Q)$< help | sed -n 's/^\(usage:\)\{0,1\} *longreach \([a-z|]*\).*/\2/p' | tr '|' '\n' | while read -r c; do \
		grep -qE "^\.BI? (longreach )?$$c( |$$)" etc/man/longreach.1 || { \
		echo "check-docs: longreach(1) has no $$c, which longreach help has" >&2; exit 1; }; done
	$(Q)tests/list_files.sh | diff docs/FILES.md - >/dev/null || { \
		echo "check-docs: docs/FILES.md is not what the files say of themselves: make docs" >&2; exit 1; }
	$(Q)$< plan --models --km 300 --rate 400G | grep '^|' | while read -r row; do grep -qxF -- "$$row" docs/PLAN.md || { \
		echo "check-docs: docs/PLAN.md lacks what longreach plan --models says: $$row" >&2; exit 1; }; done

# --- probes are documented ---
.PHONY: check-units
check-units:
	$(Q)tests/check_units.sh 2.5 systemd/*.service

.PHONY: check-ibta
check-ibta:
	$(Q)tests/check_ibta.sh

# --- longreach(7) has an entry for each named report ---
.PHONY: check-manual
check-manual: $(O)/longreach-counters.7
	$(Q)tests/check_manual.sh $<

.PHONY: check-probes
check-probes: $(O)/longreachd
	$(Q)tests/check_probes.sh $(O)

# --- fuzzers: one per tests/fuzz/fuzz_X.c, its corpus in tests/fuzz/corpus/X ---
FUZZ_NAMES := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FO         := build/fuzz
FUZZ_FLAGS := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
.PHONY: fuzz fuzz-bin
fuzz-bin: $(addprefix $(FO)/fuzz_,$(FUZZ_NAMES))
$(FO)/obj/%.o: %.c
	@mkdir -p $(dir $@)
	$(Q)clang -std=gnu17 -O1 -g -MMD -MP -I. $(FUZZ_FLAGS) -c -o $@ $<
$(FO)/obj/proxy/%.o: FUZZ_FLAGS += $(STEPS)
# libFuzzer has a function of that name that refuses to run
$(FO)/obj/tests/sim/steps.o: FUZZ_FLAGS += -D__sanitizer_cov_trace_pc=__wrap___sanitizer_cov_trace_pc
$(FO)/fuzz_%: $(FO)/obj/tests/fuzz/fuzz_%.o $(patsubst %.c,$(FO)/obj/%.o,$(PROXY_SRC) $(SEAL_SRC) tests/sim/steps.c)
	$(Q)clang -fsanitize=fuzzer,address,undefined -Wl,--wrap=__sanitizer_cov_trace_pc -Wl,--as-needed -o $@ $^ $(LIBS_CORE) -linih -levent -levent_openssl -lssl -lxxhash $(filter-out -lIPSec_MB,$(LIBS_SEAL))
$(FO)/fuzz_relay: $(FO)/obj/daemon/relay/relay_file.o
$(FO)/fuzz_rdma: $(patsubst %.c,$(FO)/obj/%.o,$(RELAY_RDMA))
fuzz: fuzz-bin
	$(Q)printf '%s\n' $(FUZZ_NAMES) | xargs -P $(UNIT_JOBS) -I{} sh -c 'mkdir -p $(FO)/corpus/{}; \
		echo "fuzz {}: $(SECONDS) s"; $(FO)/fuzz_{} -max_total_time=$(SECONDS) -timeout=10 -rss_limit_mb=4096 \
		-print_final_stats=0 -verbosity=0 -artifact_prefix=$(FO)/ $(FO)/corpus/{} \
		$$(ls -d tests/fuzz/corpus/{} 2>/dev/null) || exit 255'

# --- static checks; coverage; files for editors ---
.PHONY: lint check-clang coverage
lint: $(O)/longreach-counters.7
	$(Q)tests/lint.sh $<
# What clang's warnings say of the product, the simulator and the tools: it produces no code.
CLANG_SEES := $(sort $(PROXY_SRC) $(SEAL_SRC) $(HEADROOM_SRC) $(PLAN_SRC) $(CLIENT_SRC) $(CLIENT_ONLY) $(DAEMON_SRC) $(COPY_CLIENT) \
	$(wildcard tests/tools/*.c) $(BENCH_SRC) $(SIM_SRC))
CLANG_FLAGS := -std=gnu17 $(WARN) -I. -DPROXY_FAULTS $(if $(HAVE_IPSEC_MB),-DHAVE_IPSEC_MB) $(CUDA_H)
check-clang:
	$(Q)printf '%s\n' $(CLANG_SEES) | xargs -P $$(nproc) -n 8 clang $(CLANG_FLAGS) -fsyntax-only
coverage:
	$(Q)rm -rf build/coverage
	$(Q)$(MAKE) --no-print-directory O=build/coverage CC=gcc LTO= OPT='-O1 -g' CFLAGS=--coverage LDFLAGS=--coverage \
		UNIT_JOBS=$(UNIT_JOBS) unit sim-bin
	$(Q)build/coverage/lrsim --seeds 1-200 --jobs $(UNIT_JOBS) | tail -1
	$(Q)tests/coverage.sh build/coverage

# --- mutants: small changes, one at a time, each of which a test must find ---
.PHONY: mutants
N ?= 20
mutants:
	$(Q)tests/mutants.sh $(N) $(firstword $(subst -, ,$(SEED)))

LINTED := $(PROXY_SRC) $(SEAL_SRC) $(HEADROOM_SRC) $(PLAN_SRC) $(DAEMON_SRC) $(CLIENT_ONLY) $(COPY_CLIENT) $(SIM_SRC) $(UNIT_SRC) $(BENCH_SRC)
compile_commands.json: FORCE
	$(Q)printf '{"directory":"$(CURDIR)","command":"$(CC) $(CFLAGS_ALL) -c %s","file":"%s"}\n' \
		$(foreach c,$(sort $(LINTED)),$(c) $(c)) | sed '1s/^/[/; $$!s/$$/,/; $$s/$$/]/' >$@

# --- real RDMA in guests, benchmarks, demo ---
.PHONY: vm bench bench-bin demo
VM ?= --quick
vm: all
	tests/vm/run.sh $(VM) --build $(O)
bench-bin: $(patsubst bench/%.c,$(O)/bench/%,$(BENCH_SRC))
$(O)/bench/%: $(O)/bench/%.o $(O)/libseal.a $(O)/libproxy.a
	$(Q)$(CC) $(LDFLAGS_LTO) -Wl,--as-needed -o $@ $^ $(LIBS_CORE) $(LIBS_SEAL) -lm
bench: all bench-bin
	$(Q)O=$(O) QUICK=$(QUICK) bench/run.sh $(BENCH)
demo: deps
	$(Q)$(MAKE) --no-print-directory -j$$(nproc) all
	$(Q)O=$(O) bench/demo.sh $(DEMO)

# --- tests ---
.PHONY: test test-all deps
test: deps
	$(Q)tests/run.sh
test-all: deps
	$(Q)FULL=1 tests/run.sh

DEPS := gcc clang make libc6-dev libclang-rt-14-dev binutils pkg-config \
	libisal-dev libinih-dev libjson-c-dev libncurses-dev libevent-dev libmnl-dev libnuma-dev libseccomp-dev libxxhash-dev libssl-dev libsystemd-dev \
	systemtap-sdt-dev openssl libcmocka-dev \
	libibverbs-dev librdmacm-dev \
	iproute2 nftables ethtool jq tmux socat rsync procps util-linux busybox-static kmod cpio gnuplot-nox valgrind tshark \
	clang-tidy shellcheck mandoc codespell gcovr \
	debhelper lintian debootstrap \
	qemu-system-x86 perftest rdmacm-utils ibverbs-utils ibverbs-providers qperf
deps:
	$(Q)missing=$$(for p in $(DEPS); do \
		dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done); \
	[ "$$(uname -m)" != x86_64 ] || [ -e /usr/include/intel-ipsec-mb.h ] || missing="$$missing libipsec-mb-dev"; \
	[ -z "$$missing" ] || { echo "deps: installing" $$missing; apt-get update -qq && \
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; }

# Debian starts the sshd of a new openssh-server at once, on all addresses, so `make deps` leaves this package out.
.PHONY: deps-bench
deps-bench: deps
	$(Q)$(MAKE) --no-print-directory deps DEPS=openssh-server

# --- installation ---
.PHONY: product install
product: $(O)/longreachd $(O)/longreach $(O)/longreach-counters.7 lib
install: product
	install -D -m 755 $(O)/longreachd $(DESTDIR)$(PREFIX)/sbin/longreachd
	install -D -m 755 $(O)/longreach $(DESTDIR)$(PREFIX)/bin/longreach
	install -D -m 755 $(O)/$(LIB_SONAME) $(DESTDIR)$(LIBDIR)/$(LIB_SONAME)
	[ ! -e $(O)/plugins/$(PLUGIN_DPDK) ] || \
		install -D -m 755 $(O)/plugins/$(PLUGIN_DPDK) $(DESTDIR)$(PREFIX)/lib/longreach/$(PLUGIN_DPDK)
	ln -sf $(LIB_SONAME) $(DESTDIR)$(LIBDIR)/liblongreach.so
	install -D -m 644 $(O)/liblongreach.a $(DESTDIR)$(LIBDIR)/liblongreach.a
	install -D -m 644 lib/longreach.h $(DESTDIR)$(PREFIX)/include/longreach.h
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig
	sed 's|@prefix@|$(PREFIX)|; s|@libdir@|$(LIBDIR)|' lib/longreach.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/longreach.pc
	install -D -m 644 etc/longreach/example.conf.sample $(DESTDIR)/etc/longreach/example.conf.sample
	install -D -m 644 etc/wireshark/longreach.lua $(DESTDIR)$(PREFIX)/share/longreach/longreach.lua
	install -D -m 644 bench/plot_trace.gp $(DESTDIR)$(PREFIX)/share/longreach/plot_trace.gp
	install -D -m 644 bench/plot_plan.gp $(DESTDIR)$(PREFIX)/share/longreach/plot_plan.gp
	for p in examples/*.c; do install -D -m 644 $$p $(DESTDIR)$(PREFIX)/share/doc/liblongreach-dev/$$p || exit; done
	for p in etc/man/*.[0-9] $(O)/longreach-counters.7; do install -D -m 644 $$p $(DESTDIR)$(PREFIX)/share/man/man$${p##*.}/$${p##*/}; done
	install -d $(DESTDIR)$(UNITDIR)
	install -D -m 644 systemd/longreach.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/longreach.conf
	install -D -m 644 systemd/longreach.tmpfiles $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/longreach.conf
	install -D -m 644 etc/completions/longreach $(DESTDIR)$(PREFIX)/share/bash-completion/completions/longreach
	install -D -m 644 etc/grafana/longreach.json $(DESTDIR)$(PREFIX)/share/longreach/grafana/longreach.json
	install -D -m 644 etc/prometheus/longreach.rules.yml $(DESTDIR)$(PREFIX)/share/longreach/prometheus/longreach.rules.yml
	for u in longreachd longreach-closed longreach-exports; do \
		sed 's|/usr/|$(PREFIX)/|g' systemd/$$u.service >$(DESTDIR)$(UNITDIR)/$$u.service || exit; done

# --- Debian packages, from a copy of the tree ---
.PHONY: deb
DEB := build/package
deb:
	$(Q)rm -rf $(DEB) && mkdir -p $(DEB)/longreach
	$(Q){ git ls-files --cached --others --exclude-standard 2>/dev/null || find . -path ./build -prune -o ! -type d -print; } | \
		tar -cf - --verbatim-files-from -T - | tar -C $(DEB)/longreach -xf -
	$(Q)cd $(DEB)/longreach && env -u MAKEFLAGS -u MAKELEVEL -u O dpkg-buildpackage -b -us -uc -ui
	$(Q)ls $(DEB)/*.deb

.PHONY: help clean
help:
	@echo 'make demo             two sites on this machine, with and without longreach (root, about 4 minutes)'
	@echo 'make test             all tests that fit into 25 minutes (root)'
	@echo 'make test-all         and those that do not'
	@echo 'make deps             installs what building and testing need (apt-get, root)'
	@echo 'make deps-bench       and openssh-server, whose scp one benchmark has as a rival: Debian starts its sshd'
	@echo 'make                  longreachd, longreach and the test tools, in $(O)'
	@echo 'make examples         the programs of examples/, in $(O)/examples'
	@echo 'make dpdk             longreach-dpdk.so for Engine=dpdk, where libdpdk-dev is; dpdk-bench: see bench_nic.sh'
	@echo 'make install          DESTDIR= PREFIX=/usr'
	@echo 'make deb              Debian packages, in $(DEB)'
	@echo 'make unit             unit tests; SAN=asan or SAN=tsan, CC=clang for other builds'
	@echo 'make sim SEED=17      one seed of the simulator, or a range: SEED=1-2000'
	@echo 'make fuzz SECONDS=60  each fuzzer for so long'
	@echo 'make vm               guests with the kernel RDMA; VM="--full", "--accept", see tests/vm/run.sh --help'
	@echo 'make bench            what it costs, beside what one would use instead (root, 50 minutes);'
	@echo '                      QUICK=1: 5 minutes; BENCH="wan fair": these alone'
	@echo 'make check-pure       proof that proxy/ makes no system call'
	@echo "make check-clang      clang's warnings, of all of the product, a minute"
	@echo 'make lint             clang-tidy, shellcheck, mandoc and codespell, half a minute'
	@echo 'make coverage         lines of each folder that unit tests and 200 seeds run, minutes'
	@echo 'make mutants N=20     so many small changes, one at a time: does a test see each? minutes; SEED= draws others'
	@echo 'make compile_commands.json   for editors'
	@echo 'make check-units      how exposed the units leave the system (systemd-analyze security): at most 2.5'
	@echo 'make check-ibta       what docs/IBTA.md names is there'
	@echo 'make check-manual     each event, failure, state and drop has an entry in longreach(7)'
	@echo 'make check-rooms      folders include and call each other as tests/rooms.txt allows'
clean:
	rm -rf build demo-out bench-out compile_commands.json

-include $(shell find $(O) $(FO) -name '*.d' 2>/dev/null)
