# hip.bats - the engine on AMD's driver as the tools show it: the host side on the emulated driver
# (tests/cudaemu), which has HIP's names too, and the kernels as far as hipcc compiles them.
load ../common/helper
load gpu
engine=hip driver=ZT_LIBHIP calls=hip compiler=hipcc images=zt_hip_image_

# ---- devices -------------------------------------------------------------------------------------

@test "--version lists devices with waves of 64 and no fp8" {
    need_emulation
    run -0 zt-run --version
    [[ $output =~ $'\n'hip:0:\ emulated\ device\ 0,\ cpu,\ emulation\ of\ HIP\ 5\.2,\ api\ 9\.0, ]]
    zt-run --version --format json | json '
        my $a = $j->{hip}{adapters};
        @$a == 1 && $a->[0]{engine} eq "hip:0" && $a->[0]{limits}{warp} == 64 &&
        $a->[0]{limits}{shared_memory} == 65536 && $a->[0]{limits}{fp8} == 0'
}

@test "every device listed can be named, the one after the last cannot" { devices_by_number; }

# ---- nothing there -------------------------------------------------------------------------------

@test "no driver, or what is none: 69 with one line, and --version says so" { no_driver; }
@test "no device" { no_device; }
@test "a driver that is older" { older_driver 5.2 hipGraphInstantiateWithFlags hipGetErrorString; }
@test "a driver that is real, where zt has kernels for none" { real_driver; }
@test "not built: 69" { not_built; }

@test "who did not ask for hip opens none of it" {
    command -v strace >/dev/null || skip 'no strace'
    need_built
    strace -f -o probe true 2>/dev/null || skip 'strace may not trace here'
    for engine in cpu auto; do
        traced -e trace=openat,open,access -o $engine \
            zt-run -m "$tiny" -p 'Hi' -n 2 --temp 0 --engine $engine >/dev/null
        run -1 grep -e libamdhip $engine
    done
    # The trace would show it.
    traced -e trace=openat,open,access -o asked zt-run --engine hip --version >/dev/null
    grep -q libamdhip asked
}

# ---- what runs -----------------------------------------------------------------------------------

@test "text is the CPU's, the same in every order of threads, one launch and one download a token" { text_is_the_cpus; }

@test "memory that is the host's: weights are mapped, and the text is the CPU's" { unified_memory; }

@test "a call of the driver that fails is told by HIP's name of it" {
    failing_calls <<'END'
cuStreamCreate hipStreamCreateWithFlags
cuMemHostAlloc hipHostMalloc
cuLaunchKernel hipModuleLaunchKernel
cuGraphLaunch hipGraphLaunch
END
}

# ---- the kernels ---------------------------------------------------------------------------------

# Checked for AMD in full where ZT_LONG is set or zt was built with HIP=1: code for waves of 64 and of 32.
@test "hipcc takes every file of kernels" {
    hipcc=$(command -v hipcc) || skip 'no hipcc'
    export HCC_AMDGPU_TARGET=gfx90a # or an old hipcc asks which GPU there is
    how=(--cuda-device-only -fsyntax-only -Wno-unused-command-line-argument --offload-arch=gfx90a)
    [ -z "${ZT_LONG-}" ] || how=(--genco -O1 --offload-arch=gfx90a --offload-arch=gfx1030 -o "$PWD/co")
    cd "$repo"
    for f in lib/engine/cuda/*.cu; do
        [[ $f == *_sm90.cu ]] && continue
        "$hipcc" -std=c++17 -ffp-contract=off -Wall -Wextra -Werror -I. "${how[@]}" -x hip "$f" >"$BATS_TEST_TMPDIR/said" 2>&1 ||
            { echo "$f" && cat "$BATS_TEST_TMPDIR/said" && false; }
    done
}

@test "built with HIP=1, every file of kernels is there for every machine asked for" {
    need_built
    local lib targets
    lib=$(dirname "$bin")/lib/engine/cuda
    grep -q zt_hip_image_ "$lib/images.c" || skip 'built without HIP=1'
    targets=$(sed -n 's/^HIP_TARGETS := //p' "$(dirname "$bin")/config.mk")
    for f in "$repo"/lib/engine/cuda/*.cu; do
        [[ $f == *_sm90.cu ]] && continue
        for t in $targets; do grep -qa "hip.*amdgcn-amd-amdhsa--$t" "$lib/$(basename "$f" .cu).co"; done
    done
}
