# hip.bats - the engine on AMD's driver as the tools show it: the host side on the emulated driver
# (tests/cudaemu), which has HIP's names too, and the kernels as far as hipcc compiles them.
load helper

setup_file() {
    make_models
    if zt-run --version | grep -q '^engines:.* hip'; then built=1; else built=; fi
    emulation=$tests/libcuda-emu.so
    [ -e "$emulation" ] || emulation=
    export built emulation
}

setup() {
    unset ZT_LIBHIP
    cd "$BATS_TEST_TMPDIR" || exit
}

need_built() { [ -n "$built" ] || skip 'built without cuda, and so without hip'; }
need_emulation() {
    need_built
    [ -n "$emulation" ] || skip 'no emulated driver: no g++'
    export ZT_LIBHIP=$emulation
}

# A driver whose functions, but that named, do nothing: $ZT_LIBHIP.
hollow_driver() { # [without FUNCTION]
    command -v "${CC:-gcc}" >/dev/null || skip 'no compiler'
    nm -D --defined-only "$emulation" | sed -n 's/.* T \(hip[A-Z].*\)/\1/p' | grep -vx "${1-}" |
        sed 's/.*/int &(void) { return 0; }/' >hollow.c
    "${CC:-gcc}" -shared -fPIC -w -o libhollow.so hollow.c
    export ZT_LIBHIP=$BATS_TEST_TMPDIR/libhollow.so
}

refuses() { # what it says
    run -69 --separate-stderr zt-run -m "$tiny" -p 'Hi' -n 2 --engine hip
    one_message zt-run
    [[ $stderr == *"$1"* ]] || { echo "$stderr" && false; }
    run -0 --separate-stderr zt-run --version
    [[ $output == *"$1"* && -z $stderr ]]
    zt-run --version --format json | json '@{$j->{hip}{adapters}} == 0'
}

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

@test "every device listed can be named, the one after the last cannot" {
    need_emulation
    export ZT_CUDA_EMU_DEVICES=2
    [ "$(zt-run --version | grep -c '^hip:')" -eq 2 ]
    for i in 0 1; do zt-run -m "$tiny" -p 'Hi' -n 2 --temp 0 --engine "hip:$i" >/dev/null; done
    run -69 --separate-stderr zt-run -m "$tiny" -p 'Hi' -n 2 --engine hip:2
    one_message zt-run
    [[ $stderr == *'engine hip: no adapter 2, there are 2'* ]]
}

# ---- nothing there -------------------------------------------------------------------------------

@test "no driver, or what is none: 69 with one line, and --version says so" {
    need_built
    export ZT_LIBHIP=$BATS_TEST_TMPDIR/none.so
    refuses 'engine hip: no driver: '
    export ZT_LIBHIP=libc.so.6
    refuses 'engine hip: the driver lacks hipInit'
}

@test "no device" {
    need_emulation
    export ZT_CUDA_EMU_DEVICES=0
    refuses 'engine hip: no device'
}

@test "a driver that is older" {
    need_emulation
    for f in hipGraphInstantiateWithFlags hipGetErrorString; do
        hollow_driver $f
        refuses "the driver lacks $f: it is older than 5.2"
    done
}

@test "a driver that is real, where zt has kernels for none" {
    need_emulation
    hollow_driver
    # Built with HIP=1, it is asked for devices and has none.
    if grep -q zt_hip_image_ "$(dirname "$bin")/lib/engine/cuda/images.c"; then
        refuses 'engine hip: no device'
    else
        refuses 'engine hip: this zt was built without hipcc, and has no kernels'
    fi
}

@test "not built: 69" {
    [ -z "$built" ] || skip 'built with hip'
    run -69 --separate-stderr zt-run -m "$tiny" -p 'Hi' -n 2 --engine hip
    one_message zt-run
}

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

@test "text is the CPU's, one launch and one download a token" {
    need_emulation
    for m in "$tiny" "$tiny_spm"; do
        zt-run -m "$m" -p 'Hello there' --raw -n 6 --temp 0 --ignore-eos --engine cpu >cpu
        zt-run -m "$m" -p 'Hello there' --raw -n 6 --temp 0 --ignore-eos --engine hip --strict-engine --stats >hip 2>stats
        cmp cpu hip
        cat stats
        grep -qE '^zt-run: engine +hip .* 0 fallbacks\)$' stats
        grep -qE '^zt-run: device +6 submits +\(6 replays, 6 downloads\)$' stats
    done
}

@test "a call of the driver that fails is told by HIP's name of it" {
    need_emulation
    while read -r call name; do
        ZT_CUDA_EMU_FAIL=$call:1 run -71 --separate-stderr zt-run -m "$tiny" -p 'Hi' -n 2 --engine hip
        one_message zt-run
        [[ $stderr == *"hip: $name: unknown error"* ]] || { echo "$stderr" && false; }
    done <<'END'
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
    cd "$BATS_TEST_DIRNAME/.."
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
    for f in "$BATS_TEST_DIRNAME"/../lib/engine/cuda/*.cu; do
        [[ $f == *_sm90.cu ]] && continue
        for t in $targets; do grep -qa "hip.*amdgcn-amd-amdhsa--$t" "$lib/$(basename "$f" .cu).co"; done
    done
}
