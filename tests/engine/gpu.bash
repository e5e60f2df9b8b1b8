# gpu.bash - what cuda.bats and hip.bats have in common: one engine on two drivers, both emulated
# (tests/cudaemu). Who loads it says whose: $engine; $driver, the variable that names the library;
# $calls, what its functions' names begin with; $compiler; $images, what the names of kernels' images do.

setup_file() {
    make_models
    if zt-run --version | grep -q "^engines:.* $engine"; then built=1; else built=; fi
    emulation=$tests/libcuda-emu.so
    [ -e "$emulation" ] || emulation=
    export built emulation
}

setup() {
    unset "$driver"
    cd "$BATS_TEST_TMPDIR" || exit
}

need_built() { [ -n "$built" ] || skip "built without $engine"; }
need_emulation() {
    need_built
    [ -n "$emulation" ] || skip 'no emulated driver: no g++'
    export "$driver=$emulation"
}

# A driver whose functions, but that named, do nothing.
hollow_driver() { # [without FUNCTION]
    command -v "${CC:-gcc}" >/dev/null || skip 'no compiler'
    nm -D --defined-only "$emulation" | sed -n "s/.* T \\(${calls}[A-Z].*\\)/\\1/p" | grep -vx "${1-}" |
        sed 's/.*/int &(void) { return 0; }/' >hollow.c
    "${CC:-gcc}" -shared -fPIC -w -o "libhollow${1-}.so" hollow.c
    export "$driver=$PWD/libhollow${1-}.so"
}

refuses() { # what it says
    run -69 --separate-stderr zt-run -m "$tiny" -p 'Hi' -n 2 --engine "$engine"
    one_message zt-run
    [[ $stderr == *"$1"* ]] || { echo "$stderr" && false; }
    run -0 --separate-stderr zt-run --version
    [[ $output == *"$1"* && -z $stderr ]]
    zt-run --version --format json | json "@{\$j->{$engine}{adapters}} == 0"
    # Nobody else is harmed.
    zt-run -m "$tiny" -p 'Hi' -n 2 --temp 0 --engine auto >/dev/null
}

# ---- tests of both -------------------------------------------------------------------------------

devices_by_number() {
    need_emulation
    export ZT_CUDA_EMU_DEVICES=3
    [ "$(zt-run --version | grep -c "^$engine:")" -eq 3 ]
    for i in 0 1 2; do zt-run -m "$tiny" -p 'Hi' -n 2 --temp 0 --engine "$engine:$i" >/dev/null; done
    run -69 --separate-stderr zt-run -m "$tiny" -p 'Hi' -n 2 --engine "$engine:3"
    one_message zt-run
    [[ $stderr == *"engine $engine: no device 3, there are 3"* ]]
}

no_driver() {
    need_built
    export "$driver=$PWD/none.so"
    refuses "engine $engine: no driver: "
    echo 'no library' >none.so
    refuses "engine $engine: no driver: "
    export "$driver=libc.so.6"
    refuses "engine $engine: the driver lacks ${calls}Init"
}

no_device() {
    need_emulation
    export ZT_CUDA_EMU_DEVICES=0
    refuses "engine $engine: no device"
}

older_driver() { # VERSION FUNCTION...
    need_emulation
    for f in "${@:2}"; do
        hollow_driver "$f"
        refuses "the driver lacks $f: version $1 or later is needed"
    done
}

# Built with the compiler, it is asked for devices and has none.
real_driver() {
    need_emulation
    hollow_driver
    if grep -q "$images" "$(dirname "$bin")/lib/engine/cuda/images.c"; then
        refuses "engine $engine: no device"
    else
        refuses "engine $engine: zt was built without $compiler and has no kernels"
    fi
}

not_built() {
    [ -z "$built" ] || skip "built with $engine"
    run -69 --separate-stderr zt-run -m "$tiny" -p 'Hi' -n 2 --engine "$engine"
    one_message zt-run
}

# "CALL NAME" a line: a call that fails, in CUDA's word as the emulation wants it, and in the message.
failing_calls() {
    need_emulation
    while read -r call name; do
        ZT_CUDA_EMU_FAIL=$call:1 run -71 --separate-stderr zt-run -m "$tiny" -p 'Hi' -n 2 --engine "$engine"
        one_message zt-run
        [[ $stderr == *"$engine: $name: unknown error"* ]] || { echo "$stderr" && false; }
    done
}

unified_memory() {
    need_emulation
    zt-run -m "$tiny" -p 'Hello there' --raw -n 6 --temp 0 --ignore-eos --engine cpu >cpu
    export ZT_CUDA_EMU_UNIFIED=1
    zt-run --version | grep -q "^$engine:.*, unified_memory 1,"
    zt-run -m "$tiny" -p 'Hello there' --raw -n 6 --temp 0 --ignore-eos --engine "$engine" --strict-engine -v \
        >ours 2>said
    cmp cpu ours
    grep -q "^zt-run: $engine: emulated device 0: unified memory: weights are not copied\$" said
}

text_is_the_cpus() {
    need_emulation
    for m in "$tiny" "$tiny_spm"; do
        zt-run -m "$m" -p 'Hello there' --raw -n 6 --temp 0 --ignore-eos --engine cpu >cpu
        zt-run -m "$m" -p 'Hello there' --raw -n 6 --temp 0 --ignore-eos --engine "$engine" --strict-engine --stats \
            >ours 2>stats
        cmp cpu ours
        ZT_CUDA_EMU_SEED=77 zt-run -m "$m" -p 'Hello there' --raw -n 6 --temp 0 --ignore-eos --engine "$engine" >again
        cmp ours again
    done
    cat stats
    grep -qE "^zt-run: engine +$engine .* 0 fallbacks\\)\$" stats
    grep -qE '^zt-run: device +6 submits +\(6 replays, 6 downloads\)$' stats
}
