# tests.mk - test programs, and the targets that run tests.

# Programs of tests are linked without the debugger's lines, which would be most of their 70 MB each: `make TEST_LDFLAGS=` keeps
# them. A sanitizer needs them for its reports.
TEST_LDFLAGS ?= $(if $(findstring -fsanitize,$(OPT) $(CFLAGS)),,-Wl,--strip-debug)

# What test programs alone are compiled with, after OPT: .ci/run says -O1, which takes two thirds of the time.
$(BUILD)/tests/%.o: private ZCFLAGS += $(TEST_OPT)

test-bins: $(test_bin) $(fuzz_bin) $(helpers) $(emu)

# zt-trace with a planted error in one kernel.
$(BUILD)/tests/zt-trace-planted: $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard tools/zt-trace/*.c))) \
                                 $(BUILD)/tests/tools/plant/kernel.o $(common_obj) $(BUILD)/libzt.a
	$(call say,LD)
	$(Q)$(CC) $(ZCFLAGS) $(ZLDFLAGS) $(TEST_LDFLAGS) -Wl,--wrap=zt_cpu_find -o $@ $^ $(LIBS)

# zt-bench with one slower kernel.
$(BUILD)/tests/zt-bench-slow: $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard tools/zt-bench/*.c))) \
                              $(BUILD)/tests/tools/plant/slow.o $(common_obj) $(BUILD)/libzt.a
	$(call say,LD)
	$(Q)$(CC) $(ZCFLAGS) $(ZLDFLAGS) $(TEST_LDFLAGS) -Wl,--wrap=zt_cpu_find -o $@ $^ $(LIBS) $(LIBS_zt-bench)

# All tools with one allocation refused.
$(BUILD)/tests/zt-refusing: $(BUILD)/tools/zt.o $(tools:%=$(BUILD)/tools/%.o) $(BUILD)/tests/tools/plant/allocation.o $(common_obj) \
                            $(BUILD)/libzt.a
	$(call say,LD)
	$(Q)$(CC) $(ZCFLAGS) $(ZLDFLAGS) $(TEST_LDFLAGS) -Wl,--wrap=zt_ctx_new,--wrap=zt_ctx_free -o $@ $^ $(LIBS) $(foreach t,$(tools),$(LIBS_$(t)))

# All tools with a reader that a hostile file has taken over.
$(BUILD)/tests/zt-reader: $(BUILD)/tools/zt.o $(tools:%=$(BUILD)/tools/%.o) $(BUILD)/tests/tools/plant/reader.o $(common_obj) \
                          $(BUILD)/libzt.a
	$(call say,LD)
	$(Q)$(CC) $(ZCFLAGS) $(ZLDFLAGS) $(TEST_LDFLAGS) -Wl,--wrap=zt_source_read -o $@ $^ $(LIBS) $(foreach t,$(tools),$(LIBS_$(t)))

# wrong_use calls every public function: its calls are made from the headers.
$(BUILD)/tests/api/calls.inc: tests/api/prototypes.pl tests/api/calls.pl tests/api/wrong_use.c $(wildcard lib/*.h lib/*/*.h lib/*/*/*.h)
	@mkdir -p $(@D)
	$(call say,GEN)
	$(Q)$(CC) $(ZCPPFLAGS) $(ZCFLAGS) -E lib/zt/all.h | perl tests/api/prototypes.pl | perl tests/api/calls.pl tests/api/wrong_use.c > $@.tmp
	$(Q)mv $@.tmp $@
$(BUILD)/tests/api/wrong_use.o: ZCPPFLAGS += -I$(BUILD)
$(BUILD)/tests/api/wrong_use.o: $(BUILD)/tests/api/calls.inc

$(BUILD)/tests/bench_ratio: $(BUILD)/tools/zt-bench/stats.o
$(foreach t,$(test_src),$(eval $(BUILD)/tests/$(basename $(notdir $(t))): $(BUILD)/$(t:.c=.o)))
$(test_bin): $(common_obj) $(BUILD)/libzt.a
	$(call say,LD)
	$(Q)$(CC) $(ZCFLAGS) $(ZLDFLAGS) $(TEST_LDFLAGS) -o $@ $(filter %.o,$^) $(common_obj) $(BUILD)/libzt.a $(LIBS)

# Readers of the tools, which are not in the library.
fuzz_tool = $(patsubst %.c,$(BUILD)/%.o,$(filter-out %/main.c,$(sort $(wildcard tools/$1/*.c)))) $(common_obj)
$(BUILD)/tests/fuzz_results: $(call fuzz_tool,zt-bench)
$(BUILD)/tests/fuzz_receipt: $(addprefix $(BUILD)/tools/zt-run/,receipt_read.o receipt_form.o)
$(BUILD)/tests/fuzz_score: $(BUILD)/tools/zt-dna/score_text.o
$(BUILD)/tests/fuzz_data: $(call fuzz_tool,zt-train)
$(BUILD)/tests/fuzz_request: $(call fuzz_tool,zt-run)
$(BUILD)/tests/fuzz_times: $(call fuzz_tool,zt-trace)

# The driver is tests/fuzz/main.c, or with FUZZER what that flag links (scripts/fuzz: -fsanitize=fuzzer).
$(fuzz_bin): $(BUILD)/tests/fuzz_%: $(BUILD)/tests/fuzz/%.o $(if $(FUZZER),,$(BUILD)/tests/fuzz/main.o) $(BUILD)/libzt.a
	$(call say,LD)
	$(Q)$(CC) $(ZCFLAGS) $(ZLDFLAGS) $(TEST_LDFLAGS) $(FUZZER) -o $@ $(filter %.o,$^) $(filter %/libcommon.a,$^) $(BUILD)/libzt.a $(LIBS) $(foreach t,$(tools),$(LIBS_$(t)))

$(BUILD)/tests/cuda_emu: | $(emu)
$(test_bin): | $(sets)

# ---- run ----------------------------------------------------------------------------------------

test_env = ZT_BIN='$(abspath $(BUILD)/bin)' ZT_TESTS='$(abspath $(BUILD)/tests)' \
           $(if $(emu),ZT_LIBCUDA='$(abspath $(emu))' ZT_LIBHIP='$(abspath $(emu))') \
           $(if $(wildcard $(golden))$(unpacked),ZT_GOLDEN='$(golden)') \
           $(if $(ZT_GOLDEN)$(realpath ../shared/golden),ZT_GOLDEN_STRICT=1) ZT_CASES='$(cases)'

test check:
	@scripts/deps test
	@$(MAKE) --no-print-directory run-tests

# Tests that take longest start first, the longest in front: else one of them would run alone at the end.
all_tests := $(filter-out $(helpers),$(test_bin)) $(sort $(wildcard tests/*/*.bats tests/*/*.t))
long_tests := $(filter $(all_tests),$(addprefix $(BUILD)/tests/,conformance device_llm) tests/engine/bits.bats \
    tests/tools/zt-bench.bats tests/engine/cuda.bats $(BUILD)/tests/vulkan_models \
    tests/engine/vulkan.bats tests/tools/zt-convert-golden.bats tests/checks/docs.bats \
    $(addprefix $(BUILD)/tests/,grad_engines hostile_files) tests/tools/zt-bench-history.bats)

run-tests: all test-bins $(unpacked) $(sets)
	@$(test_env) tests/tap-runner $(long_tests) $(filter-out $(long_tests),$(all_tests))
