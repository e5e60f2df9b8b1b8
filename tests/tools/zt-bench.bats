#!/usr/bin/env bats
# zt-bench: rows, statistics, forms, misuse.

load ../common/helper

setup_file() {
    make_models
}

setup() {
    in_own_folder
    for i in 1 2 3 4 5 6 7 8 9; do printf "hello on the she in there %d " $i; done >text.txt
}

@test "the man page has the options of --help, in that order" {
    man_is_true zt-bench
}

@test "the man page's examples run" {
    man_examples_run zt-bench
}

@test "json is zt.bench/1" {
    zt-bench model -m model.gguf -p 20 -n 5 -t 1,2 -r 7 --no-roof --format json >out
    json '$j->{schema} eq "zt.bench/1" && $j->{machine}{cpu} && $j->{machine}{os} && $j->{machine}{isa}
          && $j->{machine}{threads} >= 1 && @{$j->{results}} == 4' <out
    json 'join(",", map { "$_->{test}/$_->{threads}" } @{$j->{results}}) eq "pp20/1,tg5/1,pp20/2,tg5/2"' <out
    json 'my $good = 1; for my $r (@{$j->{results}}) {
              my @s = sort { $a <=> $b } @{$r->{samples}};
              my @d = sort { $a <=> $b } map { abs($_ - $r->{median}) } @s;
              $good &&= @s == 7 && $r->{unit} eq "tokens/s" && $r->{median} == $s[3]
                  && $r->{min} == $s[0] && $r->{max} == $s[6] && $s[0] > 0
                  && abs($r->{mad} - $d[3]) <= 1e-4 * $s[6]
                  && $r->{ci95}[0] == $s[0] && $r->{ci95}[1] == $s[6] && !exists $r->{roof_share} }
          $good' <out
}

@test "roof_share: the least time of arithmetic and bytes, by the time taken" {
    zt-bench op 'matmul f32[64,64] f32[64,64]' 'linear f32[1,64] q4_0[64,64] act=q8' -t 1,2 -r 3 --format json >out
    json 'my $good = @{$j->{results}} == 12;
          for my $r (@{$j->{results}}) {
              my $share = $r->{unit} =~ m{/s$} ? $r->{median} / $r->{roof} : $r->{roof} / $r->{median};
              my ($flops, $bytes) = $r->{test} =~ /^matmul/ ? (2 * 64 ** 3, 3 * 4 * 64 ** 2)
                                                            : (2 * 64 ** 2, 2 * 4 * 64 + 64 ** 2 / 32 * 18);
              $good &&= $share > 0 && abs($r->{roof_share} / $share - 1) < 1e-6
                  && $r->{flops} == $flops && $r->{bytes} == $bytes }
          my @r = @{$j->{results}};
          $good && abs($r[0]{roof} * $r[1]{roof} / ($r[1]{flops} / 1e3) - 1) < 1e-6
              && abs($r[0]{roof} * $r[2]{roof} / ($r[2]{bytes} / 1e3) - 1) < 1e-6' <out
    zt-bench model -m model.gguf -p 20 -n 5 -t 1 -r 2 --format json >out
    json 'my ($p, $g) = @{$j->{results}}; my $w = $j->{model}{bytes};
          $p->{roof_share} > 0 && $g->{roof_share} > 0 && $g->{flops} > $p->{flops} / 20
          && $g->{bytes} > .5 * $w && $g->{bytes} < 1.5 * $w && $p->{bytes} < $g->{bytes} / 10' <out
    zt-bench op 'neg f32[64]' -t 1 -r 1 --engine ref --format json | json '!exists $j->{results}[0]{roof_share}'
    [ -z "$(zt-bench op 'neg f32[64]' -t 1 -r 1 --no-roof --format tsv | sed -n 2p | cut -f10)" ]
    [ -n "$(zt-bench op 'neg f32[64]' -t 1 -r 1 --format tsv | sed -n 2p | cut -f10)" ]
    run --separate-stderr zt-bench op 'neg f32[64]' -t 1 -r 1 --mem-limit 4M
    [ "$status" -eq 0 ]
    [[ $stderr == *"roofline not measured"* ]]
}

