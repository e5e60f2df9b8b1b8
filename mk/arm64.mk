# arm64.mk - AArch64: a build by Debian's cross compiler against unpacked packages (scripts/sysroot), and its programs run by
# qemu's user mode. $(BUILD)/arm64/run has programs that do that, so that the tests of tools run: ZT_BIN=$(BUILD)/arm64/run.

ARM64_SYSROOT ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/zt/sysroot-arm64
ARM64_CC ?= aarch64-linux-gnu-gcc
ARM64_MAKE = $(MAKE) --no-print-directory CROSS=aarch64-linux-gnu- CC='$(ARM64_CC)' SYSROOT='$(ARM64_SYSROOT)' BUILD='$(BUILD)/arm64' CUDA=0 VULKAN=0 CURL=0 MICROHTTPD=0

arm64:
	@scripts/deps arm64
	@scripts/sysroot '$(ARM64_SYSROOT)'
	+@$(ARM64_MAKE) all $(BUILD)/arm64/tests/conformance
	@mkdir -p $(BUILD)/arm64/run
	@printf '#!/bin/sh\necho %s\n' '$(ARM64_SYSROOT)' >$(BUILD)/arm64/run/sysroot && chmod +x $(BUILD)/arm64/run/sysroot
	@for tool in $(tools); do \
	    printf '#!/bin/sh\nexec qemu-aarch64 -cpu "$${ZT_QEMU_CPU:-max}" -L %s %s "$$@"\n' '$(ARM64_SYSROOT)' \
	        '$(abspath $(BUILD))'/arm64/bin/$$tool >$(BUILD)/arm64/run/$$tool && chmod +x $(BUILD)/arm64/run/$$tool || exit; \
	done

# The same bits here and there.
arm64-bits: arm64
	+@$(MAKE) --no-print-directory all $(BUILD)/tests/conformance $(BUILD)/tests/mkmodel
	ZT_ARM64='$(abspath $(BUILD))/arm64' ZT_BIN='$(abspath $(BUILD)/bin)' ZT_TESTS='$(abspath $(BUILD)/tests)' bats tests/engine/arm64.bats
