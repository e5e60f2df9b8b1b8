#!/usr/bin/env bats
# zt-convert --probe, --hint, --blueprint: tensors of unknown names as layers, and networks of them.

load ../common/helper

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    cat >mlp.json <<'END'
{"depth":1,"rows":1,"cols":1,"layers_per_cell":2,"layers":[
{"type":"Dense","activation":"ReLU","input_height":4,"output_height":6},
{"type":"Dense","l":1,"input_height":6,"output_height":3}]}
END
    # out of a program that gives its data come tensors of any names
    printf '%s\n' 'zt program 1' 'in x: f32[n,1]' 'r = reshape x shape=[n]' \
        'a = reshape r shape=[6,4]' 'h = scale a by=0.5' 'q = slice h axis=0 to=3' \
        'b = transpose q axes=[1,0]' 'out layer.q_proj = h' 'out b = b' >make.zt
    seq 24 | zt-run -m make.zt -o m.safetensors
}

@test "a table of layers, roles, tensors and what is left" {
    zt-convert --probe --format tsv m.safetensors >t
    [ "$(head -1 t)" = "layer	type	archetype	role	index	name	shape	mean_abs	variance" ]
    grep -qP '^0\tDense\tDense Linear\tw\t0\tb\t\[4,3\]\t' t
    grep -qP '^1\tDense\tDense Linear\tw\t1\tlayer.q_proj\t\[6,4\]\t6.25\t11.9792' t
    zt-convert --probe --hint 0=embedding --format json m.safetensors | json '$j->{schema} eq "zt.convert.probe/1" && $j->{rows}[0]{type} eq "Embedding" &&
          $j->{rows}[0]{archetype} eq "HINTED Layer"'
}

@test "safetensors become a network that runs, by shapes and by hints" {
    zt-convert --select b -f m.safetensors one.safetensors
    zt-convert one.safetensors net.json
    # b [4,3] holds h's first rows turned: 0.5 2.5 4.5 ...
    [ "$(echo 1,0,0 | zt-run -m net.json)" = 0.5,1,1.5,2 ]
    zt-convert --hint 0=Embedding -f one.safetensors net.json
    [ "$(echo 3 | zt-run -m net.json)" = 2,4,6 ]
    run --separate-stderr zt-convert one.safetensors net.json
    [ "$status" -eq 73 ]
}

@test "a language model's tensors by their names: the network's logits are transformers'" {
    tar -xJf "$repo/tests/llm/archs/archs.tar.xz" --strip-components=0
    printf '%s\n' 'zt program 1' 'in y: f32[n,m]' 'in logits: f32[n,m]' 'd = sub y logits' 'a = abs d' 'w = amax a' \
        'out worst = w' >worst.zt
    for name in llama llama-bare llama-tied llama-mha llama-foreign llama-biases qwen2; do
        dir=$(find . -type d -name "$name" | head -1)
        zt-convert -q -f "$dir/model.safetensors" net.json
        perl -MJSON::PP -e 'print "$_\n" for @{decode_json(do {local $/; <>})->{ids}}' "$dir/case.json" >ids.csv
        zt-run -m net.json -i ids.csv -f -o y.npz
        cp "$dir/logits.npy" logits.npy
        zt-convert -f y.npz logits.npy both.npz
        zt-run -m worst.zt -i both.npz -f -o worst.csv
        awk '{ exit !($1 < 2e-4) }' worst.csv || { echo "$name: off by $(cat worst.csv)"; false; }
        # some rows at a time it is the same, to rounding
        zt-run -m net.json -i ids.csv --chunk 5 -f -o y.npz
        zt-convert -f y.npz logits.npy both.npz
        zt-run -m worst.zt -i both.npz -f -o worst.csv
        awk '{ exit !($1 < 2e-4) }' worst.csv || { echo "$name: in pieces off by $(cat worst.csv)"; false; }
    done
    zt-convert --probe --format tsv "$dir/model.safetensors" | grep -P '^2\tMultiHeadAttention\tMulti-Head Attention by name\tkb\t\d+\tmodel.layers.0.self_attn.k_proj.bias'
    # what has no place is said, and left
    run --separate-stderr zt-convert -f "$(find . -type d -name llama-mha | head -1)/model.safetensors" net.json
    [ "$status" -eq 0 ]
    [[ $stderr == "zt-convert: 2 tensors are not in the network because no layer uses them: see --probe" ]]
}

@test "a network's layers as S3's telemetry" {
    zt-convert --blueprint mlp.json | json '$j->{models}[0]{total_layers} == 2 && $j->{models}[0]{total_parameters} == 42 &&
          $j->{models}[0]{layers}[1]{output_shape}[0] == 3 && $j->{models}[0]{layers}[0]{activation} eq "ReLU"'
    zt-convert --blueprint m.safetensors | json '$j->{models}[0]{id} eq "m.safetensors" && $j->{models}[0]{total_parameters} == 36'
}

