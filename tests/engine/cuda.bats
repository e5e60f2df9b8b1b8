# cuda.bats - the engine on CUDA as the tools show it, on the emulated driver (tests/cudaemu): devices,
# what is missing where there is no driver, and that nothing of it is opened by who did not ask.
load ../common/helper
load gpu
engine=cuda driver=ZT_LIBCUDA calls=cu compiler=nvcc images=zt_cu_image_

# ---- devices -------------------------------------------------------------------------------------

@test "--version lists devices with type, driver and what they can" {
    need_emulation
    run -0 zt-run --version
    [[ $output =~ $'\n'cuda:0:\ emulated\ device\ 0,\ cpu,\ emulation\ of\ CUDA\ [0-9.]+,\ api\ 9\.0,\ [0-9]+\ MiB,\ shared_memory\ [0-9]+, ]]
    [[ $output == *', bf16 1, fp8 1, paged_attention 1'* ]]
    zt-run --version --format json | json '
        my $a = $j->{cuda}{adapters};
        @$a == 1 && $a->[0]{engine} eq "cuda:0" && $a->[0]{api} eq "9.0" && $a->[0]{memory} > 0 &&
        $a->[0]{limits}{shared_memory} > 48 * 1024 && $a->[0]{limits}{unified_memory} == 0'
}

@test "every device listed can be named, the one after the last cannot" { devices_by_number; }

# ---- nothing there -------------------------------------------------------------------------------

@test "no driver, or what is none: 69 with one line, and --version says so" { no_driver; }
@test "no device" { no_device; }
@test "a driver that is older" { older_driver 11.4 cuGraphInstantiateWithFlags; }
@test "a driver that is real, where zt has kernels for none" { real_driver; }
@test "not built: 69" { not_built; }

# ---- who did not ask -----------------------------------------------------------------------------

@test "--engine cpu opens no CUDA, nor does auto where there is no device" {
    command -v strace >/dev/null || skip 'no strace'
    need_built
    strace -f -o probe true 2>/dev/null || skip 'strace may not trace here'
    [ -z "$emulation" ] || export ZT_LIBCUDA=$emulation
    for engine in cpu ref auto; do
        ZT_CUDA_NODE=$PWD/none traced -e trace=openat,open,access -o $engine \
            zt-run -m "$tiny" -p 'Hi' -n 2 --temp 0 --engine $engine >/dev/null
        run -1 grep -i -e libcuda -e libcublas -e libcufft -e nvidia $engine
    done
    traced -e trace=openat,open,access -o version zt-run --engine cpu --version >/dev/null
    run -1 grep -i libcuda version
    # The trace would show it.
    traced -e trace=openat,open,access -o asked zt-run --engine cuda --version >/dev/null
    grep -q libcuda asked
}

@test "auto: the GPU where a driver's file speaks of one and it runs the whole program" {
    need_emulation
    : >node
    chosen() { # by auto, of the model $1
        zt-run -m "$1" -p 'Hi' --raw -n 2 --temp 0 --ignore-eos --stats "${@:2}" 2>&1 >/dev/null |
            sed -n 's/^zt-run: engine *\([a-z]*\) .*/\1/p'
    }
    [ "$(chosen "$tiny")" = cpu ]
    export ZT_CUDA_NODE=$PWD/node
    [ "$(chosen "$tiny")" = cuda ]
    [ "$(chosen "$tiny" --engine auto)" = cuda ]
    [ "$(chosen "$tiny" --engine cpu)" = cpu ]
    [ "$(ZT_CUDA_NODE=$PWD/none chosen "$tiny")" = cpu ]
    # No driver, no device, no memory for all of it: why is in the log, and the CPU runs.
    [ "$(ZT_LIBCUDA=$PWD/none.so chosen "$tiny")" = cpu ]
    [ "$(ZT_CUDA_EMU_DEVICES=0 chosen "$tiny")" = cpu ]
    ZT_CUDA_EMU_MEMORY=200000 zt-run -m "$tiny" -p 'Hi' --raw -n 2 --temp 0 -v >/dev/null 2>said
    grep -qE '^zt-run: engine auto: using cpu instead of cuda: weights and states need [0-9]+ bytes, but the device has [0-9]+' said
    [ "$(ZT_CUDA_EMU_MEMORY=200000 chosen "$tiny")" = cpu ]
    # A program with an op that has no kernel there (more products than a grid has places) is the
    # CPU's whole.
    printf 'zt program 1\nin x: f32[70000,1,1]\ns = silu x\ny = matmul s x\nout y = y\n' >many.zt
    printf 'zt program 1\nin x: f32[2,32]\ny = silu x\nout y = y\n' >plain.zt
    zt-bench op many.zt -r 1 --no-roof --format json | json '$j->{engine} eq "cpu"'
    zt-bench op plain.zt -r 1 --no-roof --format json | json '$j->{engine} eq "cuda"'
    # In what is not its numbers the CPU refuses.
    zt-run -m "$tiny" -p 'Hi' -n 2 --temp 0 --compute bf16 >/dev/null
    ZT_CUDA_NODE= run -69 --separate-stderr zt-run -m "$tiny" -p 'Hi' -n 2 --compute bf16
    one_message zt-run
}

