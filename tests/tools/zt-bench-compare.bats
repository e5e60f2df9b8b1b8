#!/usr/bin/env bats
# zt-bench run, compare and --vs: what a command takes, and whether the new is slower.

load ../common/helper

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
}

# results FILE UNIT SAMPLE...: a file of zt.bench/1 with one row, as of one machine.
results() {
    local file=$1 unit=$2 list
    shift 2
    printf -v list '%s,' "$@"
    cat >"$file" <<END
{"schema":"zt.bench/1","machine":{"os":"Linux 1 x","cpu":"C","isa":"avx2","threads":2},"engine":"cpu",
 "results":[{"test":"t","threads":1,"unit":"$unit","median":1,"samples":[${list%,}]}]}
END
}

@test "run: wall, user, sys and peak of a command, each sample kept" {
    zt-bench run -r 3 --format json -- sleep 0.02 >out
    json '$j->{schema} eq "zt.bench/1" && $j->{command} eq "sleep 0.02" && !exists $j->{engine}
          && join(",", map { "$_->{test}/$_->{unit}" } @{$j->{results}}) eq "wall/s,user/s,sys/s,peak/bytes"' <out
    json 'my %r = map { $_->{test} => $_ } @{$j->{results}};
          @{$r{wall}{samples}} == 3 && $r{wall}{min} >= .02 && $r{wall}{min} < 10 && $r{user}{min} >= 0
          && $r{user}{max} < $r{wall}{max} && $r{peak}{min} > 1e5 && $r{peak}{min} < 1e8' <out
    # what it computes and holds is seen
    zt-bench run -r 1 --format json -- perl -e '$x = "a" x 9e7; $n = times + .2; 1 while times < $n' >out
    json 'my %r = map { $_->{test} => $_ } @{$j->{results}};
          $r{peak}{min} > 9e7 && $r{user}{min} + $r{sys}{min} >= .19 && $r{wall}{min} >= .19' <out
}

@test "run: arguments are the command's own, its output is not ours, its input is empty" {
    printf '%s\n' '#!/bin/sh' 'printf "%s\n" "$#:$1:$2" >>seen; cat >>seen; echo noise; echo noise >&2' >cmd
    chmod +x cmd
    run --separate-stderr zt-bench run -r 2 -- ./cmd 'a  b' -r <<<"not for it"
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 5 ]
    [ -z "$stderr" ]
    [ "$(uniq seen)" = '2:a  b:-r' ]
    [ "$(wc -l <seen)" -eq 3 ] # one to warm up
    run --separate-stderr zt-bench run -v -r 1 -- ./cmd
    [ "$(grep -c noise <<<"$stderr")" -eq 4 ]
    run ! grep noise <<<"$output"
}

@test "run: a command that fails, is killed, or is not there" {
    all_refused zt-bench run <<'END'
65|exit status 3|-- sh -c 'exit 3'
65|signal 9|-- sh -c 'kill -9 $$'
66|No such file|-- ./none
66|Permission denied|-- /etc/passwd
64|no command|
64|two commands|--vs -- true
64|empty|--vs true ''
64|--threshold|--vs --threshold x true true
64|--threshold|--vs --threshold -5% true true
64|does not apply to run|-p 5 -- true
END
    zt-bench run -r 2 --ignore-failure -- sh -c 'exit 3' | grep -q wall
    zt-bench run -r 2 --ignore-failure -- sh -c 'kill -9 $$' | grep -q wall
}

@test "run: interrupted, it ends the command and is 130" {
    run interrupt_when '[ -s pid ]' zt-bench run -- sh -c 'echo $$ >pid; exec sleep 60'
    [ "$status" -eq 130 ]
    run ! kill -0 "$(cat pid)"
}