@test "a blueprint counts the layers in containers: branches, steps, gates, any depth" {
    dense() { printf '{"type":"Dense","input_height":%d,"output_height":%d}' "$1" "$2"; }
    cat >deep.json <<END
{"depth":1,"rows":1,"cols":1,"layers_per_cell":2,"layers":[
{"type":"Sequential","sequential_layers":[$(dense 4 6),{"type":"Sequential","sequential_layers":[$(dense 6 6),{"type":"RMSNorm","input_height":6}]},{"type":"Residual"}]},
{"type":"Parallel","l":1,"combine_mode":"filter","filter_gate":$(dense 6 2),"parallel_branches":[$(dense 6 3),{"type":"Sequential","sequential_layers":[$(dense 6 5),$(dense 5 3)]}]}]}
END
    zt-convert --blueprint deep.json >blue.json
    # 24 + 36 + 6 in the first; 18 + 30 + 15 and a gate of 12 in the second
    json '$j = $j->{models}[0]; $j->{total_layers} == 2 && $j->{all_layers} == 12 && $j->{all_weights} == 141 &&
          $j->{layers}[0]{weights} == 66 && $j->{layers}[0]{steps}[1]{weights} == 42 && $j->{layers}[0]{steps}[1]{steps}[1]{type} eq "RMSNorm" &&
          $j->{layers}[1]{weights} == 75 && $j->{layers}[1]{branches}[1]{steps}[0]{weights} == 30 && $j->{layers}[1]{filter_gate}[0]{weights} == 12' <blue.json
}

# Safetensors of floats: NAME ROWS COLUMNS NUMBERS for each, a matrix, or with COLUMNS 0 a vector.
tensors() {
    perl -e 'my ($at, $data, @t) = (0, "");
        while (my ($name, $rows, $cols, $x) = splice @ARGV, 0, 4) { my @x = eval $x; my $n = 4 * @x;
            push @t, sprintf q("%s":{"dtype":"F32","shape":[%s],"data_offsets":[%d,%d]}), $name, $cols ? "$rows,$cols" : $rows, $at, $at + $n;
            $data .= pack "f<*", @x; $at += $n }
        my $h = "{" . join(",", @t) . "}"; $h .= " " x (-length($h) % 8); print pack("Q<", length $h), $h, $data' -- "$@"
}

@test "layers that do not chain are refused where they do not, and an order mends it" {
    tensors a 3 6 '(1) x 18' b 6 4 'map { $_ / 10 } 1 .. 24' c 5 3 '(2) x 15' >t.safetensors
    run --separate-stderr zt-convert t.safetensors net.json
    [ "$status" -eq 65 ] && one_message zt-convert && [ ! -e net.json ]
    [[ $stderr == *"layer 0 ('a', Dense) outputs 3 numbers, but layer 1 ('b', Dense) takes 4;"*"--hint order="* ]]
    for order in b,a,c 1,0,2 '1, a , c' 'sequential(b,a),c' 'sequential(b,sequential(a,c))'; do
        zt-convert -f --hint "order=$order" t.safetensors net.json
        # rows of b: x . (1 .. 4) / 10 and so on; their sum 10 times, doubled thrice
        [ "$(echo 1,0,0,1 | zt-run -m net.json)" = "90,90,90,90,90" ]
    done
    zt-convert -f --hint order=b t.safetensors net.json 2>said
    grep -q '2 tensors are not in the network' said
    [ "$(echo 1,0,0,1 | zt-run -m net.json | cut -d, -f1,6)" = "0.5,4.5" ]
    # the blueprint is of what was found, whether it chains or not
    zt-convert --blueprint t.safetensors | json '$j->{models}[0]{total_layers} == 3'
}

