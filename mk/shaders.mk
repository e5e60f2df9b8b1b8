# shaders.mk - Vulkan: shaders/NAME.comp to constants in the library.
#
# A shader becomes two constants: zt_vk_code_NAME, its SPIR-V, and zt_vk_size_NAME, the size in bytes.
# pointwise.comp is not optimized: the engine edits its SPIR-V and finds the functions by name.

$(BUILD)/shaders/%.inc: shaders/%.comp $(wildcard shaders/*.glsl) $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,GLSLC)
	$(Q)glslc --target-env=vulkan1.2 -Werror $(if $(filter pointwise,$*),-O0,-O) -mfmt=c -o $@ $<

# Twins, NAME_f64: the same text compiled to compute in f64 (shaders/call.glsl).
$(f64_twins:%=$(BUILD)/shaders/%_f64.inc): $(BUILD)/shaders/%_f64.inc: shaders/%.comp $(wildcard shaders/*.glsl) $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,GLSLC)
	$(Q)glslc --target-env=vulkan1.2 -Werror -O -DIN_F64 -mfmt=c -o $@ $<

$(BUILD)/shaders/%.c: $(BUILD)/shaders/%.inc
	@printf '%s\n' '#include <stdint.h>' 'extern const uint32_t zt_vk_code_$*[], zt_vk_size_$*;' \
	    'const uint32_t zt_vk_code_$*[] =' '#include "$(abspath $<)"' ';' \
	    'const uint32_t zt_vk_size_$* = sizeof zt_vk_code_$*;' >$@

$(BUILD)/shaders/%.o: $(BUILD)/shaders/%.c
	$(call say,CC)
	$(Q)$(CC) $(ZCFLAGS) -c -o $@ $<
.PRECIOUS: $(BUILD)/shaders/%.c $(BUILD)/shaders/%.inc
