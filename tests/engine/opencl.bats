# opencl.bats - the engine on OpenCL as the tools show it, on PoCL (Debian's pocl-opencl-icd): devices, what is missing, faults of
# the driver, every op's cases against ref, and text and training beside the CPU's.
load ../common/helper

setup_file() {
    make_models
    if zt-run --version | grep -q '^engines:.* opencl'; then built=1; else built=; fi
    if zt-run --version | grep -q '^opencl:0:'; then device=1; else device=; fi
    export built device
}

need_built() { [ -n "$built" ] || skip 'built without opencl'; }
need_device() {
    need_built
    [ -n "$device" ] || skip 'no OpenCL device: no pocl-opencl-icd'
}

refuses() { # what it says
    run -69 --separate-stderr zt-run -m "$tiny" -p 'Hi' -n 2 --engine opencl
    one_message zt-run
    [[ $stderr == *"$1"* ]] || { echo "$stderr" && false; }
    # Nobody else is harmed.
    zt-run -m "$tiny" -p 'Hi' -n 2 --temp 0 --engine auto >/dev/null
}

# A loader like the one that is there, but for the functions of NAME.in, in C; real(FUNCTION) is what it has by that name.
other_loader() { # NAME
    command -v "${CC:-gcc}" >/dev/null || skip 'no compiler'
    {
        printf '%s\n' '#define _GNU_SOURCE' '#include <dlfcn.h>' '#include <stddef.h>' '#include <stdint.h>' '#include <string.h>' \
            '#define real(name) ((int32_t(*)())dlsym(RTLD_NEXT, #name))'
        cat "$1.in"
    } >"$1.c"
    "${CC:-gcc}" -shared -fPIC -w -o "$1.so" "$1.c" -Wl,--no-as-needed -l:libOpenCL.so.1 -ldl
    export ZT_LIBOPENCL=$PWD/$1.so
}

# ---- devices -------------------------------------------------------------------------------------

@test "--version lists devices with their type, driver and limits" {
    need_device
    run -0 zt-run --version
    [[ $output =~ $'\n'opencl:0:\ [^$'\n']*OpenCL\ [0-9]+\.[0-9]+[^$'\n']*,\ driver\ [^$'\n']*,\ api\ [0-9]+\.[0-9]+,\ [0-9]+\ MiB,\ shared_memory\ [0-9]+, ]]
    zt-run --version --format json | json '
        my $a = $j->{opencl}{adapters};
        @$a >= 1 && $a->[0]{engine} eq "opencl:0" && $a->[0]{memory} > 0 && $a->[0]{limits}{shared_memory} >= 16384'
}

@test "the device after the last cannot be named" {
    need_device
    count=$(zt-run --version | grep -c '^opencl:')
    zt-run -m "$tiny" -p 'Hi' -n 2 --temp 0 --engine "opencl:$((count - 1))" >/dev/null
    run -69 --separate-stderr zt-run -m "$tiny" -p 'Hi' -n 2 --engine "opencl:$count"
    one_message zt-run
    [[ $stderr == *"engine opencl: no device $count, there"* ]]
}

# ---- nothing there -------------------------------------------------------------------------------

@test "no loader, or what is none: 69 with one line, and --version says so" {
    need_built
    export ZT_LIBOPENCL=$PWD/none.so
    refuses 'engine opencl: no loader: '
    run -0 --separate-stderr zt-run --version
    [[ $output == *'engine opencl: no loader: '* && -z $stderr ]]
    zt-run --version --format json | json '@{$j->{opencl}{adapters}} == 0'
    echo 'no library' >none.so
    refuses 'engine opencl: no loader: '
    export ZT_LIBOPENCL=libc.so.6
    refuses 'engine opencl: the loader lacks clGetPlatformIDs: OpenCL 2.0 or later is needed'
}

@test "not built: 69" {
    [ -z "$built" ] || skip 'built with opencl'
    run -69 --separate-stderr zt-run -m "$tiny" -p 'Hi' -n 2 --engine opencl
    one_message zt-run
}

@test "no platform, and a device without shared virtual memory" {
    need_device
    cat >empty.in <<'END'
int32_t clGetPlatformIDs(uint32_t room, void *to, uint32_t *n) { if (n) *n = 0; return -1001; }
END
    other_loader empty
    refuses 'engine opencl: no device'
    cat >old.in <<'END'
int32_t clGetDeviceInfo(void *device, uint32_t what, size_t room, void *to, size_t *n)
{
    if (what != 0x1053) return real(clGetDeviceInfo)(device, what, room, to, n);
    if (to) memset(to, 0, room);
    return 0;
}
END
    other_loader old
    refuses 'has no shared virtual memory (of OpenCL 2.0), which the kernels need'
}

@test "who did not ask for opencl opens none of it" {
    command -v strace >/dev/null || skip 'no strace'
    need_built
    strace -f -o probe true 2>/dev/null || skip 'strace may not trace here'
    for engine in cpu auto; do
        traced -e trace=openat,open,access -o $engine zt-run -m "$tiny" -p 'Hi' -n 2 --temp 0 --engine $engine >/dev/null
        run -1 grep -i -e libopencl -e pocl $engine
    done
    # The trace would show it.
    traced -e trace=openat,open,access -o asked zt-run --engine opencl --version >/dev/null
    grep -qi libopencl asked
}

# ---- a driver that fails -------------------------------------------------------------------------

