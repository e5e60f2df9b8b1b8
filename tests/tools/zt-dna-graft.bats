#!/usr/bin/env bats
# zt-dna graft: networks side by side in one, and in a residual block.

load ../common/helper

setup() {
    mkdir "$BATS_TEST_TMPDIR/work"
    cd "$BATS_TEST_TMPDIR/work" || exit
    # the second layer of the grid stands first; numbers as nobody would write them again
    cat >a.json <<'END'
{"id":"a","depth":1,"rows":1,"cols":2,"layers_per_cell":1,"layers":[
 {"z":0,"y":0,"x":1,"l":0,"type":"Dense","activation":"Tanh","input_height":1,"output_height":2,"temperature":0.10,"weights":"AACAPwAAAEA="},
 {"z":0,"y":0,"x":0,"l":0,"type":"Parallel","combine_mode":"add","parallel_branches":[
  {"type":"Dense","l":4,"weights":"AABAQA=="},{"type":"Softmax"}],"sequential_layers":null}]}
END
    printf '{"layers":[{"z":2,"y":1,"x":0,"l":3,"type":"Dense","dtype":"int8","native":true,"scale":0.5,"weights":"/wI="}]}' >b.json
}

@test "each network is a branch: sequences in the grid's order, weights and members as they were" {
    zt-dna graft a.json b.json --combine avg --no-history -o c.json
    json '@{$j->{layers}} == 1 && $j->{layers_per_cell} == 1 && $j->{layers}[0]{type} eq "Parallel" && $j->{layers}[0]{combine_mode} eq "avg"' <c.json
    json 'my ($a, $b) = @{$j->{layers}[0]{parallel_branches}}; my @s = @{$a->{sequential_layers}};
          $a->{type} eq "Sequential" && @s == 2 && $s[0]{type} eq "Parallel" && $s[1]{activation} eq "Tanh" && $s[1]{x} == 0 &&
          $s[1]{weights} eq "AACAPwAAAEA=" && $s[0]{parallel_branches}[0]{weights} eq "AABAQA==" && $s[0]{parallel_branches}[0]{l} == 4 &&
          $b->{type} eq "Dense" && $b->{weights} eq "/wI=" && $b->{scale} == 0.5 && $b->{native} && $b->{l} == 0' <c.json
    grep -q '"temperature":0.10,' c.json
    # it is a network like others
    [ "$(zt-dna layers c.json | tail -1 | cut -f5,8)" = "Parallel	6" ]
    zt-convert --check c.json
    zt-dna graft a.json b.json --combine avg --no-history -o - --to gguf | zt-dna compare -q - c.json --threshold 1
    zt-dna graft b.json b.json -o - | json '$j->{layers}[0]{combine_mode} eq "concat"'
}

@test "residual: before a step that adds the input" {
    zt-dna graft a.json b.json --residual --no-history -o - |
        json 'my @s = @{$j->{layers}[0]{sequential_layers}}; $j->{layers}[0]{type} eq "Sequential" && @s == 2 &&
              $s[0]{type} eq "Parallel" && @{$s[0]{parallel_branches}} == 2 && $s[1]{type} eq "Residual"'
    # one alone
    zt-dna graft a.json --residual --no-history -o - |
        json 'my @s = @{$j->{layers}[0]{sequential_layers}}; @s == 2 && $s[0]{type} eq "Sequential" && @{$s[0]{sequential_layers}} == 2 && $s[1]{type} eq "Residual"'
    # grafts of grafts
    zt-dna graft a.json b.json -o one.json
    zt-dna graft one.json b.json --residual -o - | zt-dna graft - one.json --no-history -o two.json
    json '@{$j->{layers}[0]{parallel_branches}} == 2' <two.json
    [ "$(zt-convert --list two.json | tail -n +2 | wc -l)" -eq 7 ]
}

# A network of one Dense from 2 numbers to as many as there are pairs.
dense() { # NUMBERS...
    perl -MMIME::Base64 -e 'printf q({"layers":[{"type":"Dense","input_height":2,"output_height":%d,"weights":"%s"}],"depth":1,"rows":1,"cols":1,"layers_per_cell":1}),
        @ARGV / 2, encode_base64(pack("f<*", @ARGV), "")' -- "$@"
}

