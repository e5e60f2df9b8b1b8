#!/usr/bin/env bats
# zt-dna merge: containers and types, recipes in YAML, pipes, adapters, what is kept and what refused.
# (That every method gives mergekit's numbers is tests/dna/golden_merge.c.)

load ../common/helper

setup_file() {
    make_models
    cd "$BATS_FILE_TMPDIR" || exit
    "$tests/mkmodel" --arch llama --ctx 256 --seed 1 b.gguf
    "$tests/mkmodel" --arch llama --ctx 256 --seed 2 c.gguf
    "$tests/mkmodel" --arch llama --ctx 256 --layers 3 deep.gguf
    "$tests/mkmodel" --arch llama --ctx 256 --ffn 96 wide.gguf
    zt-dna --version >version
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/work"
    cd "$BATS_TEST_TMPDIR/work" || exit
    ln -s "$tiny" a.gguf
    for m in b c deep wide; do ln -s "$BATS_FILE_TMPDIR/$m.gguf" $m.gguf; done
    mkdir tmp
    export TMPDIR=$PWD/tmp
}

# Nothing in the work folder but what setup made and what is named.
clean() {
    ls -A tmp | grep . && return 1
    diff <(ls -A | sort) <(printf '%s\n' a.gguf b.gguf c.gguf deep.gguf wide.gguf tmp "$@" | sort)
}

# refused CODE WORD ARGUMENTS: that code, one line with the word, nothing on stdout, nothing left.
refused() {
    local code=$1 word=$2
    shift 2
    run --separate-stderr zt-dna merge "$@"
    echo "zt-dna merge $*: $status $stderr"
    [ "$status" -eq "$code" ] && one_message zt-dna && [[ $stderr == *"$word"* ]] && [ -z "$output" ]
}

need_yaml() {
    echo 'merge_method: linear' >probe.yaml
    run zt-dna merge --config probe.yaml -o probe.gguf
    rm probe.yaml
    [ "$status" -ne 69 ] || skip "built without libyaml"
}

meta() { # KEY FILE
    zt-convert --meta "$2" | awk -F'\t' -v k="$1" '$1 == k {print $3}'
}

# The largest difference between two models' values, over that of the first to 0, below X?
near() { # A B X
    zt-dna compare "$1" "$2" --threshold -1 --format tsv >table
    awk -F'\t' -v most="$3" 'NR == 1 {for (i = 1; i <= NF; i++) if ($i == "rel_l2") c = i; next}
        $c > most {print; bad = 1} END {exit bad || !c || NR < 2}' table
}

@test "types and metadata are the first parent's, tensors in its order" {
    zt-dna merge --method linear --weight 0.5,0.5 a.gguf b.gguf -o out.gguf
    diff <(zt-convert --list a.gguf) <(zt-convert --list out.gguf)
    diff <(zt-convert --meta a.gguf) <(zt-convert --meta out.gguf | grep -v '^zt.merge')
    zt-run -m out.gguf -p hi -n 4 --temp 0 >text
    zt-convert --check out.gguf
}

@test "a merge of what is the same gives the same, to the bit" {
    # what a quantizer made: a made model's blocks are not what quantizing again gives
    zt-convert --dtype f32 a.gguf f32.gguf
    zt-quant -q --type q8_0 f32.gguf q.gguf
    cp q.gguf same.gguf
    for method in 'linear --weight 0.3,0.7' 'slerp --t 0.3' 'task_arithmetic --base q.gguf --weight 0.7' \
        'ties --base q.gguf --weight 1' 'model_stock --base q.gguf'; do
        # shellcheck disable=SC2086
        case $method in
        model_stock*) cp q.gguf third.gguf && zt-dna merge --method $method same.gguf third.gguf -f -o out.gguf ;;
        *--base*) zt-dna merge --method $method same.gguf -f -o out.gguf ;;
        *) zt-dna merge --method $method q.gguf same.gguf -f -o out.gguf ;;
        esac
        diff <(zt-convert --hash q.gguf) <(zt-convert --hash out.gguf) || { echo "$method"; false; }
    done
}