@test "counters: steps, processors' seconds and what the kernel gives, of one run or token" {
    printf '%s\n' 'zt program 1' 'in x: f32[200,300]' 'a = exp x' 'm = matmul a a tb=1' 's = sum m axes=[1]' 'out s = s' >p.zt
    zt-bench op p.zt -t 2 -r 4 --no-roof --format json >out
    json 'my $c = $j->{results}[0]{counters}; my $us = $j->{results}[0]{median};
          $c->{steps} == 3 && $c->{barriers} >= 3 && $c->{barriers} == int $c->{barriers} && $c->{cpu_seconds} > 0 && $c->{page_faults} >= 0 && $c->{context_switches} >= 0
          && (!exists $c->{cycles} || $c->{cycles} > 1000)
          && !grep { !/^(cycles|instructions|cache_misses|branch_misses|cpu_seconds|page_faults|context_switches|steps|barriers)$/ } keys %$c' <out
    zt-bench model -m model.gguf -p 32 -n 8 -t 1 -r 2 --no-roof --format json >out
    json 'my ($p, $g) = map { $_->{counters} } @{$j->{results}};
          $g->{steps} > 10 && $g->{steps} == int $g->{steps} && abs($p->{steps} * 32 / $g->{steps} - 1) < .5
          && $g->{barriers} == 0' <out
}

@test "--plot: a roofline with a dot a test and number of threads" {
    printf '%s\n' 'zt program 1' 'in x: f32[8]' 'y = neg x' 'out y = y' >'a<&">.zt'
    zt-bench op 'matmul f32[64,64] f32[64,64]' 'a<&">.zt' -t 1,2 -r 2 --plot op.svg >/dev/null
    zt-bench model -m model.gguf -p 20 -n 5 -t 1 -r 1 --plot model.svg >/dev/null
    zt-bench machine -t 1 -r 1 --engine cpu --plot machine.svg >/dev/null
    for want in 'op 4' 'model 2' 'machine 0'; do
        set -- $want
        [ "$(grep -c '<circle' "$1.svg")" -eq $((2 * $2)) ] # one in the frame, one before its name
        [ "$(grep -c '<polyline' "$1.svg")" -ge 3 ] # slopes and levels
        [ "$(tail -n 1 "$1.svg")" = '</svg>' ]
        ! command -v xmllint >/dev/null || xmllint --noout "$1.svg"
    done
    cp op.svg kept
    run --separate-stderr zt-bench op 'neg f32[8]' -t 1 -r 1 --plot op.svg
    [ "$status" -eq 73 ] && one_message zt-bench && [ -z "$output" ] && cmp op.svg kept
    zt-bench op 'neg f32[8]' -t 1 -r 1 --plot op.svg -f >/dev/null
    run ! cmp -s op.svg kept
    run --separate-stderr zt-bench op 'neg f32[8]' -t 1 -r 1 --engine ref --plot no.svg
    [ "$status" -eq 64 ] && one_message zt-bench && [ ! -e no.svg ]
}

@test "a table, a row a test, elsewhere TSV" {
    run --separate-stderr zt-bench model -m model.gguf -p 12 -n 3 -t 1 -r 2 --no-roof
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 3 ]
    [[ ${lines[0]} == test$'\t'threads$'\t'unit$'\t'median* ]]
    [[ ${lines[1]} == pp12$'\t'1$'\t'tokens/s$'\t'* ]]
    [[ ${lines[2]} == tg3$'\t'1$'\t'tokens/s$'\t'* ]]
    [ -z "$stderr" ]
}

