# data.mk - packed test data, unpacked into $(BUILD) before the tests run.

# The golden cases: ZT_GOLDEN, else ../shared/golden, else those packed in tests/golden.
golden := $(or $(ZT_GOLDEN),$(realpath ../shared/golden),$(abspath $(BUILD)/golden))
unpacked := $(if $(wildcard $(golden)),,$(if $(wildcard tests/golden/*.tar.xz),$(BUILD)/golden))
# The inputs of public bug reports: ZT_CASES, else ../shared/cases, else those packed in tests/tools/cases.
cases := $(or $(ZT_CASES),$(realpath ../shared/cases),$(abspath $(BUILD)/cases))

$(BUILD)/golden: $(wildcard tests/golden/*.tar.xz)
	@rm -rf $@ && mkdir -p $@
	@for f in $^; do tar -C $@ -xJf $$f || exit; done
	@touch $@

# tests/AREA/SET/NAME.tar.xz is unpacked into $(BUILD)/NAME; a make.py beside the archive made it. Tests find
# the folder beside that of their programs.
set_archives := $(sort $(wildcard tests/*/*/*.tar.xz))
sets := $(set_archives:%.tar.xz=$(BUILD)/%.unpacked)
$(sets): $(BUILD)/%.unpacked: %.tar.xz
	@rm -rf $(BUILD)/$(*F) && mkdir -p $(BUILD)/$(*F) $(@D)
	@tar -C $(BUILD)/$(*F) -xJf $<
	@touch $@
