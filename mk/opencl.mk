# opencl.mk - OpenCL: lib/engine/opencl/NAME.cl to texts in the library, which drivers compile.
#
# NAME.cl with what it includes becomes a constant, zt_cl_image_NAME. images.c, which is made here, lists the constants.

cl_text = awk 'function put(file, line) { if (seen[file]++) return; while ((getline line < file) > 0) \
    if (line ~ /^\#include "/) { split(line, part, "\""); put(part[2]) } else if (line !~ /^\#include </) print line } \
    BEGIN { put(ARGV[1]); exit }'
$(BUILD)/%.cl.text: %.cl $(wildcard lib/engine/opencl/*.clh lib/engine/cuda/args*.h) $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q)$(cl_text) $< >$@

$(BUILD)/%.cl.o: $(BUILD)/%.cl.text
	$(call say,CL)
	$(Q)printf '%s\n' '.section .rodata' '.balign 64' '.globl zt_cl_image_$(*F)' 'zt_cl_image_$(*F):' \
	    '.incbin "$(abspath $<)"' '.byte 0' '.section .note.GNU-stack,"",%progbits' | $(CC) -xassembler -c -o $@ -
.PRECIOUS: $(BUILD)/%.cl.text

$(BUILD)/lib/engine/opencl/images.c: $(BUILD)/flags $(cl_src)
	@mkdir -p $(@D)
	@{ $(call images_list,cl,$(notdir $(cl_src:%.cl=%))); } >$@

$(BUILD)/lib/engine/opencl/images.o: $(BUILD)/lib/engine/opencl/images.c
	$(call say,CC)
	$(Q)$(CC) $(ZCFLAGS) -c -o $@ $<