@test "memory that is the host's: weights are mapped, and the text is the CPU's" { unified_memory; }

# ---- what it tells -------------------------------------------------------------------------------

@test "text is the CPU's, the same in every order of threads, one launch and one download a token" { text_is_the_cpus; }

# logits MODEL OPTION...: of every token of a prompt, their sum.
logits() {
    zt-run -m "$1" --raw -p 'Hello there, you' -n 0 --engine cuda --strict-engine --logits - --all-logits "${@:2}" |
        sha256sum
}

@test "a token is one kernel, with the bits that its stages have as kernels of their own" {
    need_emulation
    "$tests/mkmodel" --arch llama --width 256 --heads 4 --kv-heads 2 --head 64 --ffn 512 --type q4_k --also q6_k \
        --ctx 600 mixed.gguf
    "$tests/mkmodel" --arch qwen3 --type q4_0 --also q5_1 --ctx 64 normed.gguf
    "$tests/mkmodel" --arch llama --type q5_0 --also q4_1 --ctx 64 more.gguf
    "$tests/mkmodel" --arch gemma2 --type q8_0 --ctx 64 gemma.gguf
    "$tests/mkmodel" --arch llama --type f16 --also f32 --ctx 64 whole.gguf
    "$tests/mkmodel" --arch qwen3 --type bf16 --also f16 --ctx 600 half.gguf
    "$tests/mkmodel" --arch gemma3 --type bf16 --ctx 64 exact.gguf
    for m in mixed.gguf normed.gguf more.gguf gemma.gguf whole.gguf half.gguf 'exact.gguf --exact'; do
        # shellcheck disable=SC2086 # several words
        {
            ZT_CUDA_EMU_LAUNCHES=$PWD/stays logits $m --chunk 1 >one
            ZT_CUDA_EMU_LAUNCHES=$PWD/each ZT_CUDA_EMU_COOPERATIVE=0 logits $m --chunk 1 >two
            logits $m --chunk 3 >three
            logits $m >four
            ZT_CUDA_EMU_SEED=5 logits $m --chunk 1 >five
        }
        for n in two three four five; do cmp one $n; done
        grep -q '^zt_persistent_kernel ' stays
        run -1 grep '^zt_persistent_kernel ' each
        [[ $m = exact* ]] || # attention over its cache of f32 is no stage
        [ "$(grep -vc '^zt_pack ' stays)" -le $((10#$(grep -vc '^zt_pack ' each) / 5)) ] || { sort stays | uniq -c; false; }
    done
}

@test "a prompt by tiles of 128 rows has the bits of its pieces" {
    need_emulation
    "$tests/mkmodel" --arch llama --width 256 --heads 4 --kv-heads 2 --head 64 --ffn 512 --type q4_k --also q6_k \
        --ctx 600 mixed.gguf
    local said chunk
    said=$(printf 'Hello there, you %.0s' {1..9})
    for chunk in 512 40 20; do
        ZT_CUDA_EMU_LAUNCHES=$PWD/launches$chunk zt-run -m mixed.gguf --raw -p "$said" -n 0 --engine cuda --strict-engine \
            --logits - --all-logits --chunk $chunk | sha256sum >by$chunk
    done
    for chunk in 40 20; do cmp by512 by$chunk; done
    for t in q4_k q6_k; do
        grep -q "^zt_large_$t " launches512
        grep -q "^zt_codes_$t " launches20
        run -1 grep "^zt_large_" launches20
    done
}

@test "--stats: memory and pool" {
    need_emulation
    zt-run -m "$tiny" -p 'Hello there' --raw -n 6 --temp 0 --ignore-eos --engine cuda --strict-engine --stats >/dev/null 2>stats
    cat stats
    grep -qE '^zt-run: device memory +[0-9.]+ MB +\(peak [0-9.]+, allocated in total [0-9.]+, [1-9][0-9]* buffers\)$' stats
    grep -qE '^zt-run: device pool +[0-9]+ hits +\([0-9]+ misses, [0-9]+ allocated, [0-9]+ released, [0-9]+ waiting\)$' stats
}

@test "tokens are drawn on the device, the same that the CPU draws" {
    need_emulation
    local how
    for how in '--temp 0.8 --seed 1' '--temp 1.7 --seed 2 --top-k 0 --top-p 1 --min-p 0' \
        '--temp 1 --seed 3 --repeat-penalty 1.5 --ignore-eos' '--temp 0 --ignore-eos --repeat-penalty 1.2' \
        '--temp 1.2 --seed 4 --repeat-penalty 1.1 --repeat-last -1' '--temp 0.9 --seed 5 --speculate'; do
        for engine in cpu cuda; do
            # shellcheck disable=SC2086 # several words
            zt-run -m "$tiny" -p 'Hello there' --raw -n 12 --exact $how --engine $engine >$engine
        done
        cmp cpu cuda
    done
    # The token alone comes back, by an op of the plan; logits do where they are asked for.
    zt-run -m "$tiny" -p 'Hello there' --raw -n 6 --temp 1 --ignore-eos --engine cuda --strict-engine --stats >/dev/null 2>stats
    grep -qE '^zt-run: device +6 submits +\(6 replays, 6 downloads\)$' stats
    zt-run -m "$tiny" -p 'Hello there' --raw -n 2 --temp 1 --engine cuda --stats -vv >/dev/null 2>times
    grep -q ' sample_token (2 times)$' times
    zt-run -m "$tiny" -p 'Hello there' --raw -n 2 --temp 1 --engine cuda --json --logprobs 2 --stats -vv >/dev/null 2>times
    run -1 grep sample_token times
}

# The texts of --jsonl's answers, by what each was asked.
texts_of() { perl -MJSON::PP -ne '$a = decode_json($_); print "$a->{id}: $a->{text}\n"'; }

@test "--jsonl: many texts are drawn on the device, each in its own way, as alone and as on the CPU" {
    need_emulation
    cat >requests <<'END'
{"id": 1, "prompt": "Hello there", "temp": 0.8, "seed": 1}
{"id": 2, "prompt": "Hello", "temp": 1.5, "seed": 2, "top_k": 0, "top_p": 1, "min_p": 0, "ignore_eos": true}
{"id": 3, "prompt": "Hello there and here", "temp": 0, "n": 4}
{"id": 4, "prompt": "Hello", "temp": 1, "seed": 4, "repeat_penalty": 1.5, "n": 12}
{"id": 5, "prompt": "Hello there", "temp": 1, "seed": 5, "logprobs": 2}
{"id": 6, "prompt": "there", "temp": 1.2, "seed": 6, "repeat_penalty": 1.1, "repeat_last": -1, "ignore_eos": true}
{"id": 7, "prompt": "Hello there", "temp": 0.9, "seed": 7, "stop": "e"}
END
    local how='--raw -n 9 --exact'
    # shellcheck disable=SC2086 # several words
    {
        zt-run -m "$tiny" --jsonl -i requests $how --engine cpu | texts_of >cpu
        zt-run -m "$tiny" --jsonl -i requests $how --engine cuda --strict-engine | texts_of >cuda
        zt-run -m "$tiny" --jsonl -i requests $how --engine cuda --no-kv-cache --chunk 5 | texts_of >anew
        while read -r line; do
            zt-run -m "$tiny" --jsonl $how --engine cuda <<<"$line" | texts_of
        done <requests >alone
    }
    [ "$(wc -l <cuda)" -eq 7 ]
    for other in cpu anew alone; do diff cuda $other; done
    ZT_CUDA_EMU_LAUNCHES=$PWD/launches zt-run -m "$tiny" --jsonl -i requests $how --engine cuda >/dev/null
    grep -q '^zt_cu_sample ' launches
}

@test "training by cuBLAS and cuBLASLt, where they are named: the same losses" {
    need_emulation
    cat >net.zt <<'END'
zt program 1
in x: f32[n,4]
data w0: f32[32,4] "first.w"
data b0: f32[32] "first.b"
data w1: f32[3,32] "second.w"
h = linear x w0 b0
a = tanh h
y = linear a w1
out y = y
END
    awk 'BEGIN { print "p0,p1,p2,p3,label"
        for (i = 0; i < 80; i++) print i % 7 / 7 "," i % 5 / 5 "," i % 3 / 3 "," i % 2 "," i % 3 }' >train.csv
    fit() { # its losses, as far as they do not depend on the order of sums
        zt-train -q -m net.zt -i train.csv --loss cross_entropy --epochs 2 --batch 40 --engine cuda "$@" |
            perl -MJSON::PP -ne 'printf "%.4f\n", decode_json($_)->{loss}'
    }
    fit -o own.npz >own
    ZT_LIBCUBLAS=$ZT_LIBCUDA ZT_CUDA_EMU_LAUNCHES=$PWD/launches fit -o other.npz >other
    cmp own other
    # A step's forward product of 32 rows of weights, and the gradients' three.
    [ "$(grep -c '^emu_gemm ' launches)" -eq 16 ]
    grep -q '^zt_linear_after ' launches
}

@test "memory that is not there: the CPU takes what the device does not, and that is said" {
    need_emulation
    zt-run -m "$tiny" -p 'Hi' --raw -n 4 --temp 0 --ignore-eos --engine cpu >cpu
    for bytes in 30000 200000; do
        ZT_CUDA_EMU_MEMORY=$bytes zt-run -m "$tiny" -p 'Hi' --raw -n 4 --temp 0 --ignore-eos --engine cuda --stats >cuda 2>said
        cmp cpu cuda
        cat said
        grep -qE "^zt-run: cuda: emulated device 0: out of device memory.*; falling back to cpu for the steps that read '.*'\$" said
        grep -qE '^zt-run: engine +cuda .* [1-9][0-9]* fallbacks\)$' said
    done
    ZT_CUDA_EMU_MEMORY=30000 run -75 --separate-stderr zt-run -m "$tiny" -p 'Hi' -n 2 --engine cuda --strict-engine
    one_message zt-run
    # An allocation that fails once is tried again, without what waits in the pool.
    for n in 12 20; do
        ZT_CUDA_EMU_FAIL_ALLOC=$n zt-run -m "$tiny" -p 'Hi' --raw -n 4 --temp 0 --ignore-eos --engine cuda >cuda
        cmp cpu cuda
    done
}

@test "--mem-limit holds for the device's memory" {
    need_emulation
    run -75 --separate-stderr zt-run -m "$tiny" -p 'Hi' -n 2 --engine cuda --mem-limit 600K
    one_message zt-run
}

@test "a call of the driver that fails is one line, and an exit of its own" {
    for call in StreamCreate GraphLaunch StreamSynchronize MemcpyHtoDAsync ModuleLoadData; do
        echo "cu$call$([ $call = MemcpyHtoDAsync ] && echo _v2) cu$call"
    done >calls
    failing_calls <calls
}

# ---- the kernels ---------------------------------------------------------------------------------

# What an image has in it, a line each: elf or ptx, and for which machine. A fatbin is a head of 16 bytes
# and then parts, each a head (kind, its own length, its data's; the machine at 28) and data.
parts_of() { # FILE
    perl -e 'open my $f, "<:raw", $ARGV[0] or die; local $/; my $b = <$f>;
        my ($magic, undef, $at) = unpack "VvvQ<", $b; die "no fatbin" unless $magic == 0xba55ed50;
        while ($at < length $b) {
            my ($kind, undef, $head, $size) = unpack "vvVQ<", substr $b, $at;
            print $kind == 1 ? "ptx" : "elf", " ", unpack("V", substr $b, $at + 28), "\n";
            $at += $head + $size;
        }' "$1"
}

@test "every file of kernels is there for sm_80 and sm_90a and as PTX, or for what CUDA_ARCHS names" {
    need_built
    local lib nvcc archs ptx want
    lib=$(dirname "$bin")/lib/engine/cuda
    grep -q zt_cu_image_ "$lib/images.c" || skip 'built without nvcc'
    nvcc=$(sed -n 's/^NVCC_FOUND := //p' "$(dirname "$bin")/config.mk")
    [[ $("$nvcc" --version) =~ release\ (1[2-9]|[2-9][0-9])\. ]] || skip 'nvcc is older than 12'
    archs=$(sed -n 's/^NVCC_ARCHS := //p' "$(dirname "$bin")/config.mk") ptx=$(sed -n 's/^NVCC_PTX := //p' "$(dirname "$bin")/config.mk")
    [ -n "$archs" ]
    [ "$archs" = '80 90a' ] || [ -z "$ptx" ]
    for f in "$repo"/lib/engine/cuda/*.cu; do
        parts_of "$lib/$(basename "$f" .cu).fatbin" >parts
        want=$(printf '%s\n' $archs $([[ $f != *_sm90.cu ]] || echo 90a) | sed 's/^/elf /; s/[a-z]$//')
        diff <(sort -u <<<"$want${ptx:+$'\n'ptx $ptx}") <(sort -u parts)
    done
}

# ---- numbers -------------------------------------------------------------------------------------

@test "--compute: text near f32's in f16, bf16 and fp8, and only where there is cuda" {
    need_emulation
    for how in f32 f16 bf16 fp8; do
        zt-run -m "$tiny" -p 'Hello there' --raw -n 4 --temp 0 --ignore-eos --engine cuda --compute $how >$how
        [ -s $how ]
    done
    zt-run -m "$tiny" -p 'Hello there' --raw -n 4 --temp 0 --ignore-eos --engine cuda >plain
    cmp plain f32
    run -69 --separate-stderr zt-run -m "$tiny" -p 'Hi' -n 2 --engine cpu --compute f16
    one_message zt-run
    [[ $stderr == *'engine cpu does not support compute type f16: only f32'* ]]
    run -64 --separate-stderr zt-run -m "$tiny" -p 'Hi' -n 2 --engine cuda --compute f64
    one_message zt-run
}