@test "every container and type gives about the same child" {
    zt-convert --dtype f32 a.gguf a.safetensors
    zt-convert --dtype f32 b.gguf b.safetensors
    zt-dna merge --method slerp --t 0.4 a.safetensors b.safetensors -o want.safetensors
    zt-dna merge --method slerp --t 0.4 a.gguf b.safetensors -o mixed.gguf
    near want.safetensors mixed.gguf 0.01
    for t in q8_0 q4_1 f16 bf16; do
        zt-quant -q --type $t a.safetensors a.$t.gguf
        zt-dna merge --method slerp --t 0.4 a.$t.gguf b.gguf -f -o out.gguf
        near want.safetensors out.gguf 0.12
        diff <(zt-convert --list a.$t.gguf | cut -f2) <(zt-convert --list out.gguf | cut -f2)
    done
    zt-convert --shard 100k a.safetensors parts.safetensors
    zt-dna merge --method slerp --t 0.4 parts.safetensors.index.json b.safetensors -f -o out.safetensors
    diff <(zt-convert --hash want.safetensors) <(zt-convert --hash out.safetensors)
}

@test "options say what a recipe would; the last word is --param's" {
    zt-dna merge --method linear a.gguf b.gguf -o one.gguf
    zt-dna merge --method linear --param weight=0.25 a.gguf b.gguf -o two.gguf
    zt-dna merge --method slerp --param t=0.5 --param weight=1 a.gguf b.gguf -o three.gguf
    zt-dna merge --method slerp a.gguf b.gguf -o four.gguf
    diff <(zt-convert --hash one.gguf) <(zt-convert --hash two.gguf)
    diff <(zt-convert --hash three.gguf) <(zt-convert --hash four.gguf)
    meta zt.merge.recipe four.gguf | grep -q '"t":0.5'
    zt-dna merge --method dare_linear --base a.gguf --density 0.5 --seed 1 b.gguf -o s1.gguf
    zt-dna merge --method dare_linear --base a.gguf --density 0.5 --seed 2 b.gguf -o s2.gguf
    [ "$(zt-convert --hash s1.gguf)" != "$(zt-convert --hash s2.gguf)" ]
}

@test "--type is zt-quant's choice, a recipe's dtype too" {
    zt-dna merge --method linear --weight 1 a.gguf b.gguf --type q4_0 -o out.gguf
    zt-dna merge --method linear --weight 1 a.gguf b.gguf --type f32 -o - | zt-quant -q --type q4_0 - want.gguf
    diff <(zt-convert --hash want.gguf) <(zt-convert --hash out.gguf)
    [ "$(meta general.file_type out.gguf)" = "$(meta general.file_type want.gguf)" ]
    refused 64 nope --method linear --weight 1 a.gguf b.gguf --type nope -o new.gguf
}

@test "a directory in and out" {
    zt-convert a.gguf A/
    zt-convert b.gguf B/
    zt-dna merge --method linear --weight 1 A B -o C/
    zt-run -m C -p hi -n 2 --temp 0 >text
    zt-dna merge --method linear --weight 1 A B -o one.gguf
    near one.gguf C 0.01
    refused 73 "the directory of an input" --method linear --weight 1 A B -o A/new.gguf
    clean A B C one.gguf text table
}

@test "a pipe: merged, quantized, run" {
    zt-dna merge --method slerp --t 0.5 a.gguf b.gguf -o - | zt-quant -q --type q8_0 - - |
        zt-run -m - -p hi -n 3 --temp 0 >text
    [ -s text ]
    zt-dna merge --method linear --weight 1 - b.gguf -o - <a.gguf >piped.gguf
    zt-dna merge --method linear --weight 1 a.gguf b.gguf -o file.gguf
    diff <(zt-convert --hash piped.gguf) <(zt-convert --hash file.gguf)
}

@test "the child tells recipe and parents; the same model has one id in every container" {
    need_yaml
    cat >r.yaml <<'END'
# halfway
merge_method: linear
models:
- model: a.gguf
  parameters: {weight: 0.5}
- model: b.gguf
  parameters: {weight: 0.5}
END
    zt-dna merge --config r.yaml -o out.gguf
    [ "$(meta zt.merge.method out.gguf)" = linear ]
    meta zt.merge.recipe out.gguf | grep -q 'halfway'
    meta zt.merge.parents out.gguf | grep -q 'a.gguf.*b.gguf'
    meta zt.merge.ids out.gguf >ids
    zt-convert a.gguf a.safetensors
    zt-dna merge --method linear --weight 0.5 a.safetensors b.gguf -o out.safetensors
    meta zt.merge.ids out.safetensors | diff ids -
    [ "$(grep -oE '[0-9a-f]{32}' ids | sort -u | wc -l)" -eq 2 ]
}

