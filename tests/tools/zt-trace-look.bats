#!/usr/bin/env bats
# zt-trace stats, dot, chrome, memory: what they say of programs, and hostile names in them.

load ../common/helper

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    cat >run.zt <<'EOF'
zt program 1
in    x: f32[n,64]
in    pos: i32[n]
data  w0: q8_0[64,64] "blk.0.w"
state c0: f32[ctx,64]
h0 = linear x w0 act=q8
p0 = kv_put c0 h0 pos
a0 = attention h0 p0 p0 pos head=64
y0 = add x a0
data  w1: q8_0[64,64] "blk.1.w"
state c1: f32[ctx,64]
h1 = linear y0 w1 act=q8
p1 = kv_put c1 h1 pos
a1 = attention h1 p1 p1 pos head=64
y1 = add y0 a1
data  g: f32[64] "out"
z = rms_norm y1 g
r = reshape z shape=[64*n]
keep  c0 = p0
keep  c1 = p1
out   z = r
EOF
    cat >evil.zt <<'EOF'
zt program 1
in    x: f32[4,4]
data  w: f32[4,4] "</title><script>\"]; x [label=\\N\u0001&lt;\u009b"
y = linear x w
z = neg y
out   y = z
EOF
}

# perl: the rows of a table in JSON, by name.
rows='my %r = map { ($_->{name} // $_->{value}) => $_ } @{$j->{rows}};'

@test "show --format: a table of the values, with types once every symbol has a number" {
    printf '%s\n' 'zt program 1' 'in x: f32[n,2]' 'data w: f32[3,2] "w"' 'h = linear x w' 'y = sum h' 'out y = y' >small.zt
    diff <(zt-trace show --format csv small.zt) - <<'END'
value,kind,op,type
x,input,,
w,data,,
h,result,linear,
y,result,sum,
END
    zt-trace show --format json --bind n=5 small.zt | json '$j->{schema} eq "zt.trace.show/1" && $j->{rows}[2]{type} eq "f32[5,3]" && $j->{rows}[1]{type} eq "f32[3,2]"'
    run -64 zt-trace show --plain --format csv small.zt
}

@test "stats: a row a kind of op, family, layer or step; they add up to the total" {
    for by in op family layer step; do
        zt-trace stats --by $by --bind n=3,ctx=32 -q --format json run.zt >out
        json '$j->{schema} eq "zt.trace.stats/1" and my @r = @{$j->{rows}}; my $t = pop @r;
              my ($n, $us, $flops, $bytes, $share, $last) = (0, 0, 0, 0, 0, 9e9); my $sorted = 1;
              for (@r) { $n += $_->{count}; $us += $_->{us}; $flops += $_->{flops}; $bytes += $_->{bytes};
                         $share += $_->{time_pct}; $sorted &&= $_->{us} <= $last; $last = $_->{us} }
              $t->{name} eq "total" && $sorted && $n == 9 && $t->{count} == 9 && $flops == $t->{flops}
              && $bytes == $t->{bytes} && abs($us - $t->{us}) < 0.1 && abs($share - 100) < 0.1
              && $t->{us} > 0 && $t->{roof_pct} > 0 && $t->{roof_pct} < 100' <out
    done
    json 'join(",", sort map { $_->{name} } @{$j->{rows}}) eq "a0,a1,h0,h1,p0,p1,total,y0,y1,z"' <out
    json "$rows"' $r{h0}{detail} eq "0: linear f32[3,64] q8_0[64,64] -> f32[3,64]"
          && $r{h0}{flops} == 2*3*64*64 && $r{h0}{bytes} == 2*3*256 + 64*68' <out
    # three rows of the cache are filled, of 32
    json "$rows"' $r{a0}{flops} == 4*3*64*3 && $r{a0}{bytes} == 2*3*256 + 2*3*256 + 12' <out
    zt-trace stats --by layer --bind n=3,ctx=32 -q --format json run.zt |
        json "$rows"' $r{"blk.0"}{count} == 4 && $r{"blk.1"}{count} == 4 && $r{other}{count} == 1'
    zt-trace stats --by family --bind n=3,ctx=32 -q --format tsv run.zt | grep -q '^attention'
}