@test "nesting by hints: branches and residual blocks, whose widths must go together" {
    tensors a 4 4 'map { $_ % 5 == 0 } 0 .. 15' b 3 4 '(1) x 12' c 3 4 '(2) x 12' d 4 3 '(1) x 12' >t.safetensors
    zt-convert --hint 3=Dense --hint 'order=a,parallel:add(b,c),d' t.safetensors net.json
    # b, c and d alone would be a SwiGLU; of d it is said that it is none. 10 and 20 for the sum of 10, added: 30 thrice
    [ "$(echo 1,2,3,4 | zt-run -m net.json)" = "90,90,90,90" ]
    zt-convert -f --hint 3=Dense --hint 'order=residual(parallel:avg(b,c),d),a' t.safetensors net.json
    [ "$(echo 1,2,3,4 | zt-run -m net.json)" = "46,47,48,49" ]
    zt-convert -f --hint 3=Dense --hint 'order=parallel(a,sequential(b,d),residual(c,d))' t.safetensors net.json 2>said || true
    grep -q "'d' belongs to a layer that is already listed" said
    zt-convert -f --hint 3=Dense --hint 'order=parallel(a,sequential(b,d),c)' t.safetensors net.json
    [ "$(echo 1,2,3,4 | zt-run -m net.json)" = "1,2,3,4,30,30,30,30,20,20,20" ]
    rm net.json
    while IFS='|' read -r code said order; do
        run --separate-stderr zt-convert --hint 3=Dense --hint "order=$order" t.safetensors net.json
        echo "$order: $status $stderr"
        [ "$status" -eq "$code" ] && one_message zt-convert && [[ $stderr == *"$said"* ]] && [ ! -e net.json ]
    done <<'END'
65|layer 2 ('b', Dense) outputs 3 numbers, but layer 3 ('c', Dense) takes 4|b,c
65|combined by add output 4 numbers (layer 1 ('a', Dense)) and 3 (layer 2 ('b', Dense))|parallel:add(a,b)
65|layer 3 ('c', Dense) outputs 7 numbers, but layer 0 ('d', Dense) takes 3|parallel(a,c),d
65|a residual block takes 4 numbers, but layer 2 ('b', Dense) outputs 3|residual(b),d
65|a residual block takes 4 numbers, but layer 2 ('b', Dense) outputs 3|a,residual(b),d
65|branches take different sizes, 4 and 3|parallel(a,d)
64|already listed|a,a
64|is not the index or name|a,e
64|is not the index or name|4
64|is not the index or name|
64|is not one of sequential|sum(a,b)
64|no closing parenthesis|residual(a
64|is unexpected after|a)
END
    run --separate-stderr zt-convert --hint order=a --hint order=b t.safetensors net.json
    [ "$status" -eq 64 ] && one_message zt-convert
    for args in '--probe --hint order=a t.safetensors' '--hint 0=Dense t.safetensors t.npz' '--hint 0=Dense --blueprint mlp.json' '--dtype f16 t.safetensors net.json'; do
        run --separate-stderr zt-convert $args
        [ "$status" -eq 64 ] && one_message zt-convert && [ ! -e net.json ] && [ ! -e t.npz ]
    done
}

@test "what no layer has a place for is said: a bias of a dense layer" {
    tensors w 5 4 '(1) x 20' w.bias 5 0 '(0.1) x 5' >t.safetensors
    run -0 --separate-stderr zt-convert --hint order=w t.safetensors net.json
    one_message zt-convert && [[ $stderr == *"1 tensor is not in the network"* ]]
}

@test "a network without weights becomes no file of tensors: that is said" {
    echo '{"depth":1,"rows":1,"cols":1,"layers_per_cell":1,"layers":[{"type":"Softmax","input_height":3}]}' >soft.json
    for net in mlp.json soft.json -; do
        for out in w.npz w.safetensors w.gguf w.pt; do
            run --separate-stderr bash -c "zt-convert $net $out <mlp.json"
            [ "$status" -eq 65 ] && one_message zt-convert && [[ $stderr == *"weights"* ]] && [ ! -e $out ]
        done
    done
    zt-convert mlp.json same.json
    run --separate-stderr zt-quant --type int8 mlp.json eight.json
    [ "$status" -eq 65 ] && one_message zt-quant && [[ $stderr == *"has no weights"* ]] && [ ! -e eight.json ]
    # drawn ones are written by zt-train; a layer that lacks its own is named
    printf '1,2,3,4,1,2,3\n' >d.csv
    zt-train -q -m mlp.json -i d.csv --epochs 0 -o drawn.json
    run -0 --separate-stderr zt-convert drawn.json w.npz
    [ -z "$stderr" ] && [ "$(zt-convert --list w.npz | wc -l)" -eq 3 ]
    perl -pe 's/"weights":"[^"]*",?// if /"l":1/' drawn.json >part.json
    run -0 --separate-stderr zt-convert -f part.json w.npz
    one_message zt-convert && [[ $stderr == *"1 of 2 layers have no weights (layers.1)"* ]]
}

@test "what is wrong with hints is said" {
    for hint in x 1 =Dense 1=Dance -1=Dense; do
        run --separate-stderr zt-convert --probe --hint "$hint" m.safetensors
        [ "$status" -eq 64 ]
        [[ $stderr == "zt-convert: option '--hint': '$hint' is neither INDEX=TYPE"* ]]
    done
    run --separate-stderr zt-convert --probe --hint 7=Dense m.safetensors
    [ "$status" -eq 64 ]
    [[ $stderr == *"hint for tensor 7: the file has only 2 tensors"* ]]
    run --separate-stderr zt-convert --probe --list m.safetensors
    [ "$status" -eq 64 ]
}