@test "run --vs: two commands in turn, pairs, a verdict" {
    printf '%s\n' '#!/bin/sh' 'printf "$1" >>order; sleep $2' >cmd
    chmod +x cmd
    # of times nothing is sure on a busy machine, but what is said is said in every place
    zt-bench run --vs -r 6 --threshold 900% -- './cmd a 0.02' './cmd b 0.02' >out
    [ "$(cat order)" = baabbaabbaabba ]
    [[ $(sed -n 2p out) == wall$'\t'0$'\t's$'\t'* ]]
    [ "$(tail -n +2 out | cut -f1 | tr '\n' ' ')" = 'wall user sys peak ' ]
    code=0
    zt-bench run --vs -r 6 --threshold 20% --format json -- 'sleep 0.01' 'if true; then sleep 0.1; fi' >both.json || code=$?
    json 'my ($c) = grep { $_->{test} eq "wall" } @{$j->{comparisons}};
          $j->{paired} && $j->{threshold} == .2 && $c->{ci95}[0] <= $c->{ratio} && $c->{ratio} <= $c->{ci95}[1]
          && $c->{new} >= .1 && ($c->{verdict} eq "slower") == ($c->{ci95}[0] > 1.2)
          && join(" ", map { "$_->{subject}:$_->{test}:" . @{$_->{samples}} } @{$j->{results}}) eq
             "old:wall:6 old:user:6 old:sys:6 old:peak:6 new:wall:6 new:user:6 new:sys:6 new:peak:6"' <both.json
    [ $code -eq "$(grep -c '"verdict":"slower"' both.json)" ]
    # of such a file the new is read
    zt-bench compare both.json both.json | grep -q "^wall.*1\.000"
}

@test "compare: slower beyond noise is 1, and only that" {
    results old us 10 10.1 9.9 10.2 9.8 10 10.1 9.9
    results fast us 8 8.1 7.9 8.2 7.8 8 8.1 7.9
    results slow us 11 11.1 10.9 11.2 10.8 11 11.1 10.9
    results noisy us 8 15 9 14 10 13 12 11
    results few us 20 21 22
    results late us 12 12 10 12 12 12 12 12 9.9 12 12 12 12 12 12 12 # of a disturbed machine
    results worse us 12 12 11 12 12 12 12 12 11 12 12 12 12 12 12 12
    while read -r code verdict a b; do
        run -"$code" zt-bench compare $a $b --format tsv
        [[ ${lines[1]} == *$'\t'$verdict ]] || { echo "$a $b: $output"; false; }
    done <<'END'
0 same old old
1 slower old slow
0 faster slow old
0 faster old fast
0 unsure old noisy
0 unsure old few
0 unsure old late
1 slower old worse
1 slower fast slow
END
    # the same as rates, where less is worse
    results old tokens/s 10 10.1 9.9 10.2 9.8 10 10.1 9.9
    results slow tokens/s 9 9.1 8.9 9.2 8.8 9 9.1 8.9
    run -1 zt-bench compare old slow
    run -0 zt-bench compare slow old
    [[ ${lines[1]} == *faster ]]
}

@test "compare: the threshold, as a share or per cent; the seed; forms" {
    results old us 10 10.1 9.9 10.2 9.8 10 10.1 9.9
    results slow us 11 11.1 10.9 11.2 10.8 11 11.1 10.9
    for t in 5% 0.05 0 2.5%; do run -1 zt-bench compare old slow --threshold $t; done
    for t in 15% 0.15 200%; do run -0 zt-bench compare --threshold $t old slow; done
    zt-bench compare old slow --format json >one || [ $? -eq 1 ]
    zt-bench compare old slow --format json >two || [ $? -eq 1 ]
    cmp one two
    json 'my $c = $j->{comparisons}[0]; $j->{schema} eq "zt.bench/1" && @{$j->{comparisons}} == 1 && !$j->{paired}
          && abs($c->{ratio} - 1.1) < 1e-9 && $c->{ci95}[0] > 1.05 && $c->{ci95}[1] < 1.16 && $c->{old} == 10
          && @{$j->{results}} == 2 && $j->{machine}{cpu} eq "C"' <one
    run -1 zt-bench compare old slow --format junit
    [[ $output == *'failures="1"'*'<failure message="slower: '* ]]
    run -1 zt-bench compare old slow --format csv -o out.csv
    [ -z "$output" ]
    grep -q '^t,1,us,10' out.csv
    run -73 zt-bench compare old slow -o out.csv
    run -1 zt-bench compare - slow <old
}

