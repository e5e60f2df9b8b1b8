# cuda.mk - CUDA and HIP: lib/engine/cuda/NAME.cu to images of kernels in the library.
#
# nvcc makes one image of NAME.cu for all architectures in NVCC_ARCHS, of NAME_sm90.cu also for sm_90a, and the image becomes
# a constant, zt_cu_image_NAME. images.c, which is made here, lists the constants. As in C, a*b+c is rounded twice.

# NVCC_OPT='-Xcicc -O1 -Xptxas -O1' takes a third of the time, for slower kernels of the same bits: .ci/run compiles them so.
NVCC_OPT  ?= -O3
NVCCFLAGS := -std=c++17 $(NVCC_OPT) -fmad=false -I. --Werror all-warnings -Xfatbin -compress-all
nvcc_code  = $(foreach a,$(sort $(NVCC_ARCHS) $(if $(filter %_sm90,$(1)),$(NVCC_SM90))),-gencode arch=compute_$(a),code=sm_$(a)) \
             $(foreach p,$(NVCC_PTX),-gencode arch=compute_$(p),code=compute_$(p))
$(BUILD)/%.fatbin: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,NVCC)
	$(Q)$(NVCC_FOUND) $(NVCCFLAGS) $(call nvcc_code,$*) -MMD -MF $(BUILD)/$*.fatbin.d -MT $@ -fatbin -o $@ $<

$(BUILD)/%.image.o: $(BUILD)/%.fatbin
	$(Q)printf '%s\n' '.section .rodata' '.balign 64' '.globl zt_cu_image_$(*F)' 'zt_cu_image_$(*F):' \
	    '.incbin "$(abspath $<)"' '.section .note.GNU-stack,"",%progbits' | $(CC) -xassembler -c -o $@ -
.PRECIOUS: $(BUILD)/%.fatbin

# The same for AMD where HIP=1: one bundle for all of HIP_ARCHS, zt_hip_image_NAME. HCC_AMDGPU_TARGET keeps a
# hipcc before 5.4 from looking for a GPU and complaining on stderr that there is none.
HIPCCFLAGS := -std=c++17 -O3 -ffp-contract=off -I. -Wall -Wextra -Werror $(HIP_TARGETS:%=--offload-arch=%)
$(BUILD)/%.co: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,HIPCC)
	$(Q)HCC_AMDGPU_TARGET=$(firstword $(HIP_TARGETS)) $(HIPCC_FOUND) --genco $(HIPCCFLAGS) -MD \
	    -MF $(BUILD)/$*.co.d -MT $@ -x hip -o $@ $<
$(BUILD)/%.hip.o: $(BUILD)/%.co
	$(Q)printf '%s\n' '.section .rodata' '.balign 4096' '.globl zt_hip_image_$(*F)' 'zt_hip_image_$(*F):' \
	    '.incbin "$(abspath $<)"' '.section .note.GNU-stack,"",%progbits' | $(CC) -xassembler -c -o $@ -
.PRECIOUS: $(BUILD)/%.co

# images_list NAME,FILES: C text of the array zt_NAME_images[], whose elements are zt_NAME_image_FILE.
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
