# cudaemu.mk - the emulated GPU of the tests.
#
# libcuda-emu.so is a CUDA driver over host memory with the kernels of lib/engine/cuda (tests/cudaemu/emu.h).
# -fsanitize=thread makes g++ call a function at each load and store; these functions are those of check.cpp,
# no sanitizer is linked.

EMU_FLAGS := -std=c++17 -O2 -g -Wall -Wextra -Wshadow -fPIC -fvisibility=hidden -ffp-contract=off -fno-math-errno \
             -DZT_CU_PRIMITIVES='"prim_emu.h"' -DZT_CU_PRIMITIVES_SM90='"sm90.h"' -I. -Itests/cudaemu -MMD -MP
EMU_HOOKS := -fsanitize=thread --param tsan-instrument-func-entry-exit=0 --param tsan-distinguish-volatile=1
$(BUILD)/emu/%.cpp.o: %.cpp
	@mkdir -p $(@D)
	$(call say,G++)
	$(Q)g++ $(EMU_FLAGS) -c -o $@ $<
$(BUILD)/emu/%.cu.o: %.cu
	@mkdir -p $(@D)
	$(call say,G++)
	$(Q)g++ $(EMU_FLAGS) $(EMU_HOOKS) -x c++ -c -o $@ $<
$(BUILD)/tests/libcuda-emu.so: $(emu_obj)
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)g++ -shared -Wl,-z,defs -o $@ $^
