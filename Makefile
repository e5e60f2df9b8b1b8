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
LIBS     := -lpcre2-8 -lxxhash -ljansson -lutf8proc -lmd -lz -lm
# What one tool alone links.
LIBS_zt-run := -ledit
LIBS_zt-bench = $(if $(filter 1,$(HAVE_SQLITE)),-lsqlite3)

goals := $(or $(MAKECMDGOALS),all)
# Goals that build nothing themselves: some install the compiler first, and call make again.
help_goals := help deps test-deps uninstall clean distclean demo test check sanitize fuzz long
ifneq (,$(filter-out $(help_goals),$(goals)))
include $(BUILD)/config.mk
endif
LIBS += $(if $(filter 1,$(HAVE_YAML)),-lyaml)

# Kernels in lib/engine/cpu/isa/ and lib/tensor/isa/ are compiled once for each instruction set.
ISA_FLAGS_scalar :=
ISA_FLAGS_avx2   := -mavx2 -mfma -mf16c -mbmi2
ISA_FLAGS_avx512 := $(ISA_FLAGS_avx2) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni \
                    -mavx512bf16 -mavx512vbmi -mprefer-vector-width=512
# How its loops fall on lines is worth 5 per cent of a prompt on a Zen 3: what other code stands before them
# must not decide that.
FLAGS_product.avx2 := -falign-functions=64
ISAS := scalar $(if $(filter 1,$(HAVE_AVX2)),avx2) $(if $(filter 1,$(HAVE_AVX512)),avx512)
ZCPPFLAGS += $(if $(filter 1,$(HAVE_AVX2)),-DZT_HAVE_AVX2) $(if $(filter 1,$(HAVE_AVX512)),-DZT_HAVE_AVX512)

isa_src  := $(sort $(wildcard lib/engine/cpu/isa/*.c lib/engine/cpu/isa/*/*.c lib/tensor/isa/*.c lib/dna/isa/*.c))
cu_src   := $(if $(filter 1,$(HAVE_CUDA)),$(sort $(wildcard lib/engine/cuda/*.cu)))
# Kernels of NVIDIA's machines alone are in *_sm90.cu.
hip_src  := $(filter-out %_sm90.cu,$(cu_src))
lib_src  := $(filter-out $(isa_src) $(if $(filter 1,$(HAVE_VULKAN)),,lib/engine/vulkan/%) \
            $(if $(filter 1,$(HAVE_CUDA)),,lib/engine/cuda/%), $(sort $(wildcard lib/*/*.c lib/*/*/*.c)))