@test "filter: each branch by its share, equal ones at first or what a gate says" {
    dense 1 0 0 1 >one.json
    dense 3 0 0 5 >two.json
    dense 1 0 0 0 >gate.json # the first number for the first branch, 0 for the second
    printf '%s\n' 1,2 -4,0.5 >x.csv
    zt-dna graft one.json two.json --combine filter --no-history -o equal.json
    zt-run -m equal.json -i x.csv | diff - <(printf '%s\n' 2,6 -8,1.5)
    json '$j->{layers}[0]{combine_mode} eq "filter" && $j->{layers}[0]{filter_gate}{input_height} == 2 && $j->{layers}[0]{filter_gate}{output_height} == 2' <equal.json
    zt-dna graft one.json two.json --combine filter --gate gate.json --no-history -o shares.json
    zt-run -m shares.json -i x.csv | perl -F, -ne '
        my @x = @{([1, 2], [-4, 0.5])[$. - 1]}; my $p = 1 / (1 + exp(-$x[0]));
        abs($F[0] - $x[0] * ($p + 3 * (1 - $p))) < 1e-5 && abs($F[1] - $x[1] * ($p + 5 * (1 - $p))) < 1e-5 or die "$. $_"'
    # it learns, and its shares are no longer equal
    printf '%s\n' 1,2,3,10 2,1,6,5 3,3,9,15 >d.csv
    zt-train -q -m equal.json -i d.csv --epochs 300 --lr .05 -o learned.json >history
    perl -MJSON::PP -ne 'push @l, decode_json($_)->{loss}; END { exit !($l[-1] < 0.05 * $l[0]) }' history
    [ "$(zt-convert --blueprint learned.json | json '$j->{models}[0]{all_weights} == 12' && echo yes)" = yes ]
    zt-convert --check shares.json
    zt-dna graft one.json two.json --combine filter --gate gate.json --no-history -o - --to gguf | zt-dna compare -q - shares.json --threshold 1
}

@test "only some layers are grafted: by their place or their type" {
    zt-dna graft a.json b.json --select Dense --no-history -o - | json 'my ($a, $b) = @{$j->{layers}[0]{parallel_branches}};
        $a->{type} eq "Dense" && $a->{weights} eq "AACAPwAAAEA=" && $b->{weights} eq "/wI="'
    zt-dna graft a.json b.json --select '0,0,0,*' --select '2,*' --no-history -o some.json
    json 'my ($a, $b) = @{$j->{layers}[0]{parallel_branches}}; $a->{type} eq "Parallel" && $a->{parallel_branches}[0]{weights} eq "AABAQA==" && $b->{type} eq "Dense"' <some.json
    [ "$(zt-convert --list some.json | tail -n +2 | wc -l)" -eq 2 ]
    zt-convert --check some.json
}

@test "a parent's weights are found again in the graft" {
    zt-dna graft a.json b.json --no-history -o c.json
    zt-convert --hash a.json | cut -c1-32 | sort >want
    zt-convert --hash b.json | cut -c1-32 | sort >>want
    diff <(sort want) <(zt-convert --hash c.json | cut -c1-32 | sort)
}

@test "misuse and what is no network: one line, and nothing is written" {
    "$tests/mkmodel" --arch llama --ctx 256 m.gguf
    printf '{"layers":[]}' >none.json
    head -c 300 a.json >cut.json
    zt-dna extract b.json -o told.json
    ls -A >before
    all_refused zt-dna graft <<'END'
64|argument|-o c
64|at least two networks|a.json -o c
64|output|a.json b.json
64|stdin|- - -o c
64|--gate|b.json b.json --combine filter -o c
64|at least two networks|a.json --residual --combine filter -o c
64|--gate|a.json b.json --gate a.json -o c
64|--gate|a.json b.json --combine filter --select Dense -o c
64|matches the selection|a.json b.json --select Softmax -o c
64|combine|a.json b.json --combine sum -o c
66|nothing.json|a.json b.json --combine filter --gate nothing.json -o c
64|--to|a.json b.json -o c --to x
64|--alpha|a.json b.json -o c --alpha 1
65|not a network|a.json m.gguf -o c
65|not a network|a.json told.json -o c
65|no layers|a.json none.json -o c
65|cut.json|a.json cut.json -o c
66|nothing.json|a.json nothing.json -o c
73|b.json|a.json b.json -f -o b.json
73|a.json|b.json b.json -o a.json
END
    ls -A | diff before -
}