@test "YAML: gradients, filters, anchors, slices; names of Hugging Face match a GGUF" {
    need_yaml
    cat >r.yaml <<'END'
merge_method: slerp
base_model: &a q.gguf
models: [{model: *a}, {model: b.gguf}]
parameters:
  t:
  - filter: self_attn
    value: [0, 1]
  - {filter: mlp, value: 0}
  - value: 1
END
    zt-convert --dtype f32 a.gguf f32.gguf
    zt-quant -q --type q8_0 f32.gguf q.gguf
    zt-dna merge --config r.yaml -o out.gguf
    zt-convert --hash q.gguf >was
    zt-convert --hash out.gguf >is
    for n in blk.0.attn_q.weight blk.0.ffn_up.weight blk.1.ffn_up.weight; do
        [ "$(grep " $n\$" was)" = "$(grep " $n\$" is)" ]
    done
    for n in blk.1.attn_q.weight token_embd.weight; do
        [ "$(grep " $n\$" was)" != "$(grep " $n\$" is)" ]
    done
    cat >stack.yaml <<'END'
merge_method: passthrough
slices:
- sources: [{model: a.gguf, layer_range: [0, 2]}]
- sources: [{model: b.gguf, layer_range: [1, 2]}]
END
    zt-dna merge --config stack.yaml -o tall.gguf
    [ "$(meta llama.block_count tall.gguf)" = 3 ]
    diff <(zt-convert --hash b.gguf | sed -n 's/  blk.1\./  blk.2./p' | sort) <(zt-convert --hash tall.gguf | grep 'blk\.2\.' | sort)
    zt-run -m tall.gguf -p hi -n 2 --temp 0 >text
}

