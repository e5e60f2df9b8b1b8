# vulkan.bats - the engine on Vulkan as the tools show it: adapters, what is missing where there are
# none, and that nothing of it is opened by who did not ask. Skipped, aloud, without an adapter.
load ../common/helper

setup_file() {
    make_models
    if zt-run --version | grep -q '^engines:.* vulkan'; then built=1; else built=; fi
    if zt-run --version | grep -q '^vulkan:0: '; then adapter=1; else adapter=; fi
    export built adapter
    # What the driver compiled stays out of the user's folder, and is compiled once.
    export XDG_CACHE_HOME=$BATS_FILE_TMPDIR/cache MESA_SHADER_CACHE_DIR=$BATS_FILE_TMPDIR/mesa
}

need_built() { [ -n "$built" ] || skip 'built without vulkan'; }
need_adapter() { need_built && { [ -n "$adapter" ] || skip 'no Vulkan adapter'; }; }

# ---- adapters ------------------------------------------------------------------------------------

@test "--version lists adapters with type, driver and limits" {
    need_adapter
    run -0 zt-run --version
    [[ $output =~ $'\n'vulkan:0:\ [^,]+.*,\ (other|integrated|discrete|virtual|cpu),\ .+,\ api\ 1\.[0-9]+\.[0-9]+,\ [0-9]+\ MiB,\ shared_memory\ [0-9]+, ]]
    run -0 zt-bench --version
    [[ $output == *$'\n'vulkan:0:* ]]
}

@test "--version --format json lists them too" {
    need_adapter
    zt-run --version --format json | json '
        my $a = $j->{vulkan}{adapters};
        @$a > 0 && $a->[0]{engine} eq "vulkan:0" && length $a->[0]{name} && length $a->[0]{driver} &&
        $a->[0]{api} =~ /^1\.\d+\.\d+$/ && $a->[0]{memory} > 0 &&
        $a->[0]{limits}{shared_memory} >= 16384 && $a->[0]{limits}{storage_buffer} > 0'
}

@test "--version of another engine asks for no adapter" {
    need_built
    run -0 zt-run --engine cpu --version
    [[ $output != *vulkan:* ]]
    run -0 zt-run --engine cpu --version --format json
    [[ $output != *adapters* ]]
}

@test "every adapter listed can be named, the one after the last cannot" {
    need_adapter
    n=$(zt-run --version | grep -c '^vulkan:')
    for ((i = 0; i < n; i++)); do
        zt-run -m "$tiny" -p 'Hi' -n 2 --temp 0 --engine "vulkan:$i" >/dev/null
    done
    run -69 --separate-stderr zt-run -m "$tiny" -p 'Hi' -n 2 --engine "vulkan:$n"
    one_message zt-run
    [[ $stderr == *"no device $n, there "* ]]
}

