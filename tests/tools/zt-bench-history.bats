#!/usr/bin/env bats
# zt-bench --history and history: what is kept, the drawing, files that are none of ours.

load ../common/helper

setup_file() {
    make_models
}

setup() {
    in_own_folder
    run --separate-stderr zt-bench op 'neg f32[8]' -t 1 -r 2 --history probe.sqlite
    [ "$status" -ne 69 ] || skip "built without SQLite"
}

@test "every sample of every run is kept, in order" {
    zt-bench model -m model.gguf -p 12 -n 3 -t 1,2 -r 3 --history h.sqlite --format json >1.json
    zt-bench op 'neg f32[64]' -t 1 -r 7 --history h.sqlite --format json >2.json
    zt-bench kld model.gguf model.gguf -i <(printf 'hello on the she in there %d ' 1 2 3 4 5 6 7) -c 20 --history h.sqlite >kld
    zt-bench history h.sqlite --format ndjson >out
    [ "$(wc -l <out)" -eq $((4 + 3 + $(wc -l <kld) - 1)) ]
    perl -MJSON::PP -e '
        local $/; my @row = map { decode_json $_ } split /\n/, do { open my $f, "<", "out"; <$f> };
        my @want = map { open my $f, "<", $_; my $j = decode_json <$f>;
                         map { { %$_, model => $j->{model}{file}, isa => $j->{machine} } } @{$j->{results}} } "1.json", "2.json";
        for my $i (0 .. $#want) {
            my ($h, $w) = ($row[$i], $want[$i]);
            $h->{test} eq $w->{test} && $h->{threads} == $w->{threads} && $h->{unit} eq $w->{unit}
                && abs($h->{median} - $w->{median}) <= 1e-5 * $w->{median} && $h->{samples} == @{$w->{samples}}
                && $h->{run} == ($i < 4 ? 1 : 2) && $h->{command} eq ($i < 4 ? "model" : "op")
                && $h->{at} =~ /^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$/ && $h->{engine} eq "cpu"
                && ($i >= 4 || $h->{model} =~ /model.gguf/) or die "row $i\n";
        }
        $row[-1]{command} eq "kld" or die'
    command -v sqlite3 >/dev/null || skip "no sqlite3 to look with"
    [ "$(sqlite3 h.sqlite 'PRAGMA integrity_check')" = ok ]
    perl -MJSON::PP -e 'local $/; open my $f, "<", "2.json"; print "$_\n" for @{(decode_json <$f>)->{results}[0]{samples}}' >want
    sqlite3 h.sqlite "SELECT value FROM sample JOIN result ON result.id = result WHERE test = 'neg f32[64]' AND unit = 'us' ORDER BY n" >have
    paste want have | awk '{ d = $1 - $2; if (d * d > 1e-14 * $1 * $1) exit 1; n++ } END { exit n != 7 }'
}

@test "a drawing has a panel a series and a dot a run" {
    for i in 1 2 3; do zt-bench op 'neg f32[64]' 'neg f32[<&]' -t 1 -r 2 --history h.sqlite >/dev/null || :; done
    for i in 1 2 3; do zt-bench op 'neg f32[64]' 'exp f32[64]' -t 1 -r 2 --history h.sqlite >/dev/null; done
    zt-bench history h.sqlite --plot h.svg >/dev/null
    series=$(zt-bench history h.sqlite --format tsv | tail -n +2 | cut -f4-6 | sort -u | wc -l)
    [ "$(grep -c 'class="frame"' h.svg)" -eq "$series" ]
    [ "$(grep -c '<circle' h.svg)" -eq $((3 * series)) ]
    [ "$(tail -n 1 h.svg)" = '</svg>' ]
    ! command -v xmllint >/dev/null || xmllint --noout h.svg
    run --separate-stderr zt-bench history h.sqlite --plot h.svg # it is there
    [ "$status" -eq 73 ]
    one_message zt-bench
    zt-bench history h.sqlite --plot h.svg -f >/dev/null
}

@test "an empty file becomes a history, and has none before" {
    : >h.sqlite
    [ "$(zt-bench history h.sqlite | wc -l)" -eq 1 ]
    zt-bench op 'neg f32[8]' -t 1 -r 1 --history h.sqlite >/dev/null
    [ "$(zt-bench history h.sqlite | wc -l)" -gt 1 ]
}

@test "a run that fails leaves no trace, and one beside another waits" {
    zt-bench op 'neg f32[8]' -t 1 -r 1 --history h.sqlite >/dev/null
    before=$(zt-bench history h.sqlite)
    run ! zt-bench op 'neg f32[8]' 'no f32[8]' -t 1 -r 1 --history h.sqlite
    [ "$(zt-bench history h.sqlite)" = "$before" ]
    for i in 1 2 3 4; do zt-bench op 'neg f32[8]' -t 1 -r 1 --history h.sqlite >/dev/null & pids="$pids $!"; done
    for p in $pids; do wait "$p"; done
    [ "$(zt-bench history h.sqlite --format tsv | tail -n +2 | cut -f1 | sort -u | wc -l)" -eq 5 ]
}

@test "files that are none of ours are left alone, and are one line and 65" {
    printf 'SQLite format 3\0 and then nothing of the kind' >almost
    head -c 5000 /dev/zero | tr '\0' x >text
    zt-bench op 'neg f32[8]' -t 1 -r 50 --history good.sqlite >/dev/null
    head -c 9000 good.sqlite >cut # its last pages are gone
    perl -e 'local $/; open my $f, "<", "good.sqlite"; $_ = <$f>; substr($_, 68, 4) = "\0\0\0\1"; print' >other
    perl -e 'local $/; open my $f, "<", "good.sqlite"; $_ = <$f>; substr($_, 63, 1) = "\2"; print' >newer
    while IFS='|' read -r code file; do
        cp "$file" kept
        for how in "op 'neg f32[8]' -t 1 -r 1 --history $file" "history $file"; do
            run --separate-stderr bash -c "zt-bench $how"
            echo "zt-bench $how: $status $stderr"
            [ "$status" -eq "$code" ]
            one_message zt-bench
            [ -z "$output" ]
            cmp "$file" kept
        done
    done <<'END'
65|almost
65|text
65|other
69|newer
END
    run zt-bench history cut
    [ "$status" -eq 65 ]
    while IFS='|' read -r code args; do
        run --separate-stderr bash -c "zt-bench $args"
        echo "zt-bench $args: $status $stderr"
        [ "$status" -eq "$code" ]
        one_message zt-bench
    done <<'END'
64|history
64|history a b
66|history none.sqlite
64|history -
66|history :memory:
64|op 'neg f32[8]' -t 1 -r 1 --history -
64|op 'neg f32[8]' -t 1 -r 1 --history :memory:
73|op 'neg f32[8]' -t 1 -r 1 --history no/such/folder
64|kld model.gguf model.gguf -i text --plot x.svg
64|op 'neg f32[8]' -t 1 -r 1 --no-roof --plot x.svg
69|history newer --plot x.svg
END
    [ ! -e x.svg ] && [ ! -e none.sqlite ]
}