@test "what the schema's common part has not is one line with its number, and nothing is written" {
    need_yaml
    while IFS='|' read -r line word text; do
        printf '%b\n' "$text" >r.yaml
        refused 65 "$word" --config r.yaml -o new.gguf
        [ -z "$line" ] || [[ $stderr == *"r.yaml:$line: "* ]]
    done <<'END'
3|colour|merge_method: linear\nmodels: [{model: a.gguf, parameters: {weight: 1}}]\ncolour: red
2|modules|merge_method: linear\nmodules: {}
2|shade|merge_method: linear\nmodels: [{model: a.gguf, shade: 1}]
3|wait|merge_method: linear\nmodels:\n- {model: a.gguf, parameters: {wait: 1}}
1|soup|merge_method: soup\nmodels: [{model: a.gguf}]
3|kind|merge_method: linear\nmodels: [{model: a.gguf, parameters: {weight: 1}}]\ntokenizer: {source: base, tokens: {x: {source: {kind: one}}}}
2|duplicate key|merge_method: linear\nmerge_method: slerp
2|heavy|merge_method: linear\nmodels: [{model: a.gguf, parameters: {weight: heavy}}]
|weight|merge_method: linear\nmodels: [{model: a.gguf}]
|base|merge_method: ties\nmodels: [{model: a.gguf, parameters: {weight: 1}}]
|merge_method|models: [{model: a.gguf}]
|models|merge_method: linear
2|alias|merge_method: linear\nmodels: *nothing
2|tag|merge_method: linear\nmodels: !!python/object:os.system [a]
2|second|merge_method: linear\n---\nmodels: []
2|YAML|merge_method: {linear
|empty|# nothing
|layers|merge_method: passthrough\nslices: [{sources: [{model: a.gguf, layer_range: [0, 9]}]}]
|layer_range|merge_method: passthrough\nslices: [{sources: [{model: a.gguf, layer_range: [2, 1]}]}]
|epsilon|merge_method: della\nbase_model: b.gguf\nmodels: [{model: a.gguf, parameters: {weight: 1, density: 0.9, epsilon: 0.2}}]
END
    clean r.yaml
}

@test "hostile YAML ends soon and in little memory" {
    need_yaml
    { echo 'a: &a [x,x,x,x,x,x,x,x,x,x]'; for i in b c d e f g h i j k; do
        p=$(echo $i | tr b-k a-j); echo "$i: &$i [*$p,*$p,*$p,*$p,*$p,*$p,*$p,*$p,*$p,*$p]"; done; } >bomb.yaml
    refused 65 'too many values' --config bomb.yaml -o new.gguf --mem-limit 64M
    printf '[%.0s' $(seq 500000) >deep.yaml
    refused 65 deep --config deep.yaml -o new.gguf --mem-limit 64M
    { echo 'merge_method: linear'; seq -f 'x%.0f: 1' 200000; } >long.yaml
    refused 65 recipe --config long.yaml -o new.gguf --mem-limit 64M
}

@test "parents that do not fit are one line, and nothing is written" {
    head -c 20000 b.gguf >cut.gguf
    refused 65 wide.gguf --method linear --weight 1 a.gguf wide.gguf -o new.gguf
    refused 65 layers --method linear --weight 1 a.gguf deep.gguf -o new.gguf
    refused 65 cut.gguf --method linear --weight 1 a.gguf cut.gguf -o new.gguf
    refused 66 none.gguf --method linear --weight 1 a.gguf none.gguf -o new.gguf
    refused 64 method a.gguf b.gguf -o new.gguf
    refused 64 output --method linear a.gguf b.gguf
    refused 64 duplicate --method linear --weight 1 a.gguf a.gguf -o new.gguf
    refused 64 soup --method soup a.gguf b.gguf -o new.gguf
    refused 64 base --method ties a.gguf b.gguf -o new.gguf
    refused 64 wait --method linear --param wait=1 a.gguf b.gguf -o new.gguf
    refused 65 "'t'" --method nearswap a.gguf b.gguf -o new.gguf
    refused 64 '3 numbers' --method linear --weight 1,2,3 a.gguf b.gguf -o new.gguf
    refused 73 a.gguf --method linear --weight 1 a.gguf b.gguf -o a.gguf -f
    cp -L b.gguf mine.gguf
    ln mine.gguf other.gguf
    refused 73 other.gguf --method linear --weight 1 a.gguf mine.gguf -o other.gguf -f
    refused 75 '' --method linear --weight 1 a.gguf b.gguf -o new.gguf --mem-limit 1M
    touch there
    refused 73 there --method linear --weight 1 a.gguf b.gguf -o there --to gguf
    zt-quant -q --type fp8_e4m3 a.gguf fp8.safetensors
    refused 69 scales --method linear --weight 1 fp8.safetensors b.gguf -o new.gguf
    rm fp8.safetensors
    # a value that is no number
    perl -e 'binmode STDOUT; my $h = q({"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}); print pack("Q<", length $h), $h, pack("f<4", 1, 2, "nan", 3)' >n.safetensors
    cp n.safetensors m.safetensors
    refused 65 'element 2' --method linear --weight 1 n.safetensors m.safetensors -o new.safetensors
    clean cut.gguf mine.gguf other.gguf there n.safetensors m.safetensors
}

@test "a killed merge leaves the old file or the new one, whole" {
    command -v strace >/dev/null || skip "no strace"
    zt-dna merge --method linear --weight 1 a.gguf b.gguf -o new.gguf
    zt-dna merge --method linear --weight 1 a.gguf c.gguf -o old.gguf
    kills=0
    killed_everywhere old.gguf new.gguf target.gguf zt-dna merge -t 1 --method linear --weight 1 a.gguf b.gguf -f -o target.gguf
    [ "$kills" -gt 4 ]
}

@test "networks: merged layer by layer in their frame; codes as the numbers they stand for" {
    net() { # NUMBERS...
        perl -MMIME::Base64 -e 'print q({"id":"n","depth":1,"rows":1,"cols":1,"layers_per_cell":1,"layers":[{"z":0,"y":0,"x":0,"l":0,"type":"Dense",),
            q("dtype":"float32","note":"as it is","weights":"), encode_base64(pack("f<*", @ARGV), ""), q("}]}), "\n"' -- "$@"
    }
    net 1 2 3 -4 >n.json
    net 3 2 1 0 >m.json
    net 2 2 2 -2 >want.json
    zt-dna merge --method linear --weight 0.5 n.json m.json -o out.json
    diff <(zt-convert --hash want.json) <(zt-convert --hash out.json)
    grep -q '"note":"as it is"' out.json
    # of codes: codes of the first's type, of a scale of their own; by Loom's rule the first's scale
    zt-quant -q --type int8 n.json i.json
    zt-dna merge --method linear --weight 0.5 i.json m.json -o codes.json
    zt-quant -q --type int8 want.json want8.json
    near want8.json codes.json 0.02
    diff <(zt-convert --list want8.json) <(zt-convert --list codes.json)
    zt-dna merge --method linear --weight 0.5 m.json i.json -o plain.json
    near want.json plain.json 0.01
    zt-dna merge i.json -o same.json
    diff <(zt-convert --hash i.json) <(zt-convert --hash same.json)
    zt-quant -q --type int4 n.json packed.json
    refused 69 'packed int4' --method linear --weight 0.5 packed.json m.json -o new.json
    net 1 2 3 >short.json
    refused 65 short --method linear --weight 0.5 n.json short.json -o new.json
}

