# sources.mk - which files make the library, the tools and the tests. A new file is found by its folder.

# The instruction sets that the compiler knows.
ISAS := scalar $(if $(filter 1,$(HAVE_AVX2)),avx2) $(if $(filter 1,$(HAVE_AVX512)),avx512) \
        $(if $(filter 1,$(HAVE_NEON)),neon) $(if $(filter 1,$(HAVE_DOTPROD)),dotprod)
ZCPPFLAGS += $(if $(filter 1,$(HAVE_AVX2)),-DZT_HAVE_AVX2) $(if $(filter 1,$(HAVE_AVX512)),-DZT_HAVE_AVX512) \
             $(if $(filter 1,$(HAVE_NEON)),-DZT_HAVE_NEON) $(if $(filter 1,$(HAVE_DOTPROD)),-DZT_HAVE_DOTPROD)

# The library. *_sm90.cu are kernels for NVIDIA alone.
isa_src  := $(sort $(wildcard lib/engine/cpu/isa/*.c lib/engine/cpu/isa/*/*.c lib/tensor/isa/*.c lib/dna/isa/*.c))
cu_src   := $(if $(filter 1,$(HAVE_CUDA)),$(sort $(wildcard lib/engine/cuda/*.cu)))
hip_src  := $(filter-out %_sm90.cu,$(cu_src))
cl_src   := $(if $(filter 1,$(HAVE_CUDA)),$(sort $(wildcard lib/engine/opencl/*.cl)))
lib_src  := $(filter-out $(isa_src) $(if $(filter 1,$(HAVE_VULKAN)),,lib/engine/vulkan/%) \
            $(if $(filter 1,$(HAVE_CUDA)),,lib/engine/cuda/% lib/engine/opencl/%), $(sort $(wildcard lib/*/*.c lib/*/*/*.c)))
# Shaders with a twin that computes in f64; ZT_VK_TWINS of lib/engine/vulkan/vk.h lists them too.
f64_twins := conv conv_parts elementwise_binary elementwise_unary index_elements index_parts loss_classes loss_pair loss_sum \
             matmul norm_channels pad_back pool pool_planes reduce reduce_spread scan sdpa softmax spectral \
             spectral_conv
lib_obj  := $(lib_src:%.c=$(BUILD)/%.o) $(foreach i,$(ISAS),$(isa_src:%.c=$(BUILD)/%.$(i).o)) \
            $(if $(filter 1,$(HAVE_VULKAN)),$(patsubst %.comp,$(BUILD)/%.o,$(sort $(wildcard shaders/*.comp))) \
                $(f64_twins:%=$(BUILD)/shaders/%_f64.o)) \
            $(if $(filter 1,$(HAVE_CUDA)),$(BUILD)/lib/engine/opencl/images.o $(cl_src:%.cl=$(BUILD)/%.cl.o) \
                $(BUILD)/lib/engine/cuda/images.o \
                $(if $(NVCC_FOUND),$(cu_src:%.cu=$(BUILD)/%.image.o)) $(if $(HIPCC_FOUND),$(hip_src:%.cu=$(BUILD)/%.hip.o)))

# The tools, and what they share.
common_src := $(sort $(wildcard tools/common/*.c))
common_obj := $(BUILD)/libcommon.a
tools    := $(sort $(notdir $(wildcard tools/zt-*)))
bins     := $(tools:%=$(BUILD)/bin/%)

# The tests. The program of tests/AREA/NAME.c is $(BUILD)/tests/NAME.
test_src := $(filter-out tests/fuzz/%,$(sort $(wildcard tests/*/*.c)))
test_bin := $(addprefix $(BUILD)/tests/,$(notdir $(test_src:.c=)))
fuzz_src := $(filter-out tests/fuzz/main.c,$(wildcard tests/fuzz/*.c))
fuzz_bin := $(fuzz_src:tests/fuzz/%.c=$(BUILD)/tests/fuzz_%)
# Programs that tests run.
helpers  := $(BUILD)/tests/mkmodel $(BUILD)/tests/zt-trace-planted $(BUILD)/tests/zt-bench-slow $(BUILD)/tests/zt-refusing $(BUILD)/tests/zt-reader
# Tests that call the CUDA driver.
cu_tests := cuda_blas cuda_emu cuda_faults cuda_fft cuda_lt cuda_unified opencl_faults
# The emulated GPU (mk/cudaemu.mk).
emu      := $(if $(filter 11,$(HAVE_CUDA)$(HAVE_CUDAEMU)),$(BUILD)/tests/libcuda-emu.so)
emu_src  := $(sort $(wildcard tests/cudaemu/*.cpp tests/cudaemu/*.cu lib/engine/cuda/*.cu))
emu_obj  := $(emu_src:%=$(BUILD)/emu/%.o)