@test "stats: every form, engines, the roof on standard error, -o" {
    for form in tsv csv md ndjson; do
        zt-trace stats --bind n=3,ctx=32 -q --format $form run.zt >out
        grep -q linear out
    done
    run --separate-stderr zt-trace stats --bind n=3,ctx=32 -t 1 run.zt
    [ "$status" -eq 0 ]
    one_message zt-trace
    [[ $stderr == *'roof, 1 threads: f32 '*GB/s* ]]
    [ "${lines[0]}" = "$(printf 'name\tcount\tus\ttime_pct\tflops\tbytes\tgflops\tgb_per_s\troof_pct\tdetail')" ]
    zt-trace stats --bind n=3,ctx=32 -q --format tsv -o table run.zt
    run ! zt-trace stats --bind n=3,ctx=32 -q -o table run.zt
    awk -F '\t' 'NF != 10 { exit 1 }' table
    # another engine's share of this roof is none
    zt-trace stats --engine ref --bind n=3,ctx=32 -q --format json run.zt |
        json "$rows"' !defined $r{total}{roof_pct} && $r{total}{us} > 0'
}

@test "stats: layers of programs without numbers in names are what repeats" {
    { echo 'zt program 1'; echo 'in    x0: f32[4]'
      for i in 0 1 2 3 4; do echo "a$i = tanh x$i"; echo "x$((i + 1)) = add a$i x$i"; done
      echo 'out   y = x5'; } >same.zt
    zt-trace stats --by layer -q --format tsv same.zt | cut -f 1,2 | sort >out
    diff out - <<<"$(printf '#0\t2\n#1\t2\n#2\t2\n#3\t2\n#4\t2\nname\tcount\ntotal\t10')"
}

@test "stats --times: exact figures, means, and what is refused" {
    printf '%s\n' '{"step":0,"seconds":0.001,"op":"linear"}' '' \
        '{"step":0,"seconds":0.003,"engine":"cpu"}' '{"step":3,"seconds":5e-4,"engine":"ref"}' >times
    zt-trace stats --times times --by step --bind n=3,ctx=32 -q --format json run.zt >out
    json "$rows"' $r{h0}{us} == 2000 && $r{y0}{us} == 500 && $r{total}{us} == 2500
          && $r{h0}{time_pct} == 80 && $r{h0}{gflops} == sprintf("%.2f", 24576 / 2e-3 / 1e9)
          && $r{h0}{roof_pct} >= 0 && !defined $r{y0}{roof_pct} && !defined $r{z}{gflops}' <out
    while IFS='|' read -r code text; do
        printf '%s\n' "$text" >bad
        run --separate-stderr zt-trace stats --times bad --bind n=3,ctx=32 run.zt
        echo "$text: $status $stderr"
        [ "$status" -eq "$code" ] && [ -z "$output" ]
        one_message zt-trace
    done <<'EOF'
65|nonsense
65|[]
65|{"step":10,"seconds":1}
65|{"step":-1,"seconds":1}
65|{"step":0.5,"seconds":1}
65|{"step":0,"seconds":-1}
65|{"step":0,"seconds":"x"}
65|{"seconds":1}
65|{"step":0,"step":1,"seconds":1}
EOF
    run -66 zt-trace stats --times none --bind n=3,ctx=32 run.zt
    run -64 zt-trace stats --bind n run.zt
    run -64 zt-trace stats --by nothing --bind n=3,ctx=32 run.zt
}