@test "kernels that do not build: the compiler's first line of error" {
    need_device
    cat >build.in <<'END'
int32_t clBuildProgram(void *p, uint32_t n, void *d, char *o, void *f, void *u) { return -11; }
int32_t clGetProgramBuildInfo(void *p, void *d, uint32_t what, size_t room, char *to, size_t *n)
{
    static const char log[] = "warning: a\nfile.cl:7: error: no such type 'half'\nmore";
    if (n) *n = sizeof log;
    if (to) memcpy(to, log, room < sizeof log ? room : sizeof log);
    return 0;
}
END
    other_loader build
    run -71 --separate-stderr zt-run -m "$tiny" -p 'Hi' -n 2 --engine opencl
    one_message zt-run
    [[ $stderr == *"opencl: clBuildProgram: error: no such type 'half'" ]]
}

@test "memory that is refused is not an error: what does not fit runs on the CPU, and is said" {
    need_device
    cat >memory.in <<'END'
void *clSVMAlloc(void *c, uint64_t flags, size_t bytes, uint32_t align)
{
    return bytes > 4096 ? NULL : ((void *(*)())dlsym(RTLD_NEXT, "clSVMAlloc"))(c, flags, bytes, align);
}
END
    other_loader memory
    zt-run -m "$tiny" -p 'Hi' --raw -n 4 --temp 0 --ignore-eos --engine cpu >cpu
    run -0 --separate-stderr zt-run -m "$tiny" -p 'Hi' --raw -n 4 --temp 0 --ignore-eos --engine opencl
    [ "$output" = "$(cat cpu)" ]
    [[ $stderr == *'opencl: '*'out of device memory'*'falling back to cpu for the steps that read '* ]]
    run -75 --separate-stderr zt-run -m "$tiny" -p 'Hi' -n 4 --engine opencl --strict-engine
}

@test "a device that is lost: 71, by its name" {
    need_device
    cat >lost.in <<'END'
static int calls;
int32_t clFinish(void *q)
{
    int32_t result = real(clFinish)(q);
    return ++calls > 4 ? -36 : result;
}
END
    other_loader lost
    run -71 --separate-stderr zt-run -m "$tiny" -p 'Hi' -n 8 --engine opencl
    one_message zt-run
    [[ $stderr == *'opencl: '*'CL_INVALID_COMMAND_QUEUE'* || $stderr == *'opencl: '*': device lost, with all data on it'* ]]
}

# ---- what runs -----------------------------------------------------------------------------------

@test "every op's cases: near ref's, the same bits twice, a row alone" {
    need_device
    run -0 "$tests/conformance" opencl
    echo "$output" | grep '^# .*opencl'
}

@test "text is the CPU's" {
    need_device
    for m in "$tiny" "$tiny_spm"; do
        zt-run -m "$m" -p 'Hello there' --raw -n 6 --temp 0 --ignore-eos --engine cpu >cpu
        zt-run -m "$m" -p 'Hello there' --raw -n 6 --temp 0 --ignore-eos --engine opencl --stats >ours 2>stats
        cmp cpu ours
    done
    cat stats
    grep -qE '^zt-run: engine +opencl ' stats
}

# The same batches on both engines: the losses of each epoch.
@test "training the digits: no fallback, one submit and one download a step, the CPU's losses" {
    need_device
    golden=${ZT_GOLDEN:-$repo/tests/golden}
    [ -f "$golden/data/digits/digits_train.csv" ] || skip 'no digits here'
    head -n 129 "$golden/data/digits/digits_train.csv" >digits.csv
    for engine in cpu opencl; do
        zt-train -m "$repo/examples/digits/net.zt" -i digits.csv --scale 0.0625 --lr 0.1 --epochs 3 --no-shuffle \
            --engine $engine --strict-engine --stats -f -o net.npz >$engine 2>$engine.said
    done
    cat opencl.said
    grep -qE '^zt-train: engine +opencl .* 0 fallbacks\)$' opencl.said
    grep -qE '^zt-train: device +12 submits +\(12 replays, 12 downloads\)$' opencl.said
    perl -MJSON::PP -e '
        my ($a, $b) = map {local @ARGV = $_; [map {decode_json($_)} <>]} @ARGV;
        @$a == 3 && @$b == 3 or die;
        for my $i (0 .. 2) {
            my ($x, $y) = ($a->[$i]{loss}, $b->[$i]{loss});
            abs($x - $y) <= 1e-5 * $x or die "epoch $i: $x and $y";
        }' cpu opencl
}

@test "zt-bench op: times and rates of ops, run eagerly, ahead of the caller and prepared" {
    need_device
    for how in eager ahead replay; do
        zt-bench op 'matmul f32[32,32] f32[32,32]' 'linear f32[4,256] q4_k[64,256]' --engine opencl --strict-engine --ops $how -r 2 \
            --format json | json '
            my %unit;
            $unit{$_->{unit}} += $_->{median} > 0 && @{$_->{samples}} == 2 for @{$j->{results}};
            $j->{engine} eq "opencl" && @{$j->{results}} == 6 && $unit{us} == 2 && $unit{"GFLOP/s"} == 2 && $unit{"GB/s"} == 2'
    done
    run -69 --separate-stderr zt-bench op 'rfft f32[4,64]' --engine opencl --strict-engine -r 1
    [[ $stderr == *'engine opencl has no kernel for op rfft'* ]]
}