@test "compare: rows that one side alone has are named; with none in common it is 65" {
    results old us 10 10 10 10
    sed 's/"us"/"ms"/' old >other
    sed 's/"results":\[/&{"test":"more","threads":1,"unit":"us","samples":[1,1,1,1]},/' old >more
    run -0 --separate-stderr zt-bench compare old more
    [ "${#lines[@]}" -eq 2 ]
    [[ $stderr == *'only in NEW: more'* ]]
    run -0 --separate-stderr zt-bench compare more old
    [[ $stderr == *'only in OLD: more'* ]]
    run -65 zt-bench compare old other -q
}

@test "compare: unlike machines are refused unless --force" {
    results old us 10 10 10 10
    for change in 's/"C"/"D"/' 's/avx2/avx512/' 's/Linux 1/Linux 2/' 's/"threads":2}/"threads":4}/' 's/"engine":"cpu"/"engine":"ref"/'; do
        sed "$change" old >new
        run -65 --separate-stderr zt-bench compare old new
        one_message zt-bench
        [[ $stderr == *'different machines'* ]]
        run -0 zt-bench compare --force old new
    done
}

@test "compare: what is no file of results is 65, a line each" {
    results good us 1 2 3 4
    results none us ''
    results text us '"a"'
    results huge us 1e999
    printf '{"schema":"zt.bench/1"}' >bare
    printf '{"schema":"zt.dna/1"}' >dna
    printf '[1,2' >cut
    sed 's/"machine":{[^}]*}/"machine":7/' good >machine
    sed 's/"results":.*/"results":{}}/' good >results
    sed 's/"test":"t",//' good >nameless
    printf '"zt.bench/1"' >word
    : >empty
    perl -e 'print "[" x 100000' >deep
    for f in none text huge bare dna cut machine results nameless word empty deep; do
        for args in "$f good" "good $f"; do
            run -65 --separate-stderr zt-bench compare $args
            one_message zt-bench || { echo "$args: $stderr"; false; }
        done
    done
    run -66 zt-bench compare good missing
    run -64 zt-bench compare good
    run -64 zt-bench compare good good good
}

