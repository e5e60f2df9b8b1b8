# flags.mk - compiler flags, and what scripts/probe found on this machine ($(BUILD)/config.mk: HAVE_AVX2,
# HAVE_CUDA, ...).
WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
VERSION := $(shell sed -n 's/.*ZT_VERSION "\(.*\)"/\1/p' lib/base/base.h)

ZCPPFLAGS := -I. -D_GNU_SOURCE $(CPPFLAGS)
# The same bits everywhere: the compiler must not contract a*b+c, and never -ffast-math.
# char is signed, as on x86-64, on processors whose compilers have it without a sign (AArch64).
ZCFLAGS  := -std=c17 $(OPT) $(WARN) $(HARDEN) -ffp-contract=off -fno-math-errno -fsigned-char -pthread $(CFLAGS)
ZLDFLAGS := -pie -Wl,-z,relro,-z,now $(LDFLAGS)
LIBS     := -lpcre2-8 -lxxhash -ljansson -lutf8proc -lmd -lz -lm
# What one tool alone links.
LIBS_zt-run := -ledit
LIBS_zt-bench = $(if $(filter 1,$(HAVE_SQLITE)),-lsqlite3)

# Flags of one instruction set (mk/isa.mk). They are here because the probe and the stamp below need them.
ISA_FLAGS_scalar :=
ISA_FLAGS_avx2   := -mavx2 -mfma -mf16c -mbmi2
ISA_FLAGS_avx512 := $(ISA_FLAGS_avx2) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni \
                    -mavx512bf16 -mavx512vbmi -mprefer-vector-width=512
# AArch64: NEON is in every processor. dotprod is neon with sdot.
ISA_FLAGS_neon    :=
ISA_FLAGS_dotprod := -DZT_ISA_neon=1 -march=armv8.2-a+dotprod
# The alignment of its loops is worth 5 per cent of a prompt on a Zen 3; it must not depend on the code
# in front of them.
FLAGS_product.avx2 := -falign-functions=64
# Vectorized, a complex product becomes vfmaddsub with GCC 12, in spite of -ffp-contract=off: other bits than scalar.
FLAGS_spectral.avx2   := -fno-tree-vectorize
FLAGS_spectral.avx512 := -fno-tree-vectorize

# Goals that build nothing themselves need no probe: some install the compiler first, and call make again.
goals := $(or $(MAKECMDGOALS),all)
help_goals := help deps test-deps arm64 arm64-bits uninstall dist deb clean distclean demo test check sanitize fuzz long format
ifneq (,$(filter-out $(help_goals),$(goals)))
include $(BUILD)/config.mk
endif
LIBS += $(if $(filter 1,$(HAVE_YAML)),-lyaml)

$(BUILD)/config.mk: scripts/probe | $(BUILD)/flags
	@CC='$(CC)' AVX2='$(AVX2)' AVX512='$(AVX512)' NEON='$(NEON)' DOTPROD='$(DOTPROD)' VULKAN='$(VULKAN)' CUDA='$(CUDA)' NVCC='$(NVCC)' CUDA_ARCHS='$(CUDA_ARCHS)' HIP='$(HIP)' \
	    HIPCC='$(HIPCC)' HIP_ARCHS='$(HIP_ARCHS)' YAML='$(YAML)' SQLITE='$(SQLITE)' MICROHTTPD='$(MICROHTTPD)' CURL='$(CURL)' AVX2_FLAGS='$(ISA_FLAGS_avx2)' \
	    AVX512_FLAGS='$(ISA_FLAGS_avx512)' DOTPROD_FLAGS='$(ISA_FLAGS_dotprod)' CROSS='$(CROSS)' scripts/probe $@

# Every object depends on the stamp $(BUILD)/flags. It holds the flags, and is written only when they have
# changed: then everything is rebuilt.
flags := $(CC) $(OPT) $(TEST_OPT) $(HARDEN) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $(AVX2) $(AVX512) $(NEON) $(DOTPROD) $(VULKAN) $(CUDA) $(strip $(NVCC) $(CUDA_ARCHS) $(NVCC_OPT)) $(HIP) $(HIPCC) $(HIP_ARCHS) $(YAML) $(SQLITE) $(MICROHTTPD) $(CURL) \
         $(ISA_FLAGS_avx512) $(ISA_FLAGS_dotprod) $(FLAGS_product.avx2) $(FLAGS_spectral.avx2)
ifneq (,$(filter-out $(help_goals),$(goals)))
$(shell mkdir -p $(BUILD))
$(file >$(BUILD)/flags.new,$(flags))
$(shell cd $(BUILD); if cmp -s flags.new flags; then rm flags.new; else mv flags.new flags; rm -f config.mk; fi)
endif
$(BUILD)/flags: ;
