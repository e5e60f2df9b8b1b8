#!/usr/bin/env bats
# zt-run of programs: tensors in and out by name, forms, what is refused, the manual's programs.

load ../common/helper

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    cat >p.zt <<'END'
zt program 1
in    x: f32[n,3]
in    k: i32[n]
state s: f32[n,3]
y = add x s
z = gather y k
keep  s = y
out   first = y
out   z = z
END
    printf '%s\n' 'zt program 1' 'in x: f32[n,3]' 'y = scale x by=2' 'out y = y' >twice.zt
    printf '%s\n' 'zt program 1' 'in k: i32[n]' 'y = add k k' 'out y = y' >ints.zt
    printf '%s\n' 1,2,3 4,5,6 >x.csv
    printf '%s\n' 1 0 >k.csv
}

@test "one tensor as CSV, npy or npz, by name or by content, on files and pipes" {
    printf '%s\n' 2,4,6 8,10,12 >want
    zt-run -m twice.zt -i x.csv -o y.csv
    cmp y.csv want
    zt-run -m twice.zt <x.csv | cmp - want
    (echo a,b,c; cat x.csv) | zt-run -m twice.zt -i - -o - | cmp - want
    zt-run -m twice.zt -i x.csv -o y.npy
    [ "$(head -c 6 y.npy | tail -c 5)" = NUMPY ]
    # npy has no name: it is the input, whatever that is called
    zt-run -m twice.zt -i y.npy -o 4.csv
    [ "$(head -1 4.csv)" = 4,8,12 ]
    zt-run -m twice.zt -i x.csv -o y.npz
    printf '%s\n' 'zt program 1' 'in y: f32[n,3]' 'x = scale y by=0.5' 'out x = x' >half.zt
    zt-run -m half.zt -i y.npz -o back.csv
    cmp back.csv x.csv
    zt-run -m half.zt <y.npz >out.npz
    [ "$(head -c 2 out.npz)" = PK ]
    zt-run -m twice.zt -i out.npz -o again.csv
    cmp again.csv want
    for form in safetensors gguf; do
        zt-run -m twice.zt -i x.csv -o y.$form
        zt-run -m half.zt -i y.$form -f -o back2.csv
        cmp back2.csv x.csv
    done
}

@test "CSV: integers keep their bits, one line or many, numbers as short as they read back" {
    printf '%s\n' -5 2147483647 0 >i.csv
    printf '%s\n' 'zt program 1' 'in k: i32[n]' 'out k = k' >same.zt
    zt-run -m same.zt <i.csv | cmp - i.csv
    echo -5,2147483647,0 | zt-run -m same.zt | cmp - i.csv
    printf '%s\n' 'zt program 1' 'in x: f64[]' 'out x = x' >scalar.zt
    [ "$(echo 0.1 | zt-run -m scalar.zt)" = 0.1 ]
    printf '%s\n' 'zt program 1' 'in x: f32[n,2,2]' 'out x = x' >cube.zt
    printf '%s\n' 1,2,3,4 5,6,7,8 | zt-run -m cube.zt | tail -1 | grep -qx 5,6,7,8
    while IFS='|' read -r code program text word; do
        run --separate-stderr bash -c "printf '$text' | zt-run -m $program.zt"
        echo "$program $text: $status $stderr"
        [ "$status" -eq "$code" ] && one_message zt-run && [[ $stderr == *"$word"* ]] && [ -z "$output" ]
    done <<'END'
65|same|1\n2.5\n|2.5
65|same|2147483648\n|2147483648
65|same|1\nx\n|'x' is not a valid i32
65|twice|1,2\n|f32[1,2]
65|twice|1,2,3\n4,5\n|:2: 2 numbers
65|cube|1,2,3\n|3 numbers
65|scalar|1\n2\n|2 lines
65|same|1,2\n3,4\n|lines
64|p|1,2,3\n|one input
END
}

@test "inputs, states and outputs by name; symbols from shapes; one step a run" {
    cat >make.zt <<'END'
zt program 1
in    x: f32[2,3]
k = argmin x
n = neg x
out   x = x
out   k = k
out   s = n
END
    zt-run -m make.zt -i x.csv -o in.npz
    zt-run -m p.zt -i in.npz -o out.npz
    printf '%s\n' 'zt program 1' 'in first: f32[2,3]' 'out y = first' >look.zt
    [ "$(zt-run -m look.zt -i out.npz -o - | head -c 2)" = PK ]
    zt-run -m look.zt -i out.npz -o y.csv
    printf '%s\n' 0,0,0 0,0,0 | diff - <(sed 's/-0/0/g' y.csv)
    zt-convert --list out.npz --format tsv | cut -f1 | xargs >names
    [ "$(cat names)" = 'name first z' ]
    # without the state it begins cleared, in each run anew
    sed '/out   s/d' make.zt >make2.zt
    zt-run -m make2.zt -i x.csv -o in2.npz
    for i in 1 2; do
        zt-run -m p.zt -i in2.npz -f -o out.npz
        zt-run -m look.zt -i out.npz -f -o y.csv
        cmp y.csv x.csv
    done
}

@test "a program that takes one size alone runs through the passes" {
    printf '%s\n' 'zt program 1' 'in x: f32[n]' 't = cast x to=f32' 'y = reshape t shape=[2,2]' 'out y = y' >one.zt
    [ "$(echo 1,2,3,4 | zt-run -m one.zt | xargs)" = '1,2 3,4' ]
}

