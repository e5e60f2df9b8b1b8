# tools.mk - the tools, and the manual of the ops.

all: $(bins) $(BUILD)/libzt.a $(BUILD)/man/zt-ops.7

define tool_rule
$(BUILD)/bin/$(1): $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard tools/$(1)/*.c))) $(common_obj) $(BUILD)/libzt.a
	@mkdir -p $$(@D)
	$$(call say,LD)
	$(Q)$(CC) $(ZCFLAGS) $(ZLDFLAGS) -o $$@ $$^ $(LIBS) $(LIBS_$(1))
endef
$(foreach t,$(tools),$(eval $(call tool_rule,$(t))))

# zt-ops(7) is made from the table of ops.
$(BUILD)/man/mkops: $(BUILD)/man/mkops.o $(BUILD)/libzt.a
	$(call say,LD)
	$(Q)$(CC) $(ZCFLAGS) $(ZLDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/man/zt-ops.7: $(BUILD)/man/mkops
	$(call say,MAN)
	$(Q)$< >$@.new && mv $@.new $@