lib_obj  := $(lib_src:%.c=$(BUILD)/%.o) $(foreach i,$(ISAS),$(isa_src:%.c=$(BUILD)/%.$(i).o)) \
            $(if $(filter 1,$(HAVE_VULKAN)),$(patsubst %.comp,$(BUILD)/%.o,$(sort $(wildcard shaders/*.comp)))) \
            $(if $(filter 1,$(HAVE_CUDA)),$(BUILD)/lib/engine/cuda/images.o $(if $(NVCC_FOUND),$(cu_src:%.cu=$(BUILD)/%.image.o)) $(if $(HIPCC_FOUND),$(hip_src:%.cu=$(BUILD)/%.hip.o)))
common_src := $(sort $(wildcard tools/common/*.c))
common_obj := $(BUILD)/libcommon.a
tools    := $(sort $(notdir $(wildcard tools/zt-*)))
bins     := $(tools:%=$(BUILD)/bin/%)
# A test's program is $(BUILD)/tests/NAME, whatever folder it is in.
test_src := $(filter-out tests/fuzz/%,$(sort $(wildcard tests/*/*.c)))
test_bin := $(addprefix $(BUILD)/tests/,$(notdir $(test_src:.c=)))
fuzz_src := $(filter-out tests/fuzz/main.c,$(wildcard tests/fuzz/*.c))
fuzz_bin := $(fuzz_src:tests/fuzz/%.c=$(BUILD)/tests/fuzz_%)
helpers  := $(BUILD)/tests/mkmodel $(BUILD)/tests/zt-trace-planted $(BUILD)/tests/zt-bench-slow
cu_tests := cuda_blas cuda_emu cuda_faults cuda_fft cuda_lt cuda_unified
emu      := $(if $(filter 11,$(HAVE_CUDA)$(HAVE_CUDAEMU)),$(BUILD)/tests/libcuda-emu.so)
emu_src  := $(sort $(wildcard tests/cudaemu/*.cpp tests/cudaemu/*.cu lib/engine/cuda/*.cu))
emu_obj  := $(emu_src:%=$(BUILD)/emu/%.o)
# What is installed: zt.h, zt/NAME.h, and what these include.
public   := lib/ops/ops.def $(wildcard lib/zt.h lib/zt/*.h) \
            $(filter-out lib/zt/%,$(sort $(shell sed -n 's/^\#include "\(.*\)"$$/\1/p' lib/zt.h lib/zt/*.h)))

.PHONY: all lib test check test-bins run-tests long sanitize demo deps test-deps install uninstall \
        bench fuzz contract clean distclean help
.SECONDARY:
.DELETE_ON_ERROR:
all: $(bins) $(BUILD)/libzt.a $(BUILD)/man/zt-ops.7

help:
	@echo 'make            the tools, in $(BUILD)/bin, and $(BUILD)/libzt.a'
	@echo 'make demo       fetch a 98 MB model and ask it PROMPT="..."'
	@echo 'make test       build and run every test;  sanitize: under ASan, UBSan and TSan;  long: all of it'
	@echo 'make fuzz       RUNS=1000000 of every fuzz target under ASan and UBSan (clang)'
	@echo 'make install    into PREFIX=$(PREFIX), below DESTDIR=;  uninstall takes it away'
	@echo 'make contract   add what is new in the table of ops to tests/ops/contract.txt'
	@echo 'make bench      speed beside llama.cpp, time to the first token, memory'
	@echo 'make deps       install what a build needs (Debian);  test-deps: and all that tests can use'
	@echo 'make clean      remove what was built;  distclean: $(BUILD) itself'
	@echo 'variables: BUILD=$(BUILD) CC=$(CC) OPT="$(OPT)" AVX2=auto|0|1 AVX512=auto|0|1 VULKAN=auto|0|1 CUDA=auto|0|1 NVCC=PROGRAM|none HIP=0|1 HIPCC=PROGRAM HIP_ARCHS="gfx90a ..." YAML=auto|0|1 SQLITE=auto|0|1 V=1 ZT_GOLDEN=DIR ZT_PYTHON=PROGRAM'

$(BUILD)/config.mk: scripts/probe | $(BUILD)/flags
	@CC='$(CC)' AVX2='$(AVX2)' AVX512='$(AVX512)' VULKAN='$(VULKAN)' CUDA='$(CUDA)' NVCC='$(NVCC)' HIP='$(HIP)' HIPCC='$(HIPCC)' HIP_ARCHS='$(HIP_ARCHS)' YAML='$(YAML)' SQLITE='$(SQLITE)' AVX2_FLAGS='$(ISA_FLAGS_avx2)' \
	    AVX512_FLAGS='$(ISA_FLAGS_avx512)' scripts/probe $@

# Changed flags rebuild everything: the stamp holds them and changes only when they do.
flags := $(CC) $(OPT) $(HARDEN) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $(AVX2) $(AVX512) $(VULKAN) $(CUDA) $(NVCC) $(HIP) $(HIPCC) $(HIP_ARCHS) $(YAML) $(SQLITE) \
         $(ISA_FLAGS_avx512) $(FLAGS_product.avx2)
ifneq (,$(filter-out $(help_goals),$(goals)))
$(shell mkdir -p $(BUILD))
$(shell cd $(BUILD)/tests 2>/dev/null && for d in base tensor ops prog llm nn dna train; do [ ! -f $$d ] || rm $$d; done)
$(file >$(BUILD)/flags.new,$(flags))
$(shell cd $(BUILD); if cmp -s flags.new flags; then rm flags.new; else mv flags.new flags; rm -f config.mk; fi)
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
	$(Q)$(CC) $(ZCPPFLAGS) -DZT_ISA=$(1) -DZT_ISA_$(1)=1 $(ZCFLAGS) -Wno-psabi $(ISA_FLAGS_$(1)) $$(FLAGS_$$(*F).$(1)) -MMD -MP -c -o $$@ $$<
endef
$(foreach i,scalar avx2 avx512,$(eval $(call isa_rule,$(i))))

$(BUILD)/lib/engine/engines.o $(cu_tests:%=$(BUILD)/tests/engine/%.o): ZCPPFLAGS += $(if $(filter 1,$(HAVE_CUDA)),-DZT_HAVE_CUDA)
$(BUILD)/lib/engine/engines.o $(BUILD)/tests/engine/vulkan_faults.o $(BUILD)/tests/engine/vulkan_cache.o: ZCPPFLAGS += $(if $(filter 1,$(HAVE_VULKAN)),-DZT_HAVE_VULKAN)
$(BUILD)/tools/zt-bench/history.o: ZCPPFLAGS += $(if $(filter 1,$(HAVE_SQLITE)),-DZT_HAVE_SQLITE)
$(BUILD)/lib/dna/tree_yaml.o: ZCPPFLAGS += $(if $(filter 1,$(HAVE_YAML)),-DZT_HAVE_YAML)

# A shader becomes two constants: zt_vk_code_NAME, its SPIR-V, and zt_vk_size_NAME, its bytes. That of
# chains is written to by the engine, which wants its functions whole and by name.
$(BUILD)/shaders/%.inc: shaders/%.comp $(wildcard shaders/*.glsl) $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,GLSLC)
	$(Q)glslc --target-env=vulkan1.2 -Werror $(if $(filter pointwise,$*),-O0,-O) -mfmt=c -o $@ $<

$(BUILD)/shaders/%.c: $(BUILD)/shaders/%.inc
	@printf '%s\n' '#include <stdint.h>' 'extern const uint32_t zt_vk_code_$*[], zt_vk_size_$*;' \
	    'const uint32_t zt_vk_code_$*[] =' '#include "$(abspath $<)"' ';' \
	    'const uint32_t zt_vk_size_$* = sizeof zt_vk_code_$*;' >$@

$(BUILD)/shaders/%.o: $(BUILD)/shaders/%.c
	$(call say,CC)
	$(Q)$(CC) $(ZCFLAGS) -c -o $@ $<
.PRECIOUS: $(BUILD)/shaders/%.c $(BUILD)/shaders/%.inc

# A file of kernels becomes one image for all the machines that nvcc knows of ours, and that a constant,
# zt_cu_image_NAME; images.c lists them. a*b+c is rounded twice, as by ZCFLAGS.
NVCCFLAGS := -std=c++17 -O3 -fmad=false -I. --Werror all-warnings -Xfatbin -compress-all \
             $(foreach a,$(NVCC_ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) \
             -gencode arch=compute_$(NVCC_PTX),code=compute_$(NVCC_PTX)
$(BUILD)/%.fatbin: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,NVCC)
	$(Q)$(NVCC_FOUND) $(NVCCFLAGS) -MMD -MF $(BUILD)/$*.fatbin.d -MT $@ -fatbin -o $@ $<

$(BUILD)/%.image.o: $(BUILD)/%.fatbin
	$(Q)printf '%s\n' '.section .rodata' '.balign 64' '.globl zt_cu_image_$(*F)' 'zt_cu_image_$(*F):' \
	    '.incbin "$(abspath $<)"' '.section .note.GNU-stack,"",%progbits' | $(CC) -xassembler -c -o $@ -
.PRECIOUS: $(BUILD)/%.fatbin

# The same for AMD, where HIP=1: a bundle for all of HIP_ARCHS, zt_hip_image_NAME. A hipcc before 5.4
# asks which GPU there is, and complains on stderr where none is: HCC_AMDGPU_TARGET keeps it from that.
HIPCCFLAGS := -std=c++17 -O3 -ffp-contract=off -I. -Wall -Wextra -Werror $(HIP_TARGETS:%=--offload-arch=%)
$(BUILD)/%.co: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,HIPCC)
	$(Q)HCC_AMDGPU_TARGET=$(firstword $(HIP_TARGETS)) $(HIPCC_FOUND) --genco $(HIPCCFLAGS) -MD -MF $(BUILD)/$*.co.d -MT $@ -x hip -o $@ $<
$(BUILD)/%.hip.o: $(BUILD)/%.co
	$(Q)printf '%s\n' '.section .rodata' '.balign 4096' '.globl zt_hip_image_$(*F)' 'zt_hip_image_$(*F):' \
	    '.incbin "$(abspath $<)"' '.section .note.GNU-stack,"",%progbits' | $(CC) -xassembler -c -o $@ -
.PRECIOUS: $(BUILD)/%.co

# images_list NAME,FILES: zt_NAME_images[], of zt_NAME_image_FILE.
images_list = $(foreach n,$(2),echo 'extern const unsigned char zt_$(1)_image_$(n)[];';) \
    echo 'extern const unsigned char *const zt_$(1)_images[];'; \
    echo 'const unsigned char *const zt_$(1)_images[] = { $(foreach n,$(2),zt_$(1)_image_$(n),) 0};'
$(BUILD)/lib/engine/cuda/images.c: $(BUILD)/flags $(if $(NVCC_FOUND)$(HIPCC_FOUND),$(cu_src))
	@mkdir -p $(@D)
	@{ $(call images_list,cu,$(if $(NVCC_FOUND),$(notdir $(cu_src:%.cu=%)))); \
	    $(call images_list,hip,$(if $(HIPCC_FOUND),$(notdir $(hip_src:%.cu=%)))); } >$@

$(BUILD)/lib/engine/cuda/images.o: $(BUILD)/lib/engine/cuda/images.c
	$(call say,CC)
	$(Q)$(CC) $(ZCFLAGS) -c -o $@ $<

define tool_rule
$(BUILD)/bin/$(1): $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard tools/$(1)/*.c))) $(common_obj) $(BUILD)/libzt.a
	@mkdir -p $$(@D)
	$$(call say,LD)
	$(Q)$(CC) $(ZCFLAGS) $(ZLDFLAGS) -o $$@ $$^ $(LIBS) $(LIBS_$(1))
endef
$(foreach t,$(tools),$(eval $(call tool_rule,$(t))))

$(BUILD)/tests/bench_ratio: $(BUILD)/tools/zt-bench/stats.o
$(foreach t,$(test_src),$(eval $(BUILD)/tests/$(basename $(notdir $(t))): $(BUILD)/$(t:.c=.o)))
$(test_bin): $(common_obj) $(BUILD)/libzt.a
	$(call say,LD)
	$(Q)$(CC) $(ZCFLAGS) $(ZLDFLAGS) -o $@ $(filter %.o,$^) $(common_obj) $(BUILD)/libzt.a $(LIBS)

$(fuzz_bin): $(BUILD)/tests/fuzz_%: $(BUILD)/tests/fuzz/%.o $(BUILD)/tests/fuzz/main.o $(BUILD)/libzt.a
	$(call say,LD)
	$(Q)$(CC) $(ZCFLAGS) $(ZLDFLAGS) -o $@ $^ $(LIBS)

# zt-ops(7) is made from the table of ops.
$(BUILD)/man/mkops: $(BUILD)/man/mkops.o $(BUILD)/libzt.a
	$(call say,LD)
	$(Q)$(CC) $(ZCFLAGS) $(ZLDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/man/zt-ops.7: $(BUILD)/man/mkops
	$(call say,MAN)
	$(Q)$< >$@.new && mv $@.new $@

# What has been promised stays in the list, so that a test finds what is no longer so.
contract: $(BUILD)/man/mkops
	@{ cat tests/ops/contract.txt; $< --list; } | LC_ALL=C sort -u >$(BUILD)/contract.new
	@mv $(BUILD)/contract.new tests/ops/contract.txt
	@git diff --stat tests/ops/contract.txt

# ---- test ---------------------------------------------------------------------------------------

# The golden cases: ZT_GOLDEN, else ../shared/golden, else those packed in tests/golden.
golden := $(or $(ZT_GOLDEN),$(realpath ../shared/golden),$(abspath $(BUILD)/golden))
unpacked := $(if $(wildcard $(golden)),,$(if $(wildcard tests/golden/*.tar.xz),$(BUILD)/golden))
# The inputs of public bug reports: ZT_CASES, else ../shared/cases, else those packed in tests/tools/cases.
cases := $(or $(ZT_CASES),$(realpath ../shared/cases),$(abspath $(BUILD)/cases))
test_env = ZT_BIN='$(abspath $(BUILD)/bin)' ZT_TESTS='$(abspath $(BUILD)/tests)' \
           $(if $(emu),ZT_LIBCUDA='$(abspath $(emu))' ZT_LIBHIP='$(abspath $(emu))') \
           $(if $(wildcard $(golden))$(unpacked),ZT_GOLDEN='$(golden)') \
           $(if $(ZT_GOLDEN)$(realpath ../shared/golden),ZT_GOLDEN_STRICT=1) ZT_CASES='$(cases)'

test-bins: $(test_bin) $(fuzz_bin) $(helpers) $(emu)

# zt-trace with one wrong kernel: tests/tools/plant/kernel.c.
$(BUILD)/tests/zt-trace-planted: $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard tools/zt-trace/*.c))) \
                                 $(BUILD)/tests/tools/plant/kernel.o $(common_obj) $(BUILD)/libzt.a
	$(call say,LD)
	$(Q)$(CC) $(ZCFLAGS) $(ZLDFLAGS) -Wl,--wrap=zt_cpu_find -o $@ $^ $(LIBS)

# zt-bench with one slower kernel: tests/tools/plant/slow.c.
$(BUILD)/tests/zt-bench-slow: $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard tools/zt-bench/*.c))) \
                              $(BUILD)/tests/tools/plant/slow.o $(common_obj) $(BUILD)/libzt.a
	$(call say,LD)
	$(Q)$(CC) $(ZCFLAGS) $(ZLDFLAGS) -Wl,--wrap=zt_cpu_find -o $@ $^ $(LIBS) $(LIBS_zt-bench)

# A libcuda over host memory, with the kernels of lib/engine/cuda: tests/cudaemu/emu.h. Their loads
# and stores go through check.cpp, by what g++ does for a thread sanitizer; no sanitizer is linked.
EMU_FLAGS := -std=c++17 -O2 -g -Wall -Wextra -Wshadow -fPIC -fvisibility=hidden -ffp-contract=off -fno-math-errno \
             -DZT_CU_PRIMITIVES='"prim_emu.h"' -DZT_CU_PRIMITIVES_SM90='"sm90.h"' -I. -Itests/cudaemu -MMD -MP
EMU_HOOKS := -fsanitize=thread --param tsan-instrument-func-entry-exit=0 --param tsan-distinguish-volatile=1
$(BUILD)/emu/%.cpp.o: %.cpp
	@mkdir -p $(@D)
	$(call say,G++)
	$(Q)g++ $(EMU_FLAGS) -c -o $@ $<
$(BUILD)/emu/%.cu.o: %.cu
	@mkdir -p $(@D)
	$(call say,G++)
	$(Q)g++ $(EMU_FLAGS) $(EMU_HOOKS) -x c++ -c -o $@ $<
$(BUILD)/tests/libcuda-emu.so: $(emu_obj)
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)g++ -shared -Wl,-z,defs -o $@ $^

$(BUILD)/golden: $(wildcard tests/golden/*.tar.xz)
	@rm -rf $@ && mkdir -p $@
	@for f in $^; do tar -C $@ -xJf $$f || exit; done
	@touch $@

# Sets that a make.py beside them made: tests/*/*/NAME.tar.xz is unpacked in $(BUILD)/NAME, beside the
# folder of the tests that read it. Made models of every architecture (archs), whole directories, and what
# llama.cpp's converter makes of the former (ggufs); tokenizers; checkpoints of PyTorch; bug reports' inputs.
set_archives := $(sort $(wildcard tests/*/*/*.tar.xz))
sets := $(set_archives:%.tar.xz=$(BUILD)/%.unpacked)
$(sets): $(BUILD)/%.unpacked: %.tar.xz
	@rm -rf $(BUILD)/$(*F) && mkdir -p $(BUILD)/$(*F) $(@D)
	@tar -C $(BUILD)/$(*F) -xJf $<
	@touch $@
$(BUILD)/tests/cuda_emu: | $(emu)
$(test_bin): | $(sets)

test check:
	@scripts/deps test
	@$(MAKE) --no-print-directory run-tests

# Those that take longest, the longest first: else one of them runs alone at the end.
all_tests := $(filter-out $(helpers),$(test_bin)) $(sort $(wildcard tests/*/*.bats tests/*/*.t))
long_tests := $(filter $(all_tests),$(addprefix $(BUILD)/tests/,conformance device_llm) tests/engine/bits.bats \
    tests/tools/zt-bench.bats tests/engine/cuda.bats $(BUILD)/tests/vulkan_models \
    tests/engine/vulkan.bats tests/tools/zt-convert-golden.bats tests/checks/docs.bats \
    $(addprefix $(BUILD)/tests/,grad_engines hostile_files) tests/tools/zt-bench-history.bats)

run-tests: all test-bins $(unpacked) $(sets)
	@$(test_env) tests/tap-runner $(long_tests) $(filter-out $(long_tests),$(all_tests))

# Not on Vulkan: a driver leaks what is its own and then is unloaded, so that no name is left to forgive.
SANITIZE := VK_ICD_FILENAMES=none VK_DRIVER_FILES=none ZT_TEST_TIMEOUT=3000 $(MAKE) --no-print-directory run-tests OPT='-O1 -g -fno-omit-frame-pointer $$(SAN)' HARDEN=-fPIE
sanitize:
	@scripts/deps test
	+$(SANITIZE) BUILD=$(BUILD)/asan SAN='-fsanitize=address,undefined -fno-sanitize-recover=all'
	+$(SANITIZE) BUILD=$(BUILD)/tsan SAN='-fsanitize=thread'

# RUNS executions of each tests/fuzz/TARGET.c, guided by coverage.
fuzz:
	@scripts/deps long
	@scripts/fuzz

long:
	@scripts/deps long
	@$(MAKE) --no-print-directory run-tests
	@$(MAKE) --no-print-directory sanitize
	ZT_LONG=1 $(BUILD)/tests/op_allocations
	ZT_LONG=1 $(BUILD)/tests/unary # every function of one float on all 2^32: an hour
	mandoc -T lint -W warning man/*.[15] $(BUILD)/man/zt-ops.7

# ---- demo, bench, dependencies ------------------------------------------------------------------

deps:
	@scripts/deps build
test-deps:
	@scripts/deps long

PROMPT ?= Why is the sky blue? Answer in one sentence.
demo:
	@scripts/deps demo
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@model=$$(scripts/model smollm2) && echo "> $(PROMPT)" && \
	    $(BUILD)/bin/zt-run -m "$$model" -p '$(PROMPT)' --temp 0 -n 120 --stats && echo

bench: all
	ZT_BIN=$(BUILD)/bin bench/start
	ZT_BENCH=$(BUILD)/bin/zt-bench bench/vs-llama

# ---- install ------------------------------------------------------------------------------------

# Quoted: a folder may have a blank in its name. zt.pc names PREFIX, not DESTDIR. lib/zt.h is installed as
# include/zt.h, any other public header lib/NAME as include/zt/NAME (lib/zt/NAME too), and includes follow.
bindir  = '$(DESTDIR)$(PREFIX)/bin'
libdir  = '$(DESTDIR)$(PREFIX)/lib'
incdir  = '$(DESTDIR)$(PREFIX)/include'
mandir  = '$(DESTDIR)$(PREFIX)/share/man/man1'
man5dir = '$(DESTDIR)$(PREFIX)/share/man/man5'
man7dir = '$(DESTDIR)$(PREFIX)/share/man/man7'
compdir = '$(DESTDIR)$(PREFIX)/share/bash-completion/completions'
pages  := $(tools:%=%.1)

install: all
	install -d $(bindir) $(libdir)/pkgconfig $(incdir) $(mandir) $(man5dir) $(man7dir) $(compdir)
	install -m 755 $(bins) $(bindir)
	install -m 644 $(pages:%=man/%) $(mandir)
	install -m 644 man/zt-formats.5 man/zt-network.5 man/zt-program.5 $(man5dir)
	install -m 644 $(BUILD)/man/zt-ops.7 $(man7dir)
	for t in $(tools); do $(BUILD)/bin/$$t --completion bash >$(compdir)/$$t || exit; done
	install -m 644 $(BUILD)/libzt.a $(libdir)
	for h in $(public); do \
	    case $$h in lib/zt.h | lib/zt/*) to=$${h#lib/} ;; *) to=zt/$${h#lib/} ;; esac; \
	    install -D -m 644 $$h $(incdir)/$$to && \
	        sed -i 's|"lib/zt\([./]\)|"zt\1|; s|"lib/|"zt/|' $(incdir)/$$to || exit; \
	done
	printf '%s\n' 'prefix=$(PREFIX)' 'Name: zt' 'Description: neural-network models as Unix data' \
	    'Version: $(VERSION)' 'Cflags: -I$${prefix}/include' \
	    'Libs: -L$${prefix}/lib -lzt $(LIBS) -pthread' >$(libdir)/pkgconfig/zt.pc

uninstall:
	for t in $(tools); do rm -f $(bindir)/$$t $(mandir)/$$t.1 $(compdir)/$$t; done
	rm -f $(libdir)/libzt.a $(libdir)/pkgconfig/zt.pc $(man5dir)/zt-formats.5 $(man5dir)/zt-network.5 $(man5dir)/zt-program.5 $(man7dir)/zt-ops.7
	rm -f $(incdir)/zt.h
	rm -rf $(incdir)/zt

clean:
	rm -rf $(BUILD)/lib $(BUILD)/emu $(BUILD)/shaders $(BUILD)/man $(BUILD)/tools $(BUILD)/tests $(BUILD)/bin $(BUILD)/golden $(foreach s,$(sets),$(BUILD)/$(notdir $(s:.unpacked=))) $(BUILD)/libzt.a $(BUILD)/libcommon.a \
	    $(BUILD)/asan $(BUILD)/tsan $(BUILD)/config.mk $(BUILD)/flags
distclean:
	rm -rf $(BUILD)

objects := $(lib_obj) $(BUILD)/man/mkops.o $(patsubst %.c,$(BUILD)/%.o,$(common_src) $(test_src)) \
           $(patsubst %.c,$(BUILD)/%.o,$(wildcard tools/zt-*/*.c tests/fuzz/*.c tests/tools/plant/*.c)) $(if $(emu),$(emu_obj))
-include $(objects:.o=.d) $(cu_src:%.cu=$(BUILD)/%.fatbin.d) $(cu_src:%.cu=$(BUILD)/%.co.d)
