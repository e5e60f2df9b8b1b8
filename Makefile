# zt: one Makefile, not recursive; BUILD mirrors the tree. `make help` lists the targets.
BUILD   ?= build
PREFIX  ?= /usr/local
CC      := $(if $(filter default,$(origin CC)),gcc,$(CC))
AR      ?= ar
OPT     ?= -O2 -g
WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
HARDEN  ?= -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fPIE
VERSION := $(shell sed -n 's/.*ZT_VERSION "\(.*\)"/\1/p' lib/base/base.h)

ZCPPFLAGS := -I. -D_GNU_SOURCE $(CPPFLAGS)
# Same bits everywhere: no contraction of a*b+c behind our back, never -ffast-math.
ZCFLAGS  := -std=c17 $(OPT) $(WARN) $(HARDEN) -ffp-contract=off -fno-math-errno -pthread $(CFLAGS)
ZLDFLAGS := -pie -Wl,-z,relro,-z,now $(LDFLAGS)
LIBS     := -lpcre2-8 -lxxhash -lm
TESTLIBS := -ljansson

goals := $(or $(MAKECMDGOALS),all)
help_goals := help deps test-deps clean distclean
ifneq (,$(filter-out $(help_goals),$(goals)))
-include $(BUILD)/config.mk
endif

# Kernels in lib/engine/cpu/isa/ are compiled once for each instruction set.
ISA_FLAGS_scalar :=
ISA_FLAGS_avx2   := -mavx2 -mfma -mf16c -mbmi2
ISA_FLAGS_avx512 := $(ISA_FLAGS_avx2) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni \
                    -mavx512bf16 -mavx512vbmi -mprefer-vector-width=512
ISAS := scalar $(if $(filter 1,$(HAVE_AVX2)),avx2) $(if $(filter 1,$(HAVE_AVX512)),avx512)
ZCPPFLAGS += $(if $(filter 1,$(HAVE_AVX2)),-DZT_HAVE_AVX2) $(if $(filter 1,$(HAVE_AVX512)),-DZT_HAVE_AVX512)

isa_src  := $(sort $(wildcard lib/engine/cpu/isa/*.c))
lib_src  := $(filter-out $(isa_src),$(sort $(wildcard lib/*/*.c lib/*/*/*.c)))
lib_obj  := $(lib_src:%.c=$(BUILD)/%.o) $(foreach i,$(ISAS),$(isa_src:%.c=$(BUILD)/%.$(i).o))
common_src := $(sort $(wildcard tools/common/*.c))
common_obj := $(BUILD)/libcommon.a
tools    := $(sort $(notdir $(wildcard tools/zt-*)))
bins     := $(tools:%=$(BUILD)/bin/%)
test_src := $(filter-out tests/fuzz_%,$(sort $(wildcard tests/*.c)))
test_bin := $(test_src:tests/%.c=$(BUILD)/tests/%)
helpers  := $(BUILD)/tests/mkmodel
headers  := $(sort $(wildcard lib/*.h lib/*/*.h))
public   := lib/zt.h $(foreach r,base tensor ops prog engine run io llm,$(wildcard lib/$(r)/$(r).h lib/$(r)/ops.def lib/$(r)/gguf.h lib/$(r)/npy.h))

.PHONY: all lib test check test-bins long sanitize demo deps test-deps install uninstall bench clean distclean help
.SECONDARY:
.DELETE_ON_ERROR:
all: $(bins) $(BUILD)/libzt.a

help:
	@echo 'all (the tools, in $(BUILD)/bin)   test   demo   install uninstall (PREFIX, DESTDIR)'
	@echo 'deps test-deps   sanitize long bench   clean distclean'
	@echo 'variables: BUILD CC OPT AVX2=auto|0|1 AVX512=auto|0|1 ZT_GOLDEN=DIR'

$(BUILD)/config.mk: scripts/probe | $(BUILD)/flags
	@CC='$(CC)' AVX2='$(AVX2)' AVX512='$(AVX512)' scripts/probe $@

# Changed flags rebuild everything: the stamp holds them and changes only when they do.
flags := $(CC) $(OPT) $(HARDEN) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $(AVX2) $(AVX512)
ifneq (,$(filter-out $(help_goals),$(goals)))
$(shell mkdir -p $(BUILD); echo '$(flags)' | cmp -s - $(BUILD)/flags || { echo '$(flags)' >$(BUILD)/flags; rm -f $(BUILD)/config.mk; })
endif
$(BUILD)/flags: ;

# ---- compile (V=1 shows the commands) ---------------------------------------------------------

Q   := $(if $(V),,@)
say  = $(if $(V),,@echo '  $(1) $(@:$(CURDIR)/%=%)')

lib: $(BUILD)/libzt.a

$(BUILD)/libzt.a: $(lib_obj)
	@rm -f $@
	$(call say,AR)
	$(Q)$(AR) rcs $@ $^

# An archive, so that a test of a low floor links while the floors above are being built.
$(BUILD)/libcommon.a: $(common_src:%.c=$(BUILD)/%.o)
	@rm -f $@
	$(call say,AR)
	$(Q)$(AR) rcs $@ $^

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(ZCPPFLAGS) $(ZCFLAGS) -MMD -MP -c -o $@ $<