# lora_of DIR FACTOR: a PEFT adapter of rank 2 for the q, k and down matrices of A's first layer.
lora_of() {
    mkdir "$1"
    zt-convert --list A/model.safetensors | perl -e '
        my (%at, $data, @t); my $seed = 1; $data = "";
        sub put { my ($n, $r, $c) = @_; my $from = length $data;
            $data .= pack "f<*", map { $seed = ($seed * 1103515245 + 12345) % 2147483648; ($seed / 2147483648 - 0.5) * 0.2 } 1 .. $r * $c;
            push @t, sprintf q("%s":{"dtype":"F32","shape":[%d,%d],"data_offsets":[%d,%d]}), $n, $r, $c, $from, length $data }
        while (<STDIN>) { chomp; my ($n, undef, $s) = split /\t/;
            next unless $n =~ /^(model\.layers\.0\.\w+\.(?:q|k|down)_proj)\.weight$/; my $m = $1;
            my ($r, $c) = $s =~ /(\d+),(\d+)/;
            put("base_model.model.$m.lora_A.weight", 2, $c); put("base_model.model.$m.lora_B.weight", $r, 2) }
        my $h = "{" . join(",", @t) . "}"; $h .= " " x (-length($h) % 8);
        binmode STDOUT; print pack("Q<", length $h), $h, $data' >"$1/adapter_model.safetensors"
    echo '{"peft_type": "LORA", "r": 2, "lora_alpha": '"$2"', "bias": "none"}' >"$1/adapter_config.json"
}

@test "adapters: PEFT's on its own names and on a GGUF's, where rope pairs rows, are the same" {
    zt-convert --dtype f32 a.gguf f32.gguf
    zt-convert f32.gguf A/
    lora_of L 6
    zt-dna merge A/model.safetensors+L -o plain.safetensors
    cp -r A P
    cp plain.safetensors P/model.safetensors
    zt-dna merge f32.gguf+L -o out.gguf
    [ "$(zt-convert --hash out.gguf | grep -c .)" -gt 10 ]
    near f32.gguf out.gguf 10
    [ "$(zt-dna compare P out.gguf --threshold -1 --format tsv | awk -F'\t' 'NR == 1 {for (i = 1; i <= NF; i++) if ($i == "rel_l2") c = i; next} $c > 1e-6' | wc -l)" -eq 0 ]
    # three matrices, and no more, are others than before
    [ "$(diff <(zt-convert --hash f32.gguf) <(zt-convert --hash out.gguf) | grep -c '^>')" -eq 3 ]
    zt-dna merge A+L -f -o again.gguf
    diff <(zt-convert --hash out.gguf) <(zt-convert --hash again.gguf)
    # twice the alpha is twice the difference
    sed -i 's/: 6,/: 12,/' L/adapter_config.json
    zt-dna merge f32.gguf+L -o twice.gguf
    zt-dna merge --method task_arithmetic --base f32.gguf --weight 2 out.gguf -o by.gguf
    near by.gguf twice.gguf 1e-5
}