@test "op --vs, model --vs, compare --vs: two subjects, pairs" {
    make_models
    # 16 pairs: what stops the machine for a while disturbs some of them, and the median is none of those
    run -1 zt-bench op --vs 'neg f32[64]' 'matmul f32[800,800] f32[800,800]' -t 1,2 -r 16 --threshold 2
    [ "$(cut -f1-3,9 <<<"$output")" = "test	threads	unit	verdict
matmul f32[800,800] f32[800,800]	1	us	slower
matmul f32[800,800] f32[800,800]	2	us	slower" ]
    run -0 zt-bench compare 'matmul f32[800,800] f32[800,800]' --vs 'neg f32[64]' -t 1 -r 16 --format json
    json '@{$j->{comparisons}} == 1 && $j->{comparisons}[0]{verdict} eq "faster" && $j->{engine} eq "cpu"
          && join(",", map { $_->{subject} . @{$_->{samples}} } @{$j->{results}}) eq "old16,new16"' <<<"$output"
    for args in "model -m $tiny --vs $tiny" "model --vs $tiny $tiny" "compare $tiny $tiny --vs"; do
        run -0 zt-bench $args -p 9 -n 2 -t 1 -r 7 --threshold 900%
        [ "$(cut -f1-3 <<<"$output")" = "test	threads	unit
pp9	1	tokens/s
tg2	1	tokens/s" ]
    done
    all_refused zt-bench <<END
64|two ops|op --vs 'neg f32[2]'
64|two ops|op --vs 'neg f32[2]' 'neg f32[2]' 'neg f32[2]'
64|got 1|model -m $tiny --vs
64|got 3|model -m $tiny --vs $tiny $tiny
64|2 models|model -m $tiny $tiny
64|two subjects|compare --vs 'neg f32[2]'
65|unknown op|op --vs 'neg f32[2]' 'nge f32[2]'
END
}

@test "compare --vs: commands that print results; a sample is a round's median" {
    results a us 1 3 2
    results b us 20 40 30
    printf '%s\n' '#!/bin/sh' 'printf "$1" >>order; cat "$1"' >show
    chmod +x show
    run -1 zt-bench compare --vs './show a' './show b' -r 6 --format json
    json 'my $c = $j->{comparisons}[0]; $c->{old} == 2 && $c->{new} == 30 && $c->{ratio} == 15 && $c->{ci95}[1] == 15
          && $j->{machine}{cpu} eq "C" && @{$j->{results}[0]{samples}} == 6' <<<"$output"
    [ "$(cat order)" = abbaabbaabba ]
    results two us 1
    sed -i 's/]}]}/]},{"test":"x","threads":1,"unit":"us","samples":[1]}]}/' two
    printf '%s\n' '#!/bin/sh' 'if [ -e done ]; then cat $1; else touch done; cat $2; fi' >turn
    chmod +x turn
    while IFS='|' read -r code word old new; do
        rm -f done
        run --separate-stderr zt-bench compare --vs "$old" "$new"
        [ "$status" -eq "$code" ] || { echo "$old $new: $status $stderr"; false; }
        one_message zt-bench
        [[ $stderr == *"$word"* ]] || { echo "$old $new: $stderr"; false; }
    done <<'END'
65|JSON|cat a|echo hello
65|schema|cat a|echo "{}"
65|exit status 4|cat a|sh -c "exit 4"
65|fewer rows|./turn a two|cat a
65|different rows|./turn two a|cat a
66|No such file|./none|cat a
END
    run -75 --separate-stderr zt-bench compare --vs yes 'cat a' --mem-limit 10M
    one_message zt-bench
}

@test "compare --vs: rounds go on while a row is unsure, to 80 pairs; not with -r" {
    # of round n (from 0) 12 where the number of n's group of 20 has the bit n % 2, else 10
    printf '%s\n' '#!/bin/bash' 'n=$(cat n 2>/dev/null) || n=0; echo $((n + 1)) >n; groups=("$@")' \
        'cat $(((groups[n / 20] >> n % 2 & 1) ? 12 : 10))' >turn
    chmod +x turn
    results 10 us 10
    results 12 us 12
    while read -r code verdict pairs groups; do
        rm -f n
        run -"$code" zt-bench compare --vs 'cat 10' "./turn $groups" --format json
        json "\$j->{comparisons}[0]{verdict} eq '$verdict' && @{\$j->{results}[1]{samples}} == $pairs" <<<"$output" ||
            { echo "$groups: $output"; false; }
    done <<'END'
0 same 20 0 3 3 3
1 slower 20 3 0 0 0
1 slower 40 1 3 0 0
0 same 40 1 0 3 3
1 slower 80 1 1 3 3
0 unsure 80 1 1 3 0
END
    rm -f n
    run -0 zt-bench compare --vs 'cat 10' './turn 1 3 3 3' -r 20
    [[ $output == *unsure ]]
    # of two rows one that is unsure is enough
    sed 's/]}]}/]},{"test":"x","threads":1,"unit":"us","samples":[1]}]}/' 10 >ten
    sed 's/]}]}/]},{"test":"x","threads":1,"unit":"us","samples":[1]}]}/' 12 >twelve
    mv ten 10
    mv twelve 12
    rm -f n
    run -1 zt-bench compare --vs 'cat 10' './turn 1 3 0 0' --format json
    json 'join(",", map { $_->{verdict} } @{$j->{comparisons}}) eq "slower,same" && @{$j->{results}[3]{samples}} == 40' <<<"$output"
}
