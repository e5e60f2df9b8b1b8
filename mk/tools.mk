# tools.mk - the tools, and the manual of the ops.

# What takes a minute to compile begins first: else it would end alone.
slow_obj := $(filter %/gemm_quant/product.avx512.o %/gemm_quant/product.avx2.o,$(lib_obj))
programs: $(slow_obj) $(bins)
all: programs $(BUILD)/libzt.a $(BUILD)/man/zt-ops.7

# All tools are in one program, $(BUILD)/zt, because the library's kernels are most of the size of each (tools/zt.c). Here
# a tool is a hard link to it, so that a path that is resolved still names the tool. The objects of zt-NAME become one,
# in which main is zt_NAME_main and all other names are local: tools may use the same names.
main_of = $(subst -,_,$(1))_main
define tool_rule
$(BUILD)/tools/$(1).o: $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard tools/$(1)/*.c)))
	@mkdir -p $$(@D)
	$(Q)$(CC) -r -nostdlib -o $$@.new $$^
	$(Q)$(OBJCOPY) --redefine-sym main=$(main_of) --keep-global-symbol=$(main_of) $$@.new $$@ && rm $$@.new
endef
$(foreach t,$(tools),$(eval $(call tool_rule,$(t))))

# The page of zt-train --report is part of the program.
$(BUILD)/tools/zt-train/report.inc: tools/zt-train/report.html
	@mkdir -p $(@D)
	$(Q)od -An -v -tu1 $< | sed 's/\([0-9]\) *$$/\1,/; s/\([0-9]\)  */\1,/g' >$@.new && mv $@.new $@
$(BUILD)/tools/zt-train/report.o: $(BUILD)/tools/zt-train/report.inc
$(BUILD)/tools/zt-train/report.o: ZCPPFLAGS += -I$(BUILD)

# --version names the commit. $(BUILD)/commit is written only when that changes, which compiles zt.c and links again. It is kept where git
# refuses (another user's clone, with `sudo make install`). Without .git the source is an archive, also inside of another clone.
ifneq (,$(filter-out $(help_goals),$(goals)))
COMMIT := $(or $(if $(wildcard .git),$(shell GIT_OPTIONAL_LOCKS=0 git describe --always --exclude '*' --abbrev=12 --dirty 2>/dev/null \
                                             || cat $(BUILD)/commit 2>/dev/null)),unknown)
ifneq ($(COMMIT),$(shell cat $(BUILD)/commit 2>/dev/null))
$(file >$(BUILD)/commit,$(COMMIT))
endif
endif
$(BUILD)/commit: ;
$(BUILD)/tools/zt.o: $(BUILD)/commit
$(BUILD)/tools/zt.o: ZCPPFLAGS += -DZT_COMMIT='"$(COMMIT)"'

$(BUILD)/zt: $(BUILD)/tools/zt.o $(tools:%=$(BUILD)/tools/%.o) $(common_obj) $(BUILD)/libzt.a
	$(call say,LD)
	$(Q)$(CC) $(ZCFLAGS) $(ZLDFLAGS) -o $@ $^ $(LIBS) $(foreach t,$(tools),$(LIBS_$(t)))

$(bins): $(BUILD)/zt
	@mkdir -p $(@D)
	$(Q)ln -f $< $@

# zt-ops(7) is made from the table of ops.
$(BUILD)/man/mkops: $(BUILD)/man/mkops.o $(BUILD)/libzt.a
	$(call say,LD)
	$(Q)$(CC) $(ZCFLAGS) $(ZLDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/man/zt-ops.7: $(BUILD)/man/mkops
	$(call say,MAN)
	$(Q)$(RUN) $< >$@.new && mv $@.new $@