@test "dot: what repeats is drawn once; types when bound" {
    zt-trace dot run.zt >out
    [ "$(grep -c 'label="linear' out)" -eq 1 ]
    grep -q '2 times' out
    grep -q 'linear\\nblk.\*.w q8_0\[64,64\]' out
    grep -q 'label="c\*"' out
    [ "$(grep -c dashed, out)" -eq 2 ] # x of the next repetition's linear and add
    run ! grep -q 'f32\[3,64\]' out
    zt-trace dot --bind n=3,ctx=32 run.zt >bound
    grep -q -- '-> .*label="f32\[3,64\]"' bound
    grep -q 'label="x f32\[3,64\]"' bound
    # other dtypes, the same shape: folded still, the dtype a star
    sed 's/^data  w1: q8_0/data  w1: q4_0/' run.zt | zt-trace dot | grep -q 'w \*\[64,64\]'
    # another attribute: not the same
    sed 's/linear y0 w1 act=q8/linear y0 w1 act=q16/' run.zt | zt-trace dot >apart
    [ "$(grep -c 'label="linear' apart)" -eq 2 ]
    command -v dot >/dev/null || skip "no dot"
    for f in out bound apart; do dot -Tcanon "$f" >/dev/null; done
}

@test "dot: hostile names stay inside their quotes" {
    zt-trace dot evil.zt >out
    run ! grep -q $'\x01' out
    # quotes that are not escaped come in pairs on each line
    perl -ne 's/\\.//g; exit 1 if tr/"// % 2' out
    grep -q 'script>\\"]; x \[label=\\\\N\\\\x01&amp;lt;' out
    mkdir 'a"b' && cp evil.zt 'a"b/x.zt' && zt-trace dot 'a"b/x.zt' | head -n 1 | grep -q 'a\\"b'
    command -v dot >/dev/null || skip "no dot"
    dot -Tcanon out | grep -c ' -> ' | grep -qx 3
}

@test "chrome: trace events as the format has them" {
    for engine in cpu ref; do
        zt-trace chrome --engine $engine -t 2 --bind n=3,ctx=32 run.zt >out
        json 'my @e = @{$j->{traceEvents}}; my $good = @e > 9; my (%tid, %step);
              for (@e) {
                  $good &&= defined $_->{name} && $_->{name} !~ /^$/ && $_->{pid} == 1 && $_->{tid} =~ /^\d+$/
                      && ref $_->{args} eq "HASH" && ($_->{ph} eq "X" || $_->{ph} eq "M");
                  if ($_->{ph} eq "M") { $tid{$_->{tid}} = $_->{args}{name} if $_->{name} eq "thread_name"; next }
                  $good &&= $_->{ts} >= 0 && $_->{dur} >= 0 && $_->{cat} ne "";
                  push @{$x{$_->{tid}}}, $_;
                  $step{$_->{args}{step}}++ if $_->{cat} ne "layer";
              }
              for my $t (keys %x) { # named, and one after the other
                  $good &&= defined $tid{$t};
                  my $end = -1;
                  for (sort { $a->{ts} <=> $b->{ts} } @{$x{$t}}) {
                      $good &&= $_->{ts} >= $end - 0.002; $end = $_->{ts} + $_->{dur} }
              }
              $good && join(",", sort keys %step) =~ /^0,1,2,3,4,5,6,7,8/' <out
        json 'my ($l) = grep { $_->{name} eq "linear" } @{$j->{traceEvents}};
              $l->{cat} eq "linalg" && $l->{args}{types} eq "f32[3,64] q8_0[64,64] -> f32[3,64]"
              && $l->{args}{flops} == 24576 && $l->{args}{bytes} == 5888 && $l->{args}{layer} eq "blk.0"' <out
        json 'join(",", map { $_->{name} } grep { ($_->{cat} // "") eq "layer" } @{$j->{traceEvents}})
              eq "blk.0,blk.1"' <out
        grep -q "\"$engine thread 0\"" out
    done
    printf '%s\n' '{"step":0,"seconds":1e-3,"begin":5,"end":5.001,"track":3,"engine":"cpu"}' \
        '{"step":3,"seconds":1e-3,"begin":5.001,"end":5.002,"track":1,"engine":"cpu"}' >times
    zt-trace chrome --times times --bind n=3,ctx=32 run.zt >out
    json 'my ($a) = grep { $_->{name} eq "add" } @{$j->{traceEvents}}; $a->{ts} == 1000 && $a->{dur} == 1000' <out
    grep -q '"cpu thread 3"' out
    printf '%s\n' '{"step":0,"seconds":1e-3}' '{"step":3,"seconds":2e-3}' >times
    zt-trace chrome --times times --bind n=3,ctx=32 run.zt |
        json 'my ($a) = grep { $_->{name} eq "add" } @{$j->{traceEvents}}; $a->{ts} == 1000 && $a->{dur} == 2000'
    cp evil.zt 'a"b<c>.zt' && zt-trace chrome 'a"b<c>.zt' |
        json 'my ($p) = grep { $_->{name} eq "process_name" } @{$j->{traceEvents}}; $p->{args}{name} eq "a\"b<c>.zt"'
}

@test "chrome: a queue of a device" {
    zt-run --version | grep -q '^vulkan:0' || skip "no device"
    zt-trace chrome --engine vulkan --bind n=3,ctx=32 run.zt >out
    json 'my @x = grep { $_->{ph} eq "X" && $_->{cat} ne "layer" } @{$j->{traceEvents}}; my %s; my $end = -1; my $good = 1;
          for (sort { $a->{ts} <=> $b->{ts} } @x) {
              $good &&= $_->{ts} >= $end - 0.002; $end = $_->{ts} + $_->{dur}; $s{$_->{args}{step}}++ }
          $good && keys %s == 9' <out
    grep -q '"vulkan queue 0"' out
}

@test "memory: values that live at the same time share no bytes, and all lie in the arena" {
    for engine in cpu ref; do
        zt-trace memory --engine $engine --bind n=5,ctx=32 --format json run.zt >out
        json 'my @r = @{$j->{rows}}; my $good = @r >= 5;
              for my $a (@r) { for my $b (@r) {
                  next if $a == $b || $a->{last} < $b->{first} || $b->{last} < $a->{first};
                  $good &&= $a->{offset} + $a->{bytes} <= $b->{offset} || $b->{offset} + $b->{bytes} <= $a->{offset} } }
              $good' <out
        json '(grep { $_->{value} eq "h0" && $_->{op} eq "linear" && $_->{type} eq "f32[5,64]" && $_->{first} == 0
                      && $_->{last} == 2 } @{$j->{rows}}) == 1' <out
    done
    zt-trace memory --bind n=5,ctx=32 --format tsv run.zt | head -n 1 | grep -qx "$(printf 'value\top\ttype\tfirst\tlast\toffset\tbytes')"
}

