# zt: one Makefile, non-recursive; BUILD mirrors the tree.
BUILD   ?= build
CC      ?= gcc
AR      ?= ar
OPT     ?= -O2 -g
WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
HARDEN  ?= -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fPIE
CPPFLAGS += -I. -D_GNU_SOURCE
ZCFLAGS := -std=c17 $(OPT) $(WARN) $(HARDEN) -ffp-contract=off -fno-math-errno -pthread $(CFLAGS)
LIBS    := -lpcre2-8 -lxxhash -lm -pthread
ZLDFLAGS := -pie -Wl,-z,relro,-z,now $(LDFLAGS)

# Kernels in lib/engine/cpu/isa/ are compiled once for each instruction set.
ISA_FLAGS_scalar :=
ISA_FLAGS_avx2   := -mavx2 -mfma -mf16c -mbmi2
ISA_FLAGS_avx512 := $(ISA_FLAGS_avx2) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni \
                    -mavx512bf16 -mavx512vbmi -mprefer-vector-width=512
ifneq (,$(findstring x86_64,$(shell $(CC) -dumpmachine)))
ISAS := scalar avx2 avx512
else
ISAS := scalar
endif

isa_src := $(sort $(wildcard lib/engine/cpu/isa/*.c))
lib_src := $(filter-out $(isa_src),$(sort $(wildcard lib/*/*.c lib/*/*/*.c)))
lib_obj := $(lib_src:%.c=$(BUILD)/%.o) $(foreach i,$(ISAS),$(isa_src:%.c=$(BUILD)/%.$(i).o))
common_obj := $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard tools/common/*.c)))
tools   := $(sort $(notdir $(wildcard tools/zt-*)))
bins    := $(tools:%=$(BUILD)/bin/%)
test_src := $(sort $(wildcard tests/*.c))
test_bin := $(test_src:tests/%.c=$(BUILD)/tests/%)

.PHONY: all lib clean
.SECONDARY:
all: $(bins)
lib: $(BUILD)/libzt.a
test-bins: $(test_bin)

$(BUILD)/libzt.a: $(lib_obj)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(ZCFLAGS) -MMD -MP -c -o $@ $<

define isa_rule
$(BUILD)/%.$(1).o: %.c
	@mkdir -p $$(@D)
	$(CC) $(CPPFLAGS) -DZT_ISA=$(1) -DZT_ISA_$(1)=1 $(ZCFLAGS) $(ISA_FLAGS_$(1)) -MMD -MP -c -o $$@ $$<
endef
$(foreach i,$(ISAS),$(eval $(call isa_rule,$(i))))

define tool_rule
$(BUILD)/bin/$(1): $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard tools/$(1)/*.c))) $(common_obj) $(BUILD)/libzt.a
	@mkdir -p $$(@D)
	$(CC) $(ZCFLAGS) $(ZLDFLAGS) -o $$@ $$^ $(LIBS)
endef
$(foreach t,$(tools),$(eval $(call tool_rule,$(t))))

$(BUILD)/tests/%: $(BUILD)/tests/%.o $(common_obj) $(BUILD)/libzt.a
	$(CC) $(ZCFLAGS) $(ZLDFLAGS) -o $@ $^ $(LIBS)

clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