define isa_rule
$(BUILD)/%.$(1).o: %.c $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(call say,CC)
	$(Q)$(CC) $(ZCPPFLAGS) -DZT_ISA=$(1) -DZT_ISA_$(1)=1 $(ZCFLAGS) $(ISA_FLAGS_$(1)) -MMD -MP -c -o $$@ $$<
endef
$(foreach i,scalar avx2 avx512,$(eval $(call isa_rule,$(i))))

define tool_rule
$(BUILD)/bin/$(1): $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard tools/$(1)/*.c))) $(common_obj) $(BUILD)/libzt.a
	@mkdir -p $$(@D)
	$$(call say,LD)
	$(Q)$(CC) $(ZCFLAGS) $(ZLDFLAGS) -o $$@ $$^ $(LIBS)
endef
$(foreach t,$(tools),$(eval $(call tool_rule,$(t))))

$(BUILD)/tests/%: $(BUILD)/tests/%.o $(common_obj) $(BUILD)/libzt.a
	$(call say,LD)
	$(Q)$(CC) $(ZCFLAGS) $(ZLDFLAGS) -o $@ $^ $(LIBS) $(TESTLIBS)

# ---- test ---------------------------------------------------------------------------------------

# The golden cases: ZT_GOLDEN, else ../shared/golden, else those packed in tests/golden.
golden := $(or $(ZT_GOLDEN),$(realpath ../shared/golden),$(abspath $(BUILD)/golden))
test_env = ZT_BIN='$(abspath $(BUILD)/bin)' ZT_TESTS='$(abspath $(BUILD)/tests)' \
           $(if $(wildcard $(golden)),ZT_GOLDEN='$(golden)')

test-bins: $(test_bin)

$(BUILD)/golden: $(wildcard tests/golden/*.tar.xz)
	@rm -rf $@ && mkdir -p $@
	@for f in $^; do tar -C $@ -xJf $$f; done

test check: test-deps
	@$(MAKE) --no-print-directory run-tests

run-tests: $(bins) $(test_bin) $(if $(filter $(BUILD)/golden,$(golden:$(CURDIR)/%=%)),$(BUILD)/golden)
	@$(test_env) tests/run $(filter-out $(helpers),$(test_bin)) $(sort $(wildcard tests/*.bats))

SANITIZE := $(MAKE) --no-print-directory run-tests OPT='-O1 -g -fno-omit-frame-pointer $$(SAN)' HARDEN=-fPIE
sanitize: test-deps
	$(SANITIZE) BUILD=$(BUILD)/asan SAN='-fsanitize=address,undefined -fno-sanitize-recover=all'
	$(SANITIZE) BUILD=$(BUILD)/tsan SAN='-fsanitize=thread'

long:
	@scripts/deps long
	@$(MAKE) --no-print-directory run-tests
	@$(MAKE) --no-print-directory sanitize
	mandoc -T lint -W warning man/*.1

# ---- demo, bench, dependencies ------------------------------------------------------------------

deps:
	@scripts/deps build
test-deps:
	@scripts/deps test

PROMPT ?= Why is the sky blue? Answer in one sentence.
demo:
	@scripts/deps demo
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@model=$$(scripts/model smollm2) && echo "> $(PROMPT)" && \
	    $(BUILD)/bin/zt-run -m "$$model" -p '$(PROMPT)' --temp 0 -n 120 --stats && echo

bench: all
	bench/vs-llama

# ---- install ------------------------------------------------------------------------------------

dest := $(DESTDIR)$(PREFIX)
installed = $(tools:%=$(dest)/bin/%) $(tools:%=$(dest)/share/man/man1/%.1) \
            $(tools:%=$(dest)/share/bash-completion/completions/%) $(dest)/lib/libzt.a \
            $(dest)/lib/pkgconfig/zt.pc $(dest)/include/zt

install: all
	install -d $(dest)/bin $(dest)/lib/pkgconfig $(dest)/share/man/man1 $(dest)/share/bash-completion/completions
	install -m 755 $(bins) $(dest)/bin
	install -m 644 $(tools:%=man/%.1) $(dest)/share/man/man1
	for t in $(tools); do $(BUILD)/bin/$$t --completion bash >$(dest)/share/bash-completion/completions/$$t || exit; done
	install -m 644 $(BUILD)/libzt.a $(dest)/lib
	for h in $(public); do install -D -m 644 $$h $(dest)/include/zt/$$h || exit; done
	printf 'prefix=%s\nName: zt\nDescription: neural-network models as Unix data\nVersion: %s\nCflags: -I$${prefix}/include/zt\nLibs: -L$${prefix}/lib -lzt %s -pthread\n' \
	    '$(PREFIX)' '$(VERSION)' '$(LIBS)' >$(dest)/lib/pkgconfig/zt.pc

uninstall:
	rm -rf $(installed)

clean:
	rm -rf $(BUILD)/lib $(BUILD)/tools $(BUILD)/tests $(BUILD)/bin $(BUILD)/golden $(BUILD)/libzt.a \
	    $(BUILD)/asan $(BUILD)/tsan $(BUILD)/config.mk $(BUILD)/flags
distclean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