@test "what is missing or wrong is one line" {
    zt-run -m twice.zt -i x.csv -o x.npz # has y
    printf '%s\n' 'zt program 1' 'in x: f32[2,3]' 'k = argmax x' 'out x = x' 'out k = x' >wrong.zt
    zt-run -m wrong.zt -i x.csv -o wrong.npz
    printf '%s\n' 'zt program 1' 'in x: f32[n,3]' 'data w: f32[3] "w"' 'y = mul x w' 'out y = y' >data.zt
    printf '%s\n' 'zt program 1' 'in x: f32[2,3]' 'state c: f32[ctx,3]' 'y = add x c' 'out y = y' >open.zt
    printf '%s\n' 'zt program 1' 'model "none.gguf" id=00' 'in x: f32[n,3]' 'data w: f32[3] "w"' 'y = mul x w' 'out y = y' >gone.zt
    printf '%s\n' 'zt program 1' 'in x: f32[n,3]' 'y = call x fn="mine"' 'out y = y' >call.zt
    printf '%s\n' 'zt program 1' 'in x: f32[n,3]' 'y = call x fn=opaque' 'out y = y' >opaque.zt
    while IFS='|' read -r code word args; do
        run --separate-stderr bash -c "zt-run $args"
        echo "zt-run $args: $status $stderr"
        [ "$status" -eq "$code" ] && one_message zt-run && [[ $stderr == *"$word"* ]] && [ -z "$output" ]
        [ ! -e out.npz ] && [ ! -e out.csv ]
    done <<'END'
65|missing input 'x'|-m p.zt -i x.npz -o out.npz
65|'k' has type f32[2,3], but the program expects i32[2]|-m p.zt -i wrong.npz -o out.npz
65|missing tensor 'w'|-m data.zt -i x.csv -o out.csv
64|symbol 'ctx'|-m open.zt -i x.csv -o out.csv
66|none.gguf|-m gone.zt -i x.csv -o out.csv
65|'mine'|-m call.zt -i x.csv -o out.csv
65|op call|-m opaque.zt -i x.csv -o out.csv
64|CSV|-m p.zt -i x.csv -o out.npz
64|one output|-m p.zt -i wrong.npz -o out.csv
66|nowhere|-m twice.zt -i nowhere -o out.npz
64|-p|-m twice.zt -i x.csv -p hello
64|--chat|-m twice.zt -i x.csv --chat
64|--bind|-m twice.zt -i x.csv --bind n
65|f32[2,3]|-m twice.zt -i x.csv --bind n=3
69|nothing|-m twice.zt -i x.csv --engine nothing
END
}

@test "--data has the tensors, --bind what no shape tells" {
    printf '%s\n' 'zt program 1' 'in x: f32[n,3]' 'data w: f32[n,3] "y"' 'y = mul x w' 'out y = y' >data.zt
    zt-run -m twice.zt -i x.csv -o w.safetensors
    [ "$(zt-run -m data.zt -i x.csv --data w.safetensors | xargs)" = '2,8,18 32,50,72' ]
    printf '%s\n' 'zt program 1' 'in x: f32[2,3]' 'state c: f32[2*h,3]' 'y = add x c' 'out y = y' >bind.zt
    [ "$(zt-run -m bind.zt -i x.csv --bind h=1 | xargs)" = '1,2,3 4,5,6' ]
}

@test "the programs of zt-program(5) are canonical, and run" {
    awk '/^\.Sh EXAMPLES/{on = 1} /^\.Bd/{if (on) {n++; file = "example" n ".zt"}; next}
         /^\.Ed/{file = ""} file {print > file}' "$repo/man/zt-program.5"
    [ "$(ls example*.zt | wc -l)" -ge 4 ]
    for f in example*.zt; do
        zt-trace show --plain $f | cmp - $f
    done
    "$tests/mkmodel" --arch llama --ctx 256 tiny.gguf
    zt-run -m example3.zt <k.csv | diff - k.csv
    sed 's/^model.*/model "tiny.gguf"/; s/64/W/g' example1.zt >norm.zt
    width=$(zt-convert --list tiny.gguf --format tsv | sed -n 's/^blk.0.attn_norm.weight\t[^\t]*\t\[*\([0-9]*\).*/\1/p')
    [ -n "$width" ]
    sed -i "s/W/$width/g" norm.zt
    seq -s, "$width" | zt-run -m norm.zt | grep -q ,
}

@test "another model's id is 65, the right one runs" {
    "$tests/mkmodel" --arch llama --ctx 256 a.gguf
    "$tests/mkmodel" --arch llama --ctx 128 b.gguf
    zt-trace record -m a.gguf -p hello --steps 0..0 --values v.npz -o part.zt
    zt-run -m part.zt -i v.npz -o out.npz
    sed 's/"a.gguf"/"b.gguf"/' part.zt >other.zt
    run -65 --separate-stderr zt-run -m other.zt -i v.npz -o out2.npz
    one_message zt-run
    [[ $stderr == *b.gguf* && $stderr == *a.gguf* || $stderr == *id* ]]
    # the model is looked for beside the program
    mkdir sub
    mv a.gguf part.zt sub
    zt-run -m sub/part.zt -i v.npz -o out3.npz
    cmp out.npz out3.npz
}