@test "memory: a drawing that XML's parser takes, whatever the names" {
    cp evil.zt $'a<b>&"\x01.zt'
    zt-trace memory --bind n=5,ctx=32 run.zt >a.svg
    zt-trace memory -o b.svg $'a<b>&"\x01.zt'
    zt-trace memory -o c.svg <<<"$(printf '%s\n' 'zt program 1' 'in x: f32[2]' 'y = neg x' 'out y = y')"
    grep -q '<title>h0 = linear, f32\[5,64\]: 1.25 KiB at ' a.svg
    grep -q 'arena .* lower bound .* peak of live bytes .* at step ' a.svg
    grep -q 'a&lt;b&gt;&amp;&quot;\\x01.zt' b.svg
    for f in a b c; do
        perl -ne 's/<[a-z\/?!][^<>]*>//gi; exit 1 if /[<>]|nan|inf/' $f.svg
        command -v xmllint >/dev/null || continue
        xmllint --noout $f.svg
    done
}

@test "programs of no ops, of views, of no rows" {
    printf '%s\n' 'zt program 1' 'in    x: f32[2]' 'out   y = x' >none.zt
    printf '%s\n' 'zt program 1' 'in    x: f32[4,4]' 'y = reshape x shape=[16]' 'out   y = y' >view.zt
    printf '%s\n' 'zt program 1' 'in    x: f32[0,4]' 'y = tanh x' 'out   y = y' >empty.zt
    for p in none view empty; do
        for command in stats 'stats --by layer' dot chrome memory 'memory --format tsv'; do
            run --separate-stderr bash -c "zt-trace $command -q $p.zt"
            echo "$command $p: $status $stderr $output"
            [ "$status" -eq 0 ] && [ -z "$stderr" ] && [[ $output != *nan* && $output != *inf* ]]
        done
        zt-trace chrome $p.zt | json '@{$j->{traceEvents}} >= 2'
    done
}