@test "junit: a case a row, names escaped" {
    printf '%s\n' 'zt program 1' 'in x: f32[8]' 'y = neg x' 'out y = y' >'a<&">.zt'
    zt-bench op 'a<&">.zt' -t 1 -r 2 --no-roof --format junit >out
    [ "$(head -n 1 out)" = '<?xml version="1.0" encoding="UTF-8"?>' ]
    [ "$(grep -c '<testcase classname="zt-bench.op" name="a&lt;&amp;&quot;&gt;.zt (1 threads, ' out)" -eq 3 ]
    grep -q '<testsuite name="zt-bench.op" tests="3" failures="0" errors="0" skipped="0" time="0.0' out
    for subject in "machine -r 1 --engine cpu --isa scalar" "model -m model.gguf -p 4 -n 2 -r 1 --no-roof" "kld model.gguf model.gguf -i text.txt -c 64"; do
        zt-bench $subject -t 1 --format junit >out
        [ "$(grep -c '<testcase ' out)" -eq "$(grep -c '</testcase>' out)" ]
        [ "$(grep -c '<testcase ' out)" -ge 2 ]
        ! command -v xmllint >/dev/null || xmllint --noout out
    done
}

@test "0 leaves a row out" {
    [ "$(zt-bench model -m model.gguf -p 0 -n 3 -t 1 -r 1 --no-roof | wc -l)" -eq 2 ]
    [ "$(zt-bench model -m model.gguf -p 3 -n 0 -t 1 -r 1 --no-roof | cut -f1 | tail -1)" = pp3 ]
}

@test "an op: microseconds, GFLOP/s, GB/s, which agree" {
    zt-bench op 'matmul f32[32,48] f32[48,16]' -t 1,2 -r 3 --no-roof --format json >out
    json 'my @r = @{$j->{results}};
          join(",", map { "$_->{unit}/$_->{threads}" } @r) eq "us/1,GFLOP/s/1,GB/s/1,us/2,GFLOP/s/2,GB/s/2"
          && $r[0]{test} eq "matmul f32[32,48] f32[48,16]" && !exists $j->{model}
          && abs($r[0]{samples}[1] * $r[1]{samples}[1] / (2 * 32 * 48 * 16 / 1e3) - 1) < 1e-3
          && abs($r[0]{samples}[2] * $r[2]{samples}[2] / (4 * (32 * 48 + 48 * 16 + 32 * 16) / 1e3) - 1) < 1e-3' <out
}

@test "ops with attributes, absent inputs, indices, weights; lines of a file; a program" {
    printf '%s\n' '# ops' '' 'gather f32[7,8] i32[50]' '  sum f32[4,5,6] axes=[0,2]' >lines
    zt-bench op 'layer_norm f32[3,8] f32[8] _ eps=1e-6' 'linear f32[2,64] q4_0[16,64] act=q8' -i lines -t 1 -r 1 --no-roof >out
    [ "$(cut -f1 out | uniq | tail -n +2)" = "layer_norm f32[3,8] f32[8] _ eps=1e-6
linear f32[2,64] q4_0[16,64] act=q8
gather f32[7,8] i32[50]
sum f32[4,5,6] axes=[0,2]" ]
    printf '%s\n' 'zt program 1' 'in x: f32[n,8]' 'data g: f32[8] "g"' 'y, r = rms_norm x g' 'out y = y' >p.zt
    [ "$(zt-bench op p.zt --bind n=5 -t 1 -r 1 --no-roof | cut -f1,3 | sed -n 2p)" = "p.zt"$'\t'us ]
}

@test "--ops: a program's ops one by one, with data and fallbacks" {
    printf '%s\n' 'zt program 1' 'in x: f32[n,8]' 'data g: f32[8] "g"' 'y, r = rms_norm x g' 'z = add y x' 'out z = z' 'out r = r' >p.zt
    for ops in replay ahead eager; do
        [ "$(zt-bench op p.zt --bind n=5 -t 1 -r 2 --no-roof --ops $ops | cut -f1,3 | sed -n 2p)" = "p.zt"$'\t'us ]
    done
    printf '%s\n' 'zt program 1' 'in x: f32[4,2]' 'in p: i32[4]' 'state c: f16[8,2]' 'd = kv_put c x p' 'keep c = d' 'y = neg x' 'out y = y' >s.zt
    zt-bench op s.zt -t 1 -r 1 --no-roof >/dev/null
    run -69 --separate-stderr zt-bench op s.zt -t 1 -r 1 --ops eager
    one_message zt-bench
    zt-run --version | grep -q '^vulkan:0' || skip 'no Vulkan adapter'
    for ops in replay ahead eager; do
        zt-bench op p.zt --bind n=5 -r 2 --no-roof --ops $ops --engine vulkan --strict-engine >/dev/null
    done
}

@test "op on a device: the roofline of its memory and its arithmetic" {
    zt-run --version | grep -q '^vulkan:0' || skip 'no Vulkan adapter'
    zt-bench op 'linear f32[256,512] f32[256,512]' -r 2 --engine vulkan --strict-engine --format json --plot roof.svg >out
    json '$j->{engine} eq "vulkan" && $j->{results}[0]{roof} > 0 && $j->{results}[0]{roof_share} > 0
          && $j->{results}[0]{roof_share} < 1.1' <out
    grep -q 'f32 vulkan' roof.svg
    [ -z "$(zt-bench op 'neg f32[64]' -r 1 --engine vulkan --no-roof --format tsv | sed -n 2p | cut -f10)" ]
}

@test "machine: a row for each fact and each figure, with one thread and with all" {
    zt-bench machine -r 1 -t 2 --engine cpu --format tsv >out
    [ "$(head -n 1 out)" = "$(printf 'name\tthreads\tvalue\tunit\tdetail')" ]
    for fact in os cpu isa processors memory 'huge pages'; do
        awk -F '\t' -v f="$fact" '$1 == f && ($3 > 0 || $5 != "") { n++ } END { exit n != 1 }' out
    done
    for rate in 'read memory' 'copy memory' 'f32 scalar'; do
        awk -F '\t' -v f="$rate" '$1 == f && $2 == 2 && $3 > 0 { n++ } END { exit n != 1 }' out
    done
    run ! grep -q vulkan out # --engine cpu: no driver is opened
    for form in csv ndjson md; do zt-bench machine -r 1 -t 1 --engine cpu --isa scalar --format "$form" | grep 'read memory'; done
    zt-bench machine -t 1 -r 2 --isa scalar --engine cpu --format json >out
    json '$j->{schema} eq "zt.bench/1" && $j->{machine}{memory} > 0 && $j->{machine}{os} && !exists $j->{engine}
          && ref $j->{machine}{caches} eq "ARRAY" && ref $j->{machine}{adapters} eq "ARRAY"' <out
    json 'my %t = map { $_->{test} => $_ } @{$j->{results}};
          my $r = $t{"read memory"}; my $f = $t{"f32 scalar"};
          @{$r->{samples}} == 2 && $r->{unit} eq "GB/s" && $r->{min} > 0 && $f->{unit} eq "GFLOP/s"
          && !grep { /avx/ } keys %t' <out
}

@test "machine: an adapter's copy and matrices" {
    zt-run --version | grep -q '^vulkan:0' || skip "no device"
    zt-bench machine -r 1 -t 1 --isa scalar --format json >out
    json 'my %t = map { $_->{test} => $_ } @{$j->{results}};
          $j->{machine}{adapters}[0]{engine} eq "vulkan:0" && $t{"copy vulkan:0"}{unit} eq "GB/s"
          && $t{"copy vulkan:0"}{min} > 0 && $t{"linear f32 vulkan:0"}{min} > 0' <out
}

@test "misuse is one line and 64, a missing model 66" {
    printf '%s\n' 'zt program 1' 'in x: f32[n]' 'y = neg x' 'out y = y' >p.zt
    all_refused zt-bench <<'END'
64|no command|-m model.gguf
64|unknown command 'mdoel' (did you mean 'model'?)|mdoel -m model.gguf
64|no model|model
64|-t|model -m model.gguf -t 1,x
64|-t|model -m model.gguf -t 0
64|nothing|model -m model.gguf -p 0 -n 0
64|-r|model -m model.gguf -r 0
66|none.gguf|model -m none.gguf
64|no op|op
64|'--bind' does not apply to model|model -m model.gguf --bind n=1
64|'--model' does not apply to machine; it applies to model|machine -m model.gguf
65|'ad f32[2]': unknown op 'ad'|op 'ad f32[2]'
65|'neg f32[2': expected ',' or ']', got|op 'neg f32[2'
65|no op found|op -i /dev/null
64|symbol|op p.zt
64|--bind|op p.zt --bind n
64|-t|op 'neg f32[2]' -t 0
66|none.zt|op none.zt
END
}

@test "model: lists of prompts, tokens and depths, a row each; the roof at a depth has the cache's bytes" {
    zt-bench model -m model.gguf -p 0,8 -n 2,4..6+2 -d 0,4..16*2 -t 1 -r 3 --format json >out
    json 'join(" ", map { $_->{test} } @{$j->{results}}) eq join " ", map { my $d = $_; map { $d ? "$_\@d$d" : $_ } qw(pp8 tg2 tg4 tg6) } 0, 4, 8, 16' <out
    json 'my %b = map { $_->{test}, $_->{bytes} } @{$j->{results}}; $b{"tg2\@d16"} > $b{"tg2\@d4"} && $b{"tg2\@d4"} > $b{tg2}' <out
    # of a model with recurrent layers no sample computes the context again
    "$ZT_TESTS/mkmodel" --arch qwen35 --ctx 256 hybrid.gguf
    zt-bench model -m hybrid.gguf -p 0 -n 2 -d 0,64 -t 1 -r 3 --no-roof --format json >out
    json '@{$j->{results}} == 2 && $j->{results}[0]{counters}{steps} == $j->{results}[1]{counters}{steps}' <out
    # the same tests beside another model, in pairs
    cp model.gguf other.gguf
    zt-bench model --vs model.gguf other.gguf -p 0 -n 2 -d 3 -t 1 -r 3 --format tsv | grep -q '^tg2@d3'
    for list in '' 1, ,1 4..2 4..8+0 4..8*1 0..8*2 1..65 -1 1..2..3 99999999999 99999999999999999999999 5x; do
        run -64 zt-bench model -m model.gguf -n 2 -d "$list"
        [[ $output == *"-d: '$list' is not a list of at most 64 numbers from 0 to 16777216"* ]]
    done
    run -64 zt-bench model -m model.gguf -p 0 -n 0,0 -d 8
    [[ $output == *"nothing to measure"* ]]
}

@test "model: types of the cache and chunks are combinations too, and A-B is a range" {
    zt-bench model -m model.gguf -p 4-8*2 -n 0 -d 0,3 -t 1,2 --kv f16,f32 --chunk 2,4 -r 2 --no-roof --format json >out
    json 'my %seen; $seen{"$_->{test}/$_->{threads}"} = @{$_->{samples}} for @{$j->{results}};
          my @want = map { my $t = $_; map { my $d = $_; map { my $k = $_; map { my $c = $_;
              map { "pp$_$d kv=$k chunk=$c/$t" } 4, 8 } 2, 4 } qw(f16 f32) } "", "\@d3" } 1, 2;
          @want == 32 && keys %seen == 32 && !grep { $seen{$_} != 2 } @want' <out
    all_refused zt-bench model -m model.gguf <<'END'
64|--kv: 'f16,x' is not a list|--kv f16,x
64|--kv: '' is not a list|--kv ''
64|data type of the KV cache|--kv i32
64|--chunk: '0' is not a list|--chunk 0
64|4160 combinations to measure, the limit is 4096|-p 1..64 -n 2 -d 1..64
64|-p: '1-2-3' is not a list|-p 1-2-3
END
}

@test "--energy: joules of a token and watts from RAPL's counters; without them 69 and one line" {
    mkdir -p rapl/intel-rapl:0 && cd rapl/intel-rapl:0
    echo package-0 >name && echo 1000000 >max_energy_range_uj && echo 5 >energy_uj && cd ../..
    export ZT_POWERCAP=$PWD/rapl # counters that stand still: no energy (tests/tools/bench_energy.c has those that run)
    zt-bench model -m model.gguf -p 4 -n 2 -t 1 -r 2 --energy --no-roof --format json >out
    json '@{$j->{results}} == 2 && !grep { $_->{energy}{joules_per_token} != 0 || $_->{energy}{watts} != 0 } @{$j->{results}}' <out
    zt-bench model -m model.gguf -p 4 -n 2 -t 1 -r 2 --energy --sandbox on --format tsv >out || [ $? -eq 69 ]
    [ ! -s out ] || [ "$(head -n 1 out | cut -f 11,12)" = joules_per_token$'\t'watts ]
    zt-bench model -m model.gguf -p 4 -n 2 -t 1 -r 2 --no-roof --format json | json '!grep { exists $_->{energy} } @{$j->{results}}'
    echo x >rapl/intel-rapl:0/energy_uj
    all_refused zt-bench model -m model.gguf --energy <<'END'
69|rapl/intel-rapl:0/energy_uj: not a number of microjoules|-p 4
64|--vs|--vs model.gguf
END
    ZT_POWERCAP=$PWD/none run -69 --separate-stderr zt-bench model -m model.gguf --energy
    one_message zt-bench
    [[ $stderr == *"--energy: this machine reports no energy (RAPL): $PWD/none: No such file"* ]]
}

@test "plot: curves over depth, the same for the same results, and beside llama-bench's" {
    cp model.gguf other.gguf
    how=(-p 4 -n 2 -d 0,3,6 -r 2 -t 1,2)
    zt-bench model -m model.gguf -m other.gguf "${how[@]}" --no-roof --plot two.svg --format json >two.json
    [ "$(grep -c '<circle' two.svg)" -eq 24 ] # 2 models, 2 tests, 2 numbers of threads, 3 depths
    [ "$(grep -c 'class="frame"' two.svg)" -eq 2 ] # prompts, generation
    grep -q '>other.gguf tg2, 2 threads</text>' two.svg && grep -q '>depth (tokens in the context)</text>' two.svg
    zt-bench plot two.json -o again.svg
    zt-bench plot - <two.json >third.svg
    cmp again.svg third.svg
    [ "$(grep -c '<circle' again.svg)" -eq 24 ]
    ! command -v xmllint >/dev/null || xmllint --noout two.svg again.svg
    echo '[{"model_filename":"m.gguf","n_threads":2,"n_depth":'{0,512}',"n_prompt":0,"n_gen":16,"samples_ts":[9,10]}]' | sed 's/\] \[/,/' >'l<&>'
    zt-bench plot two.json 'l<&>' >both.svg
    grep -q '>l&lt;&amp;&gt;: tg16, 2 threads</text>' both.svg
    [ "$(grep -c '<circle' both.svg)" -eq 26 ]
    run --separate-stderr zt-bench plot two.json -o again.svg
    [ "$status" -eq 73 ] && one_message zt-bench
    zt-bench op 'neg f32[8]' -t 1 -r 1 --no-roof --format json >op.json
    all_refused zt-bench plot <<'END'
64|plot needs files|
65|op.json: no results of zt-bench model|op.json
66|none.json|none.json
64|'--plot' does not apply to plot|two.json --plot x.svg
64|'--format' does not apply to plot|two.json --format json
END
}

@test "model --engine A,B measures on each: a row, a history entry and a curve for each, and compare" {
    how=(-p 4 -n 2 -t 1 -r 2 --no-roof)
    zt-bench model -m model.gguf --engine cpu,ref "${how[@]}" --format tsv --history h.sqlite >out
    [ "$(cut -f1-3 out | tr '\t\n' '  ')" = 'engine test threads cpu pp4 1 cpu tg2 1 ref pp4 1 ref tg2 1 ' ]
    [ "$(zt-bench history h.sqlite --format tsv | tail -n +2 | cut -f2,9 --complement | grep -c ref)" -eq 2 ]
    zt-bench model -m model.gguf --engine cpu,ref -d 0,3 "${how[@]}" --format json --plot p.svg >both.json
    json '@{$j->{results}} == 8 && $j->{model}{file} eq "model.gguf" && !$j->{engine} && !$j->{results}[0]{model}
          && join(",", map { "$_->{engine}/$_->{test}" } @{$j->{results}}) eq "cpu/pp4,cpu/tg2,cpu/pp4\@d3,cpu/tg2\@d3,ref/pp4,ref/tg2,ref/pp4\@d3,ref/tg2\@d3"' <both.json
    grep -q '>model.gguf ref tg2, 1 thread</text>' p.svg
    [ "$(grep -c '<circle' p.svg)" -eq 8 ]
    # the engine of "auto" is named; each row is compared with its own engine's
    cp model.gguf other.gguf
    zt-bench model -m model.gguf -m other.gguf --engine ref,auto "${how[@]}" --format json >four.json
    json 'join(",", map { "$_->{model}/$_->{engine}" } @{$j->{results}}[0, 2, 4, 6]) eq "model.gguf/ref,model.gguf/cpu,other.gguf/ref,other.gguf/cpu"' <four.json
    zt-bench compare four.json four.json --format tsv | cut -f1 >names
    [ "$(sed -n "2p;4p;9p" names | tr '\n' ' ')" = 'model.gguf ref pp4 model.gguf cpu pp4 other.gguf cpu tg2 ' ]
    zt-bench model -m model.gguf --engine cpu,ref "${how[@]}" --format junit | grep -q 'name="ref tg2 '
    all_refused zt-bench <<'END'
64|'cpu,' is not a list|model -m model.gguf --engine cpu,
64|',' is not a list|model -m model.gguf --engine ,
64|'cpu,ref,cpu' names cpu twice|model -m model.gguf --engine cpu,ref,cpu
64|unknown engine 'cpx'|model -m model.gguf --engine cpu,cpx
64|--vs compares two models on one engine|model --vs model.gguf other.gguf --engine cpu,ref
64|1 model and 2 engines|model -m model.gguf --engine cpu,ref -r 1 --plot x.svg
64|op uses one engine|op neg --engine cpu,ref
64|kld uses one engine|kld model.gguf other.gguf -i text.txt --engine cpu,ref
END
}

@test "model -m A -m B runs both: a row and a model for each, one history entry each, and compare" {
    cp model.gguf other.gguf
    how=(-p 8 -n 2 -t 1 -r 3 --no-roof)
    zt-bench model -m model.gguf -m other.gguf "${how[@]}" --format tsv --history h.sqlite >out
    [ "$(cut -f1-3 out | tr '\t\n' '  ')" = 'model test threads model.gguf pp8 1 model.gguf tg2 1 other.gguf pp8 1 other.gguf tg2 1 ' ]
    [ "$(zt-bench history h.sqlite --format tsv | tail -n +2 | cut -f1,12 | sort -u | wc -l)" -eq 2 ]
    zt-bench model -m model.gguf -m other.gguf "${how[@]}" --format json >both.json
    json '@{$j->{results}} == 4 && !$j->{model} && $j->{results}[3]{model} eq "other.gguf" && $j->{results}[0]{model} eq "model.gguf"' <both.json
    zt-bench model -m model.gguf "${how[@]}" --format json | json '$j->{model}{file} eq "model.gguf" && !exists $j->{results}[0]{model}'
    # each row is compared with its own model's
    zt-bench compare both.json both.json --format tsv | cut -f1 >names
    [ "$(tail -n +2 names | tr '\n' ' ')" = 'model.gguf pp8 model.gguf tg2 other.gguf pp8 other.gguf tg2 ' ]
    zt-bench model -m model.gguf -m other.gguf "${how[@]}" --format junit | grep -q 'name="other.gguf tg2 '
    run -64 --separate-stderr zt-bench model -m model.gguf -m other.gguf -p 8 -n 2 -r 1 --plot x.svg
    one_message zt-bench
    run -64 --separate-stderr zt-bench model --vs -m model.gguf -m other.gguf -m model.gguf
    one_message zt-bench
}