@test "--list-devices: a row for the processor and for each device, as a table and as NDJSON" {
    run -0 --separate-stderr zt-run --list-devices --format tsv
    [ "${lines[0]}" = $'device\ttype\tname\tdriver\tapi\tmemory' ]
    [[ ${lines[1]} =~ ^cpu$'\t'cpu$'\t'.+$'\t'$'\t'(scalar|avx2|avx512)$'\t'[1-9][0-9]*$ ]]
    [ -z "$stderr" ]
    for tool in zt-run zt-bench zt-quant zt-trace zt-train; do
        $tool --list-devices --format ndjson | while IFS= read -r row; do
            json '$j->{device} =~ /^(cpu|[a-z]+:\d+)$/ && length $j->{name} && $j->{memory} > 1e6' <<<"$row"
        done
    done
    # of one engine; a driver that is missing
    run -0 zt-run --list-devices --engine cpu --format tsv
    [ ${#lines[@]} = 2 ]
    need_built
    export VK_ICD_FILENAMES=/nonexistent VK_DRIVER_FILES=/nonexistent
    run -69 --separate-stderr zt-run --list-devices --engine vulkan
    one_message zt-run
    zt-run --list-devices -v 2>&1 >/dev/null | grep -q '^zt-run: engine vulkan: .*driver'
}

@test "--list-devices has each device that --engine names" {
    need_adapter
    [ "$(zt-run --list-devices --engine vulkan --format tsv | grep -c '^vulkan:')" = "$(zt-run --version | grep -c '^vulkan:')" ]
    zt-run --list-devices --engine vulkan --format ndjson | head -1 |
        json '$j->{device} eq "vulkan:0" && $j->{driver} && $j->{api} =~ /^1\.\d+\.\d+$/ && $j->{memory} > 0'
}

# ---- nothing there -------------------------------------------------------------------------------

@test "no driver: 69 with one line, and --version says so" {
    need_built
    export VK_ICD_FILENAMES=/nonexistent VK_DRIVER_FILES=/nonexistent
    run -69 --separate-stderr zt-run -m "$tiny" -p 'Hi' -n 2 --engine vulkan
    one_message zt-run
    [[ $stderr == *'engine vulkan: '*driver* ]]
    run -0 --separate-stderr zt-run --version
    [[ $output == *$'\n'engine\ vulkan:* && -z $stderr ]]
    zt-run --version --format json | json '@{$j->{vulkan}{adapters}} == 0 && $j->{vulkan}{missing} =~ /driver/'
}

@test "no loader: 69 with one line, and --version says so" {
    need_built
    # A file that is no library, where the dynamic linker looks first: it looks no further.
    mkdir -p "$BATS_TEST_TMPDIR/lib"
    echo 'no library' >"$BATS_TEST_TMPDIR/lib/libvulkan.so.1"
    export LD_LIBRARY_PATH=$BATS_TEST_TMPDIR/lib
    run -69 --separate-stderr zt-run -m "$tiny" -p 'Hi' -n 2 --engine vulkan
    one_message zt-run
    [[ $stderr == *'engine vulkan: no loader: '*libvulkan.so.1* ]]
    run -0 --separate-stderr zt-run --version
    [[ $output == *'no loader: '* && -z $stderr ]]
    zt-run -m "$tiny" -p 'Hi' -n 2 --temp 0 --engine cpu >/dev/null
}

@test "not built: 69" {
    [ -z "$built" ] || skip 'built with vulkan'
    run -69 --separate-stderr zt-run -m "$tiny" -p 'Hi' -n 2 --engine vulkan
    one_message zt-run
}

# ---- who did not ask -----------------------------------------------------------------------------

@test "--engine cpu opens no Vulkan" {
    command -v strace >/dev/null || skip 'no strace'
    need_built
    strace -f -o "$BATS_TEST_TMPDIR/probe" true 2>/dev/null || skip 'strace may not trace here'
    for engine in cpu ref auto; do
        traced -e trace=openat,open,access -o "$BATS_TEST_TMPDIR/$engine" \
            zt-run -m "$tiny" -p 'Hi' -n 2 --temp 0 --engine $engine >/dev/null
        run -1 grep -i vulkan "$BATS_TEST_TMPDIR/$engine"
        run -1 grep -i libLLVM "$BATS_TEST_TMPDIR/$engine"
    done
    traced -e trace=openat,open,access -o "$BATS_TEST_TMPDIR/version" zt-run --engine cpu --version >/dev/null
    run -1 grep -i vulkan "$BATS_TEST_TMPDIR/version"
    # The trace would show it.
    traced -e trace=openat,open,access -o "$BATS_TEST_TMPDIR/asked" zt-run --engine vulkan --version >/dev/null
    grep -q libvulkan "$BATS_TEST_TMPDIR/asked"
}

# ---- what it tells -------------------------------------------------------------------------------

@test "--stats: a submit and a download each for the prompt and every token" {
    need_adapter
    zt-run -m "$tiny" -p 'Hello there' --raw -n 6 --temp 0 --ignore-eos --engine vulkan --strict-engine --stats \
        >/dev/null 2>"$BATS_TEST_TMPDIR/stats"
    cat "$BATS_TEST_TMPDIR/stats"
    grep -qE '^zt-run: device +6 submits +\(6 replays, 6 downloads\)$' "$BATS_TEST_TMPDIR/stats"
    grep -qE '^zt-run: device memory +[0-9.]+ MB +\(peak [0-9.]+, allocated in total [0-9.]+, [1-9][0-9]* buffers\)$' "$BATS_TEST_TMPDIR/stats"
    grep -qE '^zt-run: device pool +[0-9]+ hits +\([0-9]+ misses, [0-9]+ allocated, [0-9]+ released, [0-9]+ waiting\)$' "$BATS_TEST_TMPDIR/stats"
    run -1 grep -q '^zt-run: op ' "$BATS_TEST_TMPDIR/stats"
}

@test "--stats -vv: the time of each op, on every engine" {
    engines='cpu ref'
    [ -z "$adapter" ] || engines="$engines vulkan"
    for engine in $engines; do
        zt-run -m "$tiny" -p 'Hello there' --raw -n 3 --temp 0 --ignore-eos --engine $engine --stats -vv \
            >/dev/null 2>"$BATS_TEST_TMPDIR/stats"
        cat "$BATS_TEST_TMPDIR/stats"
        grep -qE "^zt-run: engine +$engine " "$BATS_TEST_TMPDIR/stats"
        grep -qE '^zt-run: op +[0-9.]+ s +[0-9.]+ %  linear \([0-9]+ times\)$' "$BATS_TEST_TMPDIR/stats"
        # Of all time, to what is rounded.
        awk '/^zt-run: op / { sum += $5; n++ } END { exit !(n > 5 && sum > 98 && sum < 102) }' "$BATS_TEST_TMPDIR/stats"
    done
}

@test "--mem-limit holds for the device's memory" {
    need_adapter
    run -75 --separate-stderr zt-run -m "$tiny" -p 'Hi' -n 2 --engine vulkan --mem-limit 600K
    one_message zt-run
}

# ---- training ------------------------------------------------------------------------------------

# The same run on both engines: losses within 1e-4.
@test "training: the CPU's losses" {
    need_adapter
    cd "$BATS_TEST_TMPDIR"
    awk 'BEGIN {srand(3)
        for (i = 0; i < 96; i++) {
            m = 0; line = ""
            for (k = 0; k < 16; k++) {v[k] = rand(); line = line v[k] ","}
            for (k = 1; k < 3; k++) if (v[k] > v[m]) m = k
            print line m
        }}' >t.csv
    for net in 'sequential --set layersPerCell=3' 'transformer --set layersPerCell=2 --set numHeads=2'; do
        for engine in cpu vulkan; do
            zt-train -v --new $net --set dModel=16 --set inputSize=16 --set numClasses=3 -i t.csv --loss cross_entropy \
                --optim adam --lr .01 --epochs 3 --engine $engine --strict-engine --stats -f -o net.json >$engine 2>$engine.said
        done
        cat vulkan.said
        perl -MJSON::PP -e '
            my ($a, $b) = map {local @ARGV = $_; [map {decode_json($_)} <>]} @ARGV;
            @$a == 3 && @$b == 3 or die;
            for my $i (0 .. 2) {
                for my $k (qw(loss grad_norm)) {
                    my ($x, $y) = ($a->[$i]{$k}, $b->[$i]{$k});
                    abs($x - $y) <= 1e-4 * $x or die "epoch $i, $k: $x and $y";
                }
            }
            $a->[2]{loss} < $a->[0]{loss} or die "does not fall"' cpu vulkan
        grep -qE '^zt-train: device +9 submits +\(9 replays, 9 downloads\)$' vulkan.said
    done
}

# The same batches on both engines: the losses of each epoch, and one submit a step.
@test "training the digits: no fallback, one submit and one download a step, the CPU's losses" {
    need_adapter
    golden=${ZT_GOLDEN:-$repo/tests/golden}
    [ -f "$golden/data/digits/digits_train.csv" ] || skip 'no digits here'
    cd "$BATS_TEST_TMPDIR"
    head -n 129 "$golden/data/digits/digits_train.csv" >digits.csv
    for engine in cpu vulkan; do
        zt-train -m "$repo/examples/digits/net.zt" -i digits.csv --scale 0.0625 --lr 0.1 --epochs 3 --no-shuffle \
            --engine $engine --strict-engine --stats -f -o net.npz >$engine 2>$engine.said
    done
    cat vulkan.said
    grep -qE '^zt-train: steps +12 ' vulkan.said
    grep -qE '^zt-train: engine +vulkan .* 0 fallbacks\)$' vulkan.said
    grep -qE '^zt-train: device +12 submits +\(12 replays, 12 downloads\)$' vulkan.said
    perl -MJSON::PP -e '
        my ($a, $b) = map {local @ARGV = $_; [map {decode_json($_)} <>]} @ARGV;
        @$a == 3 && @$b == 3 or die;
        for my $i (0 .. 2) {
            my ($x, $y) = ($a->[$i]{loss}, $b->[$i]{loss});
            abs($x - $y) <= 1e-5 * $x or die "epoch $i: $x and $y";
        }
        $a->[2]{loss} < $a->[0]{loss} or die "does not fall"' cpu vulkan
}

# ---- the driver's cache --------------------------------------------------------------------------

@test "a cache folder that cannot be made harms nothing" {
    need_adapter
    cd "$BATS_TEST_TMPDIR"
    out=$(zt-run -m "$tiny" -p 'Hi' -n 4 --temp 0 --ignore-eos --engine vulkan)
    for XDG_CACHE_HOME in "$BATS_TEST_TMPDIR/none/such" /proc/self relative; do
        export XDG_CACHE_HOME
        [ "$(zt-run -m "$tiny" -p 'Hi' -n 4 --temp 0 --ignore-eos --engine vulkan)" = "$out" ]
    done
    [ ! -e relative ]
}

# ---- the validation layer ------------------------------------------------------------------------

# Runs "$@" under the layer; what it says goes to $BATS_TEST_TMPDIR/said, that it is there too.
validated() {
    printf 'khronos_validation.%s\n' 'debug_action = VK_DBG_LAYER_ACTION_LOG_MSG' \
        'enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT' \
        'report_flags = error,warn,perf,info' "log_filename = $BATS_TEST_TMPDIR/said" >"$BATS_TEST_TMPDIR/vk_layer_settings.txt"
    rm -f "$BATS_TEST_TMPDIR/said"
    VK_LAYER_SETTINGS_PATH=$BATS_TEST_TMPDIR/vk_layer_settings.txt VK_LOADER_DEBUG=layer \
        VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation "$@" 2>"$BATS_TEST_TMPDIR/loader"
}

silent() {
    grep -q 'Validation Layer Active' "$BATS_TEST_TMPDIR/said"
    grep -q 'Enables: .*SYNCHRONIZATION_VALIDATION' "$BATS_TEST_TMPDIR/said"
    run -1 grep -E -m 20 '[(](ERROR|WARN|PERF)' "$BATS_TEST_TMPDIR/said"
}

@test "the validation layer has nothing to say" {
    need_adapter
    validated zt-run --version --engine vulkan >/dev/null
    grep -q 'VK_LAYER_KHRONOS_validation' "$BATS_TEST_TMPDIR/loader" || skip 'no validation layer'
    validated zt-run -m "$tiny" -p 'Hello there' -n 4 --temp 0 --engine vulkan --stats -vv >/dev/null
    silent
    # pointwise takes half a minute so, conformance minutes: with ZT_LONG only
    for t in vulkan_engine vulkan_programs ${ZT_LONG:+pointwise conformance}; do
        validated "$tests/$t" >"$BATS_TEST_TMPDIR/tap"
        silent
        run -1 grep '^not ok' "$BATS_TEST_TMPDIR/tap"
    done
}

@test "zt-bench op: the share of the device's roofline, by its own memory and arithmetic" {
    need_adapter
    zt-bench op 'exp f32[4096]' 'matmul f32[32,32] f32[32,32]' --engine vulkan --strict-engine -r 2 --format json | json '
        my $good = @{$j->{results}} == 6;
        for my $r (@{$j->{results}}) {
            my $share = $r->{unit} =~ m{/s$} ? $r->{median} / $r->{roof} : $r->{roof} / $r->{median};
            $good &&= $r->{median} > 0 && $r->{roof} > 0 && abs($r->{roof_share} / $share - 1) < 1e-6;
        }
        $good'
}
