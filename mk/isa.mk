# isa.mk - a file below a folder isa/ is compiled once for each instruction set, with ZT_ISA
# set to its name. Flags: mk/flags.mk.

define isa_rule
$(BUILD)/%.$(1).o: %.c $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(call say,CC)
	$(Q)$(CC) $(ZCPPFLAGS) -DZT_ISA=$(1) -DZT_ISA_$(1)=1 $(ZCFLAGS) -Wno-psabi -fno-var-tracking $(ISA_FLAGS_$(1)) \
	    $$(FLAGS_$$(*F).$(1)) -MMD -MP -c -o $$@ $$<
endef
$(foreach i,scalar avx2 avx512 neon dotprod,$(eval $(call isa_rule,$(i))))