@test "adapters: what has a low rank comes back from the two models; the first values are the best" {
    zt-convert --dtype f32 a.gguf f32.gguf
    zt-convert f32.gguf A/
    lora_of L 6
    zt-dna merge f32.gguf+L -o tuned.gguf
    zt-dna lora --rank 2 f32.gguf tuned.gguf -o l.gguf
    [ "$(zt-convert --list l.gguf | tail -n +2 | wc -l)" -eq 6 ]
    [ "$(meta general.type l.gguf)" = adapter ]
    zt-dna merge f32.gguf+l.gguf -o back.gguf
    near tuned.gguf back.gguf 2e-5
    zt-dna lora --rank 3 f32.gguf tuned.gguf -o l2/
    grep -q '"q_proj"' l2/adapter_config.json
    zt-dna merge f32.gguf+l2 -o back2.gguf
    near tuned.gguf back2.gguf 2e-5
    zt-dna lora --rank 3 -t 3 f32.gguf tuned.gguf -o l3/
    cmp l2/adapter_model.safetensors l3/adapter_model.safetensors
    # of all that differs, more with more rank
    zt-dna lora --rank 1 a.gguf b.gguf -o r1.gguf 2>one
    zt-dna lora --rank 40 a.gguf b.gguf -o r40.gguf 2>forty
    [ "$(sed -nE 's/.* ([0-9.]+) %.*/\1/p' one | cut -d. -f1)" -lt "$(sed -nE 's/.* ([0-9.]+) %.*/\1/p' forty | cut -d. -f1)" ]
}

@test "adapters that do not fit are one line" {
    zt-convert --dtype f32 a.gguf f32.gguf
    zt-convert f32.gguf A/
    lora_of L 6
    refused 65 'wide.gguf' wide.gguf+L -o new.gguf
    sed -i 's/LORA/IA3/' L/adapter_config.json
    refused 69 IA3 a.gguf+L -o new.gguf
    echo '{"peft_type": "LORA", "r": 2, "lora_alpha": 4, "use_dora": true}' >L/adapter_config.json
    refused 65 lora_magnitude_vector a.gguf+L -o new.gguf
    echo '{' >L/adapter_config.json
    refused 65 adapter_config a.gguf+L -o new.gguf
    refused 66 none a.gguf+none -o new.gguf
    refused 65 LoRA a.gguf+b.gguf -o new.gguf
    run --separate-stderr zt-dna lora a.gguf a.gguf -o new.gguf
    [ "$status" -eq 65 ] && one_message zt-dna && [ ! -e new.gguf ]
}

@test "examples/merge: two models merged, quantized and run; a child by its recipe" {
    need_yaml
    tools=$(cd "$(dirname "$(command -v zt-dna)")" && pwd)
    cp "$repo"/examples/merge/* .
    make -s ZT="$tools" A=a.gguf B=b.gguf TYPE=q8_0 N=2 >text
    [ -s text ]
    make -s child.gguf ZT="$tools" A=a.gguf B=b.gguf TYPE=q8_0
    [ "$(meta zt.merge.method child.gguf)" = slerp ]
    run ! make -s ZT="$tools"
}

@test "methods by element and on the sphere, and the parameters that they refuse" {
    zt-dna merge --method multislerp --weight 0.5 a.gguf b.gguf -o sphere.gguf
    zt-dna merge --method arcee_fusion --base a.gguf b.gguf -o fused.gguf
    zt-dna merge --method ram --base a.gguf b.gguf c.gguf -o ram.gguf
    zt-dna merge --method ramplus_tl --base a.gguf --epsilon 0.001 --param r=0.3 --param alpha=1 b.gguf c.gguf -t 3 -o plus.gguf
    zt-dna merge --method ramplus_tl --base a.gguf --epsilon 0.001 --param r=0 b.gguf c.gguf -o plain.gguf
    zt-dna merge --method ram --base a.gguf --epsilon 0.001 b.gguf c.gguf -o same.gguf
    diff <(zt-convert --hash plain.gguf) <(zt-convert --hash same.gguf)
    zt-convert --hash plus.gguf >plus.hash
    ! diff <(zt-convert --hash same.gguf) plus.hash >/dev/null
    refused 64 "multislerp has no parameter 'density' (it has: weight, eps, normalize_weights)" --method multislerp --density 0.5 a.gguf b.gguf -o x.gguf
    refused 64 "arcee_fusion has no parameter 'weight' (it has: none)" --method arcee_fusion --base a.gguf --weight 1 b.gguf -o x.gguf
    refused 64 "ram has no parameter 'r' (it has: epsilon)" --method ram --base a.gguf --param r=1 b.gguf -o x.gguf
    refused 64 'arcee_fusion needs a base_model' --method arcee_fusion a.gguf b.gguf -o x.gguf
    refused 64 'arcee_fusion cannot merge 3 models (including the base)' --method arcee_fusion --base a.gguf b.gguf c.gguf -o x.gguf
    refused 65 "the weights for 'token_embd.weight' sum to 0" --method multislerp --weight 1,-1 a.gguf b.gguf -o x.gguf
}
