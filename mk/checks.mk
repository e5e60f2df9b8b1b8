# checks.mk - sanitizers, fuzzing, the long tests, the contract of the ops, and the style of the sources.

# Without Vulkan: a driver leaks memory of its own and is then unloaded, so that the leaks have no name by which
# they could be suppressed.
SANITIZE := VK_ICD_FILENAMES=none VK_DRIVER_FILES=none ZT_TEST_TIMEOUT=3000 \
            $(MAKE) --no-print-directory run-tests OPT='-O1 -g -fno-omit-frame-pointer $$(SAN)' HARDEN=-fPIE
sanitize:
	@scripts/deps test
	+$(SANITIZE) BUILD=$(BUILD)/asan SAN='-fsanitize=address,undefined -fno-sanitize-recover=all'
	+$(SANITIZE) BUILD=$(BUILD)/tsan SAN='-fsanitize=thread'

# Races of the host's side of Vulkan alone: what the driver and its compiler do is not looked at.
VULKAN_TSAN := TSAN_OPTIONS=ignore_noninstrumented_modules=1

# RUNS more executions of each tests/fuzz/TARGET.c, guided by coverage; SANITIZE=0: without sanitizers.
fuzz:
	@scripts/deps long
	@scripts/fuzz

long:
	@scripts/deps long
	@$(MAKE) --no-print-directory run-tests
	@$(MAKE) --no-print-directory sanitize
	for t in vulkan_engine vulkan_faults vulkan_programs; do $(VULKAN_TSAN) $(BUILD)/tsan/tests/$$t || exit 1; done
	ZT_LONG=1 $(BUILD)/tests/op_allocations
	$(BUILD)/tests/grad_engines vulkan # skipped, aloud, without a device
	ZT_LONG=1 ZT_BIN=$(BUILD)/bin ZT_TESTS=$(BUILD)/tests bats tests/tools/zt-train-methods.bats tests/tools/zt-run-receipt.bats tests/engine/arithmetic.bats
	ZT_LONG=1 ZT_BIN=$(BUILD)/bin ZT_TESTS=$(BUILD)/tests bats tests/tools/zt-train-faults.bats tests/tools/zt-dna-faults.bats # every allocation
	ZT_LONG=1 ZT_BIN=$(BUILD)/bin ZT_TESTS=$(BUILD)/tests bats tests/tools/zt-run-kv-store.bats # 500 kills
	ZT_LONG=1 ZT_BIN=$(BUILD)/bin ZT_TESTS=$(BUILD)/tests bats tests/tools/zt-quant.bats # every type, of eight layers
	ZT_EVOLVE_KILLS=10 ZT_BIN=$(BUILD)/bin ZT_TESTS=$(BUILD)/tests bats -f killed tests/tools/zt-dna-evolve.bats # 20 kills
	ZT_LONG=1 ZT_BIN=$(BUILD)/bin ZT_TESTS=$(BUILD)/tests bats tests/engine/bits.bats # every pair of threads and chunks
	ZT_LONG=1 ZT_BIN=$(BUILD)/bin ZT_TESTS=$(BUILD)/tests bats tests/fuzz/differential.bats # 2000 mutants a format; COUNT=100000
	ZT_LONG=1 $(BUILD)/tests/hostile_rows # every damage of every model
	ZT_LONG=1 $(BUILD)/tests/hostile_directories
	ZT_LONG=1 $(BUILD)/tests/conformance vulkan matmul_weight # every block type
	ZT_LONG=1 $(BUILD)/tests/vulkan_models # greedy text after 24 prompts
	ZT_LONG=1 $(MAKE) --no-print-directory arm64-bits # AArch64 under qemu
	ZT_LONG=1 $(BUILD)/tests/unary # every function of one float on all 2^32: an hour
	@$(MAKE) --no-print-directory deb
	scripts/check-deb $(BUILD)/deb || [ $$? -eq 69 ] # 69: no chroot can be made here, as it said
	mandoc -T lint -W warning man/*.[157] $(BUILD)/man/zt-ops.7

# Adds new facts of the table of ops to the contract. Old ones stay, so that a test finds those that no longer hold.
contract: $(BUILD)/man/mkops
	@{ cat tests/ops/contract.txt; $< --list; } | LC_ALL=C sort -u >$(BUILD)/contract.new
	@mv $(BUILD)/contract.new tests/ops/contract.txt
	@git diff --stat tests/ops/contract.txt

# Writes the architectures of language models into zt-run(1). A test compares.
architectures: $(BUILD)/man/mkops
	@$< --architectures >$(BUILD)/architectures
	@perl -0777 -pi -e 'BEGIN { local @ARGV = shift; $$new = <> } s/^Supported architectures are\n.*?^For any other/$${new}For any other/ms' \
		$(BUILD)/architectures man/zt-run.1

# The test tests/checks/sources.bats runs it with --check.
format:
	@scripts/format
