# compile.mk - C files to objects, objects to archives. V=1 shows the commands.

Q   := $(if $(V),,@)
say  = $(if $(V),,@echo '  $(1) $(@:$(CURDIR)/%=%)')

lib: $(BUILD)/libzt.a

$(BUILD)/libzt.a: $(lib_obj)
	@rm -f $@
	$(call say,AR)
	$(Q)$(AR) rcs $@ $^

# An archive, so that a test of a low layer links while the layers above are being built.
$(BUILD)/libcommon.a: $(common_src:%.c=$(BUILD)/%.o)
	@rm -f $@
	$(call say,AR)
	$(Q)$(AR) rcs $@ $^

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(ZCPPFLAGS) $(ZCFLAGS) -MMD -MP -c -o $@ $<

# Files that are compiled otherwise where the probe found a library.
$(BUILD)/lib/engine/engines.o $(cu_tests:%=$(BUILD)/tests/engine/%.o): \
    ZCPPFLAGS += $(if $(filter 1,$(HAVE_CUDA)),-DZT_HAVE_CUDA)
$(BUILD)/lib/engine/engines.o $(BUILD)/tests/engine/vulkan_faults.o $(BUILD)/tests/engine/vulkan_cache.o: \
    ZCPPFLAGS += $(if $(filter 1,$(HAVE_VULKAN)),-DZT_HAVE_VULKAN)
$(BUILD)/tools/zt-bench/history.o: ZCPPFLAGS += $(if $(filter 1,$(HAVE_SQLITE)),-DZT_HAVE_SQLITE)
$(BUILD)/tools/zt-run/serve.o $(BUILD)/tools/zt-run/serve_%.o: ZCPPFLAGS += $(if $(filter 1,$(HAVE_MICROHTTPD)),-DZT_HAVE_MICROHTTPD)
$(BUILD)/tools/zt-train/observe_http.o: ZCPPFLAGS += $(if $(filter 1,$(HAVE_CURL)),-DZT_HAVE_CURL)
$(BUILD)/lib/dna/tree.o: ZCPPFLAGS += $(if $(filter 1,$(HAVE_YAML)),-DZT_HAVE_YAML)

# The headers that each object was made from.
objects := $(lib_obj) $(BUILD)/man/mkops.o $(patsubst %.c,$(BUILD)/%.o,$(common_src) $(test_src)) \
           $(patsubst %.c,$(BUILD)/%.o,$(wildcard tools/zt.c tools/zt-*/*.c tests/fuzz/*.c tests/tools/plant/*.c)) $(if $(emu),$(emu_obj))
-include $(objects:.o=.d) $(cu_src:%.cu=$(BUILD)/%.fatbin.d) $(cu_src:%.cu=$(BUILD)/%.co.d)
