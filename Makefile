# zt: one make, not recursive, in parts: mk/NAME.mk. BUILD mirrors the tree. `make help` lists the targets.
#
#   mk/flags.mk     compiler flags, what scripts/probe found, and the stamp that rebuilds when they change
#   mk/sources.mk   which files make the library, the tools and the tests
#   mk/compile.mk   C files to objects and archives
#   mk/isa.mk       kernels that are compiled once for each instruction set
#   mk/shaders.mk   Vulkan: shaders to SPIR-V in the library
#   mk/cuda.mk      CUDA and HIP: kernels to images in the library
#   mk/opencl.mk    OpenCL: kernels to texts in the library
#   mk/tools.mk     the tools, and the manual of the ops
#   mk/cudaemu.mk   the emulated GPU of the tests
#   mk/data.mk      packed test data
#   mk/tests.mk     test programs, and the targets that run tests
#   mk/arm64.mk     AArch64: a build by a cross compiler, run by qemu
#   mk/checks.mk    sanitizers, fuzzing, the long tests, the contract of the ops, the style
#   mk/install.mk   install, uninstall, packages, clean

# ---- what may be set ----------------------------------------------------------------------------

BUILD   ?= build
prefix  ?= /usr/local
PREFIX  ?= $(prefix)
# For another processor: CROSS is what the names of its compiler and tools begin with (aarch64-linux-gnu-), SYSROOT a folder
# with its libraries (scripts/sysroot makes one), RUN what runs its programs here.
CROSS   ?=
SYSROOT ?=
RUN     ?= $(if $(CROSS),qemu-$(firstword $(subst -, ,$(CROSS))) -L $(or $(SYSROOT),/))
override CC := $(if $(filter default,$(origin CC)),$(CROSS)gcc,$(CC))$(if $(SYSROOT), --sysroot=$(SYSROOT))
AR      := $(if $(filter default,$(origin AR)),$(CROSS)ar,$(AR))
STRIP   ?= $(CROSS)strip
OBJCOPY ?= $(CROSS)objcopy
OPT     ?= -O2 -g
HARDEN  ?= -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fPIE
PROMPT  ?= Why is the sky blue? Answer in one sentence.

.PHONY: all programs lib test check test-bins run-tests long sanitize demo deps test-deps arm64 arm64-bits install install-strip uninstall \
        dist deb bench fuzz contract architectures format clean distclean help
.SECONDARY:
.DELETE_ON_ERROR:

# ---- targets ------------------------------------------------------------------------------------

all: # its parts: mk/tools.mk

help:
	@echo 'make            the tools, in $(BUILD)/bin, and $(BUILD)/libzt.a'
	@echo 'make demo       fetch a 98 MB model and ask it PROMPT="..."'
	@echo 'make test       build and run every test;  sanitize: under ASan, UBSan and TSan;  long: all of it'
	@echo 'make fuzz       RUNS=1000000 more of every fuzz target under ASan and UBSan (clang)'
	@echo 'make install    into PREFIX=$(PREFIX), below DESTDIR=;  stripped, unless STRIP=;  uninstall removes it'
	@echo 'make dist       a reproducible tarball of the commit, in $(BUILD)'
	@echo 'make deb        the Debian packages zt and libzt-dev, in $(BUILD)/deb;  DEB_ARCH=arm64: for that'
	@echo 'make arm64      cross-compile the tools for AArch64, in $(BUILD)/arm64;  arm64-bits: compare their bits under qemu'
	@echo 'make contract   add what is new in the table of ops to tests/ops/contract.txt'
	@echo 'make architectures  write the architectures of language models into man/zt-run.1'
	@echo 'make format     give all C files the style of .clang-format (clang-format 14)'
	@echo 'make bench      speed beside llama.cpp, time to the first token, memory'
	@echo 'make deps       install what a build needs (Debian);  test-deps: and all that tests can use'
	@echo 'make clean      remove what was built;  distclean: $(BUILD) itself'
	@echo 'variables: BUILD=$(BUILD) CC=$(CC) OPT="$(OPT)" TEST_OPT=-O1 AVX2=auto|0|1 AVX512=auto|0|1 NEON=auto|0|1 DOTPROD=auto|0|1 CROSS=PREFIX SYSROOT=DIR RUN=PROGRAM VULKAN=auto|0|1 CUDA=auto|0|1 NVCC=PROGRAM|none CUDA_ARCHS="80 ..." NVCC_OPT=-O3 HIP=0|1 HIPCC=PROGRAM HIP_ARCHS="gfx90a ..." YAML=auto|0|1 SQLITE=auto|0|1 MICROHTTPD=auto|0|1 CURL=auto|0|1 V=1 ZT_GOLDEN=DIR ZT_PYTHON=PROGRAM'

deps:
	@scripts/deps build
test-deps:
	@scripts/deps long

demo:
	@scripts/deps demo
	@scripts/model smollm2 >/dev/null & $(MAKE) --no-print-directory -j$$(nproc) programs; code=$$?; wait; exit $$code
	@model=$$(scripts/model smollm2) && echo "> $(PROMPT)" && \
	    $(BUILD)/bin/zt-run -m "$$model" -p '$(PROMPT)' --temp 0 -n 120 --stats

bench: all
	ZT_BIN=$(BUILD)/bin bench/start
	ZT_BENCH=$(BUILD)/bin/zt-bench bench/vs-llama

# ---- parts, in the order in which their variables are used --------------------------------------

include mk/flags.mk
include mk/sources.mk
include mk/compile.mk
include mk/isa.mk
include mk/shaders.mk
include mk/cuda.mk
include mk/opencl.mk
include mk/tools.mk
include mk/cudaemu.mk
include mk/data.mk
include mk/tests.mk
include mk/checks.mk
include mk/arm64.mk
include mk/install.mk
